//! What the clients' ways of writing a session of another have in common.

use std::collections::{BTreeMap, VecDeque};

use events::Json;
use events::session::{BodyRef, Message, Timestamp, ToolResult};

use crate::value::{Reader, Value};

/// The results of a session by call, first come first taken: copied histories repeat the ids of calls.
pub(crate) struct Results<'a>(BTreeMap<&'a str, VecDeque<(&'a Message, &'a ToolResult)>>);

impl<'a> Results<'a> {
    pub(crate) fn of(messages: &'a [Message]) -> Self {
        let mut results: BTreeMap<&str, VecDeque<_>> = BTreeMap::new();
        for message in messages {
            for part in message.parts() {
                if let BodyRef::ToolResult(result) = part.body {
                    results.entry(&result.call_id).or_default().push_back((message, result));
                }
            }
        }
        Self(results)
    }

    pub(crate) fn take(&mut self, call_id: &str) -> Option<(&'a Message, &'a ToolResult)> {
        self.0.get_mut(call_id).and_then(VecDeque::pop_front)
    }

    /// How many had no call.
    pub(crate) fn left(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }
}

/// What the client knew of a turn, and whose words it knew it in; rather where it names a model.
pub(crate) fn facts(message: &Message) -> Option<(&str, Value)> {
    let own = message.options.iter().filter(|(namespace, _)| !matches!(namespace.as_str(), "source" | "pond"));
    let bags = own.filter_map(|(namespace, bag)| Some((namespace.as_str(), Reader::only(bag.get()).ok()?)));
    bags.max_by_key(|(_, bag)| bag.get("model").is_some())
}

pub(crate) fn model(message: &Message) -> Option<String> {
    facts(message)?.1.get("model")?.as_str().filter(|it| !it.is_empty()).map(str::to_owned)
}

/// What a tool is called with, where that has to be an object.
pub(crate) fn arguments(params: &Json) -> Value {
    match Reader::only(params.get()) {
        Ok(object @ Value::Object(_)) => object,
        Ok(other) => Value::object([("input", other)]),
        Err(_) => Value::object([]),
    }
}

/// A piece of what a tool gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Text(String),
    /// In base64.
    Image {
        media_type: String,
        data: String,
    },
}

/// Texts and images in any of the clients' forms; anything else as the JSON that it is.
pub(crate) fn shown(result: &Json) -> Vec<Shown> {
    let value = Reader::only(result.get()).unwrap_or(Value::Null);
    let blocks = match &value {
        Value::String(text) => return vec![Shown::Text(text.clone())],
        Value::Array(items) => items.as_slice(),
        Value::Object(_) => value.get("content").map(Value::items).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Broken(_) => &[],
    };
    let is_block = |block: &Value| block.get("type").and_then(Value::as_str).is_some();
    if blocks.is_empty() || !blocks.iter().all(is_block) {
        return vec![Shown::Text(result.get().to_owned())];
    }
    let shown = |block: &Value| {
        let text = block.get("text").and_then(Value::as_str);
        text.map(|text| Shown::Text(text.to_owned())).or_else(|| image(block)).unwrap_or_else(|| Shown::Text(block.to_string()))
    };
    blocks.iter().map(shown).collect()
}

/// As Anthropic, OpenAI and MCP have it.
fn image(block: &Value) -> Option<Shown> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(url) = text(block, "image_url") {
        let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        return Some(Shown::Image { media_type: media_type.to_owned(), data: data.to_owned() });
    }
    let held = block.get("source").unwrap_or(block);
    let media_type = text(held, "media_type").or_else(|| text(held, "mimeType"))?;
    Some(Shown::Image { media_type, data: text(held, "data")? })
}

pub(crate) fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

/// `lance-deterministic-pk`: the same for the same texts.
pub(crate) fn digest(of: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in of {
        hasher.update(text.as_bytes()).update(&[0]);
    }
    hasher.finalize().to_hex().to_string()
}

pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// One that is made of texts, and says so by its version.
pub(crate) fn uuid(of: &[&str]) -> String {
    let hex = digest(of);
    format!("{}-{}-8{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

pub(crate) fn moment(timestamp: Timestamp, how: &str) -> String {
    let moment = jiff::Timestamp::from_microsecond(timestamp.micros()).expect("a timestamp is a moment");
    moment.strftime(how).to_string()
}

/// A word of a shell command.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
