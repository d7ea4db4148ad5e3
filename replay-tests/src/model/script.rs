//! What is answered depends on the last thing said, and on nothing else but how often it was asked. A person's words may hold directions,
//! which are followed where tools are offered, so not in the requests that clients make for titles and summaries:
//!
//! - `TOOL: <name> <JSON>` calls a tool, `<space>/<name>` one of a name space. A text instead of an object is free text.
//! - `THINK` thinks before it speaks.
//! - `FILL` says that the window is all but full.
//! - `REFUSE` is an error of the API.
//! - `FAIL <n>` is an error of the server for the first n times.
//! - `LENGTH` ends where the answer may not be longer.
//! - `HANG` begins to speak and does not end.
//! - `SPELL`, once said, lets it speak slowly and in small pieces, in chat completions.

use serde_json::Value;

use super::conversation::{Conversation, Role, Turn};

pub(super) enum Plan {
    Refuse(u16),
    Reply(Reply),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) thought: Option<String>,
    pub(super) text: String,
    pub(super) call: Option<(String, Value)>,
    pub(super) fills: bool,
    pub(super) hangs: bool,
    pub(super) cut: bool,
    pub(super) spells: bool,
}

/// `before`: how often the same was asked.
pub(super) fn plan(conversation: &Conversation, before: usize) -> Plan {
    let last = conversation.turns.iter().rfind(|turn| !is_of_the_harness(turn));
    let said = last.map(|turn| unquoted(&turn.text)).unwrap_or_default();
    if last.is_some_and(|turn| turn.role == Role::Result) {
        let spells = conversation.turns.iter().any(|turn| turn.role == Role::User && turn.text.contains("SPELL"));
        return Plan::Reply(Reply { text: format!("It gave: {}", beginning(&said)), spells, ..Reply::default() });
    }
    if conversation.tools.is_empty() {
        return Plan::Reply(Reply { text: "A few words on what was said.".to_owned(), ..Reply::default() });
    }
    if said.contains("REFUSE") {
        return Plan::Refuse(400);
    }
    if said.split_once("FAIL ").and_then(|(_, rest)| times(rest)).is_some_and(|times| before < times) {
        return Plan::Refuse(500);
    }
    let call = said.split_once("TOOL: ").and_then(|(_, rest)| call(rest));
    let text = match &call {
        Some((name, _)) => format!("I will use {name}."),
        None => format!("I heard: {}", beginning(&said)),
    };
    Plan::Reply(Reply {
        thought: said.contains("THINK").then(|| "Let me think about this.".to_owned()),
        text,
        call,
        fills: said.contains("FILL"),
        hangs: said.contains("HANG"),
        cut: said.contains("LENGTH"),
        spells: said.contains("SPELL"),
    })
}

/// Claude Code puts its reminders behind what was said.
fn is_of_the_harness(turn: &Turn) -> bool {
    turn.role == Role::User && turn.text.trim_start().starts_with("<system-reminder>")
}

/// opencode puts what was asked on the command line into quotes, and a backslash before every quote.
fn unquoted(text: &str) -> String {
    let inside = text.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.map_or_else(|| text.to_owned(), |inside| inside.replace("\\\"", "\""))
}

fn call(text: &str) -> Option<(String, Value)> {
    let (name, rest) = text.split_once(' ')?;
    let arguments = serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()?;
    Some((name.to_owned(), arguments))
}

fn times(text: &str) -> Option<usize> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn beginning(text: &str) -> String {
    text.trim().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::super::conversation::turn;
    use super::*;

    fn reply(text: &str, tools: &[&str]) -> Reply {
        match planned(text, tools, 0) {
            Plan::Reply(reply) => reply,
            Plan::Refuse(status) => panic!("refused with {status}"),
        }
    }

    fn planned(text: &str, tools: &[&str], before: usize) -> Plan {
        let tools = tools.iter().map(ToString::to_string).collect();
        plan(&Conversation { turns: vec![turn(Role::User, text), turn(Role::User, "<system-reminder>x")], tools }, before)
    }

    #[test]
    fn directions_are_followed_where_tools_are_offered() {
        let asked = r#""THINK and TOOL: bash {\"command\":\"ls\"}""#;
        let made = reply(asked, &["bash"]);
        assert_eq!(made.call, Some(("bash".to_owned(), serde_json::json!({"command": "ls"}))));
        assert!(made.thought.is_some() && !made.hangs && !made.fills);
        assert_eq!(reply(asked, &[]).call, None);
        assert_eq!(reply("hello", &["bash"]).text, "I heard: hello");
    }
    #[test]
    fn a_failure_is_over_after_as_many_times_as_were_asked_for() {
        for (before, failed) in [(0, true), (2, true), (3, false)] {
            let failing = matches!(planned("FAIL 3, then go on", &["bash"], before), Plan::Refuse(500));
            assert_eq!(failing, failed, "{before}");
        }
    }
}
