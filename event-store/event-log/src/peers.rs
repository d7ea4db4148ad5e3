//! How servers of one log reach each other.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::command::{Command, Receipt, Rejection, SubmitError};

/// What the owner says to a forwarded command. Travels between servers of the same version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PeerReply {
    Done(Receipt),
    Rejected(Rejection),
    NotWritten(String),
    Unknown(String),
    Overloaded,
    /// Ownership has moved on; the sender looks again.
    NotOwner,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The command cannot have arrived.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It may have arrived. A retry with the same command id is safe.
    #[error("no answer: {0}")]
    Lost(String),
}

#[async_trait]
pub trait Peers: Send + Sync + fmt::Debug {
    async fn submit(&self, url: &str, command: &Command) -> Result<PeerReply, PeerError>;
    async fn is_alive(&self, url: &str) -> bool;
}

/// For a log without other servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

#[async_trait]
impl Peers for NoPeers {
    async fn submit(&self, _url: &str, _command: &Command) -> Result<PeerReply, PeerError> {
        Err(PeerError::Unreachable("this process does not talk to other servers".into()))
    }

    async fn is_alive(&self, _url: &str) -> bool {
        false
    }
}

impl PeerReply {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a reply has no unserializable part")
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, PeerError> {
        postcard::from_bytes(bytes).map_err(|error| PeerError::Lost(error.to_string()))
    }

    pub(crate) fn into_result(self) -> Option<Result<Receipt, SubmitError>> {
        Some(match self {
            Self::Done(receipt) => Ok(receipt),
            Self::Rejected(rejection) => Err(SubmitError::Rejected(rejection)),
            Self::NotWritten(why) => Err(SubmitError::NotWritten(why)),
            Self::Unknown(why) => Err(SubmitError::Unknown(why)),
            Self::Overloaded => Err(SubmitError::Overloaded),
            Self::NotOwner => return None,
        })
    }
}

impl From<Result<Receipt, SubmitError>> for PeerReply {
    fn from(result: Result<Receipt, SubmitError>) -> Self {
        match result {
            Ok(receipt) => Self::Done(receipt),
            Err(SubmitError::Rejected(rejection)) => Self::Rejected(rejection),
            Err(SubmitError::NotWritten(why)) => Self::NotWritten(why),
            Err(SubmitError::Unknown(why)) => Self::Unknown(why),
            Err(SubmitError::Overloaded) => Self::Overloaded,
            Err(SubmitError::NotOwner) => Self::NotOwner,
        }
    }
}

impl Command {
    /// For the wire between servers; not a stored format.
    #[must_use]
    pub fn to_wire(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a command has no unserializable part")
    }

    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}
