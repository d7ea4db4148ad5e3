use std::collections::BTreeMap;

use events::house::{EnvironmentCreated, SandboxRequested, SecretSet};
use events::{AgentId, EnvironmentId, HouseEvent, HouseId, SandboxId, SecretId};
use projector::Unprojectable;
use serde_json::json;

use super::{belongs, text};
use crate::change::{Edit, Op};
use crate::rows::{
    Bindings, EnvironmentPatch, EnvironmentRow, HousePatch, HouseRow, MemberPatch, MemberRow, Ms, SandboxPatch, SandboxRow,
    SecretPatch, SecretRow,
};
use crate::work::{WorkChange, WorkKind};

pub(super) fn project(house: &HouseId, at: Ms, author: Option<AgentId>, event: &HouseEvent) -> Result<Vec<Op>, Unprojectable> {
    let ops = match event {
        HouseEvent::Created(e) => {
            belongs(&e.house_id == house)?;
            let row = HouseRow { id: house.clone(), name: text(&e.name), default_environment_id: None, created_at: at };
            vec![Op::House(Edit::Insert(row))]
        }
        HouseEvent::Renamed(e) => vec![change(house, HousePatch { name: Some(text(&e.name)), ..HousePatch::default() })],
        HouseEvent::DefaultEnvironmentSet(e) => {
            let default_environment_id = Some(e.environment_id.clone());
            vec![change(house, HousePatch { default_environment_id, ..HousePatch::default() })]
        }
        HouseEvent::MemberAdded(e) => {
            let (house_id, agent_id, role) = (house.clone(), e.agent_id, e.role.as_str());
            vec![Op::Member(Edit::Insert(MemberRow { house_id, agent_id, role, joined_at: at }))]
        }
        HouseEvent::MemberRoleSet(e) => {
            vec![Op::Member(Edit::Update((house.clone(), e.agent_id), MemberPatch { role: e.role.as_str() }))]
        }
        HouseEvent::MemberRemoved(e) => vec![Op::DropMember(house.clone(), e.agent_id)],
        HouseEvent::EnvironmentCreated(e) => vec![environment_created(house, at, e)],
        HouseEvent::EnvironmentUpdated(e) => {
            let (name, config) = (Some(text(&e.name)), Some(e.config.clone()));
            vec![configure(house, &e.environment_id, EnvironmentPatch { name, config, ..EnvironmentPatch::default() })]
        }
        HouseEvent::SecretBound(e) => vec![bind(house, &e.environment_id, &e.name, Some(e.required))],
        HouseEvent::SecretUnbound(e) => vec![bind(house, &e.environment_id, &e.name, None)],
        HouseEvent::EnvironmentDeleted(e) => vec![Op::DropEnvironment(house.clone(), e.environment_id.clone())],
        HouseEvent::SecretSet(e) => vec![secret_set(house, at, author, e)],
        HouseEvent::SecretRotated(e) => {
            let (vault_secret_id, rotated_at) = (Some(e.vault_secret_id), Some(at));
            vec![secret(house, &e.secret_id, SecretPatch { vault_secret_id, rotated_at, ..SecretPatch::default() })]
        }
        HouseEvent::SecretDeleted(e) => {
            vec![secret(house, &e.secret_id, SecretPatch { deleted_at: Some(at), ..SecretPatch::default() })]
        }
        HouseEvent::SandboxRequested(e) => sandbox_requested(house, at, e),
        HouseEvent::SandboxLive(e) => {
            let patch = SandboxPatch { status: "live", provider_ref: Some(text(&e.provider_ref)), destroyed_at: None };
            let id = &e.sandbox_id;
            vec![sandbox(house, id, patch), done(WorkKind::SandboxPending, house, id), done(WorkKind::SandboxDead, house, id)]
        }
        HouseEvent::SandboxDead(e) => {
            let detail = json!({ "reason": e.reason.as_deref().map(text) });
            let dead = WorkKind::SandboxDead.of_sandbox(house, &e.sandbox_id).on_sandbox(house, &e.sandbox_id, at).with(detail);
            let patch = SandboxPatch { status: "dead", ..SandboxPatch::default() };
            let id = &e.sandbox_id;
            vec![sandbox(house, id, patch), done(WorkKind::SandboxPending, house, id), WorkChange::Put(dead).into()]
        }
        HouseEvent::SandboxDestroyed(e) => {
            let patch = SandboxPatch { status: "dead", provider_ref: None, destroyed_at: Some(at) };
            let id = &e.sandbox_id;
            vec![sandbox(house, id, patch), done(WorkKind::SandboxPending, house, id), done(WorkKind::SandboxDead, house, id)]
        }
    };
    Ok(ops)
}

fn change(house: &HouseId, patch: HousePatch) -> Op {
    Op::House(Edit::Update(house.clone(), patch))
}

fn configure(house: &HouseId, environment: &EnvironmentId, patch: EnvironmentPatch) -> Op {
    Op::Environment(Edit::Update((house.clone(), environment.clone()), patch))
}

fn bind(house: &HouseId, environment: &EnvironmentId, name: &str, bound: Option<bool>) -> Op {
    let bindings = BTreeMap::from([(text(name), bound)]);
    configure(house, environment, EnvironmentPatch { bindings, ..EnvironmentPatch::default() })
}

fn secret(house: &HouseId, id: &SecretId, patch: SecretPatch) -> Op {
    Op::Secret(Edit::Update((house.clone(), id.clone()), patch))
}

fn sandbox(house: &HouseId, id: &SandboxId, patch: SandboxPatch) -> Op {
    Op::Sandbox(Edit::Update((house.clone(), id.clone()), patch))
}

fn done(kind: WorkKind, house: &HouseId, id: &SandboxId) -> Op {
    WorkChange::Done(kind.of_sandbox(house, id)).into()
}

fn environment_created(house: &HouseId, at: Ms, event: &EnvironmentCreated) -> Op {
    Op::Environment(Edit::Insert(EnvironmentRow {
        id: event.environment_id.clone(),
        house_id: house.clone(),
        name: text(&event.name),
        config: event.config.clone(),
        secret_bindings: Bindings::default(),
        created_at: at,
    }))
}

fn secret_set(house: &HouseId, at: Ms, author: Option<AgentId>, event: &SecretSet) -> Op {
    Op::Secret(Edit::Insert(SecretRow {
        id: event.secret_id.clone(),
        house_id: house.clone(),
        name: text(&event.name),
        author_id: author,
        vault_secret_id: event.vault_secret_id,
        created_at: at,
        rotated_at: at,
        deleted_at: None,
    }))
}

fn sandbox_requested(house: &HouseId, at: Ms, event: &SandboxRequested) -> Vec<Op> {
    let SandboxRequested { sandbox_id, environment_id, provider } = event;
    let row = SandboxRow {
        id: sandbox_id.clone(),
        house_id: house.clone(),
        environment_id: environment_id.clone(),
        provider: text(provider),
        provider_ref: None,
        status: "pending",
        created_at: at,
        destroyed_at: None,
    };
    let detail = json!({ "environment_id": environment_id, "provider": text(provider) });
    let pending = WorkKind::SandboxPending.of_sandbox(house, sandbox_id).on_sandbox(house, sandbox_id, at).with(detail);
    vec![Op::Sandbox(Edit::Insert(row)), WorkChange::Put(pending).into()]
}
