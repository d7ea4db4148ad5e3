//! Moments as sources record them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::from_text;

/// To the microsecond; RFC 3339 on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a moment between the years 1 and 9999")]
pub struct InvalidTimestamp;

impl Timestamp {
    pub fn from_micros(micros: i64) -> Result<Self, InvalidTimestamp> {
        let moment = jiff::Timestamp::from_microsecond(micros).map_err(|_| InvalidTimestamp)?;
        let year = moment.to_zoned(jiff::tz::TimeZone::UTC).year();
        if (1..=9999).contains(&year) { Ok(Self(micros)) } else { Err(InvalidTimestamp) }
    }

    pub fn from_millis(millis: i64) -> Result<Self, InvalidTimestamp> {
        millis.checked_mul(1_000).ok_or(InvalidTimestamp).and_then(Self::from_micros)
    }

    #[must_use]
    pub fn micros(self) -> i64 {
        self.0
    }

    #[must_use]
    pub fn millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_microsecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{moment}")
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    /// What is finer than a microsecond is cut off.
    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp)?;
        Self::from_micros(moment.as_nanosecond().div_euclid(1_000).try_into().map_err(|_| InvalidTimestamp)?)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}
