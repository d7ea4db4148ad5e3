//! Why a call did not work, by what the caller may do next.

use std::time::Duration;

use url::Url;

use super::origin;
use crate::exit;

/// What a command names besides the thing that it changes, and which is not there.
const MISSING: [&str; 5] = ["agent_not_found", "environment_not_found", "not_a_member", "parent_not_found", "sandbox_not_found"];

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("no server answers at {}; start one with `arbe serve`, or set ARBE_URL or --url", origin(url))]
    Unreachable {
        url: Url,
        #[source]
        source: reqwest::Error,
    },
    #[error("the connection to {} broke before the answer", origin(url))]
    Lost {
        url: Url,
        #[source]
        source: reqwest::Error,
        /// A command that may have been done.
        unsure: bool,
    },
    #[error("{message} ({code})")]
    Busy { code: String, message: String, retry_after: Option<Duration>, unsure: bool },
    #[error("{message} ({code})")]
    Answered { status: u16, code: String, message: String },
    #[error("what answers at {url} is not arbe's API; check ARBE_URL or --url")]
    NotOurs { url: Url },
    #[error(
        "the outcome is unknown: it may or may not be done. Repeat it with --idempotency-key {key}, then it is done once at most"
    )]
    Unknown {
        key: String,
        #[source]
        source: Box<CallError>,
    },
}

impl CallError {
    pub(super) fn of_transport(url: Url, source: reqwest::Error, mutates: bool) -> Self {
        if source.is_connect() { Self::Unreachable { url, source } } else { Self::lost(url, source, mutates) }
    }

    pub(super) fn lost(url: Url, source: reqwest::Error, mutates: bool) -> Self {
        Self::Lost { url, source, unsure: mutates }
    }

    /// Worth trying again.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Busy { .. } => true,
            Self::Answered { .. } | Self::NotOurs { .. } | Self::Unknown { .. } => false,
        }
    }

    /// It waited as long as it was told to, and heard nothing.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::Lost { source, .. } if source.is_timeout())
    }

    /// Without advice, for who knows that the server was there.
    pub(crate) fn short(&self) -> String {
        match self {
            Self::Unreachable { url, .. } => format!("no server answers at {}", origin(url)),
            Self::Lost { .. } | Self::Busy { .. } | Self::Answered { .. } | Self::NotOurs { .. } | Self::Unknown { .. } => {
                self.to_string()
            }
        }
    }

    pub(super) fn is_unsure(&self) -> bool {
        match self {
            Self::Lost { unsure, .. } | Self::Busy { unsure, .. } => *unsure,
            Self::Unreachable { .. } | Self::Answered { .. } | Self::NotOurs { .. } | Self::Unknown { .. } => false,
        }
    }

    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Busy { retry_after: Some(wait), .. } => *wait,
            Self::Busy { .. }
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::Answered { .. }
            | Self::NotOurs { .. }
            | Self::Unknown { .. } => Duration::ZERO,
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Answered { status: 404 | 410, .. } => exit::NOT_FOUND,
            Self::Answered { status: 400..500, code, .. } if MISSING.contains(&code.as_str()) => exit::NOT_FOUND,
            Self::Answered { status: 400..500, .. } => exit::REFUSED,
            Self::Answered { .. }
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::Busy { .. }
            | Self::NotOurs { .. }
            | Self::Unknown { .. } => exit::FAILED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_decides_the_exit_code() {
        let answered = |status| CallError::Answered { status, code: "c".into(), message: "m".into() }.exit_code();
        for (status, expected) in [(400, 4), (401, 4), (403, 4), (404, 3), (409, 4), (410, 3), (422, 4), (500, 1)] {
            assert_eq!(answered(status), expected, "{status}");
        }
    }

    #[test]
    fn what_a_command_names_and_is_not_there_is_not_found() {
        let refused = |code: &str| CallError::Answered { status: 422, code: code.into(), message: "m".into() }.exit_code();
        for code in MISSING {
            assert_eq!(refused(code), 3, "{code}");
        }
        assert_eq!(refused("sandbox_dead"), 4);
    }
}
