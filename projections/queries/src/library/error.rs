//! The closed set of what may go wrong.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    ValidationFailed,
    VersionUnsupported,
    NotFound,
    NamespaceUnknown,
    StorageUnavailable,
    Conflict,
    Internal,
}

impl Code {
    pub const ALL: [Self; 7] = [
        Self::ValidationFailed,
        Self::VersionUnsupported,
        Self::NotFound,
        Self::NamespaceUnknown,
        Self::StorageUnavailable,
        Self::Conflict,
        Self::Internal,
    ];

    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::ValidationFailed | Self::VersionUnsupported => 400,
            Self::NamespaceUnknown => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Internal => 500,
            Self::StorageUnavailable => 503,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PondError {
    pub code: Code,
    pub message: String,
}

impl PondError {
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::ValidationFailed, message)
    }

    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// Nothing newer than what this server knows.
    pub fn version(asked: u32) -> Result<(), Self> {
        match asked {
            super::PROTOCOL_VERSION => Ok(()),
            other => Err(Self::new(Code::VersionUnsupported, format!("protocol_version is 1, not {other}"))),
        }
    }
}
