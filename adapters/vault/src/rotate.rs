//! A new master key takes over. Values stay as they are; only the keys to them are sealed anew.

use std::sync::Arc;

use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};

use commands::ports::VaultError;

use crate::check::Checked;
use crate::keys::{KeyError, KeyId};
use crate::seal::{Place, Sealed};
use crate::store::{ObjectVault, Unopened, named, unavailable};

const AT_ONCE: usize = 8;

/// What became of the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// The key that every value is under now, but for those that could not be opened.
    pub key: Option<KeyId>,
    pub rewrapped: u64,
    /// Under that key before, from an earlier try or because they are newer.
    pub already: u64,
    /// Forgotten meanwhile.
    pub gone: u64,
    pub unopened: Vec<Unopened>,
    /// Values that were opened under it afterwards.
    pub verified: u64,
    /// Still under another key, because a server without the new one wrote them meanwhile: to be called again.
    pub remaining: u64,
}

enum Outcome {
    Rewrapped,
    Already,
    Gone,
    Unopened(Unopened),
}

impl ObjectVault {
    /// Brings every value under the first key. Broken off, it goes on where it was when it is called again. `progress` is told how many
    /// of how many are done. The other keys may go once all servers have the first and nothing is left unopened.
    pub async fn rotate(&self, mut progress: impl FnMut(u64, u64) + Send) -> Result<Rotated, VaultError> {
        self.keys.reload().await.map_err(|error: KeyError| VaultError::Sealed(error.to_string()))?;
        let key = self.keys.all()[0].id;
        let all = self.list().await?;
        let (mut rotated, total) = (Rotated { key: Some(key), ..Rotated::default() }, all.len() as u64);
        let mut outcomes = stream::iter(all).map(|meta| self.rewrap(meta.location)).buffer_unordered(AT_ONCE);
        while let Some(outcome) = outcomes.next().await {
            match outcome? {
                Outcome::Rewrapped => rotated.rewrapped += 1,
                Outcome::Already => rotated.already += 1,
                Outcome::Gone => rotated.gone += 1,
                Outcome::Unopened(object) => rotated.unopened.push(object),
            }
            progress(rotated.rewrapped + rotated.already + rotated.gone + rotated.unopened.len() as u64, total);
        }
        drop(outcomes);
        let Checked { by_key, damaged, .. } = self.check(&[], |_, _| {}).await?;
        rotated.verified = by_key.get(&key).copied().unwrap_or(0);
        rotated.remaining = by_key.values().sum::<u64>() - rotated.verified;
        rotated.unopened = damaged;
        Ok(rotated)
    }

    async fn rewrap(&self, path: Path) -> Result<Outcome, VaultError> {
        let unopened = |why: String| Ok(Outcome::Unopened(Unopened { object: path.to_string(), why }));
        let Some((house, at)) = named(&path) else { return unopened("it is not named like a value".to_owned()) };
        let Some((meta, bytes)) = self.get(&path).await? else { return Ok(Outcome::Gone) };
        let sealed = match Sealed::parse(&bytes) {
            Ok(sealed) => sealed,
            Err(broken) => return unopened(broken.to_string()),
        };
        let (keys, old) = match self.key_of(sealed.key_id).await {
            Ok(found) => found,
            Err(error) => return unopened(error.to_string()),
        };
        if old == 0 {
            return Ok(Outcome::Already);
        }
        let again = match sealed.rewrap(&keys[old], &keys[0], Place { house: &house, secret: &sealed.secret, at }) {
            Ok(again) => again,
            Err(broken) => return unopened(broken.to_string()),
        };
        replace(&self.objects, meta, again).await
    }
}

/// A value that was forgotten meanwhile must not come back. Where a store cannot promise that, the next sweep finds it.
async fn replace(objects: &Arc<dyn ObjectStore>, meta: ObjectMeta, bytes: Vec<u8>) -> Result<Outcome, VaultError> {
    let path = meta.location;
    let version = UpdateVersion { e_tag: meta.e_tag, version: meta.version };
    let update = PutOptions { mode: PutMode::Update(version), ..PutOptions::default() };
    let bytes: bytes::Bytes = bytes.into();
    match objects.put_opts(&path, bytes.clone().into(), update).await {
        Ok(_) => Ok(Outcome::Rewrapped),
        // Somebody else rotates too, or it is gone; what is left is found by looking again.
        Err(Error::Precondition { .. } | Error::NotFound { .. }) => Ok(Outcome::Gone),
        Err(Error::NotImplemented { .. }) => match objects.head(&path).await {
            Ok(_) => objects.put(&path, bytes.into()).await.map(|_| Outcome::Rewrapped).map_err(|error| unavailable(&error)),
            Err(Error::NotFound { .. }) => Ok(Outcome::Gone),
            Err(error) => Err(unavailable(&error)),
        },
        Err(error) => Err(unavailable(&error)),
    }
}
