//! A run whose end did not reach the thread: its runner has left word in the machine, which is believed before a failure is guessed.

use std::time::Duration;

use commands::command::{Failure, Outcome};
use commands::ports::MachineError;
use events::dispatch::Warned;
use events::{RunId, StatusReason, ThreadId};
use serde::Deserialize;

use crate::desk::{Run, UNMIRRORED};
use crate::dispatcher::{Inner, Later};
use crate::judge::Judgement;
use crate::prompt;
use crate::sayable::sayable;
use crate::watch::Placed;

/// More than any runner leaves.
const LONGEST: usize = 256 << 10;
const LONGEST_CLASS: usize = 60;

/// As a runner leaves it. What a later runner adds is not looked at.
#[derive(Deserialize)]
struct Left {
    run_id: String,
    status: Status,
    #[serde(default)]
    error_class: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    exit_code: Option<i32>,
    #[serde(default)]
    unsaid: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Completed,
    Cancelled,
    Orphaned,
    Failed,
}

/// An end as the thread takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ended {
    outcome: Outcome,
    reason: Option<StatusReason>,
    failure: Option<Failure>,
    unsaid: String,
}

impl Inner {
    /// Whether the run was ended with what its machine knows. Only where a judgement would be a guess.
    pub(crate) async fn adopts(
        &self,
        judgement: &Judgement,
        thread: &ThreadId,
        found: &Run,
        silent: Duration,
        placed: &Placed,
    ) -> Result<bool, Later> {
        let (Placed { provider_ref, machines, .. }, run) = (placed, &found.run_id);
        // A runner that cannot reach the thread tries for long, with its run over and nobody the wiser.
        let is_unheard = silent >= self.options.patience.orphan;
        let stopped = match judgement {
            Judgement::Exited(_) | Judgement::Orphaned => false,
            Judgement::Lives if is_unheard => false,
            Judgement::MachineStopped => true,
            Judgement::Lives
            | Judgement::Wait
            | Judgement::Stop
            | Judgement::Cancelled
            | Judgement::CancelledUnseen { .. }
            | Judgement::Unreachable { .. }
            | Judgement::MachineDead { .. } => return Ok(false),
        };
        // It has its files, but nobody can read them while it stands still. If it cannot be woken, nobody waits for that.
        if stopped && machines.wake(provider_ref).await.is_err() {
            return Ok(false);
        }
        let left = match machines.read(provider_ref, &prompt::outcome_file(thread, run)).await {
            Ok(left) => left,
            // It ended before it could leave anything.
            Err(MachineError::Gone(_) | MachineError::Refused(_) | MachineError::Setup(_)) => return Ok(false),
            Err(MachineError::Unavailable(_) | MachineError::Unknown(_)) if stopped || *judgement == Judgement::Lives => {
                return Ok(false);
            }
            Err(error @ (MachineError::Unavailable(_) | MachineError::Unknown(_))) => return Err(Later::of(error)),
        };
        let Some(ended) = ended(&left, run) else { return Ok(false) };
        self.clear(thread, found, placed, Duration::ZERO).await?;
        let message = format!("the run could not say itself how it ended ({}); its end was found in its machine", ended.unsaid);
        let warned = Warned { run_id: Some(run.clone()), warning: "end_adopted".to_owned(), message };
        self.tell(thread, None, warned, &format!("{run}:adopted")).await?;
        self.end(thread, run, ended.outcome, ended.reason, ended.failure).await?;
        Ok(true)
    }

    /// It is not judged by that; but who reads the thread should not take it for all that happens.
    pub(crate) async fn warn_unmirrored(&self, thread: &ThreadId, run: &RunId, silent: Duration) -> Result<(), Later> {
        let message = format!(
            "nothing was heard of the run for {} seconds; its machine is alive and its process runs there, so it goes on unseen",
            silent.as_secs()
        );
        let warned = Warned { run_id: Some(run.clone()), warning: UNMIRRORED.to_owned(), message };
        self.tell(thread, None, warned, &format!("{run}:unmirrored")).await
    }
}

/// `None` if it is not about this run, or is not understood. Whoever works in the machine may have written it.
fn ended(left: &[u8], run: &RunId) -> Option<Ended> {
    let left: Left = serde_json::from_slice(Some(left).filter(|left| left.len() <= LONGEST)?).ok()?;
    if left.run_id != run.as_str() {
        return None;
    }
    let class = left.error_class.filter(|class| is_class(class)).unwrap_or_else(|| "runner_exit".to_owned());
    let message = sayable(&left.message.unwrap_or_default());
    let message = if message.trim().is_empty() { "the runner did not leave word why".to_owned() } else { message };
    let (outcome, reason, failure) = match left.status {
        Status::Completed => (Outcome::Completed, None, None),
        Status::Cancelled => (Outcome::Cancelled, None, None),
        Status::Orphaned => (Outcome::Failed, Some(StatusReason::Exit), None),
        Status::Failed => {
            let reason = if class == "timeout" { StatusReason::Timeout } else { StatusReason::Error };
            (Outcome::Failed, Some(reason), Some(Failure { error_class: class, message, exit_code: left.exit_code }))
        }
    };
    let unsaid = left.unsaid.unwrap_or_else(|| "it took it for said".to_owned()).chars().take(1_000).collect();
    Some(Ended { outcome, reason, failure, unsaid })
}

fn is_class(class: &str) -> bool {
    (1..=LONGEST_CLASS).contains(&class.len()) && class.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(left: &str) -> Option<Ended> {
        ended(left.as_bytes(), &RunId::new("r1").unwrap())
    }

    #[test]
    fn what_a_runner_left_is_the_end_that_it_would_have_said() {
        let done = r#"{"run_id":"r1","status":"completed","error_class":null,"message":null,"unsaid":"503 down","more":1}"#;
        let done = read(done).unwrap();
        assert_eq!(
            (done.outcome, done.reason, done.failure, done.unsaid),
            (Outcome::Completed, None, None, "503 down".to_owned())
        );
        let cancelled = read(r#"{"run_id":"r1","status":"cancelled"}"#).unwrap();
        assert_eq!((cancelled.outcome, cancelled.failure), (Outcome::Cancelled, None));
        let orphaned = read(r#"{"run_id":"r1","status":"orphaned"}"#).unwrap();
        assert_eq!((orphaned.outcome, orphaned.reason), (Outcome::Failed, Some(StatusReason::Exit)));
        for (class, reason) in [("model", StatusReason::Error), ("timeout", StatusReason::Timeout)] {
            let left = format!(r#"{{"run_id":"r1","status":"failed","error_class":"{class}","message":"500","exit_code":0}}"#);
            let failed = read(&left).unwrap();
            let failure = Failure { error_class: class.to_owned(), message: "500".to_owned(), exit_code: Some(0) };
            assert_eq!((failed.outcome, failed.reason, failed.failure), (Outcome::Failed, Some(reason), Some(failure)));
        }
    }

    #[test]
    fn what_is_not_about_the_run_or_not_understood_is_not_believed() {
        for left in ["", "{", "{}", r#"{"run_id":"r2","status":"completed"}"#, r#"{"run_id":"r1","status":"splendid"}"#] {
            assert_eq!(read(left), None, "{left}");
        }
        let odd = read(r#"{"run_id":"r1","status":"failed","error_class":"A B","message":" "}"#).unwrap().failure.unwrap();
        assert_eq!((odd.error_class.as_str(), odd.message.as_str()), ("runner_exit", "the runner did not leave word why"));
        let nul = read(r#"{"run_id":"r1","status":"failed","message":"a\u0000b"}"#).unwrap().failure.unwrap();
        assert_eq!(nul.message, "a\u{FFFD}b");
        let long = format!(r#"{{"run_id":"r1","status":"completed","message":"{}"}}"#, "x".repeat(LONGEST));
        assert_eq!(read(&long), None);
    }
}
