use events::Json;
use events::session::{
    ApprovalRequest, ApprovalResponse, Body, Data, File, Options, Part, PartId, Provenance, Reasoning, Text, ToolCall, ToolResult,
};

use super::extracted::{Extracted, Hole, How};
use super::record::{Record, json};
use crate::value::Value;

const GENERIC: &str = "application/octet-stream";

/// The parts of one message, in order.
#[derive(Debug)]
pub struct Parts<B>(Vec<Part<B>>);

impl<B> Default for Parts<B> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<B: Body> Parts<B> {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, body: impl Into<B>, provenance: Provenance, hole: Option<Hole>) -> &mut Self {
        let id = PartId::new(&self.0.len().to_string()).expect("digits are an id");
        let mut options = Options::new();
        if let Some(hole) = hole {
            options.insert("source".to_owned(), json(&place(hole)));
        }
        self.0.push(Part { id, provenance, options, body: body.into() });
        self
    }

    pub fn text(&mut self, text: Extracted<String>, provenance: Provenance) -> &mut Self
    where
        B: From<Text>,
    {
        self.push(Text { text: text.value }, provenance, text.from)
    }

    pub fn reasoning(&mut self, text: Extracted<String>, provenance: Provenance) -> &mut Self
    where
        B: From<Reasoning>,
    {
        self.push(Reasoning { text: text.value }, provenance, text.from)
    }

    /// Without a media type it is the generic one.
    pub fn file(
        &mut self,
        media_type: Option<Extracted<String>>,
        file_name: Option<Extracted<String>>,
        data: Extracted<Data>,
        provenance: Provenance,
    ) -> &mut Self
    where
        B: From<File>,
    {
        let media_type = media_type.map_or_else(|| GENERIC.to_owned(), |it| it.value);
        self.push(File { media_type, file_name: file_name.map(|it| it.value), data: data.value }, provenance, data.from)
    }

    pub fn tool_call(
        &mut self,
        call_id: Extracted<String>,
        name: Extracted<String>,
        params: Extracted<Json>,
        provider_executed: bool,
        provenance: Provenance,
    ) -> &mut Self
    where
        B: From<ToolCall>,
    {
        let call = ToolCall { call_id: call_id.value, name: name.value, params: params.value, provider_executed };
        self.push(call, provenance, params.from)
    }

    pub fn tool_result(
        &mut self,
        call_id: Extracted<String>,
        name: Option<Extracted<String>>,
        result: Extracted<Json>,
        is_failure: bool,
        provenance: Provenance,
    ) -> &mut Self
    where
        B: From<ToolResult>,
    {
        let it = ToolResult { call_id: call_id.value, name: name.map(|it| it.value), is_failure, result: result.value };
        self.push(it, provenance, result.from)
    }

    pub fn approval_request(
        &mut self,
        approval_id: Extracted<String>,
        tool_call_id: Extracted<String>,
        provenance: Provenance,
    ) -> &mut Self
    where
        B: From<ApprovalRequest>,
    {
        self.push(ApprovalRequest { approval_id: approval_id.value, tool_call_id: tool_call_id.value }, provenance, None)
    }

    pub fn approval_response(
        &mut self,
        approval_id: Extracted<String>,
        approved: bool,
        reason: Option<Extracted<String>>,
        provenance: Provenance,
    ) -> &mut Self
    where
        B: From<ApprovalResponse>,
    {
        let reason = reason.map(|it| it.value);
        self.push(ApprovalResponse { approval_id: approval_id.value, approved, reason }, provenance, None)
    }

    /// The last part is named by the source.
    pub fn named(&mut self, id: &Extracted<String>) -> &mut Self {
        if let (Some(part), Ok(id)) = (self.0.last_mut(), PartId::new(&id.value)) {
            part.id = id;
        }
        self
    }

    /// The last part stood in a record of its own, whose remainder it keeps. Its hole is in that record.
    pub fn own(&mut self, record: Record) -> &mut Self {
        if let Some(part) = self.0.last_mut() {
            let at = part.options.remove("source").and_then(|at| crate::value::Reader::only(at.get()).ok());
            let mut fields = vec![
                ("file".to_owned(), Value::from(&*record.file)),
                ("n".to_owned(), Value::number(record.n)),
                ("record".to_owned(), record.remainder()),
            ];
            fields.extend(at.iter().flat_map(|at| at.fields().iter().cloned()));
            part.options.insert("source".to_owned(), json(&Value::Object(fields)));
        }
        self
    }

    pub(super) fn into_inner(mut self) -> Vec<Part<B>> {
        let mut seen = std::collections::BTreeSet::new();
        for (index, part) in self.0.iter_mut().enumerate() {
            if !seen.insert(part.id.clone()) {
                let id = format!("{}~{index}", part.id);
                part.id = PartId::new(&id).unwrap_or_else(|_| PartId::new(&index.to_string()).expect("digits are an id"));
                seen.insert(part.id.clone());
            }
        }
        self.0
    }
}

/// How a hole is stored; read back by `restore`.
pub(super) fn place(Hole { at, how }: Hole) -> Value {
    let mut fields = vec![("at".to_owned(), Value::from(at.to_string()))];
    match how {
        How::Plain => {}
        How::Encoded => fields.push(("as".to_owned(), Value::from("encoded"))),
        How::Prefixed(prefix) => fields.push(("prefix".to_owned(), Value::from(prefix))),
    }
    Value::Object(fields)
}
