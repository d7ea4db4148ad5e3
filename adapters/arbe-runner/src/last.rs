//! The end of a run, brought to the thread however long that takes, and left in the machine for whoever looks there first.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::desk::Stop;
use crate::outcome::Outcome;
use crate::settings::Settings;
use crate::thread::SayError;
use crate::{plain, redact};

/// The work is done and only its end is missing: a server that is gone for the night is waited for.
const LAST: Duration = Duration::from_secs(24 * 60 * 60);
/// For a runner that is asked to end meanwhile. Shorter than those who ask wait.
const HURRY: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// Somebody is there who would soon notice if nothing came.
const SOON: Duration = Duration::from_secs(60);
const PAUSE_AT_FIRST: Duration = Duration::from_secs(3);

/// Who asks the run to stop, and how long its end may take to be told.
#[derive(Debug)]
pub struct LastWords {
    stopped: mpsc::Receiver<Stop>,
    began: Instant,
    end: Instant,
}

impl LastWords {
    #[must_use]
    pub fn new(stopped: mpsc::Receiver<Stop>) -> Self {
        let began = Instant::now();
        Self { stopped, began, end: began + LAST }
    }

    /// For whoever drives the harness.
    pub fn stops(&mut self) -> &mut mpsc::Receiver<Stop> {
        &mut self.stopped
    }

    /// The harness has ended. Who asked it to stop has not asked for this to be cut short.
    pub fn begin(&mut self) {
        while self.stopped.try_recv().is_ok() {}
        self.began = Instant::now();
        self.end = self.began + LAST;
    }

    /// Tries until it is said, it is refused, or there is no more time.
    pub async fn insist<T, F>(&mut self, mut attempt: impl FnMut() -> F) -> Result<T, SayError>
    where
        F: Future<Output = Result<T, SayError>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            let tried = tokio::select! {
                biased;
                tried = attempt() => tried,
                () = self.over() => Err(SayError::Unreachable("it was asked to end before there was an answer".to_owned())),
            };
            match tried {
                Err(SayError::Unreachable(_)) if Instant::now() + pause < self.end => {}
                settled => return settled,
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.over() => {}
            }
            let longest = if self.began.elapsed() < SOON { PAUSE_AT_FIRST } else { LONGEST_PAUSE };
            pause = (pause * 2).min(longest);
        }
    }

    async fn over(&mut self) {
        loop {
            tokio::select! {
                () = sleep_until(self.end) => return,
                Some(_) = self.stopped.recv() => self.end = self.end.min(Instant::now() + HURRY),
            }
        }
    }
}

/// For whoever looks into the machine when the thread could not be told: whole, or as it was before. Read by drivers; never renamed.
pub fn leave(settings: &Settings, outcome: &Outcome, unsaid: Option<&str>) {
    let (status, class, message, exit_code) = match outcome {
        Outcome::Completed => ("completed", None, None, None),
        Outcome::Cancelled => ("cancelled", None, None, None),
        Outcome::Orphaned => ("orphaned", None, None, None),
        Outcome::Failed { class, message, exit_code } => ("failed", Some(class), Some(message), *exit_code),
    };
    let left = json!({
        "run_id": settings.run, "status": status, "error_class": class, "message": message, "exit_code": exit_code,
        "unsaid": unsaid,
    });
    let left = redact::json(&settings.secrets, plain::json(&left));
    let directory = settings.sessions.join("run");
    let (path, draft) = (directory.join(format!("{}.json", settings.run)), directory.join(format!("{}.draft", settings.run)));
    // If the machine's disk takes nothing more, the thread is still told.
    drop(std::fs::write(&draft, left).and_then(|()| std::fs::rename(&draft, &path)));
}
