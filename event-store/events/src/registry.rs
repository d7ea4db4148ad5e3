//! The only table between (kind, version) and types. Rows are never edited, only added.
//!
//! A new version of a kind moves its old type into a `v<N>` module of its family, with a `From` into the current one, and its old row
//! to a match arm in `decode` that reads the old type.

use serde::Deserialize;

use crate::content::{self, Content, PiEntry};
use crate::directory::{self, DirectoryEvent};
use crate::dispatch::{self, DispatchEvent};
use crate::entry::DecodeError;
use crate::event::{Event, Family};
use crate::house::{self, HouseEvent};
use crate::json::Json;
use crate::session::{self, SessionEvent};
use crate::thread::{self, ThreadEvent};

macro_rules! registry {
    ($($family:ident: $kind:literal, $v:literal => $events:ident::$variant:ident($payload:ty);)*) => {
        /// Every kind but the open `pi.*` group, with the version it is written in.
        pub const KINDS: &[(&str, u32)] = &[$(($kind, $v)),*];

        /// What a kind belongs to, without a look at its payload. `None`: unknown to this build.
        #[must_use]
        pub fn family(kind: &str) -> Option<Family> {
            match kind {
                $($kind => Some(Family::$family),)*
                _ => PiEntry::owns(kind).then_some(Family::Content),
            }
        }

        impl Event {
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$family($events::$variant(_)) => $kind,)*
                    Self::Content(Content::Pi(entry)) => entry.kind(),
                }
            }

            #[must_use]
            pub fn version(&self) -> u32 {
                match self {
                    $(Self::$family($events::$variant(_)) => $v,)*
                    Self::Content(Content::Pi(entry)) => entry.version(),
                }
            }
        }

        pub(crate) fn encode(event: &Event) -> Json {
            match event {
                $(Event::$family($events::$variant(payload)) => {
                    Json::of(payload).expect("an event has text keys only and no failing field")
                })*
                Event::Content(Content::Pi(entry)) => entry.payload().clone(),
            }
        }

        pub(crate) fn decode(kind: &str, v: u32, payload: &Json) -> Result<Event, DecodeError> {
            match (kind, v) {
                $(($kind, $v) => Ok($events::$variant(parse::<$payload>(kind, v, payload)?).into()),)*
                _ => PiEntry::new(kind, v, payload.clone())
                    .map(|entry| Content::Pi(entry).into())
                    .map_err(|_| DecodeError::UnknownKind { kind: kind.to_owned(), v }),
            }
        }

        pub(crate) fn payload_schemas(generator: &mut schemars::SchemaGenerator) -> Vec<(&'static str, u32, schemars::Schema)> {
            vec![$(($kind, $v, <$payload as schemars::JsonSchema>::json_schema(generator))),*]
        }

        $(
            impl From<$payload> for $events {
                fn from(payload: $payload) -> Self {
                    Self::$variant(payload)
                }
            }

            impl From<$payload> for Event {
                fn from(payload: $payload) -> Self {
                    $events::$variant(payload).into()
                }
            }
        )*
    };
}

fn parse<'a, T: Deserialize<'a>>(kind: &str, v: u32, payload: &'a Json) -> Result<T, DecodeError> {
    payload.decode().map_err(|source| DecodeError::Payload { kind: kind.to_owned(), v, source })
}

registry! {
    Content: "chat", 1 => Content::Chat(content::Chat);

    Thread: "signal.thread.created", 1 => ThreadEvent::Created(thread::Created);
    Thread: "signal.thread.renamed", 1 => ThreadEvent::Renamed(thread::Renamed);
    Thread: "signal.thread.pinned", 1 => ThreadEvent::Pinned(thread::Pinned);
    Thread: "signal.thread.unpinned", 1 => ThreadEvent::Unpinned(thread::Unpinned);
    Thread: "signal.thread.tagged", 1 => ThreadEvent::Tagged(thread::Tagged);
    Thread: "signal.thread.environment_set", 1 => ThreadEvent::EnvironmentSet(thread::EnvironmentSet);
    Thread: "signal.thread.status_changed", 1 => ThreadEvent::StatusChanged(thread::StatusChanged);
    Thread: "signal.thread.agent_spawn", 1 => ThreadEvent::AgentSpawn(thread::AgentSpawn);
    Thread: "signal.thread.child_finished", 1 => ThreadEvent::ChildFinished(thread::ChildFinished);
    Thread: "signal.thread.sandbox_set", 1 => ThreadEvent::SandboxSet(thread::SandboxSet);
    Thread: "signal.thread.sandbox_resumed", 1 => ThreadEvent::SandboxResumed(thread::SandboxResumed);
    Thread: "signal.thread.pi_failed", 1 => ThreadEvent::PiFailed(thread::PiFailed);
    Thread: "signal.thread.pi_session_orphaned", 1 => ThreadEvent::PiSessionOrphaned(thread::PiSessionOrphaned);

    Dispatch: "signal.dispatch.queued", 1 => DispatchEvent::Queued(dispatch::Queued);
    Dispatch: "signal.dispatch.claimed", 1 => DispatchEvent::Claimed(dispatch::Claimed);
    Dispatch: "signal.dispatch.session_started", 1 => DispatchEvent::SessionStarted(dispatch::SessionStarted);
    Dispatch: "signal.dispatch.heartbeat", 1 => DispatchEvent::Heartbeat(dispatch::Heartbeat);
    Dispatch: "signal.dispatch.pi_waiting", 1 => DispatchEvent::PiWaiting(dispatch::PiWaiting);
    Dispatch: "signal.dispatch.failed", 1 => DispatchEvent::Failed(dispatch::Failed);
    Dispatch: "signal.dispatch.reset", 1 => DispatchEvent::Reset(dispatch::Reset);
    Dispatch: "signal.dispatch.cancelled", 1 => DispatchEvent::Cancelled(dispatch::Cancelled);
    Dispatch: "signal.dispatch.warned", 1 => DispatchEvent::Warned(dispatch::Warned);
    Dispatch: "signal.command.started", 1 => DispatchEvent::CommandStarted(dispatch::CommandStarted);
    Dispatch: "signal.command.output", 1 => DispatchEvent::CommandOutput(dispatch::CommandOutput);
    Dispatch: "signal.command.finished", 1 => DispatchEvent::CommandFinished(dispatch::CommandFinished);
    Dispatch: "signal.permission.requested", 1 => DispatchEvent::PermissionRequested(dispatch::PermissionRequested);
    Dispatch: "signal.permission.resolved", 1 => DispatchEvent::PermissionResolved(dispatch::PermissionResolved);

    House: "signal.house.created", 1 => HouseEvent::Created(house::Created);
    House: "signal.house.renamed", 1 => HouseEvent::Renamed(house::Renamed);
    House: "signal.house.default_environment_set", 1 => HouseEvent::DefaultEnvironmentSet(house::DefaultEnvironmentSet);
    House: "signal.house.member_added", 1 => HouseEvent::MemberAdded(house::MemberAdded);
    House: "signal.house.member_role_set", 1 => HouseEvent::MemberRoleSet(house::MemberRoleSet);
    House: "signal.house.member_removed", 1 => HouseEvent::MemberRemoved(house::MemberRemoved);
    House: "signal.environment.created", 1 => HouseEvent::EnvironmentCreated(house::EnvironmentCreated);
    House: "signal.environment.updated", 1 => HouseEvent::EnvironmentUpdated(house::EnvironmentUpdated);
    House: "signal.environment.secret_bound", 1 => HouseEvent::SecretBound(house::SecretBound);
    House: "signal.environment.secret_unbound", 1 => HouseEvent::SecretUnbound(house::SecretUnbound);
    House: "signal.environment.deleted", 1 => HouseEvent::EnvironmentDeleted(house::EnvironmentDeleted);
    House: "signal.secret.set", 1 => HouseEvent::SecretSet(house::SecretSet);
    House: "signal.secret.rotated", 1 => HouseEvent::SecretRotated(house::SecretRotated);
    House: "signal.secret.deleted", 1 => HouseEvent::SecretDeleted(house::SecretDeleted);
    House: "signal.sandbox.requested", 1 => HouseEvent::SandboxRequested(house::SandboxRequested);
    House: "signal.sandbox.live", 1 => HouseEvent::SandboxLive(house::SandboxLive);
    House: "signal.sandbox.dead", 1 => HouseEvent::SandboxDead(house::SandboxDead);
    House: "signal.sandbox.destroyed", 1 => HouseEvent::SandboxDestroyed(house::SandboxDestroyed);

    Directory: "signal.agent.registered", 1 => DirectoryEvent::Registered(directory::Registered);
    Directory: "signal.agent.renamed", 1 => DirectoryEvent::Renamed(directory::Renamed);
    Directory: "signal.agent.key_issued", 1 => DirectoryEvent::KeyIssued(directory::KeyIssued);
    Directory: "signal.agent.key_revoked", 1 => DirectoryEvent::KeyRevoked(directory::KeyRevoked);

    Session: "session.recorded", 1 => SessionEvent::Recorded(session::Recorded);
    Session: "session.message_recorded", 1 => SessionEvent::MessageRecorded(session::MessageRecorded);
}
