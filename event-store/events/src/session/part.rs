//! The pieces of a message. Which kinds a role may hold is a matter of types: a tool's result inside a user's message does not compile.

use crate::json::Json;
use crate::session::ids::PartId;
use crate::session::{Options, Provenance};

/// A part whose kind is one of `B`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<B> {
    pub id: PartId,
    pub provenance: Provenance,
    pub options: Options,
    pub body: B,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasoning {
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub media_type: String,
    pub file_name: Option<String>,
    pub data: Data,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Base64 as the source wrote it.
    Inline(String),
    /// Where it is to be had; `pond://blob/<sha256>` among the blobs of the log.
    Url(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    pub call_id: String,
    pub name: String,
    pub params: Json,
    pub provider_executed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    pub call_id: String,
    /// Sources that name a tool only where it is called leave this out.
    pub name: Option<String>,
    pub is_failure: bool,
    pub result: Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRequest {
    pub approval_id: String,
    pub tool_call_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalResponse {
    pub approval_id: String,
    pub approved: bool,
    pub reason: Option<String>,
}

/// What one role may hold, seen as what it is.
pub trait Body: Sized {
    fn view(&self) -> BodyRef<'_>;

    /// `None`: a part of this kind does not belong here.
    fn of(body: OwnedBody) -> Option<Self>;
}

/// A part of any kind.
#[derive(Clone, Copy, Debug)]
pub enum BodyRef<'a> {
    Text(&'a Text),
    Reasoning(&'a Reasoning),
    File(&'a File),
    ToolCall(&'a ToolCall),
    ToolResult(&'a ToolResult),
    ApprovalRequest(&'a ApprovalRequest),
    ApprovalResponse(&'a ApprovalResponse),
}

impl<'a> BodyRef<'a> {
    /// What is written in a text part.
    #[must_use]
    pub fn text(&self) -> Option<&'a str> {
        if let Self::Text(Text { text }) = *self { Some(text) } else { None }
    }

    /// The discriminator, as stored.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Reasoning(_) => "reasoning",
            Self::File(_) => "file",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::ApprovalRequest(_) => "tool_approval_request",
            Self::ApprovalResponse(_) => "tool_approval_response",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedBody {
    Text(Text),
    Reasoning(Reasoning),
    File(File),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    ApprovalRequest(ApprovalRequest),
    ApprovalResponse(ApprovalResponse),
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident: $($kind:ident)*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($kind($kind),)*
        }

        impl Body for $name {
            fn view(&self) -> BodyRef<'_> {
                match self {
                    $(Self::$kind(it) => BodyRef::$kind(it),)*
                }
            }

            fn of(body: OwnedBody) -> Option<Self> {
                $(
                    let body = match body {
                        OwnedBody::$kind(it) => return Some(Self::$kind(it)),
                        other => other,
                    };
                )*
                drop(body);
                None
            }
        }

        $(
            impl From<$kind> for $name {
                fn from(it: $kind) -> Self {
                    Self::$kind(it)
                }
            }
        )*
    )*};
}

bodies! {
    UserBody: Text File;
    AssistantBody: Text File Reasoning ToolCall ToolResult ApprovalRequest;
    ToolBody: ToolResult ApprovalResponse;
}

/// A part of any role.
#[derive(Clone, Copy, Debug)]
pub struct PartRef<'a> {
    pub id: &'a PartId,
    pub provenance: Provenance,
    pub options: &'a Options,
    pub body: BodyRef<'a>,
}

impl<B: Body> Part<B> {
    #[must_use]
    pub fn view(&self) -> PartRef<'_> {
        PartRef { id: &self.id, provenance: self.provenance, options: &self.options, body: self.body.view() }
    }
}
