//! What a restoration makes.

use std::collections::BTreeMap;

use crate::value::Value;

/// One file, relative to where the client keeps its sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    pub path: String,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// One value a line.
    Lines(Vec<Value>),
    Json(Value),
    Text(String),
    Bytes(Vec<u8>),
    /// Rows of an SQLite database: table, and columns by name.
    Rows(Vec<(String, Value)>),
}

impl Body {
    /// As it is written to disk; rows are not a file, but go into one with [`crate::opencode::write_rows`].
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Lines(values) => {
                let mut bytes = Vec::new();
                for value in values {
                    bytes.extend_from_slice(value.to_json().get().as_bytes());
                    bytes.push(b'\n');
                }
                Some(bytes)
            }
            Self::Json(value) => Some(value.to_string().into()),
            Self::Text(text) => Some(text.clone().into()),
            Self::Bytes(bytes) => Some(bytes.clone()),
            Self::Rows(_) => None,
        }
    }

    /// The same, where it is a text.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        self.to_bytes().and_then(|bytes| String::from_utf8(bytes).ok())
    }
}

/// What could not be expressed, by kind and count. It is still in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub dropped: BTreeMap<String, u64>,
}

impl Report {
    pub fn drop(&mut self, kind: impl Into<String>) {
        *self.dropped.entry(kind.into()).or_default() += 1;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub artifacts: Vec<Artifact>,
    /// What the client needs beside them. It may have it already, and then has it as it is.
    pub bases: Vec<Artifact>,
    /// The id by which the client knows it.
    pub session_id: String,
    /// Whether nothing was lost.
    pub native: bool,
    pub report: Report,
}
