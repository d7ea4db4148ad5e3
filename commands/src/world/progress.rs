//! What is under way in a thread besides its run: answers of bots, and commands.

use std::collections::BTreeSet;

use events::dispatch::{Cancelled, Claimed, CommandFinished, CommandStarted, Failed};
use events::{Entry, RunId, ThreadStatus};
use serde::Deserialize;

use super::Thread;
use crate::ports::command_run;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InProgress {
    pub answers: BTreeSet<RunId>,
    pub commands: BTreeSet<String>,
}

/// Of an answer's words, only what says whether they are its last.
#[derive(Deserialize)]
struct Words {
    #[serde(default, rename = "runId")]
    run_id: Option<RunId>,
    #[serde(default, rename = "stopReason")]
    stop_reason: Option<String>,
}

impl Thread {
    /// What does not read is nobody's beginning or end.
    pub(super) fn note(&mut self, entry: &Entry) {
        let (answers, commands) = (&mut self.in_progress.answers, &mut self.in_progress.commands);
        match entry.kind.as_str() {
            // The system claims runs and commands; an answer is claimed in the name of the bot.
            "signal.dispatch.claimed" if self.agent_id.is_none() && entry.author_agent_id.is_some() => {
                answers.extend(entry.payload.decode::<Claimed>().ok().map(|it| it.run_id));
            }
            "signal.dispatch.failed" => {
                let run = entry.payload.decode::<Failed>().ok().and_then(|it| it.run_id);
                answers.retain(|answer| Some(answer) != run.as_ref());
            }
            "signal.dispatch.cancelled" => {
                let run = entry.payload.decode::<Cancelled>().ok().map(|it| it.run_id);
                answers.retain(|answer| Some(answer) != run.as_ref());
            }
            "signal.command.started" => commands.extend(entry.payload.decode::<CommandStarted>().ok().map(|it| it.command_id)),
            "signal.command.finished" => {
                let ended = entry.payload.decode::<CommandFinished>().ok().map(|it| it.command_id);
                commands.retain(|command| Some(command) != ended.as_ref());
            }
            "pi.assistant" if !answers.is_empty() => {
                let Ok(Words { run_id: Some(run), stop_reason: Some(reason) }) = entry.payload.decode() else { return };
                if reason != "toolUse" {
                    answers.remove(&run);
                }
            }
            _ => {}
        }
    }

    /// Everything that can be asked to stop, by the ids it is asked by.
    #[must_use]
    pub fn stoppable(&self) -> BTreeSet<RunId> {
        let run = self.run_id.iter().filter(|_| self.status == ThreadStatus::Running).cloned();
        let commands = self.in_progress.commands.iter().filter_map(|id| command_run(id));
        run.chain(self.in_progress.answers.iter().cloned()).chain(commands).collect()
    }
}
