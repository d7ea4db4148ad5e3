//! The sealed form of a value. Persisted; a new form gets a new version.
//!
//! ```text
//! "ARBV" | version 1 | cipher 1 | key id 8 | length of the secret's id 1 | secret's id | nonce 12 | data key, sealed 48
//!        | nonce 12 | value, sealed
//! ```
//! Every value has a data key of its own, which a master key seals. What is sealed is bound to its place: house, secret and version
//! are authenticated with both, so that nothing opens under another name. The master's id is bound to the data key only: another
//! master takes over without touching the value.

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use commands::ports::Plain;
use events::{HouseId, SecretId};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::chance;
use crate::keys::{KEY, KeyId, MasterKey, cipher};

const MAGIC: &[u8; 4] = b"ARBV";
const VERSION: u8 = 1;
const AES_256_GCM: u8 = 1;
const TAG: usize = 16;
const WRAPPED: usize = KEY + TAG;

/// What a value is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) house: &'a HouseId,
    pub(crate) secret: &'a SecretId,
    pub(crate) at: Uuid,
}

/// What differs on every sealing.
pub(crate) struct Drawn {
    pub(crate) data_key: Zeroizing<[u8; KEY]>,
    pub(crate) key_nonce: [u8; NONCE_LEN],
    pub(crate) value_nonce: [u8; NONCE_LEN],
}

impl Drawn {
    pub(crate) fn new() -> Self {
        Self { data_key: chance::bytes(), key_nonce: *chance::bytes(), value_nonce: *chance::bytes() }
    }
}

/// A sealed value in its parts.
#[derive(Debug)]
pub(crate) struct Sealed<'a> {
    pub(crate) key_id: KeyId,
    pub(crate) secret: SecretId,
    key_nonce: [u8; NONCE_LEN],
    wrapped: [u8; WRAPPED],
    /// Nonce and sealed value.
    body: &'a [u8],
}

/// Cut short, altered, or sealed for another place. Which of them cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is cut short or altered, or belongs elsewhere")]
pub(crate) struct Broken;

pub(crate) fn seal(master: &MasterKey, place: Place<'_>, value: &[u8], drawn: &Drawn) -> Vec<u8> {
    let mut sealed = head(master, place, &drawn.key_nonce, &drawn.data_key);
    let mut body = Vec::with_capacity(value.len() + TAG);
    body.extend_from_slice(value);
    encrypt(&cipher(&drawn.data_key), drawn.value_nonce, &bound_value(place), &mut body);
    sealed.extend_from_slice(&drawn.value_nonce);
    sealed.append(&mut body);
    sealed
}

/// Everything before the value.
fn head(master: &MasterKey, place: Place<'_>, nonce: &[u8; NONCE_LEN], data_key: &[u8; KEY]) -> Vec<u8> {
    let mut wrapped = Vec::with_capacity(WRAPPED);
    wrapped.extend_from_slice(data_key);
    encrypt(&master.key, *nonce, &bound_key(place, master.id), &mut wrapped);
    let secret = place.secret.as_str().as_bytes();
    let length = u8::try_from(secret.len()).expect("an id has at most 64 bytes");
    let parts: [&[u8]; 6] = [MAGIC, &[VERSION, AES_256_GCM], &master.id.0, &[length], secret, nonce];
    let mut head = parts.concat();
    head.append(&mut wrapped);
    head
}

impl<'a> Sealed<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Broken> {
        let rest = bytes.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(&[VERSION, AES_256_GCM])).ok_or(Broken)?;
        let (key_id, rest) = rest.split_first_chunk().ok_or(Broken)?;
        let (length, rest) = rest.split_first().ok_or(Broken)?;
        let (secret, rest) = rest.split_at_checked(usize::from(*length)).ok_or(Broken)?;
        let secret = std::str::from_utf8(secret).ok().and_then(|text| SecretId::new(text).ok()).ok_or(Broken)?;
        let (key_nonce, rest) = rest.split_first_chunk().ok_or(Broken)?;
        let (wrapped, body) = rest.split_first_chunk().ok_or(Broken)?;
        if body.len() < NONCE_LEN + TAG {
            return Err(Broken);
        }
        Ok(Self { key_id: KeyId(*key_id), secret, key_nonce: *key_nonce, wrapped: *wrapped, body })
    }

    pub(crate) fn open(&self, master: &MasterKey, place: Place<'_>) -> Result<Plain, Broken> {
        let data_key = self.unwrap(master, place)?;
        let (nonce, sealed) = self.body.split_first_chunk().ok_or(Broken)?;
        let mut buffer = Zeroizing::new(sealed.to_vec());
        let value = decrypt(&cipher(&data_key), *nonce, &bound_value(place), &mut buffer)?;
        Ok(Plain::new(value.to_vec()))
    }

    /// The same value under another master key.
    pub(crate) fn rewrap(&self, old: &MasterKey, new: &MasterKey, place: Place<'_>) -> Result<Vec<u8>, Broken> {
        let data_key = self.unwrap(old, place)?;
        let mut sealed = head(new, place, &chance::bytes(), &data_key);
        sealed.extend_from_slice(self.body);
        Ok(sealed)
    }

    fn unwrap(&self, master: &MasterKey, place: Place<'_>) -> Result<Zeroizing<[u8; KEY]>, Broken> {
        if self.secret != *place.secret {
            return Err(Broken);
        }
        let mut buffer = Zeroizing::new(self.wrapped);
        let opened = decrypt(&master.key, self.key_nonce, &bound_key(place, self.key_id), &mut *buffer)?;
        let mut key = Zeroizing::new([0; KEY]);
        key.copy_from_slice(opened);
        Ok(key)
    }
}

fn encrypt(key: &LessSafeKey, nonce: [u8; NONCE_LEN], bound: &[u8], buffer: &mut Vec<u8>) {
    let sealed = key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(bound), buffer);
    sealed.expect("the cipher takes texts of this length");
}

fn decrypt<'b>(key: &LessSafeKey, nonce: [u8; NONCE_LEN], bound: &[u8], buffer: &'b mut [u8]) -> Result<&'b [u8], Broken> {
    let opened = key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(bound), buffer);
    opened.map(|plain| &*plain).map_err(|_| Broken)
}

fn bound_key(place: Place<'_>, master: KeyId) -> Vec<u8> {
    let [house, secret, at] = parts(&place);
    joined(&[b"arbe vault key", &[VERSION, AES_256_GCM], &master.0, house, secret, at])
}

fn bound_value(place: Place<'_>) -> Vec<u8> {
    let [house, secret, at] = parts(&place);
    joined(&[b"arbe vault value", &[VERSION, AES_256_GCM], house, secret, at])
}

fn parts<'a>(place: &'a Place<'_>) -> [&'a [u8]; 3] {
    [place.house.as_str().as_bytes(), place.secret.as_str().as_bytes(), place.at.as_bytes()]
}

/// Each with its length before it, so that no two lists look the same.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let length = |part: &[u8]| u8::try_from(part.len()).expect("names and ids are short");
    parts.iter().flat_map(|part| std::iter::once(length(part)).chain(part.iter().copied())).collect()
}

#[cfg(test)]
mod tests;
