//! JSON that is kept as the exact text it came with.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

/// Any JSON value, opaque and whole. Equal means the same text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The text, without space around it.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    #[must_use]
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    #[must_use]
    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json {}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw)
    }
}

impl From<Json> for Box<RawValue> {
    fn from(json: Json) -> Self {
        json.0
    }
}

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}

/// A whole number, if there is one. JSON does not tell `1.0` from `1`.
pub fn whole<'de, T: TryFrom<i64>, D: Deserializer<'de>>(field: D) -> Result<Option<T>, D::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let Some(number) = Option::<serde_json::Number>::deserialize(field)? else { return Ok(None) };
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT).map(|float| float as i64);
    let whole = number.as_i64().or_else(float).and_then(|whole| T::try_from(whole).ok());
    whole.map(Some).ok_or_else(|| de::Error::custom(format_args!("{number} is not a whole number in range")))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object")]
pub struct NotAnObject;

/// A JSON object, otherwise as [`Json`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct JsonObject(Json);

impl JsonObject {
    pub fn parse(text: &str) -> Result<Self, NotAnObject> {
        Json::parse(text).map_err(|_| NotAnObject)?.try_into()
    }

    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    #[must_use]
    pub fn as_json(&self) -> &Json {
        &self.0
    }
}

impl TryFrom<Json> for JsonObject {
    type Error = NotAnObject;

    fn try_from(json: Json) -> Result<Self, NotAnObject> {
        if json.is_object() { Ok(Self(json)) } else { Err(NotAnObject) }
    }
}

impl From<JsonObject> for Json {
    fn from(object: JsonObject) -> Self {
        object.0
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

impl JsonSchema for JsonObject {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "JsonObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}
