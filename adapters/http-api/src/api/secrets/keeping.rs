//! A value on its way into the vault and out of it again, beside what the log says of it.

use std::time::Duration;

use commands::ports::{Plain, Vault, VaultError};
use commands::{CommandError, Rejection};
use events::{HouseId, SecretId, Uuid};
use queries::Secret;

use crate::api::error::ApiError;
use crate::api::extract::Caller;
use crate::app::same;

/// For the rows, where what was asked for is done already.
const ROWS: Duration = Duration::from_secs(2);

pub(super) fn vault(caller: &Caller) -> Result<&dyn Vault, ApiError> {
    let keeps = caller.plane()?.secrets.as_ref().map(|secrets| &*secrets.vault);
    keeps.ok_or_else(|| ApiError::unavailable("this server keeps no secrets"))
}

/// Also if whoever asked goes away meanwhile: half of it would leave a value where none should be.
pub(super) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::spawn(work).await.map_err(|_| ApiError::internal("the request broke off; see the server's log"))?
}

/// One version of a secret's value.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) house: HouseId,
    pub(super) secret: SecretId,
    pub(super) at: Uuid,
}

impl Kept {
    /// Whether it was not there before.
    pub(super) async fn keep(&self, caller: &Caller, value: &Plain) -> Result<bool, ApiError> {
        let vault = vault(caller)?;
        let there = match vault.reveal(&self.house, &self.secret, self.at).await {
            Err(VaultError::Gone) => false,
            Ok(there) if same(there.expose(), value.expose()) => true,
            Ok(_) => return Err(CommandError::IdempotencyKeyReused.into()),
            Err(error) => return Err(refused(&error)),
        };
        if !there {
            vault.keep(&self.house, &self.secret, self.at, value).await.map_err(|error| refused(&error))?;
        }
        Ok(!there)
    }

    /// Forgets it again if it was refused, or replaced since. What is not known is left to the sweep.
    pub(super) async fn settle(&self, caller: &Caller, mine: bool, done: &Result<commands::Done, CommandError>) {
        let after = match done {
            Ok(done) => Some(done.position),
            Err(CommandError::Rejected(_) | CommandError::IdempotencyKeyReused | CommandError::Conflict) => mine.then_some(0),
            Err(CommandError::Unavailable(_) | CommandError::Unknown(_) | CommandError::Stopped(_)) => None,
        };
        if let Some(position) = after {
            self.forget(caller, position).await;
        }
    }

    /// What the log names stays, whoever asks: a repeated request may have come upon a value that is newer than its own.
    /// `position`: where the log said that this one is not wanted any more. What stays behind is swept up later.
    pub(super) async fn forget(&self, caller: &Caller, position: u64) {
        let (Ok(plane), Ok(vault)) = (caller.plane(), vault(caller)) else { return };
        if plane.commands.wait(position).await.is_err() {
            return;
        }
        let named = plane.commands.with_world(|world| world.secret(&self.secret).map(|secret| secret.vault_secret_id));
        if named == Some(self.at) {
            return;
        }
        if let Err(error) = vault.forget(&self.house, self.at).await {
            tracing::warn!(house = %self.house, at = %self.at, %error, "a value is left for the sweep");
        }
    }

    /// `None` while the rows are behind, or if it was deleted since.
    pub(super) async fn row(&self, caller: &Caller, position: u64) -> Option<Secret> {
        let queries = &caller.plane().ok()?.queries;
        let read = async {
            queries.wait(position, ROWS).await.ok()?;
            queries.secret(&self.house, &self.secret).await.ok()?.value
        };
        tokio::time::timeout(ROWS, read).await.ok().flatten()
    }
}

/// What the store said names objects and addresses: it is for the log.
fn refused(error: &VaultError) -> ApiError {
    match error {
        VaultError::Refused(_) => Rejection::Invalid { field: "value", why: error.to_string() }.into(),
        VaultError::Sealed(_) => {
            tracing::warn!(%error, "a value that is kept cannot be opened");
            ApiError::internal("the value that is kept cannot be opened; see the server's log")
        }
        VaultError::Gone | VaultError::Unavailable(_) => {
            tracing::warn!(%error, "a value cannot be kept");
            ApiError::unavailable("the vault cannot be reached at the moment")
        }
    }
}
