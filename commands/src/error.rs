use std::sync::Arc;

use crate::rejection::Rejection;

/// The fold met something it cannot apply. It answers no more, so that no decision is made on half a world.
#[derive(Clone, Debug, thiserror::Error)]
#[error("commands have stopped: {0}")]
pub struct Stopped(pub Arc<str>);

#[derive(Clone, Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error("the idempotency key belongs to another command")]
    IdempotencyKeyReused,
    #[error("others kept changing what the command reads; nothing was written")]
    Conflict,
    #[error("nothing was written: {0}")]
    Unavailable(String),
    #[error("the command may or may not have been written: {0}")]
    Unknown(String),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl CommandError {
    /// Stable, like those of [`Rejection`].
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rejected(rejection) => rejection.code(),
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::Conflict => "conflict",
            Self::Unavailable(_) => "unavailable",
            Self::Unknown(_) => "outcome_unknown",
            Self::Stopped(_) => "stopped",
        }
    }
}
