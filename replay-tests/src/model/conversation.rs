use serde_json::Value;

/// What a request shows of what was said before it, whatever its dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub turns: Vec<Turn>,
    /// The tools that may be called, by name.
    pub tools: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub role: Role,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Also developers and the system.
    User,
    Assistant,
    /// A call, as the JSON or the text that it is made with.
    Call,
    /// What a call gave.
    Result,
}

impl Conversation {
    pub fn texts(&self, role: Role) -> impl Iterator<Item = &str> {
        self.turns.iter().filter(move |turn| turn.role == role).map(|turn| turn.text.as_str())
    }
}

pub(super) fn turn(role: Role, text: impl Into<String>) -> Turn {
    Turn { role, text: text.into() }
}

/// The words of a text, or of the blocks that have any.
pub(super) fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(words).filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n"),
        Value::Object(block) => block.get("text").or_else(|| block.get("content")).map(words).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

pub(super) fn items<'a>(request: &'a Value, key: &str) -> &'a [Value] {
    request.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn field<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
