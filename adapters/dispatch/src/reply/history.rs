//! The thread as a model is told it.

use events::Entry;
use serde_json::Value;

use super::{Answering, belongs};
use crate::desk::{Said, words_of};
use crate::dispatcher::{Inner, Later};
use crate::model::{Call, Message};
use crate::story::{LAST, chat, message};

/// Bytes of a thread that a model is told, the last ones.
const TOLD: usize = 200_000;

pub(super) struct History {
    pub(super) messages: Vec<Message>,
    /// Of this answer so far.
    pub(super) rounds: u32,
    /// Calls of the last round that have no result yet.
    pub(super) open: Option<(u32, Vec<(usize, Call)>)>,
}

/// What was said up to the words that are answered, and what this answer has come to since.
pub(super) async fn history(inner: &Inner, it: &Answering, said: &Said) -> Result<History, Later> {
    let after = said.seq + 1;
    let is_told = |entry: &Entry| matches!(entry.kind.as_str(), "chat" | "pi.assistant");
    let enough = |entries: &[(u64, Entry)]| {
        let lengths = entries.iter().filter_map(|(_, entry)| words(entry)).map(|(text, _)| text.len());
        lengths.sum::<usize>() > TOLD
    };
    let (before, _) = inner.back(&it.thread, 0..after, LAST, is_told, enough).await?;
    let told = before.iter().filter_map(|(_, entry)| spoken(inner, it, entry)).collect();
    let mut own = Own { messages: last(told), ..Own::default() };
    inner.each(&it.thread, after, u64::MAX, |_, entry| own.note(it, &entry)).await?;
    Ok(own.history())
}

/// What an answer has come to, entry by entry.
#[derive(Default)]
struct Own {
    messages: Vec<Message>,
    rounds: u32,
    /// Of the last round, and the ids of those that have a result.
    calls: Vec<Call>,
    answered: Vec<String>,
}

impl Own {
    fn note(&mut self, it: &Answering, entry: &Entry) {
        if !entry.kind.starts_with("pi.") || !belongs(entry, &it.id) {
            return;
        }
        let Some(message) = message(entry) else { return };
        if entry.kind == "pi.assistant" {
            // A model may give its calls the same ids in every round.
            self.rounds += 1;
            self.answered.clear();
            self.calls = calls_of(&message);
            let text = cut(words_of(&message["content"]));
            self.messages.push(Message::Assistant { text, calls: self.calls.clone() });
        } else if entry.kind == "pi.tool_result" {
            let call = message["toolCallId"].as_str().unwrap_or_default().to_owned();
            self.answered.push(call.clone());
            let failed = message["isError"].as_bool().unwrap_or_default();
            self.messages.push(Message::Result { call, text: cut(words_of(&message["content"])), failed });
        }
    }

    fn history(self) -> History {
        let Self { messages, rounds, calls, mut answered } = self;
        // Each result is one call's, also if two calls of a round have one id.
        let mut is_open =
            |call: &Call| answered.iter().position(|id| *id == call.id).map(|at| answered.swap_remove(at)).is_none();
        let open: Vec<_> = calls.into_iter().enumerate().filter(|(_, call)| is_open(call)).collect();
        let open = (!open.is_empty()).then(|| (rounds - 1, open));
        History { messages, rounds, open }
    }
}

/// And whether they answer something, as a result does.
fn words(entry: &Entry) -> Option<(String, bool)> {
    match (chat(entry), entry.kind.as_str()) {
        (Some(chat), _) => Some((chat.text, chat.reply_to.is_some())),
        (None, "pi.assistant") => Some((words_of(&message(entry)?["content"]), false)),
        (None, _) => None,
    }
}

/// What others say carries their name; a bot knows its own words without.
fn spoken(inner: &Inner, it: &Answering, entry: &Entry) -> Option<Message> {
    let author = entry.author_agent_id?;
    let (text, result) = words(entry)?;
    if text.trim().is_empty() {
        return None;
    }
    let text = cut(text);
    if author == it.bot && !result {
        return Some(Message::Assistant { text, calls: Vec::new() });
    }
    Some(Message::User(format!("{}: {text}", inner.name_of(author))))
}

/// The beginning of a text of which a model could not be told all.
fn cut(mut text: String) -> String {
    if text.len() > TOLD {
        text.truncate((0..=TOLD).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default());
        text.push('…');
    }
    text
}

fn last(messages: Vec<Message>) -> Vec<Message> {
    let mut room = TOLD;
    let size = |message: &Message| match message {
        Message::User(text) | Message::Assistant { text, .. } | Message::Result { text, .. } => text.len(),
    };
    let fits = |message: &&Message| {
        let left = room.checked_sub(size(message));
        room = left.unwrap_or(0);
        left.is_some()
    };
    let kept = messages.iter().rev().take_while(fits).count().max(1).min(messages.len());
    messages[messages.len() - kept..].to_vec()
}

fn calls_of(message: &Value) -> Vec<Call> {
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |block: &Value, field: &str| block[field].as_str().unwrap_or_default().to_owned();
    let call =
        |block: &Value| Call { id: text(block, "id"), name: text(block, "name"), arguments: block["arguments"].to_string() };
    blocks.iter().filter(|block| block["type"] == "toolCall").map(call).collect()
}

pub(super) fn system(inner: &Inner, it: &Answering) -> String {
    if let Some(system) = &it.rule.system {
        return system.clone();
    }
    let name = inner.name_of(it.bot);
    format!(
        "You are {name}, one of several people and bots who share this thread. What others say begins with their name. Answer briefly. \
         Use run_command for a quick look at the thread's machine, and delegate_task for longer work: it is done in a thread of its \
         own, and its result comes back here by itself."
    )
}
