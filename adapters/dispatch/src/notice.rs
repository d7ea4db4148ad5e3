//! A parent hears what its child came to. The result answers the entry that tells of the end, and triggers nobody.

use commands::{CommandError, Rejection};
use events::dispatch::Warned;
use events::{Chat, Entry, Event, EventId, ThreadEvent, ThreadId, ThreadStatus};

use crate::desk::Notice;
use crate::dispatcher::{Inner, Later};
use crate::story::{LAST, last_words};

const RESULT_MAX: usize = 32_000;

impl Inner {
    pub(crate) async fn notice(&self, parent: &ThreadId, finished: &EventId) -> Result<(), Later> {
        let notice = self.desk.lock().room(parent).and_then(|room| room.notices.get(finished).cloned());
        let Some(Notice { child, status, ts }) = notice else { return Ok(()) };
        let driver = self.outside.commands.with_world(|world| world.thread(&child).and_then(|thread| thread.agent_id));
        let why = match driver {
            None => "its bot is not known".to_owned(),
            Some(driver) => {
                let whole =
                    |entries: &[(u64, Entry)]| end_of(entries, status, ts).is_some_and(|end| begin_of(&entries[..end]).is_some());
                let (entries, _) = self.back(&child, 0..u64::MAX, LAST, tells, whole).await?;
                let text = result(status, run_that_ended(&entries, status, ts));
                let chat = Chat { text, to: None, reply_to: Some(*finished) };
                match self.say(parent, Some(driver), chat, Some(&format!("{finished}:result"))).await {
                    // One that is closed hears of it when it is opened again.
                    Ok(_) | Err(CommandError::Rejected(Rejection::ThreadClosed)) => return Ok(()),
                    Err(error @ (CommandError::Rejected(_) | CommandError::IdempotencyKeyReused)) => error.to_string(),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let message = format!("what came of {child} cannot be told here ({why}): look there");
        let warned = Warned { run_id: None, warning: "result_untold".to_owned(), message };
        self.tell(parent, None, warned, &format!("{finished}:untold")).await?;
        self.desk.lock().forget(parent, Some(finished), None);
        Ok(())
    }
}

fn status_of(entry: &Entry) -> Option<ThreadStatus> {
    if let Ok(Event::Thread(ThreadEvent::StatusChanged(it))) = entry.event() { Some(it.status) } else { None }
}

/// Of a run, what it came to.
fn tells(entry: &Entry) -> bool {
    matches!(
        entry.kind.as_str(),
        "pi.assistant" | "signal.thread.status_changed" | "signal.thread.pi_failed" | "signal.thread.pi_session_orphaned"
    )
}

/// It has the time of what the parent was told.
fn end_of(entries: &[(u64, Entry)], status: ThreadStatus, ts: u64) -> Option<usize> {
    entries.iter().position(|(_, entry)| entry.ts == ts && status_of(entry) == Some(status))
}

fn begin_of(before: &[(u64, Entry)]) -> Option<usize> {
    before.iter().rposition(|(_, entry)| status_of(entry) == Some(ThreadStatus::Running))
}

/// From its beginning to its end. Others may have come since.
fn run_that_ended(entries: &[(u64, Entry)], status: ThreadStatus, ts: u64) -> &[(u64, Entry)] {
    let Some(end) = end_of(entries, status, ts) else { return entries };
    &entries[begin_of(&entries[..end]).unwrap_or(0)..=end]
}

fn result(status: ThreadStatus, entries: &[(u64, Entry)]) -> String {
    let said = last_words(entries);
    let text = match status {
        ThreadStatus::Completed => said.unwrap_or_else(|| "The task is done; nothing was said.".to_owned()),
        ThreadStatus::Failed => {
            let why = why(entries).unwrap_or_else(|| "no reason is known".to_owned());
            format!("The task failed: {why}{}", said.map(|said| format!("\n\nThe last words were:\n{said}")).unwrap_or_default())
        }
        ThreadStatus::Cancelled => "The task was cancelled.".to_owned(),
        ThreadStatus::Open | ThreadStatus::Closed | ThreadStatus::Idle | ThreadStatus::Running => {
            format!("The task is {status}.")
        }
    };
    let short: String = text.chars().take(RESULT_MAX).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

fn why(entries: &[(u64, Entry)]) -> Option<String> {
    let cause = |entry: &Entry| {
        let payload: serde_json::Value = entry.payload.decode().ok()?;
        match entry.kind.as_str() {
            "signal.thread.pi_failed" => payload["message"].as_str().map(str::to_owned),
            "signal.thread.pi_session_orphaned" => Some("nothing was heard of it any more".to_owned()),
            _ => None,
        }
    };
    entries.iter().rev().find_map(|(_, entry)| cause(entry))
}

#[cfg(test)]
mod tests {
    use events::{Json, Ulid};
    use serde_json::{Value, json};

    use super::*;

    fn entry(ts: u64, kind: &str, payload: &Value) -> (u64, Entry) {
        let (id, payload) = (EventId(Ulid(u128::from(ts))), Json::of(payload).unwrap());
        (ts, Entry { id, ts, kind: kind.to_owned(), v: 1, author_agent_id: None, payload })
    }

    #[test]
    fn a_result_is_of_the_run_that_ended_and_of_no_other() {
        let status = |ts, status: &str| entry(ts, "signal.thread.status_changed", &json!({ "status": status, "run_id": "r" }));
        let says = |ts, text: &str| entry(ts, "pi.assistant", &json!({ "role": "assistant", "content": text }));
        let entries = [
            status(1, "running"),
            says(2, "one"),
            status(3, "completed"),
            status(4, "running"),
            status(5, "completed"),
            status(6, "running"),
            says(7, "three"),
        ];
        let told = |ts| result(ThreadStatus::Completed, run_that_ended(&entries, ThreadStatus::Completed, ts));
        assert_eq!(told(3), "one");
        assert_eq!(told(5), "The task is done; nothing was said.");
        assert_eq!(told(9), "three", "what is not found there is told as it stands");
    }
}
