//! What the client puts where the user speaks.

use events::session::Provenance::{self, Conversational, Injected};

use crate::seam::Extracted;

/// A text of the client begins with the one and ends with the other; a user who writes only one of them is the user.
const WRAPPED: [(&str, &str); 22] = [
    ("# AGENTS.md instructions", "</INSTRUCTIONS>"),
    ("<app-context>", "</app-context>"),
    ("<apps_instructions>", "</apps_instructions>"),
    ("<codex_internal_context", "</codex_internal_context>"),
    ("<collaboration_mode>", "</collaboration_mode>"),
    ("<environment_context>", "</environment_context>"),
    ("<goal_context>", "</goal_context>"),
    ("<hook_prompt", "</hook_prompt>"),
    ("<in-app-browser-context", "</in-app-browser-context>"),
    ("<model_switch>", "</model_switch>"),
    ("<multi_agent_mode>", "</multi_agent_mode>"),
    ("<permissions instructions>", "</permissions instructions>"),
    ("<personality_spec>", "</personality_spec>"),
    ("<plugins_instructions>", "</plugins_instructions>"),
    ("<recommended_plugins>", "</recommended_plugins>"),
    ("<skill>", "</skill>"),
    ("<skills_instructions>", "</skills_instructions>"),
    ("<subagent_notification>", "</subagent_notification>"),
    ("<turn_aborted>", "</turn_aborted>"),
    ("<user_action>", "</user_action>"),
    ("<user_instructions>", "</user_instructions>"),
    ("<user_shell_command>", "</user_shell_command>"),
];

/// An editor puts what it shows before what the user typed.
const EDITOR: [&str; 3] = ["# Context from my IDE setup:", "# Files mentioned by the user:", "# Review findings:"];
const REQUEST: &str = "## My request for Codex:\n";

/// `told` is what the source itself says of the text, from 0.166 on.
pub(super) fn pieces(text: Extracted<String>, told: Option<&str>) -> Vec<(Extracted<String>, Provenance)> {
    if told.is_some_and(|told| told != "user") {
        return vec![(text, Injected)];
    }
    let (cut, all) = (injected(text.look()), text.look().len());
    if cut == 0 || cut == all {
        return vec![(text, if cut == 0 { Conversational } else { Injected })];
    }
    text.split(&[cut]).into_iter().zip([Injected, Conversational]).collect()
}

/// How many bytes at the beginning are not the user's.
fn injected(text: &str) -> usize {
    let mut at = 0;
    while let Some(length) = wrapped(&text[at..]).or_else(|| editor(&text[at..])) {
        at += length;
    }
    at
}

fn wrapped(text: &str) -> Option<usize> {
    let inside = text.trim_start();
    if is_image_tag(inside.trim_end()) {
        return Some(text.len());
    }
    let (_, end) = WRAPPED.iter().find(|(start, _)| inside.starts_with(start))?;
    if text.trim_end().ends_with(end) {
        return Some(text.len());
    }
    let after = text.find(end)? + end.len();
    Some(text.len() - text[after..].trim_start().len())
}

fn editor(text: &str) -> Option<usize> {
    let inside = text.trim_start();
    EDITOR.iter().find(|start| inside.starts_with(**start))?;
    let line = text.match_indices(REQUEST).map(|(at, _)| at).find(|at| text[..*at].ends_with('\n'))?;
    Some(line + REQUEST.len())
}

/// The tags around a picture stand alone.
fn is_image_tag(text: &str) -> bool {
    let opens = text == "<image>" || text.starts_with("<image name=") && text.ends_with('>') && !text.contains('\n');
    opens || text == "</image>"
}

/// Between agents, what one wrote follows what the client says of it.
pub(super) fn between_agents(text: Extracted<String>) -> Vec<(Extracted<String>, Provenance)> {
    const PAYLOAD: &str = "\nPayload:\n";
    let task = text.look().starts_with("Message Type: NEW_TASK\n");
    let cut = text.look().find(PAYLOAD).map(|at| at + PAYLOAD.len()).filter(|cut| task && *cut < text.look().len());
    match cut {
        Some(cut) => text.split(&[cut]).into_iter().zip([Injected, Conversational]).collect(),
        None => vec![(text, Injected)],
    }
}
