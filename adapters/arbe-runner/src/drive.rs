//! pi at work: greeted, prompted, and watched until it rests, dies or is told to stop.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use events::dispatch::SessionStarted;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::desk::{Desk, Stop};
use crate::harness::{Facts, Harness};
use crate::outcome::{Exit, Outcome, Prompt, class};
use crate::pi::Pi;
use crate::settings::Settings;
use crate::thread::insist;

/// From its start to its first answer.
const GREETING: Duration = Duration::from_secs(60);
/// For an abort to be answered.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at whether it rests, and whether it has become less busy.
const CALM: Duration = Duration::from_millis(60);
const BUSY: Duration = Duration::from_secs(1);
/// After so much silence one that works is asked whether it does: pi tells nobody of an error between two turns, and stays.
const QUIET: Duration = Duration::from_secs(10);
/// So often it is asked without an answer before its end counts as one.
const LOOKS: u32 = 12;
/// For the first word of the run to be on the thread.
const SAYING: Duration = Duration::from_secs(30);

/// What is known of the process when it is gone.
#[derive(Debug)]
pub struct Driven {
    pub facts: Facts,
    pub exit: Exit,
    pub stopped: Option<Stop>,
    pub timed_out: bool,
    pub last_words: String,
    /// Where it keeps its session, once it said so.
    pub file: Option<String>,
    /// What it was put down for before it began.
    pub verdict: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeting,
    Working,
    /// It seems to rest, and is asked.
    Resting,
    Aborting,
    /// There is nothing more to wait for; `true` if it can be left to close by itself.
    Over(bool),
}

pub struct Drive<'a> {
    pi: Pi,
    desk: &'a Desk,
    settings: &'a Settings,
    prompt: &'a str,
    messages: usize,
    phase: Phase,
    /// When it is asked next, how often it was without an answer, and how often it has said that it rests.
    look: Instant,
    looks: u32,
    calm: u32,
    driven: Driven,
}

impl<'a> Drive<'a> {
    #[must_use]
    pub fn new(pi: Pi, desk: &'a Desk, settings: &'a Settings, prompt: &'a str, messages: usize) -> Self {
        let driven = Driven {
            facts: Facts::default(),
            exit: Exit::Unseen,
            stopped: None,
            timed_out: false,
            last_words: String::new(),
            file: None,
            verdict: None,
        };
        Self { pi, desk, settings, prompt, messages, phase: Phase::Greeting, look: Instant::now(), looks: 0, calm: 0, driven }
    }

    pub async fn to_its_end(mut self, stop: &mut mpsc::Receiver<Stop>) -> Driven {
        let guard = Instant::now() + self.settings.guard;
        let mut patience = Instant::now() + GREETING;
        self.ask("greeting");
        let gently = loop {
            if let Phase::Over(gently) = self.phase {
                break Some(gently);
            }
            let was = self.phase;
            tokio::select! {
                biased;
                Some(why) = stop.recv(), if self.driven.stopped.is_none() => self.stop(why),
                event = self.pi.next() => match event {
                    Some(event) => self.note(&event).await,
                    None => break None,
                },
                () = tokio::time::sleep_until(self.look), if self.phase == Phase::Resting => {
                    self.look_again();
                }
                () = tokio::time::sleep_until(self.look), if self.phase == Phase::Working => {
                    self.look = Instant::now() + QUIET;
                    self.ask("working");
                }
                () = tokio::time::sleep_until(patience), if matches!(self.phase, Phase::Greeting | Phase::Aborting) => {
                    self.phase = Phase::Over(false);
                }
                () = tokio::time::sleep_until(guard) => {
                    self.driven.timed_out = true;
                    self.phase = Phase::Over(false);
                }
            }
            if was != self.phase {
                patience = Instant::now() + PATIENCE;
            }
        };
        self.close(gently).await
    }

    async fn note(&mut self, event: &Value) {
        self.driven.facts.note(Harness::Pi, event);
        match (self.phase, event["id"].as_str()) {
            (Phase::Greeting, Some("greeting")) => self.greeted(&event["data"]).await,
            (Phase::Aborting, Some("abort")) => self.phase = Phase::Over(true),
            (Phase::Resting, Some("resting")) => self.rests(&event["data"]),
            (Phase::Working, Some("working")) => return self.works(&event["data"]),
            (Phase::Working, _) => (self.look, self.calm) = (Instant::now() + QUIET, 0),
            (Phase::Greeting | Phase::Resting | Phase::Aborting | Phase::Over(_), _) => {}
        }
        let facts = &self.driven.facts;
        match (self.phase, &facts.prompt) {
            (Phase::Working, Prompt::Refused(_)) => self.phase = Phase::Over(true),
            (Phase::Working, Prompt::Accepted | Prompt::Unanswered) if facts.end.is_some() => {
                (self.phase, self.look, self.looks, self.calm) = (Phase::Resting, Instant::now(), 0, 0);
            }
            (Phase::Resting, _) if facts.end.is_none() => {
                (self.phase, self.look, self.calm) = (Phase::Working, Instant::now() + QUIET, 0);
            }
            (Phase::Greeting | Phase::Working | Phase::Resting | Phase::Aborting | Phase::Over(_), _) => {}
        }
    }

    /// It has loaded what it was given, and the thread knows that it begins; only then is it prompted.
    async fn greeted(&mut self, state: &Value) {
        self.driven.file = state["sessionFile"].as_str().map(str::to_owned);
        let loaded = state["messageCount"].as_u64();
        if loaded != u64::try_from(self.messages).ok() {
            let loaded = loaded.map_or("no".to_owned(), |loaded| loaded.to_string());
            let message = format!("pi has loaded {loaded} messages of the session, which has {}", self.messages);
            return self.refuse(class::HYDRATE, message);
        }
        let started = SessionStarted {
            run_id: self.settings.run.clone(),
            sandbox_id: self.settings.sandbox.clone(),
            session_ref: state["sessionId"].as_str().map(str::to_owned),
        };
        if let Err(error) = insist(SAYING, || self.desk.thread.started(&started)).await {
            return self.refuse(class::MIRROR, error.to_string());
        }
        self.desk.mirror.send_replace(Some(Instant::now()));
        let prompt = json!({ "id": "prompt", "type": "prompt", "message": self.prompt });
        self.look = Instant::now() + QUIET;
        self.phase = if self.pi.tell(&prompt) { Phase::Working } else { Phase::Over(true) };
    }

    fn refuse(&mut self, class: &'static str, message: String) {
        self.driven.verdict = Some(Outcome::Failed { class, message, exit_code: None });
        self.phase = Phase::Over(true);
    }

    fn is_busy(&self, state: &Value) -> bool {
        let busy = |key: &str| state[key].as_bool() != Some(false);
        let waiting = state["pendingMessageCount"].as_u64().unwrap_or_default();
        busy("isStreaming") || busy("isCompacting") || waiting > 0 || self.driven.facts.compacting
    }

    /// One that has come to no end, will not try again and does nothing, twice in a row, never will.
    fn works(&mut self, state: &Value) {
        let facts = &self.driven.facts;
        let busy = self.is_busy(state) || facts.retrying || facts.prompt != Prompt::Accepted;
        self.calm = if busy { 0 } else { self.calm + 1 };
        if self.calm >= 2 {
            let message = "the harness stopped working without an end and without a word".to_owned();
            self.refuse(class::HARNESS, message);
        }
    }

    /// Between its end and its rest it may shrink its context and go on, so it is asked twice.
    fn rests(&mut self, state: &Value) {
        let busy = self.is_busy(state);
        (self.looks, self.calm) = (0, if busy { 0 } else { self.calm + 1 });
        self.look = Instant::now() + if busy { BUSY } else { CALM };
        if self.calm >= 2 {
            self.phase = Phase::Over(true);
        }
    }

    /// One that does not answer after its end has nothing more to say, and is put down.
    fn look_again(&mut self) {
        if self.looks == LOOKS {
            self.phase = Phase::Over(false);
            return;
        }
        (self.look, self.looks) = (Instant::now() + PATIENCE, self.looks + 1);
        self.ask("resting");
    }

    fn stop(&mut self, why: Stop) {
        self.driven.stopped = Some(why);
        let aborts = match self.phase {
            Phase::Greeting | Phase::Over(_) => false,
            Phase::Working | Phase::Resting | Phase::Aborting => self.pi.tell(&json!({ "id": "abort", "type": "abort" })),
        };
        self.phase = if aborts { Phase::Aborting } else { Phase::Over(true) };
    }

    fn ask(&self, id: &str) {
        // If it cannot hear, its end is heard.
        self.pi.tell(&json!({ "id": id, "type": "get_state" }));
    }

    /// `None`: it closed its mouth by itself.
    async fn close(mut self, gently: Option<bool>) -> Driven {
        let status = self.pi.end(gently.unwrap_or(true)).await;
        let exit = match status {
            None => Exit::PutDown,
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, Some(signal)) => Exit::Signal(signal),
                (None, None) => Exit::Unseen,
            },
        };
        // Asked to go after its work was over, whatever it makes of that is no failure of the work.
        let asked = gently.is_some() && self.driven.facts.end.is_some();
        self.driven.exit = if asked && exit != Exit::Code(0) { Exit::PutDown } else { exit };
        self.driven.last_words = self.pi.last_words().await;
        self.driven
    }
}
