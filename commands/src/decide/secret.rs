//! Metadata of secrets; their values are in the vault.

use events::SecretId;
use events::house::{SecretDeleted, SecretRotated, SecretSet};

use super::{Draft, filled};
use crate::bounds;
use crate::command::{DeleteSecret, RotateSecret, SetSecret};
use crate::rejection::Rejection;
use crate::world::Secret;

pub(super) fn set(draft: &mut Draft<'_>, command: &SetSecret) -> Result<(), Rejection> {
    let secret_id = filled(command.secret_id.as_ref())?.clone();
    draft.enter(&command.house_id, "house")?;
    bounds::secret_name(&command.name)?;
    if draft.world.secret_named(&command.house_id, &command.name).is_some() {
        return Err(Rejection::NameTaken);
    }
    if draft.world.secret(&secret_id).is_some() {
        return Err(Rejection::IdTaken);
    }
    let set = SecretSet { secret_id, name: command.name.clone(), vault_secret_id: command.vault_secret_id };
    draft.append_house(&command.house_id, set);
    Ok(())
}

pub(super) fn rotate(draft: &mut Draft<'_>, command: &RotateSecret) -> Result<(), Rejection> {
    let secret = subject(draft, &command.secret_id)?;
    if secret.vault_secret_id != command.vault_secret_id {
        let rotated = SecretRotated { secret_id: command.secret_id.clone(), vault_secret_id: command.vault_secret_id };
        draft.append_house(&secret.house_id, rotated);
    }
    Ok(())
}

/// Bindings by this name stay: they may name a secret that does not exist.
pub(super) fn delete(draft: &mut Draft<'_>, command: &DeleteSecret) -> Result<(), Rejection> {
    let secret = subject(draft, &command.secret_id)?;
    draft.append_house(&secret.house_id, SecretDeleted { secret_id: command.secret_id.clone() });
    Ok(())
}

fn subject<'a>(draft: &mut Draft<'a>, id: &SecretId) -> Result<&'a Secret, Rejection> {
    let secret = draft.world.secret(id).ok_or(Rejection::NotFound { what: "secret" })?;
    draft.enter(&secret.house_id, "secret")?;
    Ok(secret)
}
