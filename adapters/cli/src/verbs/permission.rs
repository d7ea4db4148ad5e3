//! `arbe permission …`

use std::collections::BTreeMap;

use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::narration::{Names, looked_into};
use super::{PAGE, Platform};
use crate::args::{OneRequest, PermissionVerb};
use crate::client::Page;
use crate::output::{NotFound, Refused, Usage, note, print, print_json};
use crate::row::{Column, rows};

const COLUMNS: &[Column] = &[("REQUEST", "request_id"), ("SINCE", "@ts"), ("WHO", "who"), ("WHAT", "action"), ("WITH", "with")];
/// Characters. Whoever allows something has to see what it is.
const DETAIL_MAX: usize = 4_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Request {
    request_id: String,
    action: Value,
    detail: Value,
    author_agent_id: Value,
    ts: Value,
    entry_id: Value,
}

/// What a thread says of requests: those that wait, and how the others were answered.
#[derive(Debug, Default)]
struct Requests {
    open: Vec<Request>,
    answered: BTreeMap<String, bool>,
}

impl Requests {
    async fn read(platform: &Platform, thread: &str) -> anyhow::Result<Self> {
        let (mut requests, mut after) = (Self::default(), None::<u64>);
        loop {
            let mut query = vec![("limit", PAGE.to_string())];
            query.extend(after.map(|after| ("after", after.to_string())));
            let page: Page = platform.get(&["threads", thread, "entries"], query).await?.read()?;
            for item in &page.items {
                let entry = looked_into(item)?;
                after = entry["seq"].as_u64().or(after);
                requests.note(&entry);
            }
            if page.next.is_none() || page.items.is_empty() {
                return Ok(requests);
            }
        }
    }

    fn note(&mut self, entry: &Value) {
        let payload = &entry["payload"];
        let id = payload["request_id"].as_str().unwrap_or_default();
        let rests = matches!(payload["status"].as_str(), Some("completed" | "failed" | "cancelled"));
        match entry["type"].as_str().unwrap_or_default() {
            "signal.permission.requested" if self.open.iter().all(|it| it.request_id != id) => self.open.push(Request {
                request_id: id.to_owned(),
                action: payload["action"].clone(),
                detail: payload["detail"].clone(),
                author_agent_id: entry["author_agent_id"].clone(),
                ts: entry["ts"].clone(),
                entry_id: entry["id"].clone(),
            }),
            "signal.permission.resolved" => {
                self.open.retain(|it| it.request_id != id);
                self.answered.entry(id.to_owned()).or_insert(payload["allowed"] == true);
            }
            "signal.dispatch.failed" | "signal.dispatch.cancelled" => self.is_over(payload),
            "signal.thread.status_changed" if rests => self.is_over(payload),
            _ => {}
        }
    }

    /// A run that is over waits for nothing. The ids of its requests begin with its own.
    fn is_over(&mut self, payload: &Value) {
        if let Some(run) = payload["run_id"].as_str() {
            self.open.retain(|it| it.request_id.split('.').next() != Some(run));
        }
    }
}

pub(super) async fn run(platform: &Platform, verb: PermissionVerb) -> anyhow::Result<()> {
    match verb {
        PermissionVerb::List(one) => list(platform, &one.thread).await,
        PermissionVerb::Allow(request) => answer(platform, &request, true, None).await,
        PermissionVerb::Deny { request, reason } => answer(platform, &request, false, reason).await,
    }
}

async fn list(platform: &Platform, thread: &str) -> anyhow::Result<()> {
    let requests = Requests::read(platform, thread).await?.open;
    if platform.json {
        return requests.iter().try_for_each(print_json);
    }
    let (mut names, mut table) = (Names::default(), Vec::new());
    for request in &requests {
        let mut row = serde_json::to_value(request)?;
        row["who"] = names.of(&platform.client, &row).await.into();
        row["with"] = bounded(request.detail.as_str().unwrap_or_default()).into();
        table.push(row);
    }
    print(rows(COLUMNS, &table))
}

fn bounded(detail: &str) -> String {
    let count = detail.chars().count();
    if count <= DETAIL_MAX {
        return detail.to_owned();
    }
    let shown: String = detail.chars().take(DETAIL_MAX).collect();
    format!("{shown}… CUT: {DETAIL_MAX} of {count} characters; --json shows all")
}

/// What is said to a request stands before its answer, so that whoever waits finds both.
async fn answer(platform: &Platform, one: &OneRequest, allowed: bool, reason: Option<String>) -> anyhow::Result<()> {
    let OneRequest { thread, request } = one;
    if reason.as_ref().is_some_and(|reason| reason.trim().is_empty()) {
        return Err(Usage("a reason has words".into()).into());
    }
    let requests = Requests::read(platform, thread).await?;
    let Some(open) = requests.open.iter().find(|it| it.request_id == *request) else {
        return closed(platform, &requests, one, allowed);
    };
    let resolved = json!({ "type": "signal.permission.resolved", "payload": { "request_id": request, "allowed": allowed } });
    let body = match reason {
        Some(text) => json!([{ "type": "chat", "payload": { "text": text, "reply_to": open.entry_id } }, resolved]),
        None => resolved,
    };
    let path = ["threads", thread.as_str(), "entries"];
    let answer = platform.client.command(Method::POST, &path, Some(serde_json::to_vec(&body)?)).await?;
    platform.done(&answer, if allowed { "allowed" } else { "denied" })
}

fn closed(platform: &Platform, requests: &Requests, one: &OneRequest, allowed: bool) -> anyhow::Result<()> {
    let OneRequest { thread, request } = one;
    let Some(before) = requests.answered.get(request) else {
        let nothing = format!("no request {request} waits in {thread}; see `arbe permission list {thread}`");
        return Err(NotFound(nothing).into());
    };
    let word = if *before { "allowed" } else { "denied" };
    if *before != allowed {
        return Err(Refused(format!("{request} was {word} already")).into());
    }
    if platform.json {
        return print_json(&json!({ "request_id": request, "allowed": allowed }));
    }
    note(format_args!("it was {word} before"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(entries: &[(&str, Value)]) -> Vec<String> {
        let mut requests = Requests::default();
        for (kind, payload) in entries {
            requests.note(&json!({ "type": kind, "id": "e", "ts": 1, "payload": payload }));
        }
        requests.open.into_iter().map(|it| it.request_id).collect()
    }

    #[test]
    fn what_is_asked_for_is_shown_whole_or_said_to_be_cut() {
        let whole = "x".repeat(DETAIL_MAX);
        assert_eq!(bounded(&whole), whole);
        let cut = bounded(&(whole.clone() + "; rm -rf /"));
        assert!(cut.starts_with(&whole) && cut.contains("CUT: 4000 of 4010 characters"), "{cut}");
    }

    #[test]
    fn a_request_waits_until_it_is_answered_or_its_run_is_over() {
        let asked = |id: &str| ("signal.permission.requested", json!({ "request_id": id, "action": "bash" }));
        let resolved = ("signal.permission.resolved", json!({ "request_id": "r1.1", "allowed": true }));
        let ended = |status: &str| ("signal.thread.status_changed", json!({ "status": status, "run_id": "r1" }));
        assert_eq!(open(&[asked("r1.1"), asked("r1.2"), asked("r1.1"), resolved]), ["r1.2"]);
        assert_eq!(open(&[asked("r1.1"), asked("r12.1"), ended("running")]), ["r1.1", "r12.1"]);
        assert_eq!(open(&[asked("r1.1"), asked("r12.1"), ended("failed")]), ["r12.1"]);
        assert_eq!(open(&[asked("r1.1"), ("signal.dispatch.cancelled", json!({ "run_id": "r1" }))]), [] as [&str; 0]);
    }
}
