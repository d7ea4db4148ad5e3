//! Chat completions, in the types of the maintained client. It would take any answer whole, so the request is made here.

use std::collections::BTreeMap;

use async_openai::error::WrappedError;
use async_openai::types::chat::{
    ChatCompletionMessageToolCallChunk, CreateChatCompletionRequest, CreateChatCompletionStreamResponse, FinishReason,
};
use futures::StreamExt;
use serde_json::{Value, json};

use super::wire::{self, Room};
use super::{Answer, Ask, Call, Message, ModelError, Stop, brief, key};

const DONE: &str = "[DONE]";

pub(super) async fn ask(
    http: reqwest::Client,
    ask: &Ask<'_>,
    delta: &mut (dyn FnMut(&str) + Send),
) -> Result<Answer, ModelError> {
    let url = format!("{}/chat/completions", ask.config.base_url.trim_end_matches('/'));
    let request = http.post(url).bearer_auth(key(ask)).json(&request(ask)?);
    let mut events = wire::events(request, ask.idle()).await?;
    let mut draft = Draft::default();
    while let Some(event) = events.next().await {
        let event = event?;
        match event.data.as_str() {
            DONE => break,
            _ if event.event == "keepalive" => {}
            data => draft.add(piece(data)?, delta)?,
        }
    }
    draft.finish()
}

/// A model may also find only now that it cannot.
fn piece(data: &str) -> Result<CreateChatCompletionStreamResponse, ModelError> {
    serde_json::from_str(data).map_err(|error| match serde_json::from_str::<WrappedError>(data) {
        Ok(told) => ModelError::Refused(brief(&told.error.to_string())),
        Err(_) => ModelError::Broken(brief(&error.to_string())),
    })
}

fn request(ask: &Ask<'_>) -> Result<CreateChatCompletionRequest, ModelError> {
    let system = json!({ "role": "system", "content": ask.system });
    let messages: Vec<_> = std::iter::once(system).chain(ask.messages.iter().map(message)).collect();
    let mut body = json!({ "model": ask.model, "messages": messages, "stream": true });
    if !ask.tools.is_empty() {
        let tool = |tool: &super::Tool| {
            let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
            json!({ "type": "function", "function": function })
        };
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    if let Some(most) = ask.config.max_tokens {
        body["max_tokens"] = most.into();
    }
    serde_json::from_value(body).map_err(|error| ModelError::Unreachable(error.to_string()))
}

fn message(message: &Message) -> Value {
    match message {
        Message::User(text) => json!({ "role": "user", "content": text }),
        Message::Assistant { text, calls } if calls.is_empty() => json!({ "role": "assistant", "content": text }),
        Message::Assistant { text, calls } => {
            let call = |call: &Call| {
                let function = json!({ "name": call.name, "arguments": call.arguments });
                json!({ "id": call.id, "type": "function", "function": function })
            };
            let calls: Vec<_> = calls.iter().map(call).collect();
            json!({ "role": "assistant", "content": text, "tool_calls": calls })
        }
        Message::Result { call, text, .. } => json!({ "role": "tool", "tool_call_id": call, "content": text }),
    }
}

#[derive(Default)]
struct Draft {
    answer: Answer,
    calls: BTreeMap<u32, Call>,
    ended: bool,
    room: Room,
}

impl Draft {
    fn add(&mut self, piece: CreateChatCompletionStreamResponse, delta: &mut (dyn FnMut(&str) + Send)) -> Result<(), ModelError> {
        if let Some(usage) = &piece.usage {
            self.answer.input_tokens = u64::from(usage.prompt_tokens);
            self.answer.output_tokens = u64::from(usage.completion_tokens);
        }
        let Some(choice) = piece.choices.into_iter().next() else { return Ok(()) };
        if let Some(text) = choice.delta.content.filter(|text| !text.is_empty()) {
            self.room.take(&text)?;
            delta(&text);
            self.answer.text.push_str(&text);
        }
        for call in choice.delta.tool_calls.into_iter().flatten() {
            self.call(call)?;
        }
        if let Some(reason) = choice.finish_reason {
            self.ended = true;
            self.answer.stop = match reason {
                FinishReason::Length => Stop::Length,
                FinishReason::ToolCalls | FinishReason::FunctionCall => Stop::ToolUse,
                FinishReason::Stop | FinishReason::ContentFilter => Stop::End,
            };
        }
        Ok(())
    }

    fn call(&mut self, piece: ChatCompletionMessageToolCallChunk) -> Result<(), ModelError> {
        let (id, function) = (piece.id.unwrap_or_default(), piece.function);
        let (name, arguments) = function.map(|it| (it.name, it.arguments)).unwrap_or_default();
        let (name, arguments) = (name.unwrap_or_default(), arguments.unwrap_or_default());
        self.room.take_call(&[&id, &name, &arguments])?;
        let empty = || Call { id: String::new(), name: String::new(), arguments: String::new() };
        let call = self.calls.entry(piece.index).or_insert_with(empty);
        call.id.push_str(&id);
        call.name.push_str(&name);
        call.arguments.push_str(&arguments);
        Ok(())
    }

    /// A stream that ends without a reason was cut.
    fn finish(mut self) -> Result<Answer, ModelError> {
        if !self.ended {
            return Err(ModelError::Broken("the stream ended in the middle".to_owned()));
        }
        self.answer.calls = self.calls.into_values().collect();
        if !self.answer.calls.is_empty() {
            self.answer.stop = Stop::ToolUse;
        }
        Ok(self.answer)
    }
}
