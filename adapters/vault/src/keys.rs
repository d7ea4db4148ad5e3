//! Master keys: where they come from, and which of them seals.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::digest::{self, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use zeroize::Zeroizing;

mod command;
mod file;

pub use file::add_key;

/// Bytes of a key, of masters and of values alike.
pub(crate) const KEY: usize = 32;

/// Where master keys are. The first key of the first source seals, all of them open.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub keys: Vec<KeySource>,
}

/// Holds keys as text, 32 bytes each in base64 or hex, one to a line; what begins with `#` is skipped.
#[derive(Clone)]
pub enum KeySource {
    /// Made at first start if it is the first source; others may not read it.
    File(PathBuf),
    /// The text itself.
    Text(Zeroizing<String>),
    /// A program and its arguments, which prints the text.
    Command(Vec<String>),
}

/// A key stays out of what is printed, and so do arguments.
impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Text(_) => f.write_str("Text(…)"),
            Self::Command(argv) => f.debug_tuple("Command").field(&argv.first()).finish(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} may be read by others (mode {mode:03o}); `chmod 600` it")]
    Exposed { path: PathBuf, mode: u32 },
    #[error("line {line} of {place} is no vault key, which is 32 random bytes in base64 or hex")]
    Malformed { place: String, line: usize },
    #[error("{place} holds no vault key")]
    Empty { place: String },
    #[error("the command for the vault's key, {program}, {why}")]
    Command { program: String, why: String },
    #[error("the vault has no key: name a file, a variable or a command")]
    NoSource,
}

/// Names a master key without telling anything of it. Stands in every sealed value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(crate) [u8; 8]);

impl KeyId {
    fn of(key: &[u8; KEY]) -> Self {
        let text = Zeroizing::new([b"arbe vault key id v1".as_slice(), key].concat());
        let digest = digest::digest(&SHA256, &text);
        let mut id = [0; 8];
        id.copy_from_slice(&digest.as_ref()[..8]);
        Self(id)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

#[derive(Debug)]
pub(crate) struct MasterKey {
    pub(crate) id: KeyId,
    pub(crate) key: LessSafeKey,
}

impl MasterKey {
    pub(crate) fn new(bytes: &[u8; KEY]) -> Self {
        Self { id: KeyId::of(bytes), key: cipher(bytes) }
    }
}

pub(crate) fn cipher(bytes: &[u8; KEY]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).expect("a key of the cipher's length"))
}

/// The keys as they were read last.
#[derive(Debug)]
pub(crate) struct Keyring {
    sources: Vec<KeySource>,
    keys: RwLock<Arc<[MasterKey]>>,
}

impl Keyring {
    /// `may_make`: the file of the first source, if there is none.
    pub(crate) async fn load(options: Options, may_make: bool) -> Result<Self, KeyError> {
        if let (Some(KeySource::File(path)), true) = (options.keys.first(), may_make) {
            file::make(path)?;
        }
        let keys = read_all(&options.keys).await?;
        Ok(Self { sources: options.keys, keys: RwLock::new(keys) })
    }

    /// Never empty; the first seals.
    pub(crate) fn all(&self) -> Arc<[MasterKey]> {
        self.keys.read().clone()
    }

    /// Somebody may have changed them since.
    pub(crate) async fn reload(&self) -> Result<(), KeyError> {
        let keys = read_all(&self.sources).await?;
        *self.keys.write() = keys;
        Ok(())
    }

    /// Whether looking again costs nothing.
    pub(crate) fn is_cheap(&self) -> bool {
        self.sources.iter().all(|source| match source {
            KeySource::File(_) | KeySource::Text(_) => true,
            KeySource::Command(_) => false,
        })
    }
}

/// The path of the key file that a first start would make.
pub(crate) fn missing_file(options: &Options) -> Option<&Path> {
    match options.keys.first() {
        Some(KeySource::File(path)) if !path.exists() => Some(path),
        Some(KeySource::File(_) | KeySource::Text(_) | KeySource::Command(_)) | None => None,
    }
}

async fn read_all(sources: &[KeySource]) -> Result<Arc<[MasterKey]>, KeyError> {
    let (mut keys, mut known) = (Vec::new(), BTreeSet::new());
    for source in sources {
        let (place, text) = match source {
            KeySource::File(path) => (path.display().to_string(), file::read(path)?),
            KeySource::Text(text) => ("the given text".to_owned(), text.clone()),
            KeySource::Command(argv) => ("what the command printed".to_owned(), command::run(argv).await?),
        };
        keys.extend(parse(&place, &text)?.into_iter().filter(|key| known.insert(key.id)));
    }
    if keys.is_empty() { Err(KeyError::NoSource) } else { Ok(keys.into()) }
}

fn parse(place: &str, text: &str) -> Result<Vec<MasterKey>, KeyError> {
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let key = |(at, line): (usize, &str)| {
        let malformed = || KeyError::Malformed { place: place.to_owned(), line: at + 1 };
        decode(line).map(|bytes| MasterKey::new(&bytes)).ok_or_else(malformed)
    };
    let keys = lines.map(key).collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() { Err(KeyError::Empty { place: place.to_owned() }) } else { Ok(keys) }
}

fn decode(line: &str) -> Option<Zeroizing<[u8; KEY]>> {
    let hex = || {
        let digits = |at: usize| line.get(2 * at..2 * at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        (line.len() == 2 * KEY && line.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| (0..KEY).map(digits).collect::<Option<Vec<u8>>>())
            .flatten()
    };
    let bare = line.trim_end_matches('=');
    let bytes = hex().or_else(|| STANDARD_NO_PAD.decode(bare).ok()).or_else(|| URL_SAFE_NO_PAD.decode(bare).ok())?;
    let bytes = Zeroizing::new(bytes);
    let mut key = Zeroizing::new([0; KEY]);
    if bytes.len() != KEY {
        return None;
    }
    key.copy_from_slice(&bytes);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_bytes_in_base64_or_hex_and_nothing_else() {
        let bytes = [0xfb; KEY];
        let hex = "fb".repeat(KEY);
        let standard = STANDARD_NO_PAD.encode(bytes);
        for line in [hex.clone(), hex.to_uppercase(), standard.clone(), format!("{standard}="), URL_SAFE_NO_PAD.encode(bytes)] {
            assert_eq!(decode(&line).as_deref(), Some(&bytes), "{line}");
        }
        for line in ["hunter2", &hex[2..], &standard[4..], &format!("{hex}00"), "é".repeat(32).as_str()] {
            assert!(decode(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_no_key_is_named_and_not_shown() {
        let key = STANDARD_NO_PAD.encode([1; KEY]);
        let error = parse("keys", &format!("# old\n\n{key}\nsk-oops")).unwrap_err().to_string();
        assert!(error.contains("line 4 of keys") && !error.contains("oops"), "{error}");
        assert!(matches!(parse("keys", "# nothing\n"), Err(KeyError::Empty { .. })));
        assert_eq!(parse("keys", &format!("{key}\n{key}\n")).unwrap().len(), 2);
    }
}
