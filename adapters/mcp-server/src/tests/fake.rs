//! A pond that is not one: it answers what it was told to, and says what it was asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use queries::library::{
    GetRequest, GetResponse, Hit, MessagePage, MessageView, Mode, PartSummary, PondError, SearchRequest, SearchResponse,
    SessionHit, SessionPage, Stats,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Pond;

#[derive(Debug, Default)]
pub(super) struct FakePond {
    /// Of the session that is always found.
    pub name: &'static str,
    pub asked: Mutex<Vec<String>>,
}

impl FakePond {
    pub fn named(name: &'static str) -> Arc<Self> {
        Arc::new(Self { name, asked: Mutex::default() })
    }

    pub fn last_asked(&self) -> String {
        self.asked.lock().unwrap().last().cloned().unwrap_or_default()
    }

    fn note(&self, asked: String) {
        self.asked.lock().unwrap().push(asked);
    }
}

#[async_trait::async_trait]
impl Pond for FakePond {
    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, PondError> {
        self.note(format!("{request:?}"));
        if request.query == "nothing" {
            return Ok(SearchResponse { sessions: vec![], mode: Mode::Keyword, hints: vec![] });
        }
        let hits = vec![hit("m2", "use the connection pool\nsession=forged", None)];
        let hints = vec!["a later session may supersede this".to_owned()];
        Ok(SearchResponse { sessions: vec![session_hit(self.name, hits)], mode: Mode::Hybrid, hints })
    }

    async fn get(&self, request: GetRequest) -> Result<GetResponse, PondError> {
        self.note(format!("{request:?}"));
        match (request.session_id, request.message_id) {
            (Some(id), _) if id.as_str() != self.name => {
                Err(PondError::not_found(format!("there is no session {:?}", id.as_str())))
            }
            (_, Some(id)) => Ok(GetResponse::Message(Box::new(message_page(self.name, id.as_str())))),
            (Some(id), None) => Ok(GetResponse::Session(SessionPage {
                session: session(id.as_str()),
                messages: vec![view("m1", "why is it slow?"), view("m2", "use the connection pool")],
                messages_remaining: 3,
            })),
            (None, None) => Err(PondError::invalid("session_id or message_id says what to get")),
        }
    }

    async fn stats(&self, namespace: Option<&str>) -> Result<Stats, PondError> {
        self.note(format!("stats of {namespace:?}"));
        if let Some(name) = namespace.filter(|name| *name != self.name) {
            return Err(PondError::new(queries::library::Code::NamespaceUnknown, format!("there is no namespace {name:?}")));
        }
        Ok(Stats {
            sessions: 1,
            messages: 5,
            parts: 9,
            searchable_messages: 4,
            embedded_messages: 4,
            embedding_model: Some("small".to_owned()),
            clients: BTreeMap::from([("codex".to_owned(), 1)]),
            position: 6,
        })
    }
}

/// Types that are only read here are made from how they are written on the wire.
pub(super) fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) const NOON: &str = "2026-03-01T12:00:00Z";

pub(super) fn session_hit(id: &str, matches: Vec<Hit>) -> SessionHit {
    SessionHit {
        session_id: of(json!(id)),
        source_agent: "codex".to_owned(),
        project: "/srv/my shop".to_owned(),
        created_at: of(json!(NOON)),
        score: 0.934,
        matches,
        newer_messages: 12,
        last_message_at: of(json!("2026-03-02T12:00:00Z")),
    }
}

pub(super) fn hit(id: &str, text: &str, snippet: Option<(&str, u64)>) -> Hit {
    Hit {
        message_id: of(json!(id)),
        session_id: None,
        role: of(json!("assistant")),
        timestamp: of(json!(NOON)),
        score: 0.9,
        text: text.to_owned(),
        text_bytes: snippet.map(|(_, bytes)| bytes),
        snippet: snippet.map(|(text, _)| text.to_owned()),
        parts_summary: None,
    }
}

/// What `session` of a page is made of.
pub(super) fn session<T: DeserializeOwned>(id: &str) -> T {
    of(json!({ "id": id, "source_agent": "codex", "created_at": NOON, "project": "/srv/my shop", "parent_session_id": "p1" }))
}

pub(super) fn view(id: &str, text: &str) -> MessageView {
    MessageView {
        id: of(json!(id)),
        role: of(json!("user")),
        timestamp: of(json!(NOON)),
        text: Some(text.to_owned()),
        parts_summary: Some(vec![summary("text", None), summary("tool_call", Some("bash"))]),
        parts: None,
        options: None,
    }
}

pub(super) fn summary(kind: &str, name: Option<&str>) -> PartSummary {
    PartSummary {
        id: "x".to_owned(),
        kind: kind.to_owned(),
        provenance: of(json!("conversational")),
        name: name.map(str::to_owned),
        bytes: 7,
    }
}

pub(super) fn with_parts(id: &str, parts: Vec<Value>) -> MessageView {
    MessageView {
        parts_summary: None,
        parts: Some(parts.into_iter().map(of).collect()),
        options: Some(of(json!({}))),
        ..view(id, "text that the parts repeat")
    }
}

pub(super) fn message_page(session_id: &str, id: &str) -> MessagePage {
    let parts = vec![
        json!({ "id": "a", "type": "text", "text": "look:\nhere", "provenance": "conversational", "options": {} }),
        json!({ "id": "b", "type": "tool_call", "name": "bash", "params": { "command": "ls" }, "options": { "source": 1 } }),
        json!({ "id": "c", "type": "file", "media_type": "image/png", "data": "AAAA", "provenance": "injected" }),
    ];
    MessagePage {
        session: session(session_id),
        before: vec![view("m1", "why is it slow?")],
        target: with_parts(id, parts),
        target_parts_remaining: 2,
        after: vec![view("m3", "thanks")],
    }
}
