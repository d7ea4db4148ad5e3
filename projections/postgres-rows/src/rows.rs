//! The rows as changes carry them: whole when they are new, in part when they exist. Field names are column names.

use std::collections::BTreeMap;

use events::{AgentId, EnvironmentId, HouseId, JsonObject, KeyId, SandboxId, SecretId, ThreadId, Uuid};
use serde::Serialize;

/// Unix milliseconds, from the event.
pub(crate) type Ms = u64;

pub(crate) trait Row: Serialize {
    type Key: Ord + Clone + Serialize;
    type Patch: Serialize;
    /// Ids are global but streams are not: of two houses that make the same id, the first in the log has it.
    const FIRST_WINS: bool = false;

    fn key(&self) -> Self::Key;
    fn patch(&mut self, patch: Self::Patch);
    /// `later` happened after `patch`.
    fn merge(patch: &mut Self::Patch, later: Self::Patch);
    /// Whether the row is history after this, and its key free for another.
    fn ends(_: &Self::Patch) -> bool {
        false
    }
}

fn over<T>(field: &mut Option<T>, later: Option<T>) {
    if later.is_some() {
        *field = later;
    }
}

fn set<T>(field: &mut T, patch: Option<T>) {
    if let Some(value) = patch {
        *field = value;
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HouseRow {
    pub id: HouseId,
    pub name: String,
    pub default_environment_id: Option<EnvironmentId>,
    pub created_at: Ms,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HousePatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_environment_id: Option<Option<EnvironmentId>>,
}

impl Row for HouseRow {
    type Key = HouseId;
    type Patch = HousePatch;

    fn key(&self) -> HouseId {
        self.id.clone()
    }

    fn patch(&mut self, patch: HousePatch) {
        set(&mut self.name, patch.name);
        set(&mut self.default_environment_id, patch.default_environment_id);
    }

    fn merge(patch: &mut HousePatch, later: HousePatch) {
        over(&mut patch.name, later.name);
        over(&mut patch.default_environment_id, later.default_environment_id);
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentRow {
    pub id: AgentId,
    pub kind: &'static str,
    pub runtime: Option<String>,
    pub name: Option<String>,
    pub created_at: Ms,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AgentPatch {
    pub name: Option<String>,
}

impl Row for AgentRow {
    type Key = AgentId;
    type Patch = AgentPatch;

    fn key(&self) -> AgentId {
        self.id
    }

    fn patch(&mut self, patch: AgentPatch) {
        self.name = patch.name;
    }

    fn merge(patch: &mut AgentPatch, later: AgentPatch) {
        *patch = later;
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentKeyRow {
    pub agent_id: AgentId,
    pub id: KeyId,
    pub hash: String,
    pub label: Option<String>,
    pub created_at: Ms,
    pub revoked_at: Option<Ms>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentKeyPatch {
    pub revoked_at: Ms,
}

impl Row for AgentKeyRow {
    type Key = (AgentId, KeyId);
    type Patch = AgentKeyPatch;

    fn key(&self) -> (AgentId, KeyId) {
        (self.agent_id, self.id.clone())
    }

    fn patch(&mut self, patch: AgentKeyPatch) {
        self.revoked_at = Some(patch.revoked_at);
    }

    fn merge(patch: &mut AgentKeyPatch, later: AgentKeyPatch) {
        *patch = later;
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberRow {
    pub house_id: HouseId,
    pub agent_id: AgentId,
    pub role: &'static str,
    pub joined_at: Ms,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberPatch {
    pub role: &'static str,
}

impl Row for MemberRow {
    type Key = (HouseId, AgentId);
    type Patch = MemberPatch;

    fn key(&self) -> (HouseId, AgentId) {
        (self.house_id.clone(), self.agent_id)
    }

    fn patch(&mut self, patch: MemberPatch) {
        self.role = patch.role;
    }

    fn merge(patch: &mut MemberPatch, later: MemberPatch) {
        *patch = later;
    }
}

/// The names an environment injects, each required or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings(pub BTreeMap<String, bool>);

impl Serialize for Bindings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Binding<'a> {
            name: &'a str,
            required: bool,
        }
        serializer.collect_seq(self.0.iter().map(|(name, required)| Binding { name, required: *required }))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnvironmentRow {
    pub id: EnvironmentId,
    pub house_id: HouseId,
    pub name: String,
    pub config: JsonObject,
    pub secret_bindings: Bindings,
    pub created_at: Ms,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EnvironmentPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<JsonObject>,
    /// Bound as required or optional, or unbound.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, Option<bool>>,
}

impl Row for EnvironmentRow {
    type Key = (HouseId, EnvironmentId);
    type Patch = EnvironmentPatch;
    const FIRST_WINS: bool = true;

    fn key(&self) -> (HouseId, EnvironmentId) {
        (self.house_id.clone(), self.id.clone())
    }

    fn patch(&mut self, patch: EnvironmentPatch) {
        set(&mut self.name, patch.name);
        set(&mut self.config, patch.config);
        for (name, bound) in patch.bindings {
            match bound {
                Some(required) => self.secret_bindings.0.insert(name, required),
                None => self.secret_bindings.0.remove(&name),
            };
        }
    }

    fn merge(patch: &mut EnvironmentPatch, later: EnvironmentPatch) {
        over(&mut patch.name, later.name);
        over(&mut patch.config, later.config);
        patch.bindings.extend(later.bindings);
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SecretRow {
    pub id: SecretId,
    pub house_id: HouseId,
    pub name: String,
    pub author_id: Option<AgentId>,
    pub vault_secret_id: Uuid,
    pub created_at: Ms,
    pub rotated_at: Ms,
    pub deleted_at: Option<Ms>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SecretPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_secret_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotated_at: Option<Ms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Ms>,
}

impl Row for SecretRow {
    type Key = (HouseId, SecretId);
    type Patch = SecretPatch;
    const FIRST_WINS: bool = true;

    fn key(&self) -> (HouseId, SecretId) {
        (self.house_id.clone(), self.id.clone())
    }

    fn patch(&mut self, patch: SecretPatch) {
        set(&mut self.vault_secret_id, patch.vault_secret_id);
        set(&mut self.rotated_at, patch.rotated_at);
        over(&mut self.deleted_at, patch.deleted_at);
    }

    fn merge(patch: &mut SecretPatch, later: SecretPatch) {
        over(&mut patch.vault_secret_id, later.vault_secret_id);
        over(&mut patch.rotated_at, later.rotated_at);
        over(&mut patch.deleted_at, later.deleted_at);
    }

    fn ends(patch: &SecretPatch) -> bool {
        patch.deleted_at.is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SandboxRow {
    pub id: SandboxId,
    pub house_id: HouseId,
    pub environment_id: EnvironmentId,
    pub provider: String,
    pub provider_ref: Option<String>,
    pub status: &'static str,
    pub created_at: Ms,
    pub destroyed_at: Option<Ms>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SandboxPatch {
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroyed_at: Option<Ms>,
}

impl Row for SandboxRow {
    type Key = (HouseId, SandboxId);
    type Patch = SandboxPatch;
    const FIRST_WINS: bool = true;

    fn key(&self) -> (HouseId, SandboxId) {
        (self.house_id.clone(), self.id.clone())
    }

    fn patch(&mut self, patch: SandboxPatch) {
        self.status = patch.status;
        over(&mut self.provider_ref, patch.provider_ref);
        over(&mut self.destroyed_at, patch.destroyed_at);
    }

    fn merge(patch: &mut SandboxPatch, later: SandboxPatch) {
        patch.status = later.status;
        over(&mut patch.provider_ref, later.provider_ref);
        over(&mut patch.destroyed_at, later.destroyed_at);
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadRow {
    pub id: ThreadId,
    pub house_id: HouseId,
    pub stream_id: String,
    pub name: Option<String>,
    pub pinned_at: Option<Ms>,
    pub parent_thread_id: Option<ThreadId>,
    pub parent_agent_id: Option<AgentId>,
    pub environment_id: Option<EnvironmentId>,
    pub sandbox_id: Option<SandboxId>,
    pub agent_id: Option<AgentId>,
    pub tags: Vec<String>,
    pub status: &'static str,
    pub created_at: Ms,
    pub updated_at: Ms,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThreadPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_at: Option<Option<Ms>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<Option<EnvironmentId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<Option<SandboxId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    pub updated_at: Ms,
}

impl Row for ThreadRow {
    type Key = ThreadId;
    type Patch = ThreadPatch;

    fn key(&self) -> ThreadId {
        self.id.clone()
    }

    fn patch(&mut self, patch: ThreadPatch) {
        set(&mut self.name, patch.name);
        set(&mut self.pinned_at, patch.pinned_at);
        set(&mut self.environment_id, patch.environment_id);
        set(&mut self.sandbox_id, patch.sandbox_id);
        set(&mut self.tags, patch.tags);
        set(&mut self.status, patch.status);
        self.updated_at = patch.updated_at;
    }

    fn merge(patch: &mut ThreadPatch, later: ThreadPatch) {
        over(&mut patch.name, later.name);
        over(&mut patch.pinned_at, later.pinned_at);
        over(&mut patch.environment_id, later.environment_id);
        over(&mut patch.sandbox_id, later.sandbox_id);
        over(&mut patch.tags, later.tags);
        over(&mut patch.status, later.status);
        patch.updated_at = later.updated_at;
    }
}
