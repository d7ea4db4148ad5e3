//! Tools that need leave: it is asked for on the thread, and waited for there.

use std::time::Duration;

use events::dispatch::{Heartbeat, PermissionRequested, PermissionResolved};
use events::{AgentId, Entry, EventId, RunId, ThreadId};
use serde_json::json;
use tokio::time::Instant;

use super::Answering;
use crate::desk::{Said, turn_id, words_of};
use crate::dispatcher::{Inner, Later};
use crate::model::Call;
use crate::story::{chat, message};
use crate::surroundings::{Halt, Trouble};

const LOOK: Duration = Duration::from_millis(200);

/// What the thread says of one request. Of several answers the first counts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    asked: Option<(EventId, u64)>,
    /// What somebody said to it.
    words: Option<String>,
    answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    allowed: bool,
    /// Nobody but the system, if there was no answer.
    by: Option<AgentId>,
    words: Option<String>,
}

impl Request {
    fn note(&mut self, id: &str, entry: &Entry) {
        match entry.kind.as_str() {
            "signal.permission.requested" => {
                let it = entry.payload.decode::<PermissionRequested>().ok().filter(|it| it.request_id == id);
                self.asked = self.asked.or(it.map(|_| (entry.id, entry.ts)));
            }
            "signal.permission.resolved" if self.answer.is_none() => {
                let it = entry.payload.decode::<PermissionResolved>().ok().filter(|it| it.request_id == id);
                let (by, words) = (entry.author_agent_id, self.words.clone());
                self.answer = it.map(|it| Answer { allowed: it.allowed, by, words });
            }
            "chat" => {
                let to = self.asked.map(|(asked, _)| asked);
                let reply = chat(entry).filter(|chat| to.is_some() && chat.reply_to == to);
                self.words = reply.map(|chat| chat.text).or(self.words.take());
            }
            _ => {}
        }
    }
}

impl Inner {
    /// Returns when the call may be performed. `place` is the request's id too, so whoever goes on with the answer finds what was asked,
    /// and what came of it, on the thread.
    pub(crate) async fn leave(&self, it: &Answering, place: &str, call: &Call) -> Result<(), Halt> {
        if !it.at.recipe.permissions.asks(&call.name) {
            return Ok(());
        }
        let (mut request, mut at, mut told) = (Request::default(), it.since, Instant::now());
        loop {
            let from = at;
            let note = |seq, entry: Entry| {
                at = seq + 1;
                request.note(place, &entry);
            };
            self.each(&it.thread, from, u64::MAX, note).await?;
            match (&request.answer, request.asked) {
                (Some(answer), _) => return self.heed(answer, &call.name),
                (None, None) => {
                    let asked = json!({ "request_id": place, "action": call.name, "detail": call.arguments });
                    self.post(it, "signal.permission.requested", &asked, &format!("{place}:permission")).await?;
                }
                (None, Some((_, since))) => self.wait_on(it, place, since, &mut told).await?,
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn heed(&self, answer: &Answer, tool: &str) -> Result<(), Halt> {
        let trouble = match (answer.allowed, answer.by) {
            (true, _) => return Ok(()),
            (false, None) => Trouble::new("permission_unanswered", format_args!("nobody allowed the use of {tool} in time")),
            (false, Some(by)) => {
                let words = answer.words.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
                let refused = format!("{} did not allow the use of {tool}{words}", self.name_of(by));
                Trouble::new("permission_refused", refused)
            }
        };
        Err(trouble.into())
    }

    /// One look at whether there is still something to wait for. Signs of life keep the claim meanwhile.
    async fn wait_on(&self, it: &Answering, place: &str, since: u64, told: &mut Instant) -> Result<(), Halt> {
        let refused = || PermissionResolved { request_id: place.to_owned(), allowed: false };
        let server = self.desk.lock().turn(&it.thread, &it.id).map(|turn| turn.server.clone());
        match server {
            Some(server) if server.as_ref().is_none_or(|server| *server == self.options.server) => {}
            Some(_) => return Err(Later::of("another server goes on with the answer").into()),
            None => {
                self.say(&it.thread, None, refused(), Some(&format!("{place}:withdrawn"))).await?;
                return Err(Later::of("the answer was cancelled while it waited for leave").into());
            }
        }
        if self.now().saturating_sub(since) >= self.options.patience.permission.as_millis() as u64 {
            self.say(&it.thread, None, refused(), Some(&format!("{place}:unanswered"))).await?;
        } else if told.elapsed() >= self.options.patience.lease / 3 {
            self.say(&it.thread, Some(it.bot), Heartbeat { run_id: it.id.clone() }, None).await?;
            *told = Instant::now();
        }
        Ok(())
    }

    /// The words that an answer is to. Who waits for leave may wait longer than the desk of a new server remembers words.
    pub(super) async fn words_before(&self, thread: &ThreadId, id: &RunId, bot: AgentId) -> Result<Option<Said>, Later> {
        let theirs =
            |entry: &Entry| matches!(entry.kind.as_str(), "chat" | "pi.assistant") && turn_id(thread, &entry.id, bot) == *id;
        let (found, _) = self.back(thread, 0..u64::MAX, u64::MAX, theirs, |found| !found.is_empty()).await?;
        Ok(found.last().and_then(|(seq, entry)| said(*seq, entry)))
    }
}

fn said(seq: u64, entry: &Entry) -> Option<Said> {
    let (to, text) = match chat(entry) {
        Some(chat) => (chat.to, chat.text),
        None => (None, words_of(&message(entry)?["content"])),
    };
    Some(Said { id: entry.id, seq, ts: entry.ts, author: entry.author_agent_id, to, text })
}

#[cfg(test)]
mod tests {
    use events::{Json, Ulid, Uuid};
    use serde_json::Value;

    use super::*;

    const ADA: AgentId = AgentId(Uuid::from_u128(1));

    fn entry(id: u128, by: Option<AgentId>, kind: &str, payload: &Value) -> Entry {
        let payload = Json::of(payload).unwrap();
        Entry { id: EventId(Ulid(id)), ts: 7, kind: kind.to_owned(), v: 1, author_agent_id: by, payload }
    }

    fn request(entries: &[Entry]) -> Request {
        let mut request = Request::default();
        entries.iter().for_each(|entry| request.note("t.0.0", entry));
        request
    }

    #[test]
    fn the_first_answer_counts_with_what_was_said_to_the_request_before_it() {
        let asked = |id, request: &str| {
            entry(id, None, "signal.permission.requested", &json!({ "request_id": request, "action": "run_command" }))
        };
        let answer = |request: &str, allowed: bool| {
            entry(9, Some(ADA), "signal.permission.resolved", &json!({ "request_id": request, "allowed": allowed }))
        };
        let says = |text: &str, to| entry(8, Some(ADA), "chat", &json!({ "text": text, "reply_to": EventId(Ulid(to)) }));
        assert_eq!(request(&[asked(1, "t.0.1"), answer("t.0.1", true)]), Request::default());
        let heard = request(&[
            asked(1, "t.0.1"),
            asked(2, "t.0.0"),
            says("not this", 1),
            says("not now", 2),
            answer("t.0.1", true),
            answer("t.0.0", false),
            says("or yes", 2),
            answer("t.0.0", true),
        ]);
        assert_eq!(heard.asked, Some((EventId(Ulid(2)), 7)));
        assert_eq!(heard.answer, Some(Answer { allowed: false, by: Some(ADA), words: Some("not now".to_owned()) }));
    }
}
