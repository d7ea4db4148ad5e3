//! Whether every value can be read, and every secret has one.

use std::collections::BTreeMap;

use commands::Secret;
use commands::ports::{Vault, VaultError};
use events::SecretId;
use futures::{StreamExt, stream};
use object_store::path::Path;
use uuid::Uuid;

use crate::keys::KeyId;
use crate::seal::Sealed;
use crate::store::{ObjectVault, Unopened, named};

const AT_ONCE: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Values that open, by the master key that opens them.
    pub by_key: BTreeMap<KeyId, u64>,
    pub damaged: Vec<Unopened>,
    /// Secrets without a value.
    pub missing: Vec<Missing>,
    /// Values that no secret names: of a change under way, or what a crash left for the sweep.
    pub unnamed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub secret_id: SecretId,
    pub house: String,
    pub name: String,
}

impl Checked {
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.missing.is_empty()
    }
}

enum Seen {
    Gone,
    Opened(KeyId, Uuid),
    Damaged(Unopened),
}

impl ObjectVault {
    /// Opens every value, and holds them against the secrets there are. `progress` is told how many of how many are done.
    pub async fn check(
        &self,
        secrets: &[(SecretId, Secret)],
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Result<Checked, VaultError> {
        let all = self.list().await?;
        let mut unseen: BTreeMap<Uuid, &(SecretId, Secret)> =
            secrets.iter().map(|secret| (secret.1.vault_secret_id, secret)).collect();
        let (mut checked, mut done, total) = (Checked::default(), 0, all.len() as u64);
        let look = |path: Path| {
            let secret = named(&path).and_then(|(_, at)| unseen.get(&at)).map(|(id, _)| id.clone());
            self.look(path, secret)
        };
        let looks: Vec<_> = all.into_iter().map(|meta| look(meta.location)).collect();
        let mut looks = stream::iter(looks).buffer_unordered(AT_ONCE);
        while let Some(seen) = looks.next().await {
            match seen? {
                Seen::Gone => {}
                Seen::Opened(key, at) => {
                    *checked.by_key.entry(key).or_default() += 1;
                    checked.unnamed += u64::from(unseen.remove(&at).is_none());
                }
                Seen::Damaged(object) => checked.damaged.push(object),
            }
            done += 1;
            progress(done, total);
        }
        checked.damaged.sort_by(|a, b| a.object.cmp(&b.object));
        let missing = |(id, secret): &(SecretId, Secret)| Missing {
            secret_id: id.clone(),
            house: secret.house_id.to_string(),
            name: secret.name.clone(),
        };
        checked.missing = unseen.into_values().map(missing).collect();
        Ok(checked)
    }

    /// Looks once more at what was missing, by what the log names `now`: it may have been rotated or deleted during the check.
    pub async fn confirm(&self, mut checked: Checked, now: impl Fn(&SecretId) -> Option<Secret>) -> Result<Checked, VaultError> {
        for it in std::mem::take(&mut checked.missing) {
            let Some(secret) = now(&it.secret_id) else { continue };
            match self.reveal(&secret.house_id, &it.secret_id, secret.vault_secret_id).await {
                Ok(_) => {}
                Err(VaultError::Gone | VaultError::Sealed(_) | VaultError::Refused(_)) => checked.missing.push(it),
                Err(error @ VaultError::Unavailable(_)) => return Err(error),
            }
        }
        Ok(checked)
    }

    /// `secret`: whose value the log says it is.
    async fn look(&self, path: Path, secret: Option<SecretId>) -> Result<Seen, VaultError> {
        let damaged = |why: String| Ok(Seen::Damaged(Unopened { object: path.to_string(), why }));
        let Some((house, at)) = named(&path) else { return damaged("it is not named like a value".to_owned()) };
        let Some((_, bytes)) = self.get(&path).await? else { return Ok(Seen::Gone) };
        match (self.unseal(&house, secret.as_ref(), at, &bytes).await, Sealed::parse(&bytes)) {
            (Ok(_), Ok(sealed)) => Ok(Seen::Opened(sealed.key_id, at)),
            (Err(error), _) => damaged(error.to_string()),
            (Ok(_), Err(broken)) => damaged(broken.to_string()),
        }
    }
}
