//! What a thread already tells, folded from its entries: the session it holds, and what became of the run.

use std::collections::HashSet;

use events::{DispatchEvent, Entry, Event, Json, RunId, ThreadEvent, ThreadStatus};
use serde::Deserialize;

use crate::session::{HEADER, Session, Unfit};

#[derive(Clone, Debug, Default)]
pub struct Told {
    header: Option<Json>,
    entries: Vec<Json>,
    ids: HashSet<String>,
    /// Somebody wants the run to stop.
    pub cancelled: bool,
    /// A runner has begun with it before.
    pub started: bool,
    /// It is over.
    pub ended: bool,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: Option<String>,
}

impl Told {
    pub fn note(&mut self, run: &RunId, entry: &Entry) {
        if entry.kind.starts_with("pi.") && entry.kind != "pi.chunk" {
            return self.line(&entry.payload);
        }
        match entry.event() {
            Ok(Event::Dispatch(DispatchEvent::Cancelled(it))) => self.cancelled |= it.run_id == *run,
            // A runner signs with its bot. The server, which signs nothing, says of each runner that it was launched.
            Ok(Event::Dispatch(DispatchEvent::SessionStarted(it))) => {
                self.started |= it.run_id == *run && entry.author_agent_id.is_some();
            }
            Ok(Event::Thread(ThreadEvent::StatusChanged(it))) if it.run_id.as_ref() == Some(run) => {
                self.ended |= matches!(it.status, ThreadStatus::Completed | ThreadStatus::Failed | ThreadStatus::Cancelled);
            }
            // Nothing else is about the run, and what is newer than this runner is not for it.
            Ok(_) | Err(_) => {}
        }
    }

    /// Each once, though a run that was gone on with may tell them again.
    fn line(&mut self, payload: &Json) {
        let Ok(Named { kind, id }) = payload.decode() else { return };
        if kind == HEADER {
            self.ids.insert(HEADER.to_owned());
            self.header.get_or_insert_with(|| payload.clone());
        } else if let Some(id) = id
            && self.ids.insert(id)
        {
            self.entries.push(payload.clone());
        }
    }

    #[must_use]
    pub fn has(&self, line: &str) -> bool {
        self.ids.contains(line)
    }

    #[must_use]
    pub fn holds_session(&self) -> bool {
        self.header.is_some()
    }

    /// How many lines that the thread holds a file does not say.
    #[must_use]
    pub fn beyond(&self, file: &Session) -> usize {
        let lines: HashSet<&str> = file.lines.iter().map(|line| line.id.as_str()).collect();
        self.ids.iter().filter(|id| !lines.contains(id.as_str())).count()
    }

    /// Whether it says everything that the thread does.
    #[must_use]
    pub fn is_within(&self, file: &Session) -> bool {
        self.beyond(file) == 0
    }

    /// How many lines of a file are on the thread before the first that is not.
    #[must_use]
    pub fn next_index(&self, file: &Session) -> usize {
        file.lines.iter().take_while(|line| self.has(&line.id)).count()
    }

    /// The session that the thread holds, to be gone on with in `cwd`. Nothing but the place differs from what was posted.
    pub fn rebuilt(&self, cwd: &str) -> Option<Result<Session, Unfit>> {
        let header = moved(self.header.as_ref()?, cwd).ok_or(Unfit::Header);
        Some(header.and_then(|header| Session::of([vec![header], self.entries.clone()].concat())))
    }
}

fn moved(header: &Json, cwd: &str) -> Option<Json> {
    let mut fields: serde_json::Map<String, serde_json::Value> = header.decode().ok()?;
    fields.insert("cwd".to_owned(), cwd.into());
    Json::of(&fields).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "r1";

    fn entry(kind: &str, payload: &str) -> Entry {
        let author = r#""author_agent_id":"00000000-0000-0000-0000-000000000002""#;
        let head = r#""id":"01J9ZK3T6V8X0Q2R4S6T8V0001","ts":1"#;
        Entry::from_json(&format!(r#"{{{head},"type":"{kind}","v":1,{author},"payload":{payload}}}"#)).unwrap()
    }

    fn told(entries: &[(&str, &str)]) -> Told {
        let mut told = Told::default();
        entries.iter().for_each(|(kind, payload)| told.note(&RunId::new(RUN).unwrap(), &entry(kind, payload)));
        told
    }

    const HEAD: (&str, &str) = ("pi.entry", r#"{"type":"session","version":3,"id":"t1","cwd":"/old"}"#);
    const ONE: (&str, &str) = ("pi.entry", r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user","n":1.50}}"#);
    const TWO: (&str, &str) =
        ("pi.assistant", r#"{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","usage":{}}}"#);

    #[test]
    fn the_session_on_a_thread_comes_back_line_by_line_in_another_place() {
        let chunk = ("pi.chunk", r#"{"type":"message","id":"x","delta":"h"}"#);
        let told = told(&[("chat", r#"{"text":"do it"}"#), HEAD, ONE, chunk, TWO, ONE, HEAD]);
        let session = told.rebuilt("/work").unwrap().unwrap();
        let lines: Vec<_> = session.lines.iter().map(|line| line.json.get()).collect();
        assert_eq!(lines[1..], [ONE.1, TWO.1]);
        assert_eq!((session.cwd.as_str(), session.messages), ("/work", 2));
        assert_eq!((told.next_index(&session), told.is_within(&session)), (3, true));
    }

    #[test]
    fn a_file_that_lacks_what_the_thread_tells_is_stale() {
        let ahead = told(&[HEAD, ONE, TWO]);
        let file = told(&[HEAD, ONE]).rebuilt("/work").unwrap().unwrap();
        assert!(!ahead.is_within(&file));
        let behind = told(&[HEAD]);
        assert_eq!((behind.is_within(&file), behind.next_index(&file)), (true, 1));
        assert!(told(&[]).rebuilt("/work").is_none());
    }

    #[test]
    fn an_entry_that_was_lost_is_found_out_before_pi_is_started() {
        assert_eq!(told(&[HEAD, TWO]).rebuilt("/w").unwrap(), Err(Unfit::NoParent { line: 2, parent: "a".into() }));
    }

    #[test]
    fn only_words_about_this_run_count() {
        let other = told(&[
            ("signal.dispatch.cancelled", r#"{"run_id":"r0"}"#),
            ("signal.dispatch.session_started", r#"{"run_id":"r0"}"#),
            ("signal.thread.status_changed", r#"{"status":"completed","run_id":"r0"}"#),
            ("signal.thread.status_changed", r#"{"status":"running","run_id":"r1"}"#),
        ]);
        assert!(!other.cancelled && !other.started && !other.ended);
        let own = told(&[
            ("signal.dispatch.session_started", r#"{"run_id":"r1"}"#),
            ("signal.dispatch.cancelled", r#"{"run_id":"r1"}"#),
            ("signal.thread.status_changed", r#"{"status":"failed","run_id":"r1"}"#),
        ]);
        assert!(own.cancelled && own.started && own.ended);
        let mut launched = Told::default();
        let by_server = r#"{"id":"01J9ZK3T6V8X0Q2R4S6T8V0001","ts":1,"type":"signal.dispatch.session_started","v":1,"payload":{"run_id":"r1"}}"#;
        launched.note(&RunId::new(RUN).unwrap(), &Entry::from_json(by_server).unwrap());
        assert!(!launched.started, "the server only says that a runner was launched");
    }
}
