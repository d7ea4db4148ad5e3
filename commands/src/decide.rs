//! What a command makes true. Pure and synchronous: ids and time come with the command or later.

use std::collections::BTreeSet;

use events::{AgentId, EnvironmentId, Event, HouseId, SandboxId, StreamName, ThreadEvent, ThreadId};

use crate::actor::Actor;
use crate::command::Command;
use crate::decision::{Append, Decision};
use crate::rejection::Rejection;
use crate::world::{House, Sandbox, SandboxStatus, Thread, World};

mod agent;
mod entry;
mod environment;
mod house;
mod run;
mod sandbox;
mod secret;
mod thread;

/// The ids of new things must have been filled in.
pub fn decide(world: &World, actor: &Actor, command: &Command) -> Result<Decision, Rejection> {
    decide_all(world, actor, std::slice::from_ref(command))
}

/// Several commands as one decision. All are decided on the same world, so they must not lean on each other's outcome; tags alone add up.
pub fn decide_all(world: &World, actor: &Actor, commands: &[Command]) -> Result<Decision, Rejection> {
    let mut draft = Draft::new(world, actor);
    commands.iter().try_for_each(|command| add(&mut draft, command))?;
    Ok(draft.decision)
}

fn add(draft: &mut Draft<'_>, command: &Command) -> Result<(), Rejection> {
    match command {
        Command::CreateHouse(it) => house::create(draft, it),
        Command::RenameHouse(it) => house::rename(draft, it),
        Command::SetDefaultEnvironment(it) => house::set_default_environment(draft, it),
        Command::AddMember(it) => house::add_member(draft, it),
        Command::RemoveMember(it) => house::remove_member(draft, it),
        Command::SetRole(it) => house::set_role(draft, it),
        Command::RegisterAgent(it) => agent::register(draft, it),
        Command::RenameAgent(it) => agent::rename(draft, it),
        Command::IssueKey(it) => agent::issue_key(draft, it),
        Command::RevokeKey(it) => agent::revoke_key(draft, it),
        Command::CreateEnvironment(it) => environment::create(draft, it),
        Command::CreateEnvironmentWithSecrets(it) => environment::create_with_secrets(draft, it),
        Command::UpdateEnvironment(it) => environment::update(draft, it),
        Command::BindSecret(it) => environment::bind_secret(draft, it),
        Command::UnbindSecret(it) => environment::unbind_secret(draft, it),
        Command::DeleteEnvironment(it) => environment::delete(draft, it),
        Command::SetSecret(it) => secret::set(draft, it),
        Command::RotateSecret(it) => secret::rotate(draft, it),
        Command::DeleteSecret(it) => secret::delete(draft, it),
        Command::RequestSandbox(it) => sandbox::request(draft, it),
        Command::MarkSandboxLive(it) => sandbox::live(draft, it),
        Command::MarkSandboxDead(it) => sandbox::dead(draft, it),
        Command::DestroySandbox(it) => sandbox::destroy(draft, it),
        Command::ResumeSandbox(it) => sandbox::resume(draft, it),
        Command::SetThreadSandbox(it) => sandbox::set_for_thread(draft, it),
        Command::CreateThread(it) => thread::create(draft, it),
        Command::RenameThread(it) => thread::rename(draft, it),
        Command::PinThread(it) => thread::pin(draft, &it.thread_id, true),
        Command::UnpinThread(it) => thread::pin(draft, &it.thread_id, false),
        Command::TagThread(it) => thread::tag(draft, it),
        Command::UntagThread(it) => thread::untag(draft, it),
        Command::ReplaceTags(it) => thread::replace_tags(draft, it),
        Command::SetThreadEnvironment(it) => thread::set_environment(draft, it),
        Command::CloseThread(it) => thread::close(draft, it),
        Command::ReopenThread(it) => thread::reopen(draft, it),
        Command::AppendEntry(it) => entry::append(draft, it),
        Command::Delegate(it) => run::delegate(draft, it),
        Command::StartRun(it) => run::start(draft, it),
        Command::ResumeRun(it) => run::resume(draft, it),
        Command::CancelRun(it) => run::cancel(draft, it),
        Command::FinishRun(it) => run::finish(draft, it),
        Command::OrphanRun(it) => run::orphan(draft, it),
    }
}

/// What a late deletion is told that the log left without effect, because a reference it had not seen came first.
pub(crate) fn without_effect(command: &Command) -> Option<Rejection> {
    match command {
        Command::DeleteEnvironment(_) => Some(Rejection::EnvironmentInUse),
        Command::RemoveMember(_) => Some(Rejection::MemberDrivesThreads),
        Command::CreateEnvironment(_)
        | Command::CreateEnvironmentWithSecrets(_)
        | Command::SetSecret(_)
        | Command::RequestSandbox(_)
        | Command::ResumeSandbox(_) => Some(Rejection::IdTaken),
        Command::CreateHouse(_)
        | Command::RenameHouse(_)
        | Command::SetDefaultEnvironment(_)
        | Command::AddMember(_)
        | Command::SetRole(_)
        | Command::RegisterAgent(_)
        | Command::RenameAgent(_)
        | Command::IssueKey(_)
        | Command::RevokeKey(_)
        | Command::UpdateEnvironment(_)
        | Command::BindSecret(_)
        | Command::UnbindSecret(_)
        | Command::RotateSecret(_)
        | Command::DeleteSecret(_)
        | Command::MarkSandboxLive(_)
        | Command::MarkSandboxDead(_)
        | Command::DestroySandbox(_)
        | Command::SetThreadSandbox(_)
        | Command::CreateThread(_)
        | Command::RenameThread(_)
        | Command::PinThread(_)
        | Command::UnpinThread(_)
        | Command::TagThread(_)
        | Command::UntagThread(_)
        | Command::ReplaceTags(_)
        | Command::SetThreadEnvironment(_)
        | Command::CloseThread(_)
        | Command::ReopenThread(_)
        | Command::AppendEntry(_)
        | Command::Delegate(_)
        | Command::StartRun(_)
        | Command::ResumeRun(_)
        | Command::CancelRun(_)
        | Command::FinishRun(_)
        | Command::OrphanRun(_) => None,
    }
}

/// A decision in the making: every look at a house or a thread goes through the rule of membership.
struct Draft<'a> {
    world: &'a World,
    actor: &'a Actor,
    decision: Decision,
}

impl<'a> Draft<'a> {
    fn new(world: &'a World, actor: &'a Actor) -> Self {
        let decision = Decision { appends: Vec::new(), reads: BTreeSet::new(), author: actor.agent() };
        Self { world, actor, decision }
    }

    fn append(&mut self, stream: StreamName, event: impl Into<Event>) {
        let event = event.into();
        match self.decision.appends.iter_mut().find(|append| append.stream == stream) {
            Some(append) => append.events.push(event),
            None => self.decision.appends.push(Append { stream, events: vec![event] }),
        }
    }

    fn append_house(&mut self, id: &HouseId, event: impl Into<Event>) {
        self.append(StreamName::House(id.clone()), event);
    }

    fn append_thread(&mut self, id: &ThreadId, event: impl Into<Event>) {
        self.append(StreamName::Thread(id.clone()), event);
    }

    /// The tags that an earlier command of the same decision gives a thread.
    fn tagged(&self, id: &ThreadId) -> Option<&Vec<String>> {
        let stream = StreamName::Thread(id.clone());
        let append = self.decision.appends.iter().find(|append| append.stream == stream)?;
        append.events.iter().rev().find_map(|event| match event {
            Event::Thread(ThreadEvent::Tagged(tagged)) => Some(&tagged.tags),
            Event::Thread(_)
            | Event::Content(_)
            | Event::Dispatch(_)
            | Event::House(_)
            | Event::Directory(_)
            | Event::Session(_) => None,
        })
    }

    fn expect(&mut self, stream: StreamName) {
        self.decision.reads.insert(stream);
    }

    fn sees(&self, house: &HouseId) -> bool {
        self.actor.agent().is_none_or(|agent| self.world.is_member(house, agent))
    }

    /// `what` is what the command is about, so that an outsider is told the same of a foreign one as of none.
    fn enter(&mut self, id: &HouseId, what: &'static str) -> Result<&'a House, Rejection> {
        let house = self.world.house(id).filter(|_| self.sees(id)).ok_or(Rejection::NotFound { what })?;
        self.expect(StreamName::House(id.clone()));
        Ok(house)
    }

    fn require_owner(&self, house: &House) -> Result<(), Rejection> {
        let owns = self.actor.agent().is_none_or(|agent| house.is_owner(agent));
        if owns { Ok(()) } else { Err(Rejection::Forbidden) }
    }

    fn own(&mut self, id: &HouseId) -> Result<&'a House, Rejection> {
        let house = self.enter(id, "house")?;
        self.require_owner(house)?;
        Ok(house)
    }

    /// A thread of a house of the actor's. Its tail is not expected.
    fn thread(&mut self, id: &ThreadId) -> Result<(&'a House, &'a Thread), Rejection> {
        let thread = self.world.thread(id).ok_or(Rejection::NotFound { what: "thread" })?;
        Ok((self.enter(&thread.house_id, "thread")?, thread))
    }

    /// The same to change what the thread is.
    fn change_thread(&mut self, id: &ThreadId) -> Result<&'a Thread, Rejection> {
        let (_, thread) = self.thread(id)?;
        self.expect(StreamName::Thread(id.clone()));
        Ok(thread)
    }

    fn new_stream(&mut self, stream: StreamName) -> Result<(), Rejection> {
        if self.world.tail(&stream).is_some() {
            return Err(Rejection::IdTaken);
        }
        self.expect(stream);
        Ok(())
    }

    fn environment_in(&self, house: &HouseId, id: &EnvironmentId) -> Result<(), Rejection> {
        let found = self.world.environment(id).is_some_and(|environment| environment.house_id == *house);
        if found { Ok(()) } else { Err(Rejection::EnvironmentNotFound) }
    }

    fn sandbox_in(&self, house: &HouseId, id: &SandboxId) -> Result<&'a Sandbox, Rejection> {
        let sandbox = self.world.sandbox(id).filter(|sandbox| sandbox.house_id == *house);
        sandbox.ok_or(Rejection::SandboxNotFound)
    }

    /// Nothing may start to point at a dead sandbox: its resumption moves the threads it finds there, and later ones would stay behind.
    fn usable_sandbox_in(&self, house: &HouseId, id: &SandboxId) -> Result<(), Rejection> {
        match self.sandbox_in(house, id)?.status {
            SandboxStatus::Pending | SandboxStatus::Live => Ok(()),
            SandboxStatus::Dead => Err(Rejection::SandboxDead),
        }
    }

    fn driver_in(&self, house: &House, agent: AgentId) -> Result<(), Rejection> {
        if !house.members.contains_key(&agent) {
            return Err(Rejection::NotAMember);
        }
        let bot = self.world.agent(agent).is_some_and(|agent| agent.is_bot());
        if bot { Ok(()) } else { Err(Rejection::DriverNotABot) }
    }
}

/// The id of a new thing, which whoever asks for a decision has filled in.
fn filled<T>(id: Option<&T>) -> Result<&T, Rejection> {
    id.ok_or_else(|| crate::bounds::invalid("id", "missing"))
}
