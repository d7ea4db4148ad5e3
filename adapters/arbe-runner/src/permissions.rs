//! Tools that need leave: the mirror asks, the thread is told, and whoever answers there decides.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use events::dispatch::{PermissionRequested, PermissionResolved, PiWaiting};
use events::{Content, DispatchEvent, Entry, Event, EventId, Json, RunId};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::thread::{SayError, Thread, insist};

/// At night nobody answers.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// For a word that can be missed.
const SAYING: Duration = Duration::from_secs(30);

/// What the mirror asks. It numbers its questions, so that two equal calls are two.
#[derive(Debug, Deserialize)]
struct Question {
    tool: String,
    input: Json,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    pub allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Answer {
    fn no(reason: impl ToString) -> Self {
        Self { allowed: false, reason: Some(reason.to_string()) }
    }
}

/// What the thread says of requests. Of several answers the first counts, with what was said to the request before it.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    requests: HashMap<EventId, String>,
    words: HashMap<String, String>,
    given: HashMap<String, Answer>,
}

impl Answers {
    pub fn note(&mut self, entry: &Entry) {
        if entry.kind != "chat" && !entry.kind.starts_with("signal.permission.") {
            return;
        }
        match entry.event() {
            Ok(Event::Dispatch(DispatchEvent::PermissionRequested(it))) => drop(self.requests.insert(entry.id, it.request_id)),
            Ok(Event::Dispatch(DispatchEvent::PermissionResolved(it))) => {
                let words = self.words.get(&it.request_id).filter(|_| !it.allowed);
                let refused = || words.map_or("it was not allowed".to_owned(), |words| format!("it was not allowed: {words}"));
                let answer = Answer { allowed: it.allowed, reason: (!it.allowed).then(refused) };
                self.given.entry(it.request_id).or_insert(answer);
            }
            Ok(Event::Content(Content::Chat(chat))) => {
                if let Some(request) = chat.reply_to.and_then(|to| self.requests.get(&to)) {
                    self.words.insert(request.clone(), chat.text);
                }
            }
            // What is newer than this runner is not for it.
            Ok(_) | Err(_) => {}
        }
    }
}

/// The requests of one run.
#[derive(Debug)]
pub struct Permissions {
    run: RunId,
    answers: watch::Receiver<Answers>,
    /// Every question whole, in the order of their first coming. Who asks again gets the same answer.
    asked: Mutex<Vec<Bytes>>,
}

impl Permissions {
    #[must_use]
    pub fn new(run: RunId, answers: watch::Receiver<Answers>) -> Self {
        Self { run, answers, asked: Mutex::default() }
    }

    /// Whoever cannot be asked has not allowed it.
    pub async fn ask(&self, thread: &Thread, question: Bytes) -> Answer {
        let Question { tool, input } = match serde_json::from_slice(&question) {
            Ok(question) => question,
            Err(error) => return Answer::no(format_args!("the runner does not understand the question: {error}")),
        };
        let id = self.id_of(question);
        let requested = PermissionRequested { request_id: id.clone(), action: tool, detail: Some(input.get().to_owned()) };
        if let Err(error) = insist(PATIENCE, || thread.requested(&requested)).await {
            return Answer::no(format_args!("nobody could be asked: {error}"));
        }
        let waiting = PiWaiting { run_id: self.run.clone(), waiting_for: format!("permission {id}") };
        drop(insist(SAYING, || thread.waiting(&waiting, &id)).await);
        match tokio::time::timeout(PATIENCE, self.answer(&id)).await {
            Ok(answer) => answer,
            Err(_) => self.give_up(thread, &id).await,
        }
    }

    fn id_of(&self, question: Bytes) -> String {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let known = asked.iter().position(|it| *it == question);
        let at = known.unwrap_or_else(|| {
            asked.push(question);
            asked.len() - 1
        });
        format!("{}.{}", self.run, at + 1)
    }

    async fn answer(&self, id: &str) -> Answer {
        let mut answers = self.answers.clone();
        let given = answers.wait_for(|answers| answers.given.contains_key(id)).await;
        let given = given.ok().and_then(|answers| answers.given.get(id).cloned());
        given.unwrap_or_else(|| Answer::no("the run is over"))
    }

    /// What the thread says first counts, also now.
    async fn give_up(&self, thread: &Thread, id: &str) -> Answer {
        let said = self.withdraw(thread, id).await;
        let answer = tokio::time::timeout(SAYING, self.answer(id)).await;
        match (said, answer) {
            (Ok(()), Ok(answer)) if answer.allowed => answer,
            (Ok(()) | Err(_), _) => Answer::no("nobody allowed it in time"),
        }
    }

    async fn withdraw(&self, thread: &Thread, id: &str) -> Result<(), SayError> {
        let resolved = PermissionResolved { request_id: id.to_owned(), allowed: false };
        insist(SAYING, || thread.withdrawn(&resolved)).await
    }

    /// Nobody waits for what is still open: the run is over.
    pub async fn withdraw_all(&self, thread: &Thread) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).len();
        for id in (1..=asked).map(|number| format!("{}.{number}", self.run)) {
            if !self.answers.borrow().given.contains_key(&id) {
                drop(self.withdraw(thread, &id).await);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(answers: &mut Answers, id: u32, kind: &str, payload: &str) {
        let id = format!("01J9ZK3T6V8X0Q2R4S6T8V{id:04}");
        let entry = format!(r#"{{"id":"{id}","ts":1,"type":"{kind}","v":1,"payload":{payload}}}"#);
        answers.note(&Entry::from_json(&entry).unwrap());
    }

    #[test]
    fn the_first_answer_counts_with_what_was_said_to_the_request_before_it() {
        let mut answers = Answers::default();
        let to = r#"{"text":"not now","reply_to":"01J9ZK3T6V8X0Q2R4S6T8V0001"}"#;
        note(&mut answers, 1, "signal.permission.requested", r#"{"request_id":"r1.1","action":"bash"}"#);
        note(&mut answers, 2, "chat", r#"{"text":"hello"}"#);
        note(&mut answers, 3, "chat", to);
        note(&mut answers, 4, "signal.permission.resolved", r#"{"request_id":"r1.1","allowed":false}"#);
        note(&mut answers, 5, "signal.permission.resolved", r#"{"request_id":"r1.1","allowed":true}"#);
        note(&mut answers, 6, "signal.permission.resolved", r#"{"request_id":"r1.2","allowed":true}"#);
        assert_eq!(answers.given["r1.1"], Answer::no("it was not allowed: not now"));
        assert_eq!(answers.given["r1.2"], Answer { allowed: true, reason: None });
    }

    #[test]
    fn a_question_that_comes_again_is_the_same_and_another_is_not() {
        let run = RunId::new("r1").unwrap();
        let permissions = Permissions::new(run, watch::channel(Answers::default()).1);
        let question = |text: &'static str| permissions.id_of(Bytes::from_static(text.as_bytes()));
        assert_eq!([question("a"), question("b"), question("a")], ["r1.1", "r1.2", "r1.1"]);
    }
}
