//! The vocabulary of the platform: typed ids, stream names, and every fact that may stand in a stream, with its versions.
//!
//! An [`Entry`] is what is stored and what goes over the wire: the envelope, with its payload as the exact text it came with. An
//! [`Event`] is what it means. `registry.rs` is the only table that connects the two; a kind and a version in it are never edited, only
//! added, and each has a golden entry under `fixtures/`.
//!
//! The crate is pure: it makes no ids, reads no clock and does no IO.

pub mod content;
pub mod directory;
pub mod dispatch;
mod entry;
mod event;
pub mod house;
mod ids;
mod json;
mod registry;
mod schema;
pub mod session;
mod stream;
#[cfg(test)]
mod tests;
pub mod thread;

pub use content::{Chat, Content, NotPi, PiEntry};
pub use directory::{AgentKind, DirectoryEvent, InvalidKeyHash, InvalidRuntime, KeyHash, Runtime};
pub use dispatch::{DispatchEvent, OutputStream};
pub use entry::{DecodeError, Entry};
pub use event::{Event, Family};
pub use house::{HouseEvent, Role};
pub use ids::{AgentId, EnvironmentId, EventId, HouseId, InvalidId, KeyId, RunId, SandboxId, SecretId, SessionKey, ThreadId};
pub use json::{Json, JsonObject, NotAnObject, whole};
pub use registry::{KINDS, family};
pub use schema::schema;
pub use session::SessionEvent;
pub use stream::{StreamName, is_platform};
pub use thread::{StatusReason, ThreadEvent, ThreadStatus};
pub use ulid::Ulid;
pub use uuid::Uuid;
