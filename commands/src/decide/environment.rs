use events::EnvironmentId;
use events::house::{EnvironmentCreated, EnvironmentDeleted, EnvironmentUpdated, SecretBound, SecretUnbound};

use super::{Draft, filled};
use crate::bounds;
use crate::command::{
    BindSecret, CreateEnvironment, CreateEnvironmentWithSecrets, DeleteEnvironment, UnbindSecret, UpdateEnvironment,
};
use crate::rejection::Rejection;
use crate::world::{Environment, House};

mod recipe;

/// An environment injects at most this many secrets.
const BINDINGS_MAX: usize = 256;

pub(super) fn create(draft: &mut Draft<'_>, command: &CreateEnvironment) -> Result<(), Rejection> {
    let id = filled(command.environment_id.as_ref())?.clone();
    draft.enter(&command.house_id, "house")?;
    bounds::name("name", &command.name)?;
    bounds::config(&command.config)?;
    recipe::check(&command.config)?;
    if draft.world.environment(&id).is_some() {
        return Err(Rejection::IdTaken);
    }
    let (name, config) = (command.name.clone(), command.config.clone());
    draft.append_house(&command.house_id, EnvironmentCreated { environment_id: id, name, config });
    Ok(())
}

pub(super) fn create_with_secrets(draft: &mut Draft<'_>, command: &CreateEnvironmentWithSecrets) -> Result<(), Rejection> {
    let CreateEnvironmentWithSecrets { environment, secret_bindings } = command;
    create(draft, environment)?;
    if secret_bindings.len() > BINDINGS_MAX {
        return Err(bounds::invalid("secret_bindings", "an environment binds at most 256 secrets"));
    }
    let id = filled(environment.environment_id.as_ref())?;
    for (name, required) in secret_bindings {
        bounds::secret_name(name)?;
        let bound = SecretBound { environment_id: id.clone(), name: name.clone(), required: *required };
        draft.append_house(&environment.house_id, bound);
    }
    Ok(())
}

pub(super) fn update(draft: &mut Draft<'_>, command: &UpdateEnvironment) -> Result<(), Rejection> {
    let (_, environment) = subject(draft, &command.environment_id)?;
    let name = command.name.as_ref().unwrap_or(&environment.name).clone();
    let config = command.config.as_ref().unwrap_or(&environment.config).clone();
    bounds::name("name", &name)?;
    bounds::config(&config)?;
    // One that was written before may be bad; its name can be changed all the same.
    command.config.as_ref().map_or(Ok(()), recipe::check)?;
    if (&name, &config) != (&environment.name, &environment.config) {
        let updated = EnvironmentUpdated { environment_id: command.environment_id.clone(), name, config };
        draft.append_house(&environment.house_id, updated);
    }
    Ok(())
}

pub(super) fn bind_secret(draft: &mut Draft<'_>, command: &BindSecret) -> Result<(), Rejection> {
    let (_, environment) = subject(draft, &command.environment_id)?;
    bounds::secret_name(&command.name)?;
    let bound = environment.secret_bindings.get(&command.name);
    if bound.is_none() && environment.secret_bindings.len() >= BINDINGS_MAX {
        return Err(bounds::invalid("name", "the environment binds 256 secrets already"));
    }
    if bound != Some(&command.required) {
        let (environment_id, name) = (command.environment_id.clone(), command.name.clone());
        draft.append_house(&environment.house_id, SecretBound { environment_id, name, required: command.required });
    }
    Ok(())
}

pub(super) fn unbind_secret(draft: &mut Draft<'_>, command: &UnbindSecret) -> Result<(), Rejection> {
    let (_, environment) = subject(draft, &command.environment_id)?;
    bounds::secret_name(&command.name)?;
    if environment.secret_bindings.contains_key(&command.name) {
        let (environment_id, name) = (command.environment_id.clone(), command.name.clone());
        draft.append_house(&environment.house_id, SecretUnbound { environment_id, name });
    }
    Ok(())
}

pub(super) fn delete(draft: &mut Draft<'_>, command: &DeleteEnvironment) -> Result<(), Rejection> {
    let (house, environment) = subject(draft, &command.environment_id)?;
    draft.require_owner(house)?;
    let default = house.default_environment_id.as_ref() == Some(&command.environment_id);
    if default || draft.world.environment_is_referred_to(&command.environment_id) {
        return Err(Rejection::EnvironmentInUse);
    }
    let deleted = EnvironmentDeleted { environment_id: command.environment_id.clone() };
    draft.append_house(&environment.house_id, deleted);
    Ok(())
}

fn subject<'a>(draft: &mut Draft<'a>, id: &EnvironmentId) -> Result<(&'a House, &'a Environment), Rejection> {
    let environment = draft.world.environment(id).ok_or(Rejection::NotFound { what: "environment" })?;
    Ok((draft.enter(&environment.house_id, "environment")?, environment))
}
