//! A durable-stream server as a library: named streams of bytes or JSON messages, appended atomically, never changed, tailed live,
//! closable, forkable, expirable. Object storage is the only store. See `event-store/README.md` for the formats and the protocol.
//!
//! This crate knows nothing of threads, houses or HTTP, reads no environment, and depends on no database.

pub mod blobs;
mod cache;
mod chain;
pub mod check;
pub mod checkpoint;
mod codec;
mod command;
mod core;
mod decide;
mod draft;
mod driver;
mod follow;
#[cfg(test)]
mod golden;
mod hub;
mod keeper;
mod log;
mod offset;
mod open;
pub mod pack;
mod peers;
mod read;
mod record;
#[doc(hidden)]
pub mod sabotage;
mod slot;
mod state;
pub mod store;
mod stream;
mod world;

pub use chain::{Chain, Verdict};
pub use codec::DecodeError;
pub use command::{
    Append, BadBody, Change, Command, Create, Expect, ForkFrom, Outcome, Receipt, Rejection, Status, SubmitError, command_id,
};
pub use core::{Counters, Damage, FetchError};
pub use decide::DEFAULT_CONTENT_TYPE;
pub use follow::{Commit, Cursor, FollowError, Follower};
pub use hub::Tail;
pub use log::{Log, Options, Summary};
pub use offset::Offset;
pub use open::OpenLogError;
pub use peers::{NoPeers, PeerError, PeerReply, Peers};
pub use read::{From, Page, ReadError};
pub use record::{Appended, Body, CommandId, Created, Fork, Joiner, Op, Payload, Record, Stamp};
pub use slot::{Digest, Header, Kind, Slot, decode as decode_slot, encode as encode_slot};
pub use state::State;
pub use store::{Cluster, Store, StoreUrl};
pub use stream::{Config, Head, Producer, Stream, media_type};
pub use world::{RealWorld, World};
