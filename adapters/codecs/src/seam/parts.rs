use events::Json;
use events::session::{
    ApprovalRequest, ApprovalResponse, Body, Data, File, Options, Part, PartId, Provenance, Reasoning, Text, ToolCall, ToolResult,
};

use super::bound::Cut;
use super::extracted::{Extracted, Hole};
use super::place::{Fields, options};
use super::record::Record;
use crate::fault::Location;

const GENERIC: &str = "application/octet-stream";

/// The parts of one message, in order.
#[derive(Debug)]
pub struct Parts<B> {
    /// Each with where it stood.
    parts: Vec<(Part<B>, Fields)>,
    /// Records that became none.
    pub(super) aside: Vec<Record>,
    /// Of the records that parts keep, the longest that was not kept whole.
    pub(super) cuts: Vec<(Location, Cut)>,
}

impl<B> Default for Parts<B> {
    fn default() -> Self {
        Self { parts: Vec::new(), aside: Vec::new(), cuts: Vec::new() }
    }
}

impl<B: Body> Parts<B> {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    fn push(&mut self, body: impl Into<B>, provenance: Provenance, hole: Option<Hole>) -> &mut Self {
        let id = PartId::new(&self.parts.len().to_string()).expect("digits are an id");
        let mut place = Fields::default();
        place.hole(hole);
        self.parts.push((Part { id, provenance, options: Options::new(), body: body.into() }, place));
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
        if let (Some((part, _)), Ok(id)) = (self.parts.last_mut(), PartId::new(&id.value)) {
            part.id = id;
        }
        self
    }

    /// The last part stood in a record of its own, whose remainder it keeps. Its hole is in that record.
    pub fn own(&mut self, record: Record) -> &mut Self {
        self.own_last(1, record)
    }

    /// The last `count` parts stood in one record of their own: the first keeps its remainder, the others say how far back it is. A
    /// record that became no part at all is kept by the message.
    pub fn own_last(&mut self, count: usize, record: Record) -> &mut Self {
        let first = self.parts.len().saturating_sub(count);
        match self.parts[first..].split_first_mut() {
            Some(((_, place), others)) => {
                let at = record.location();
                let (whole, cut) = record.place();
                self.cuts.extend((cut > 0).then_some((at, cut)));
                let hole = std::mem::replace(place, whole);
                place.extend(hole);
                for (back, (_, place)) in others.iter_mut().enumerate() {
                    place.put("back", &(back + 1));
                }
            }
            None => self.aside.push(record),
        }
        self
    }

    /// No two with one id.
    pub(super) fn into_inner(self) -> Vec<Part<B>> {
        let mut seen = std::collections::HashSet::with_capacity(self.parts.len());
        let sealed = self.parts.into_iter().enumerate().map(|(index, (mut part, place))| {
            let base = part.id.clone();
            let mut times = index;
            while !seen.insert(part.id.clone()) {
                let id = format!("{base}~{times}");
                part.id = PartId::new(&id).unwrap_or_else(|_| PartId::new(&times.to_string()).expect("digits are an id"));
                times += 1;
            }
            part.options = options(Vec::new(), place);
            part
        });
        sealed.collect()
    }
}
