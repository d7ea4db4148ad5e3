//! Where the values of secrets are kept. The log knows their names only.

use std::fmt;

use async_trait::async_trait;
use events::{HouseId, SecretId};
use uuid::Uuid;
use zeroize::Zeroizing;

/// A value on its way. Wiped when it is dropped, and never printed.
#[derive(Clone)]
pub struct Plain(Zeroizing<Vec<u8>>);

impl Plain {
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain(…)")
    }
}

/// None of them says anything of a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    #[error("the vault has no such value")]
    Gone,
    /// Sealed under a key that this server does not have, or for another secret, or changed since.
    #[error("the value cannot be opened: {0}")]
    Sealed(String),
    /// It would not take it another time either: too large, or the id has another value already.
    #[error("the vault does not take the value: {0}")]
    Refused(String),
    #[error("the vault cannot be reached: {0}")]
    Unavailable(String),
}

/// `at` names one version of a value; it stands in the log as `vault_secret_id`, and a rotation has a new one.
#[async_trait]
pub trait Vault: Send + Sync + fmt::Debug {
    /// Durable when it returns. Kept twice with the same value, it is kept once; another value is refused.
    async fn keep(&self, house: &HouseId, secret: &SecretId, at: Uuid, value: &Plain) -> Result<(), VaultError>;

    async fn reveal(&self, house: &HouseId, secret: &SecretId, at: Uuid) -> Result<Plain, VaultError>;

    /// Nobody can read it again. One that is gone already is fine.
    async fn forget(&self, house: &HouseId, at: Uuid) -> Result<(), VaultError>;
}
