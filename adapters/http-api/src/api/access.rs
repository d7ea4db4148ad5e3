//! The rule of membership, and how commands and queries are reached under it.

use std::time::Duration;

use commands::ports::Hands;
use commands::{Actor, Command, CommandError, Done, Environment, House, Sandbox, Secret, Thread, World};
use events::{AgentId, EnvironmentId, HouseId, SandboxId, SecretId, ThreadId};
use queries::{At, Limit};
use serde::Deserialize;

use super::error::ApiError;
use super::extract::{Caller, Key};

/// How long a query waits for its `min_position`.
const PATIENCE: Duration = Duration::from_secs(5);

impl Caller {
    pub(crate) async fn execute(&self, key: &Key, command: impl Into<Command>) -> Result<Done, CommandError> {
        self.execute_all(key, vec![command.into()]).await
    }

    /// All or nothing.
    pub(crate) async fn execute_all(&self, key: &Key, commands: Vec<Command>) -> Result<Done, CommandError> {
        let plane = self.plane().map_err(|error| CommandError::Unavailable(error.message.into_owned()))?;
        plane.commands.execute_all(Actor::Agent(self.agent), commands, key.0.as_deref()).await
    }

    /// Asked for after what it is about was found, so that a server without any says no more than another.
    pub(crate) fn hands(&self) -> Result<&dyn Hands, ApiError> {
        self.plane()?.hands.as_deref().ok_or_else(|| ApiError::unavailable("this server has no machines and runs no commands"))
    }

    fn look<T>(&self, look: impl FnOnce(&World) -> Option<T>, what: &'static str) -> Result<T, ApiError> {
        self.plane()?.commands.with_world(look).ok_or_else(|| ApiError::not_found(what))
    }

    /// Whatever is in a house of the caller's, and nothing else: what is elsewhere is looked up in the same way and found missing.
    fn see<T>(&self, what: &'static str, find: impl FnOnce(&World) -> Option<(HouseId, T)>) -> Result<(HouseId, T), ApiError> {
        self.look(|world| find(world).filter(|(house, _)| world.is_member(house, self.agent)), what)
    }

    pub(crate) fn house<T>(&self, id: &HouseId, look: impl FnOnce(&House) -> T) -> Result<T, ApiError> {
        self.see("house", |world| world.house(id).map(|house| (id.clone(), look(house)))).map(|(_, seen)| seen)
    }

    pub(crate) fn thread<T>(&self, id: &ThreadId, look: impl FnOnce(&Thread) -> T) -> Result<(HouseId, T), ApiError> {
        self.see("thread", |world| world.thread(id).map(|thread| (thread.house_id.clone(), look(thread))))
    }

    pub(crate) fn environment(&self, id: &EnvironmentId) -> Result<HouseId, ApiError> {
        let find = |it: &Environment| (it.house_id.clone(), ());
        self.see("environment", |world| world.environment(id).map(find)).map(|(house, ())| house)
    }

    pub(crate) fn sandbox(&self, id: &SandboxId) -> Result<HouseId, ApiError> {
        let find = |it: &Sandbox| (it.house_id.clone(), ());
        self.see("sandbox", |world| world.sandbox(id).map(find)).map(|(house, ())| house)
    }

    /// Where it is a member's word that counts: the drivers of this server know nothing of the provider.
    pub(crate) fn told_sandbox(&self, id: &SandboxId) -> Result<(), ApiError> {
        let find = |it: &Sandbox| (it.house_id.clone(), it.provider.clone());
        let (_, provider) = self.see("sandbox", |world| world.sandbox(id).map(find))?;
        match &self.plane()?.hands {
            Some(hands) if hands.drives(&provider) => Err(ApiError::forbidden(format!(
                "machines of {provider} are made and named by this server itself, when work for the sandbox begins; \
                 for a machine of your own ask for a sandbox of another provider"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn secret(&self, id: &SecretId) -> Result<Secret, ApiError> {
        self.see("secret", |world| world.secret(id).map(|it| (it.house_id.clone(), it.clone()))).map(|(_, secret)| secret)
    }

    /// Agents are global, but one sees only oneself, whom one registered, and whom one shares a house with.
    pub(crate) fn agent<T>(&self, id: AgentId, look: impl FnOnce(&World, &commands::Agent) -> T) -> Result<T, ApiError> {
        let sees = |world: &World, agent: &commands::Agent| {
            id == self.agent
                || agent.registered_by == Some(self.agent)
                || world.houses_of(id).any(|house| world.is_member(house, self.agent))
        };
        let find = |world: &World| world.agent(id).filter(|agent| sees(world, agent)).map(|agent| look(world, agent));
        self.look(find, "agent")
    }

    /// The house that a list is about: the one named, or the caller's only one.
    pub(crate) fn scope(&self, named: Option<HouseId>) -> Result<HouseId, ApiError> {
        if let Some(id) = named {
            return self.house(&id, |_| id.clone());
        }
        let mut houses: Vec<HouseId> =
            self.plane()?.commands.with_world(|world| world.houses_of(self.agent).take(2).cloned().collect());
        match (houses.pop(), houses.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) | (None, _) => Err(ApiError::bad_request("name one of your houses as `house`")),
        }
    }

    /// Returns when everything below `min` is seen here, in the fold and in the rows.
    pub(crate) async fn reach(&self, min: Option<u64>) -> Result<(), ApiError> {
        let Some(min) = min else { return Ok(()) };
        let plane = self.plane()?;
        self.folded(Some(min)).await?;
        plane.queries.wait(min, PATIENCE).await.map_err(|behind| ApiError::not_there_yet(behind.asked, behind.position))
    }

    /// The same for what is read from the fold or the log only.
    pub(crate) async fn folded(&self, min: Option<u64>) -> Result<(), ApiError> {
        let plane = self.plane()?;
        let Some(min) = min.filter(|min| plane.commands.position() < *min) else { return Ok(()) };
        if self.app.log.position() < min {
            self.app.log.refreshed().await.map_err(|error| ApiError::unavailable(error.to_string()))?;
        }
        if self.app.log.position() < min {
            return Err(ApiError::bad_request("min_position is beyond the end of the log"));
        }
        match tokio::time::timeout(PATIENCE, plane.commands.wait(min)).await {
            Ok(folded) => Ok(folded.map_err(CommandError::from)?),
            Err(_) => Err(ApiError::not_there_yet(min, plane.commands.position())),
        }
    }
}

/// The fold knows it, so a row that is missing is only not there yet.
pub(crate) fn found<T>(at: At<Option<T>>) -> Result<At<T>, ApiError> {
    let At { position, value } = at;
    let late = || ApiError::unavailable(format!("the rows, at position {position}, are behind what was asked for"));
    value.map(|value| At { position, value }).ok_or_else(late)
}

pub(crate) fn limit(given: Option<u16>) -> Result<Limit, ApiError> {
    given.map_or(Ok(Limit::default()), |items| {
        Limit::new(items).ok_or_else(|| ApiError::bad_request("limit is a number from 1 to 200"))
    })
}

/// Tells null from nothing.
pub(crate) fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(field).map(Some)
}

/// The id of what a command made.
pub(crate) fn made<T>(id: Option<T>) -> Result<T, ApiError> {
    id.ok_or_else(|| ApiError::internal("the command made nothing"))
}
