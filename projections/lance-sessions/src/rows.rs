//! The rows of canonical objects.

use arrow::array::{ArrayRef, RecordBatch, StringBuilder, TimestampMicrosecondBuilder, UInt64Builder};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use events::session::BodyRef;
use events::session::{Content, Data, Message, Options, PartRef, Provenance, Session, SessionId};
use lance::blob::BlobArrayBuilder;
use lance::deps::datafusion::arrow;
use serde::Serialize;
use std::sync::Arc;

use crate::json;
use crate::schema::{self, Table};
use crate::vectors::{self, Embedding};

/// Where a row comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Unix milliseconds.
    pub ts: u64,
    pub position: u64,
}

#[derive(Debug)]
pub(crate) struct SessionRow {
    pub session: Session,
    pub origin: Origin,
}

#[derive(Debug)]
pub(crate) struct MessageRow {
    pub session_id: SessionId,
    pub source_agent: Arc<str>,
    pub project: Arc<str>,
    pub seq: u64,
    pub message: Message,
    /// What it is found by.
    pub text: Option<String>,
    pub embedding: Option<Embedding>,
    pub origin: Origin,
}

/// The fields of a part that only its kind has.
#[derive(Serialize)]
#[serde(untagged)]
enum Variant<'a> {
    Text { text: &'a str },
    File { media_type: &'a str, file_name: Option<&'a str>, data_kind: &'static str },
    Call { call_id: &'a str, name: &'a str, params: &'a events::Json, provider_executed: bool },
    Result { call_id: &'a str, name: Option<&'a str>, is_failure: bool, result: &'a events::Json },
    Request { approval_id: &'a str, tool_call_id: &'a str },
    Response { approval_id: &'a str, approved: bool, reason: Option<&'a str> },
}

impl<'a> Variant<'a> {
    fn of(body: BodyRef<'a>) -> Self {
        match body {
            BodyRef::Text(it) => Self::Text { text: &it.text },
            BodyRef::Reasoning(it) => Self::Text { text: &it.text },
            BodyRef::File(it) => {
                let data_kind = match it.data {
                    Data::Inline(_) => "base64",
                    Data::Url(_) => "url",
                };
                Self::File { media_type: &it.media_type, file_name: it.file_name.as_deref(), data_kind }
            }
            BodyRef::ToolCall(it) => {
                Self::Call { call_id: &it.call_id, name: &it.name, params: &it.params, provider_executed: it.provider_executed }
            }
            BodyRef::ToolResult(it) => {
                Self::Result { call_id: &it.call_id, name: it.name.as_deref(), is_failure: it.is_failure, result: &it.result }
            }
            BodyRef::ApprovalRequest(it) => Self::Request { approval_id: &it.approval_id, tool_call_id: &it.tool_call_id },
            BodyRef::ApprovalResponse(it) => {
                Self::Response { approval_id: &it.approval_id, approved: it.approved, reason: it.reason.as_deref() }
            }
        }
    }

    /// Texts and flags are always held.
    fn pack(&self) -> Result<String, ArrowError> {
        let text = serde_json::to_string(self).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        Ok(match self {
            Self::Call { .. } | Self::Result { .. } => json::pack(&text).into_owned(),
            Self::Text { .. } | Self::File { .. } | Self::Request { .. } | Self::Response { .. } => text,
        })
    }
}

fn options(options: &Options) -> Result<String, ArrowError> {
    let text = serde_json::to_string(options).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    Ok(json::pack(&text).into_owned())
}

/// The two columns that every table ends with.
#[derive(Default)]
struct Origins {
    ingested: TimestampMicrosecondBuilder,
    position: UInt64Builder,
}

impl Origins {
    fn push(&mut self, origin: Origin) {
        self.ingested.append_value(i64::try_from(origin.ts).unwrap_or(i64::MAX).saturating_mul(1_000));
        self.position.append_value(origin.position);
    }

    fn finish(mut self) -> [ArrayRef; 2] {
        [Arc::new(self.ingested.finish().with_timezone("UTC")), Arc::new(self.position.finish())]
    }
}

fn moments(mut builder: TimestampMicrosecondBuilder) -> ArrayRef {
    Arc::new(builder.finish().with_timezone("UTC"))
}

fn finish<const N: usize>(builders: [StringBuilder; N]) -> [ArrayRef; N] {
    builders.map(|mut builder| Arc::new(builder.finish()) as ArrayRef)
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>, origins: Origins) -> Result<RecordBatch, ArrowError> {
    let columns = columns.into_iter().chain(origins.finish()).collect();
    RecordBatch::try_new(schema, columns)
}

pub(crate) fn sessions(rows: &[SessionRow]) -> Result<RecordBatch, ArrowError> {
    let [mut id, mut parent, mut cut, mut agent, mut project, mut bag] = std::array::from_fn(|_| StringBuilder::new());
    let (mut created, mut origins) = (TimestampMicrosecondBuilder::new(), Origins::default());
    for SessionRow { session, origin } in rows {
        id.append_value(&session.id);
        parent.append_option(session.parent_session_id.as_ref());
        cut.append_option(session.parent_message_id.as_ref());
        agent.append_value(&session.source_agent);
        created.append_value(session.created_at.micros());
        project.append_value(&session.project);
        bag.append_value(options(&session.options)?);
        origins.push(*origin);
    }
    let [id, parent, cut, agent, project, bag] = finish([id, parent, cut, agent, project, bag]);
    batch(Table::Sessions.schema(), vec![id, parent, cut, agent, moments(created), project, bag], origins)
}

pub(crate) fn messages(rows: &[MessageRow], width: usize) -> Result<RecordBatch, ArrowError> {
    let [mut session, mut id, mut role, mut agent, mut project] = std::array::from_fn(|_| StringBuilder::new());
    let [mut content, mut search, mut bag] = std::array::from_fn(|_| StringBuilder::new());
    let (mut seq, mut timestamp, mut origins) = (UInt64Builder::new(), TimestampMicrosecondBuilder::new(), Origins::default());
    for row in rows {
        let message = &row.message;
        session.append_value(&row.session_id);
        id.append_value(&message.id);
        seq.append_value(row.seq);
        timestamp.append_value(message.timestamp.micros());
        role.append_value(message.role().as_str());
        agent.append_value(&row.source_agent);
        project.append_value(&row.project);
        content.append_option(if let Content::System(text) = &message.content { Some(text) } else { None });
        search.append_option(row.text.as_ref());
        bag.append_value(options(&message.options)?);
        origins.push(row.origin);
    }
    let [session, id, role, agent, project, content, search, bag] =
        finish([session, id, role, agent, project, content, search, bag]);
    let seq = Arc::new(seq.finish());
    let [vector, model] = vectors::columns(rows.iter().map(|row| row.embedding.as_ref()), width)?;
    let columns = vec![session, id, seq, moments(timestamp), role, agent, project, content, search, vector, model, bag];
    batch(schema::messages_with(vectors::as_arrow(width)?), columns, origins)
}

fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Conversational => "conversational",
        Provenance::Injected => "injected",
    }
}

fn data<'a>(part: &PartRef<'a>) -> Option<&'a str> {
    let BodyRef::File(file) = part.body else { return None };
    match &file.data {
        Data::Inline(text) | Data::Url(text) => Some(text),
    }
}

/// The parts of some messages, in order.
pub(crate) fn parts(rows: &[MessageRow]) -> Result<RecordBatch, ArrowError> {
    let all: Vec<_> = rows.iter().flat_map(|row| row.message.parts().into_iter().enumerate().map(move |it| (row, it))).collect();
    let [mut session, mut message, mut id, mut kind, mut origin, mut variant, mut bag] =
        std::array::from_fn(|_| StringBuilder::new());
    let (mut ordinal, mut origins) = (UInt64Builder::new(), Origins::default());
    let mut blobs = BlobArrayBuilder::new(all.len());
    for (row, (n, part)) in &all {
        session.append_value(&row.session_id);
        message.append_value(&row.message.id);
        id.append_value(part.id);
        ordinal.append_value(*n as u64);
        kind.append_value(part.body.kind());
        origin.append_value(provenance(part.provenance));
        variant.append_value(Variant::of(part.body).pack()?);
        let put = match data(part) {
            Some(text) => blobs.push_bytes(text.as_bytes()),
            None => blobs.push_null(),
        };
        put.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        bag.append_value(options(part.options)?);
        origins.push(row.origin);
    }
    let [session, message, id, kind, origin, variant, bag] = finish([session, message, id, kind, origin, variant, bag]);
    let blobs = blobs.finish().map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    let columns = vec![session, message, id, Arc::new(ordinal.finish()), kind, origin, variant, blobs, bag];
    batch(Table::Parts.schema(), columns, origins)
}
