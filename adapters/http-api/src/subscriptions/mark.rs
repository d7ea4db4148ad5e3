//! How far a subscription has come in a stream.

use std::fmt;

use event_log::Offset;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An offset, or the place before the first unit. Written as in the protocol: the offset's token, or `-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(Option<Offset>);

impl Mark {
    pub(super) const START: Self = Self(None);

    pub(super) fn at(offset: Offset) -> Self {
        Self(Some(offset))
    }

    pub(super) fn parse(token: &str) -> Option<Self> {
        if token == "-1" { Some(Self::START) } else { Offset::parse(token).map(Self::at) }
    }

    pub(super) fn offset(self) -> Option<Offset> {
        self.0
    }

    pub(super) fn position(self) -> u64 {
        self.0.map_or(0, |offset| offset.position)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("-1"),
            Some(offset) => offset.fmt(f),
        }
    }
}

impl Serialize for Mark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let token = String::deserialize(deserializer)?;
        Self::parse(&token).ok_or_else(|| de::Error::custom("not an offset"))
    }
}
