use events::{AgentId, EnvironmentId, HouseId};

use crate::rows::{AgentKeyRow, AgentRow, EnvironmentRow, HouseRow, MemberRow, Row, SandboxRow, SecretRow, ThreadRow};
use crate::work::WorkChange;

/// A part of what one event does to the rows.
#[derive(Debug)]
pub struct Change(pub(crate) Op);

#[derive(Clone, Debug)]
pub(crate) enum Op {
    House(EditOf<HouseRow>),
    Agent(EditOf<AgentRow>),
    AgentKey(EditOf<AgentKeyRow>),
    Member(EditOf<MemberRow>),
    Environment(EditOf<EnvironmentRow>),
    Secret(EditOf<SecretRow>),
    Sandbox(EditOf<SandboxRow>),
    Thread(Box<EditOf<ThreadRow>>),
    Work(WorkChange),
    /// No effect while a thread or a sandbox refers to it.
    DropEnvironment(HouseId, EnvironmentId),
    /// No effect while the agent drives a thread of the house.
    DropMember(HouseId, AgentId),
}

#[derive(Clone, Debug)]
pub(crate) enum Edit<R, K, P> {
    Insert(R),
    Update(K, P),
}

pub(crate) type EditOf<R> = Edit<R, <R as Row>::Key, <R as Row>::Patch>;
