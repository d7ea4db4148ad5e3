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
    /// Rows of an SQLite database: table, and columns by name.
    Rows(Vec<(String, Value)>),
}

impl Body {
    /// As it is written to disk; rows are not text.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Lines(values) => Some(values.iter().flat_map(|value| [value.to_string(), "\n".to_owned()]).collect()),
            Self::Json(value) => Some(value.to_string()),
            Self::Text(text) => Some(text.clone()),
            Self::Rows(_) => None,
        }
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
    /// The id by which the client knows it.
    pub session_id: String,
    /// Whether nothing was lost.
    pub native: bool,
    pub report: Report,
}
