//! The JSON of messages and parts: one flat object each, told apart by `role` and `type`. A derived enum would lose the exact text of
//! the values inside.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::json::Json;
use crate::session::ids::{MessageId, PartId};
use crate::session::message::{Content, Message, Role};
use crate::session::part::{
    ApprovalRequest, ApprovalResponse, Body, BodyRef, Data, File, OwnedBody, Part, Reasoning, Text, ToolCall, ToolResult,
};
use crate::session::timestamp::Timestamp;
use crate::session::{Options, Provenance};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WirePart {
    id: PartId,
    #[serde(rename = "type")]
    kind: String,
    provenance: Provenance,
    #[serde(default)]
    options: Options,
    text: Option<String>,
    media_type: Option<String>,
    file_name: Option<String>,
    /// Base64; or else `url`.
    data: Option<String>,
    url: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    params: Option<Json>,
    provider_executed: Option<bool>,
    is_failure: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Json>,
    approval_id: Option<String>,
    tool_call_id: Option<String>,
    approved: Option<bool>,
    reason: Option<String>,
}

/// Null is a value here.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

impl WirePart {
    /// Takes the fields of its kind; what is left over belongs to none.
    fn body(&mut self) -> Result<OwnedBody, String> {
        let kind = self.kind.clone();
        let missing = |field: &str| format!("a part of type {kind} has `{field}`");
        Ok(match kind.as_str() {
            "text" => OwnedBody::Text(Text { text: self.text.take().ok_or_else(|| missing("text"))? }),
            "reasoning" => OwnedBody::Reasoning(Reasoning { text: self.text.take().ok_or_else(|| missing("text"))? }),
            "file" => OwnedBody::File(File {
                media_type: self.media_type.take().ok_or_else(|| missing("media_type"))?,
                file_name: self.file_name.take(),
                data: match (self.data.take(), self.url.take()) {
                    (Some(data), None) => Data::Inline(data),
                    (None, Some(url)) => Data::Url(url),
                    (Some(_), Some(_)) | (None, None) => return Err(missing("data` or `url")),
                },
            }),
            "tool_call" => OwnedBody::ToolCall(ToolCall {
                call_id: self.call_id.take().ok_or_else(|| missing("call_id"))?,
                name: self.name.take().ok_or_else(|| missing("name"))?,
                params: self.params.take().ok_or_else(|| missing("params"))?,
                provider_executed: self.provider_executed.take().unwrap_or_default(),
            }),
            "tool_result" => OwnedBody::ToolResult(ToolResult {
                call_id: self.call_id.take().ok_or_else(|| missing("call_id"))?,
                name: self.name.take(),
                is_failure: self.is_failure.take().unwrap_or_default(),
                result: self.result.take().ok_or_else(|| missing("result"))?,
            }),
            "tool_approval_request" => OwnedBody::ApprovalRequest(ApprovalRequest {
                approval_id: self.approval_id.take().ok_or_else(|| missing("approval_id"))?,
                tool_call_id: self.tool_call_id.take().ok_or_else(|| missing("tool_call_id"))?,
            }),
            "tool_approval_response" => OwnedBody::ApprovalResponse(ApprovalResponse {
                approval_id: self.approval_id.take().ok_or_else(|| missing("approval_id"))?,
                approved: self.approved.take().ok_or_else(|| missing("approved"))?,
                reason: self.reason.take(),
            }),
            _ => return Err(format!("no part has the type {kind:?}")),
        })
    }

    fn is_empty(&self) -> bool {
        let texts = [
            &self.text,
            &self.media_type,
            &self.file_name,
            &self.data,
            &self.url,
            &self.call_id,
            &self.name,
            &self.approval_id,
            &self.tool_call_id,
            &self.reason,
        ];
        let flags = [self.provider_executed, self.is_failure, self.approved];
        let values = [&self.params, &self.result];
        texts.iter().all(|it| it.is_none()) && flags.iter().all(Option::is_none) && values.iter().all(|it| it.is_none())
    }
}

impl<'de, B: Body> Deserialize<'de> for Part<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut wire = WirePart::deserialize(deserializer)?;
        let body = wire.body().map_err(D::Error::custom)?;
        if !wire.is_empty() {
            return Err(D::Error::custom(format!("a part of type {} has a field of another", wire.kind)));
        }
        let body = B::of(body).ok_or_else(|| D::Error::custom(format!("no part of type {} may stand here", wire.kind)))?;
        Ok(Self { id: wire.id, provenance: wire.provenance, options: wire.options, body })
    }
}

impl<B: Body> Serialize for Part<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let body = self.body.view();
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("type", body.kind())?;
        map.serialize_entry("provenance", &self.provenance)?;
        fields(&mut map, body)?;
        map.serialize_entry("options", &self.options)?;
        map.end()
    }
}

fn fields<M: SerializeMap>(map: &mut M, body: BodyRef<'_>) -> Result<(), M::Error> {
    match body {
        BodyRef::Text(Text { text }) | BodyRef::Reasoning(Reasoning { text }) => map.serialize_entry("text", text),
        BodyRef::File(File { media_type, file_name, data }) => {
            map.serialize_entry("media_type", media_type)?;
            optional(map, "file_name", file_name.as_ref())?;
            match data {
                Data::Inline(data) => map.serialize_entry("data", data),
                Data::Url(url) => map.serialize_entry("url", url),
            }
        }
        BodyRef::ToolCall(ToolCall { call_id, name, params, provider_executed }) => {
            map.serialize_entry("call_id", call_id)?;
            map.serialize_entry("name", name)?;
            map.serialize_entry("params", params)?;
            map.serialize_entry("provider_executed", provider_executed)
        }
        BodyRef::ToolResult(ToolResult { call_id, name, is_failure, result }) => {
            map.serialize_entry("call_id", call_id)?;
            optional(map, "name", name.as_ref())?;
            map.serialize_entry("is_failure", is_failure)?;
            map.serialize_entry("result", result)
        }
        BodyRef::ApprovalRequest(ApprovalRequest { approval_id, tool_call_id }) => {
            map.serialize_entry("approval_id", approval_id)?;
            map.serialize_entry("tool_call_id", tool_call_id)
        }
        BodyRef::ApprovalResponse(ApprovalResponse { approval_id, approved, reason }) => {
            map.serialize_entry("approval_id", approval_id)?;
            map.serialize_entry("approved", approved)?;
            optional(map, "reason", reason.as_ref())
        }
    }
}

fn optional<M: SerializeMap>(map: &mut M, key: &str, value: Option<&String>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireMessage {
    id: MessageId,
    role: Role,
    timestamp: Timestamp,
    /// A text in a system message, parts in every other.
    content: Json,
    #[serde(default)]
    options: Options,
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WireMessage { id, role, timestamp, content, options } = WireMessage::deserialize(deserializer)?;
        let content = match role {
            Role::System => content.decode().map(Content::System),
            Role::User => content.decode().map(Content::User),
            Role::Assistant => content.decode().map(Content::Assistant),
            Role::Tool => content.decode().map(Content::Tool),
        };
        Ok(Self { id, timestamp, options, content: content.map_err(D::Error::custom)? })
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("role", &self.role())?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        match &self.content {
            Content::System(text) => map.serialize_entry("content", text),
            Content::User(parts) => map.serialize_entry("content", parts),
            Content::Assistant(parts) => map.serialize_entry("content", parts),
            Content::Tool(parts) => map.serialize_entry("content", parts),
        }?;
        map.serialize_entry("options", &self.options)?;
        map.end()
    }
}

impl JsonSchema for Message {
    fn schema_name() -> Cow<'static, str> {
        "Message".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = WireMessage::json_schema(generator);
        let part = generator.subschema_for::<WirePart>();
        let content = json_schema!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": part }] });
        if let Some(properties) = schema.get_mut("properties").and_then(|it| it.as_object_mut()) {
            properties.insert("content".to_owned(), content.to_value());
        }
        schema
    }
}
