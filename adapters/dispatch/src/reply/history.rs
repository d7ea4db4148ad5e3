//! The thread as a model is told it.

use events::Entry;
use serde_json::Value;

use super::{Answering, belongs};
use crate::desk::{Said, words_of};
use crate::dispatcher::Inner;
use crate::model::{Call, Message};
use crate::story::{chat, message};

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
pub(super) fn history(inner: &Inner, it: &Answering, said: &Said, entries: &[(u64, Entry)]) -> History {
    let (mut messages, mut rounds, mut calls, mut answered) = (Vec::new(), 0, Vec::new(), Vec::new());
    let before = entries.iter().filter(|(seq, _)| *seq <= said.seq);
    let told = before.filter_map(|(_, entry)| spoken(inner, it, entry));
    messages.extend(last(told.collect()));
    for (_, entry) in entries.iter().filter(|(_, entry)| entry.kind.starts_with("pi.") && belongs(entry, &it.id)) {
        let Some(message) = message(entry) else { continue };
        if entry.kind == "pi.assistant" {
            // A model may give its calls the same ids in every round.
            rounds += 1;
            answered.clear();
            calls = calls_of(&message);
            messages.push(Message::Assistant { text: words_of(&message["content"]), calls: calls.clone() });
        } else if entry.kind == "pi.tool_result" {
            let call = message["toolCallId"].as_str().unwrap_or_default().to_owned();
            answered.push(call.clone());
            let failed = message["isError"].as_bool().unwrap_or_default();
            messages.push(Message::Result { call, text: words_of(&message["content"]), failed });
        }
    }
    // Each result is one call's, also if two calls of a round have one id.
    let mut is_open = |call: &Call| answered.iter().position(|id| *id == call.id).map(|at| answered.swap_remove(at)).is_none();
    let open: Vec<_> = calls.into_iter().enumerate().filter(|(_, call)| is_open(call)).collect();
    let open = (!open.is_empty()).then(|| (rounds - 1, open));
    History { messages, rounds, open }
}

/// What others say carries their name; a bot knows its own words without.
fn spoken(inner: &Inner, it: &Answering, entry: &Entry) -> Option<Message> {
    let author = entry.author_agent_id?;
    let (text, result) = match (chat(entry), entry.kind.as_str()) {
        (Some(chat), _) => (chat.text, chat.reply_to.is_some()),
        (None, "pi.assistant") => (words_of(&message(entry)?["content"]), false),
        (None, _) => return None,
    };
    if text.trim().is_empty() {
        return None;
    }
    if author == it.bot && !result {
        return Some(Message::Assistant { text, calls: Vec::new() });
    }
    Some(Message::User(format!("{}: {text}", inner.name_of(author))))
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
