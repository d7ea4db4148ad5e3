//! The messages API: one request, answered by server-sent events.

use std::collections::BTreeMap;

use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};

use super::wire::{self, Room};
use super::{Answer, Ask, Call, Message, ModelError, Stop, brief, key};

const VERSION: &str = "2023-06-01";
const MAX_TOKENS: u32 = 8_192;

pub(super) async fn ask(
    http: reqwest::Client,
    ask: &Ask<'_>,
    delta: &mut (dyn FnMut(&str) + Send),
) -> Result<Answer, ModelError> {
    let url = format!("{}/messages", ask.config.base_url.trim_end_matches('/'));
    let request = http.post(url).header("anthropic-version", VERSION).header("x-api-key", key(ask)).json(&body(ask));
    let mut events = wire::events(request, ask.idle()).await?;
    let mut draft = Draft::default();
    while let Some(event) = events.next().await {
        let Ok(piece) = serde_json::from_str::<Piece>(&event?.data) else { continue };
        if draft.add(piece, delta)? {
            return Ok(draft.finish());
        }
    }
    Err(ModelError::Broken("the stream ended in the middle".to_owned()))
}

fn body(ask: &Ask<'_>) -> Value {
    let tool =
        |tool: &super::Tool| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters });
    json!({
        "model": ask.model,
        "max_tokens": ask.config.max_tokens.unwrap_or(MAX_TOKENS),
        "system": ask.system,
        "messages": messages(ask.messages),
        "tools": ask.tools.iter().map(tool).collect::<Vec<_>>(),
        "stream": true,
    })
}

/// Neighbours of one role are one message there, and results are the user's.
fn messages(messages: &[Message]) -> Vec<Value> {
    let mut told: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message {
            Message::User(text) => ("user", vec![json!({ "type": "text", "text": text })]),
            Message::Assistant { text, calls } => ("assistant", said(text, calls)),
            Message::Result { call, text, failed } => {
                ("user", vec![json!({ "type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed })])
            }
        };
        match told.last_mut() {
            Some((last, before)) if *last == role => before.extend(blocks),
            Some(_) | None => told.push((role, blocks)),
        }
    }
    told.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

fn said(text: &str, calls: &[Call]) -> Vec<Value> {
    let text = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
    let call = |call: &Call| {
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
    };
    text.into_iter().chain(calls.iter().map(call)).collect()
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece {
    MessageStart {
        message: Started,
    },
    ContentBlockStart {
        index: u32,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u32,
        delta: Delta,
    },
    MessageDelta {
        delta: Ended,
        #[serde(default)]
        usage: Usage,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Started {
    #[serde(default)]
    usage: Usage,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    ToolUse {
        id: String,
        name: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Ended {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Default)]
struct Draft {
    answer: Answer,
    calls: BTreeMap<u32, Call>,
    room: Room,
}

impl Draft {
    /// Whether that was all.
    fn add(&mut self, piece: Piece, delta: &mut (dyn FnMut(&str) + Send)) -> Result<bool, ModelError> {
        match piece {
            Piece::MessageStart { message } => self.answer.input_tokens = message.usage.input_tokens,
            Piece::ContentBlockStart { index, content_block: Block::ToolUse { id, name } } => {
                self.room.take_call(&[&id, &name])?;
                self.calls.insert(index, Call { id, name, arguments: String::new() });
            }
            Piece::ContentBlockDelta { delta: Delta::Text { text }, .. } => {
                self.room.take(&text)?;
                delta(&text);
                self.answer.text.push_str(&text);
            }
            Piece::ContentBlockDelta { index, delta: Delta::Input { partial_json } } => {
                self.room.take(&partial_json)?;
                self.calls.get_mut(&index).into_iter().for_each(|call| call.arguments.push_str(&partial_json));
            }
            Piece::MessageDelta { delta, usage } => {
                self.answer.output_tokens = usage.output_tokens;
                self.answer.stop = match delta.stop_reason.as_deref() {
                    Some("max_tokens") => Stop::Length,
                    Some("tool_use") => Stop::ToolUse,
                    Some(_) | None => Stop::End,
                };
            }
            Piece::MessageStop => return Ok(true),
            Piece::Error { error } => return Err(ModelError::Refused(brief(&error.to_string()))),
            Piece::ContentBlockStart { content_block: Block::Other, .. }
            | Piece::ContentBlockDelta { delta: Delta::Other, .. }
            | Piece::Other => {}
        }
        Ok(false)
    }

    fn finish(mut self) -> Answer {
        self.answer.calls = self.calls.into_values().collect();
        // A call without arguments has none at all there.
        self.answer.calls.iter_mut().filter(|call| call.arguments.is_empty()).for_each(|call| call.arguments.push_str("{}"));
        self.answer
    }
}
