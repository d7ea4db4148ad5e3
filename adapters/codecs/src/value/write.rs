//! Compact, as most clients write it.

use std::fmt;

use events::Json;
use serde::ser::{Error, Serialize, Serializer};

use super::Value;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_json().get())
    }
}

impl Value {
    /// The text of the value, which is not checked again.
    #[must_use]
    pub fn to_json(&self) -> Json {
        Json::of(self).expect("what the reader takes is JSON")
    }
}

/// Numbers and broken texts as they were written.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = |text: &str| Json::parse(text).map_err(S::Error::custom);
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(is) => serializer.serialize_bool(*is),
            Self::Number(text) => match text.parse::<u64>() {
                Ok(number) => serializer.serialize_u64(number),
                Err(_) => raw(text)?.serialize(serializer),
            },
            Self::String(text) => serializer.serialize_str(text),
            Self::Broken(inside) => raw(&format!("\"{inside}\""))?.serialize(serializer),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(fields) => serializer.collect_map(fields.iter().map(|(key, value)| (key, value))),
        }
    }
}
