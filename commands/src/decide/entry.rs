use events::{AgentId, Chat, Content, DecodeError, DispatchEvent, Entry, Event, EventId, SandboxId, ThreadStatus, Ulid};

use super::Draft;
use crate::actor::Actor;
use crate::bounds;
use crate::command::AppendEntry;
use crate::rejection::Rejection;
use crate::world::{House, Thread};

/// Only the house is expected: many talk at once, and what one says does not depend on what another just said.
pub(super) fn append(draft: &mut Draft<'_>, command: &AppendEntry) -> Result<(), Rejection> {
    let (house, thread) = draft.thread(&command.thread_id)?;
    let author = author(draft, house, command)?;
    let event = decode(command);
    if thread.status == ThreadStatus::Closed && !(draft.actor.agent().is_none() && event.as_ref().is_ok_and(tells_an_end)) {
        return Err(Rejection::ThreadClosed);
    }
    let event = event?;
    let poster = Poster { draft, house, thread, author };
    match &event {
        Event::Content(Content::Chat(chat)) => poster.chat(chat)?,
        Event::Content(Content::Pi(entry)) => {
            bounds::name("type", entry.kind())?;
            poster.any_bot()?;
            bounds::payload(entry.payload())?;
        }
        Event::Dispatch(signal) => poster.signal(signal)?,
        Event::Thread(_) | Event::House(_) | Event::Directory(_) | Event::Session(_) => return Err(Rejection::KindNotAllowed),
    }
    draft.decision.author = author;
    draft.append_thread(&command.thread_id, event);
    Ok(())
}

/// What was under way when a thread was closed still says how it ended.
fn tells_an_end(event: &Event) -> bool {
    matches!(event, Event::Dispatch(DispatchEvent::CommandFinished(_) | DispatchEvent::Failed(_) | DispatchEvent::Warned(_)))
}

fn author(draft: &Draft<'_>, house: &House, command: &AppendEntry) -> Result<Option<AgentId>, Rejection> {
    match (draft.actor, command.author_agent_id) {
        (Actor::Agent(agent), Some(named)) if named != *agent => Err(Rejection::AuthorMismatch),
        (Actor::Agent(agent), _) => Ok(Some(*agent)),
        (Actor::System, Some(named)) if !house.members.contains_key(&named) => Err(Rejection::NotAMember),
        (Actor::System, named) => Ok(named),
    }
}

fn decode(command: &AppendEntry) -> Result<Event, Rejection> {
    let (kind, payload) = (command.kind.clone(), command.payload.clone());
    let entry = Entry { id: EventId(Ulid(0)), ts: 0, kind, v: command.v, author_agent_id: None, payload };
    entry.event().map_err(|error| match error {
        DecodeError::UnknownKind { .. } => Rejection::UnknownKind,
        DecodeError::Payload { source, .. } | DecodeError::Entry(source) => bounds::invalid("payload", &source.to_string()),
    })
}

/// Who wants to say something where. Without an author it is the system.
struct Poster<'d, 'a> {
    draft: &'d Draft<'a>,
    house: &'a House,
    thread: &'a Thread,
    author: Option<AgentId>,
}

impl Poster<'_, '_> {
    fn chat(&self, chat: &Chat) -> Result<(), Rejection> {
        if self.author.is_none() {
            return Err(bounds::invalid("author_agent_id", "a message has an author"));
        }
        if chat.text.is_empty() {
            return Err(bounds::invalid("text", "is empty"));
        }
        bounds::text("text", &chat.text)?;
        match chat.to {
            Some(to) if !self.house.members.contains_key(&to) => Err(Rejection::NotAMember),
            Some(_) | None => Ok(()),
        }
    }

    fn is_bot(&self, agent: AgentId) -> bool {
        self.draft.world.agent(agent).is_some_and(|agent| agent.is_bot())
    }

    fn any_bot(&self) -> Result<(), Rejection> {
        if self.author.is_none_or(|author| self.is_bot(author)) { Ok(()) } else { Err(Rejection::KindNotAllowed) }
    }

    /// Where a bot drives, the machinery of its run is narrated by no other.
    fn driver(&self) -> Result<(), Rejection> {
        self.any_bot()?;
        let other = |author| self.thread.agent_id.is_some_and(|driver| driver != author);
        if self.author.is_some_and(other) { Err(Rejection::KindNotAllowed) } else { Ok(()) }
    }

    /// Nobody allows himself what he asks for, though he may take it back. In a chat any bot may be the one who asked.
    fn may_have_asked(&self) -> bool {
        self.author.is_some_and(|author| self.thread.agent_id.map_or_else(|| self.is_bot(author), |driver| driver == author))
    }

    fn signal(&self, signal: &DispatchEvent) -> Result<(), Rejection> {
        match signal {
            DispatchEvent::PermissionResolved(it) => {
                if it.allowed && self.may_have_asked() {
                    return Err(Rejection::KindNotAllowed);
                }
                return bounds::name("request_id", &it.request_id);
            }
            // Who drives what is the servers' own affair.
            DispatchEvent::Claimed(_) if self.draft.actor.agent().is_some() => return Err(Rejection::KindNotAllowed),
            // Anybody may ask for a command; it is the system that runs it.
            DispatchEvent::CommandStarted(_) | DispatchEvent::CommandOutput(_) | DispatchEvent::CommandFinished(_)
                if self.draft.actor.agent().is_none() => {}
            DispatchEvent::Queued(_)
            | DispatchEvent::Claimed(_)
            | DispatchEvent::SessionStarted(_)
            | DispatchEvent::Heartbeat(_)
            | DispatchEvent::PiWaiting(_)
            | DispatchEvent::Failed(_)
            | DispatchEvent::Reset(_)
            | DispatchEvent::Cancelled(_)
            | DispatchEvent::Warned(_)
            | DispatchEvent::CommandStarted(_)
            | DispatchEvent::CommandOutput(_)
            | DispatchEvent::CommandFinished(_)
            | DispatchEvent::PermissionRequested(_) => self.driver()?,
        }
        self.fits(signal)
    }

    fn fits(&self, signal: &DispatchEvent) -> Result<(), Rejection> {
        match signal {
            DispatchEvent::SessionStarted(it) => {
                bounds::optional_name("session_ref", it.session_ref.as_deref())?;
                self.known(it.sandbox_id.as_ref())
            }
            DispatchEvent::Claimed(it) => bounds::name("server", &it.server),
            DispatchEvent::PiWaiting(it) => bounds::text("for", &it.waiting_for),
            DispatchEvent::Warned(it) => {
                bounds::name("warning", &it.warning)?;
                bounds::text("message", &it.message)
            }
            DispatchEvent::Failed(it) => {
                bounds::name("error_class", &it.error_class)?;
                bounds::text("message", &it.message)
            }
            DispatchEvent::Reset(it) => bounds::text("why", &it.why),
            DispatchEvent::CommandStarted(it) => {
                bounds::name("command_id", &it.command_id)?;
                bounds::text("command", &it.command)?;
                bounds::text("cwd", it.cwd.as_deref().unwrap_or_default())?;
                self.known(it.sandbox_id.as_ref())
            }
            DispatchEvent::CommandOutput(it) => {
                bounds::name("command_id", &it.command_id)?;
                bounds::size("text", &it.text)
            }
            DispatchEvent::CommandFinished(it) => bounds::name("command_id", &it.command_id),
            DispatchEvent::PermissionRequested(it) => {
                bounds::name("request_id", &it.request_id)?;
                bounds::text("action", &it.action)?;
                bounds::text("detail", it.detail.as_deref().unwrap_or_default())
            }
            DispatchEvent::Queued(_)
            | DispatchEvent::Heartbeat(_)
            | DispatchEvent::Cancelled(_)
            | DispatchEvent::PermissionResolved(_) => Ok(()),
        }
    }

    fn known(&self, sandbox: Option<&SandboxId>) -> Result<(), Rejection> {
        sandbox.map_or(Ok(()), |id| self.draft.sandbox_in(&self.thread.house_id, id).map(|_| ()))
    }
}
