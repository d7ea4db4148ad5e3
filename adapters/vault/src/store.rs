//! The vault on object storage.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use commands::ports::{Plain, Vault, VaultError};
use events::{HouseId, SecretId};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use uuid::Uuid;

use crate::keys::{KeyError, KeyId, Keyring, MasterKey, Options, missing_file};
use crate::seal::{Broken, Drawn, Place, Sealed, seal};

/// Bytes of a value.
pub const VALUE_MAX: usize = 64 << 10;
const ROOT: &str = "vault";

/// Values under `vault/`, sealed. Clones share the keys.
#[derive(Clone)]
pub struct ObjectVault {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) keys: Arc<Keyring>,
}

impl fmt::Debug for ObjectVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectVault").field("objects", &self.objects).field("keys", &self.key_ids()).finish()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the vault holds values, but {0} with the key to them is not there: restore it, or copy it from the other server")]
    KeyLost(std::path::PathBuf),
    #[error(transparent)]
    Unavailable(#[from] VaultError),
}

/// An object that holds no value which can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unopened {
    pub object: String,
    pub why: String,
}

impl ObjectVault {
    /// A local store must sync what it writes; that of the log does.
    pub async fn open(objects: Arc<dyn ObjectStore>, options: Options) -> Result<Self, OpenError> {
        let missing = missing_file(&options).map(ToOwned::to_owned);
        if let Some(path) = &missing {
            let any = objects.list(Some(&Path::from(ROOT))).try_next().await.map_err(|error| unavailable(&error))?;
            if any.is_some() {
                return Err(OpenError::KeyLost(path.clone()));
            }
        }
        let keys = Keyring::load(options, missing.is_some()).await?;
        Ok(Self { objects, keys: Arc::new(keys) })
    }

    /// The one that seals first.
    #[must_use]
    pub fn key_ids(&self) -> Vec<KeyId> {
        self.keys.all().iter().map(|key| key.id).collect()
    }

    pub(crate) async fn list(&self) -> Result<Vec<ObjectMeta>, VaultError> {
        let mut all: Vec<_> =
            self.objects.list(Some(&Path::from(ROOT))).try_collect().await.map_err(|error| unavailable(&error))?;
        all.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok(all)
    }

    pub(crate) async fn get(&self, path: &Path) -> Result<Option<(ObjectMeta, Vec<u8>)>, VaultError> {
        let found = match self.objects.get(path).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(unavailable(&error)),
        };
        let meta = found.meta.clone();
        match found.bytes().await {
            Ok(bytes) => Ok(Some((meta, bytes.to_vec()))),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// The keys, and the place among them of the one that this was sealed with.
    pub(crate) async fn key_of(&self, id: KeyId) -> Result<(Arc<[MasterKey]>, usize), VaultError> {
        if let Some(found) = self.known(id) {
            return Ok(found);
        }
        // Another server may have begun with a new one.
        if let Err(error) = self.keys.reload().await {
            tracing::warn!(%error, "the vault's keys could not be read again");
        }
        self.known(id).ok_or_else(|| VaultError::Sealed(format!("its key, {id}, is not among those of this server")))
    }

    fn known(&self, id: KeyId) -> Option<(Arc<[MasterKey]>, usize)> {
        let keys = self.keys.all();
        let at = keys.iter().position(|key| key.id == id)?;
        Some((keys, at))
    }

    /// `secret`: whose value it must be, if that is known.
    pub(crate) async fn unseal(
        &self,
        house: &HouseId,
        secret: Option<&SecretId>,
        at: Uuid,
        bytes: &[u8],
    ) -> Result<Plain, VaultError> {
        let broken = |error: Broken| VaultError::Sealed(error.to_string());
        let sealed = Sealed::parse(bytes).map_err(broken)?;
        let (keys, index) = self.key_of(sealed.key_id).await?;
        sealed.open(&keys[index], Place { house, secret: secret.unwrap_or(&sealed.secret), at }).map_err(broken)
    }
}

pub(crate) fn path(house: &HouseId, at: Uuid) -> Path {
    Path::from(format!("{ROOT}/{house}/{at}"))
}

/// What an object's name says; `None` if it is not one of ours.
pub(crate) fn named(path: &Path) -> Option<(HouseId, Uuid)> {
    let mut parts = path.as_ref().strip_prefix(ROOT)?.strip_prefix('/')?.split('/');
    let (house, at) = (HouseId::new(parts.next()?).ok()?, parts.next()?);
    let parsed = Uuid::try_parse(at).ok().filter(|parsed| parsed.to_string() == at)?;
    parts.next().is_none().then_some((house, parsed))
}

/// Errors of stores name the object and never hold what is in it.
pub(crate) fn unavailable(error: &Error) -> VaultError {
    VaultError::Unavailable(error.to_string())
}

#[async_trait]
impl Vault for ObjectVault {
    #[tracing::instrument(level = "debug", skip_all, fields(%house, %secret, %at))]
    async fn keep(&self, house: &HouseId, secret: &SecretId, at: Uuid, value: &Plain) -> Result<(), VaultError> {
        if value.expose().len() > VALUE_MAX {
            return Err(VaultError::Refused(format!("it is larger than {VALUE_MAX} bytes")));
        }
        if self.keys.is_cheap()
            && let Err(error) = self.keys.reload().await
        {
            tracing::warn!(%error, "the vault's keys could not be read again");
        }
        let sealed = {
            let keys = self.keys.all();
            seal(&keys[0], Place { house, secret, at }, value.expose(), &Drawn::new())
        };
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.objects.put_opts(&path(house, at), sealed.into(), options).await {
            Ok(_) => Ok(()),
            // It may be ours, from a try whose answer was lost.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                let there = self.reveal(house, secret, at).await?;
                let same = verify_slices_are_equal(there.expose(), value.expose()).is_ok();
                if same { Ok(()) } else { Err(VaultError::Refused("another value is kept under this id".to_owned())) }
            }
            Err(error) => Err(unavailable(&error)),
        }
    }

    #[tracing::instrument(level = "debug", skip_all, fields(%house, %secret, %at))]
    async fn reveal(&self, house: &HouseId, secret: &SecretId, at: Uuid) -> Result<Plain, VaultError> {
        let (_, bytes) = self.get(&path(house, at)).await?.ok_or(VaultError::Gone)?;
        self.unseal(house, Some(secret), at, &bytes).await
    }

    #[tracing::instrument(level = "debug", skip_all, fields(%house, %at))]
    async fn forget(&self, house: &HouseId, at: Uuid) -> Result<(), VaultError> {
        match self.objects.delete(&path(house, at)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(unavailable(&error)),
        }
    }
}
