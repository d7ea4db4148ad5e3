use std::collections::BTreeMap;

use events::house::{EnvironmentCreated, SandboxRequested, SecretBound, SecretSet};
use events::{AgentId, EnvironmentId, HouseEvent, HouseId, JsonObject, Role, SandboxId, SecretId, Uuid};

use super::{Absent, Effect, World};

/// The reason by which a member's wish is known from what members themselves once said of machines. Persisted; never changed.
pub(crate) const ASKED_FOR: &str = "a member asked for its end";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct House {
    pub name: String,
    pub default_environment_id: Option<EnvironmentId>,
    pub members: BTreeMap<AgentId, Role>,
    pub tail: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    pub house_id: HouseId,
    pub name: String,
    pub config: JsonObject,
    /// Names of secrets, and whether a dispatch fails without them.
    pub secret_bindings: BTreeMap<String, bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    pub house_id: HouseId,
    pub name: String,
    pub vault_secret_id: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub house_id: HouseId,
    pub environment_id: EnvironmentId,
    pub provider: String,
    pub provider_ref: Option<String>,
    /// A member told what its machine is called. Drivers have not seen it, and another house's may be called so.
    pub hearsay: bool,
    pub status: SandboxStatus,
    /// The system asked for it, for a delegated thread; or it stands for one that was so.
    pub ephemeral: bool,
    /// A destroyed sandbox is dead and stays as a row.
    pub destroyed: bool,
    /// A member asked for the end of a machine that drivers made, and they have not told yet that it is gone.
    pub leaving: bool,
}

impl Sandbox {
    /// The machine that drivers made for it, and may work on.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        self.provider_ref.as_deref().filter(|_| !self.hearsay)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxStatus {
    Pending,
    Live,
    Dead,
}

impl SandboxStatus {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Live => "live",
            Self::Dead => "dead",
        }
    }
}

impl House {
    #[must_use]
    pub fn is_owner(&self, agent: AgentId) -> bool {
        self.members.get(&agent) == Some(&Role::Owner)
    }

    pub(crate) fn is_last_owner(&self, agent: AgentId) -> bool {
        self.is_owner(agent) && self.members.values().filter(|role| **role == Role::Owner).count() == 1
    }
}

impl World {
    pub(super) fn apply_house(&mut self, id: &HouseId, event: HouseEvent, author: Option<AgentId>) -> Result<Effect, Absent> {
        if let HouseEvent::Created(created) = event {
            if created.house_id != *id || self.houses.contains_key(id) {
                return Err(Absent);
            }
            self.houses.insert(id.clone(), House { name: created.name, ..House::default() });
            return Ok(Effect::Applied);
        }
        let house = self.houses.get_mut(id).ok_or(Absent)?;
        match event {
            HouseEvent::Created(_) => {}
            HouseEvent::Renamed(it) => house.name = it.name,
            HouseEvent::DefaultEnvironmentSet(it) => house.default_environment_id = it.environment_id,
            HouseEvent::MemberAdded(it) => {
                house.members.insert(it.agent_id, it.role);
                self.index.join(it.agent_id, id);
            }
            HouseEvent::MemberRoleSet(it) => *house.members.get_mut(&it.agent_id).ok_or(Absent)? = it.role,
            HouseEvent::MemberRemoved(it) => return Ok(self.member_removed(id, it.agent_id)),
            HouseEvent::EnvironmentCreated(it) => return Ok(self.environment_created(id, it)),
            HouseEvent::EnvironmentUpdated(it) => {
                let environment = self.environment_of(id, &it.environment_id)?;
                (environment.name, environment.config) = (it.name, it.config);
            }
            HouseEvent::SecretBound(it) => return self.secret_bound(id, it),
            HouseEvent::SecretUnbound(it) => {
                self.environment_of(id, &it.environment_id)?.secret_bindings.remove(&it.name);
            }
            HouseEvent::EnvironmentDeleted(it) => return self.environment_deleted(id, &it.environment_id),
            HouseEvent::SecretSet(it) => return Ok(self.secret_set(id, it)),
            HouseEvent::SecretRotated(it) => self.secret_of(id, &it.secret_id)?.vault_secret_id = it.vault_secret_id,
            HouseEvent::SecretDeleted(it) => {
                let name = self.secret_of(id, &it.secret_id)?.name.clone();
                self.index.secret_names.remove(&(id.clone(), name));
                self.secrets.remove(&it.secret_id);
            }
            HouseEvent::SandboxRequested(it) => return self.sandbox_requested(id, it),
            HouseEvent::SandboxLive(it) => {
                let sandbox = self.sandbox_of(id, &it.sandbox_id)?;
                (sandbox.status, sandbox.provider_ref) = (SandboxStatus::Live, Some(it.provider_ref));
                sandbox.hearsay = author.is_some();
            }
            HouseEvent::SandboxDead(it) => {
                let sandbox = self.sandbox_of(id, &it.sandbox_id)?;
                sandbox.status = SandboxStatus::Dead;
                let asked_for = author.is_some() && it.reason.as_deref() == Some(ASKED_FOR);
                sandbox.leaving = asked_for && !sandbox.destroyed && sandbox.machine().is_some();
            }
            HouseEvent::SandboxDestroyed(it) => {
                let sandbox = self.sandbox_of(id, &it.sandbox_id)?;
                (sandbox.status, sandbox.destroyed, sandbox.leaving) = (SandboxStatus::Dead, true, false);
            }
        }
        Ok(Effect::Applied)
    }

    fn environment_of(&mut self, house: &HouseId, id: &EnvironmentId) -> Result<&mut Environment, Absent> {
        self.environments.get_mut(id).filter(|environment| environment.house_id == *house).ok_or(Absent)
    }

    fn secret_of(&mut self, house: &HouseId, id: &SecretId) -> Result<&mut Secret, Absent> {
        self.secrets.get_mut(id).filter(|secret| secret.house_id == *house).ok_or(Absent)
    }

    fn sandbox_of(&mut self, house: &HouseId, id: &SandboxId) -> Result<&mut Sandbox, Absent> {
        self.sandboxes.get_mut(id).filter(|sandbox| sandbox.house_id == *house).ok_or(Absent)
    }

    fn member_removed(&mut self, house: &HouseId, agent: AgentId) -> Effect {
        if self.driven_by(house, agent).next().is_some() {
            return Effect::None;
        }
        let removed = self.houses.get_mut(house).and_then(|house| house.members.remove(&agent));
        self.index.leave(agent, house);
        if removed.is_some() { Effect::Applied } else { Effect::None }
    }

    fn environment_created(&mut self, house: &HouseId, it: EnvironmentCreated) -> Effect {
        if self.environments.contains_key(&it.environment_id) {
            return Effect::None;
        }
        let environment =
            Environment { house_id: house.clone(), name: it.name, config: it.config, secret_bindings: BTreeMap::new() };
        self.environments.insert(it.environment_id, environment);
        Effect::Applied
    }

    /// Told together with an environment whose id was another house's, it has no more effect than that.
    fn secret_bound(&mut self, house: &HouseId, it: SecretBound) -> Result<Effect, Absent> {
        let environment = self.environments.get_mut(&it.environment_id).ok_or(Absent)?;
        if environment.house_id != *house {
            return Ok(Effect::None);
        }
        environment.secret_bindings.insert(it.name, it.required);
        Ok(Effect::Applied)
    }

    fn environment_deleted(&mut self, house: &HouseId, id: &EnvironmentId) -> Result<Effect, Absent> {
        self.environment_of(house, id)?;
        if self.environment_is_referred_to(id) {
            return Ok(Effect::None);
        }
        self.environments.remove(id);
        Ok(Effect::Applied)
    }

    fn secret_set(&mut self, house: &HouseId, it: SecretSet) -> Effect {
        if self.secrets.contains_key(&it.secret_id) {
            return Effect::None;
        }
        self.index.secret_names.insert((house.clone(), it.name.clone()), it.secret_id.clone());
        let secret = Secret { house_id: house.clone(), name: it.name, vault_secret_id: it.vault_secret_id };
        self.secrets.insert(it.secret_id, secret);
        Effect::Applied
    }

    fn sandbox_requested(&mut self, house: &HouseId, it: SandboxRequested) -> Result<Effect, Absent> {
        if self.sandboxes.contains_key(&it.sandbox_id) {
            return Ok(Effect::None);
        }
        self.environment_of(house, &it.environment_id)?;
        self.index.refer(None, Some(&it.environment_id));
        let sandbox = Sandbox {
            house_id: house.clone(),
            environment_id: it.environment_id,
            provider: it.provider,
            provider_ref: None,
            hearsay: false,
            status: SandboxStatus::Pending,
            ephemeral: false,
            destroyed: false,
            leaving: false,
        };
        self.sandboxes.insert(it.sandbox_id, sandbox);
        Ok(Effect::Applied)
    }
}
