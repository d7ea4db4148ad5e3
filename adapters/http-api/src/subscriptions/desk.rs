//! The one place that writes events: commands are decided in batches on the latest state, and a lost race is decided again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use event_log::{Append, Change, Command as LogCommand, Log, Payload, Rejection, SubmitError};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::decide::{self, Answer, Around, Chance, Command, Refusal};
use super::event::{Event, Recorded};
use super::journal::{self, Journal};
use super::state::{State, Subscription};
use crate::random;

const QUEUE: usize = 4_096;
const BATCH: usize = 256;
/// Races lost to other servers before callers are told to come back.
const ATTEMPTS: u32 = 16;
const PAUSE: Duration = Duration::from_millis(5);
/// Times the same command is handed in when nobody says what became of it.
const RESUBMITS: u32 = 3;

#[derive(Clone, Debug)]
pub(super) struct Desk {
    asks: mpsc::Sender<Ask>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing can be said of the outcome. Asking again is safe.
    #[error("{0}")]
    Unavailable(String),
}

#[derive(Debug)]
struct Ask {
    id: Arc<str>,
    command: Command,
    chance: Chance,
    reply: oneshot::Sender<Result<Answer, Failure>>,
}

/// A webhook that this server's write made due.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) id: Arc<str>,
    pub(super) generation: u64,
}

impl Desk {
    pub(super) fn open(log: Log, journal: Arc<Journal>, deliveries: mpsc::UnboundedSender<Delivery>) -> (Self, Clerk) {
        let (sender, asks) = mpsc::channel(QUEUE);
        (Self { asks: sender }, Clerk { log, journal, asks, deliveries })
    }

    pub(super) async fn ask(&self, id: Arc<str>, command: Command) -> Result<Answer, Failure> {
        let stopping = || Failure::Unavailable("the server is stopping".into());
        let (reply, answer) = oneshot::channel();
        self.asks.send(Ask { id, command, chance: draw(), reply }).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }
}

fn draw() -> Chance {
    let bytes: [u8; 16] = random::bytes();
    let hex: String = bytes[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    Chance { wake_id: format!("w_{hex}").into(), jitter: u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) }
}

#[derive(Debug)]
pub(super) struct Clerk {
    log: Log,
    journal: Arc<Journal>,
    asks: mpsc::Receiver<Ask>,
    deliveries: mpsc::UnboundedSender<Delivery>,
}

/// Everything a batch of decisions comes to.
#[derive(Default)]
struct Plan {
    recorded: Vec<Recorded>,
    /// Messages for wake streams; they are written together with the wakes they tell of.
    messages: BTreeMap<Arc<str>, Vec<String>>,
    deliveries: Vec<Delivery>,
    answers: Vec<Result<Answer, Refusal>>,
}

/// Why a batch was not written.
enum Setback {
    LostRace,
    /// One of the wake streams does not take messages after all.
    BadStream(String),
    Unavailable(String),
}

impl Clerk {
    pub(super) async fn run(mut self) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                let Some(ask) = self.asks.recv().await else { return };
                waiting.push_back(ask);
            }
            while waiting.len() < QUEUE
                && let Ok(ask) = self.asks.try_recv()
            {
                waiting.push_back(ask);
            }
            let batch = one_each(&mut waiting);
            self.settle(batch).await;
        }
    }

    async fn settle(&self, batch: Vec<Ask>) {
        match self.commit(&batch).await {
            Ok(answers) => {
                for (ask, answer) in batch.into_iter().zip(answers) {
                    let _ = ask.reply.send(answer.map_err(Failure::Refused));
                }
            }
            // One bad wake stream must not hold up the subscriptions that do not use it.
            Err(Setback::BadStream(_)) if batch.len() > 1 => {
                for ask in batch {
                    Box::pin(self.settle(vec![ask])).await;
                }
            }
            Err(setback) => {
                let why = match setback {
                    Setback::LostRace => "other servers write too much".to_owned(),
                    Setback::BadStream(why) | Setback::Unavailable(why) => why,
                };
                tracing::warn!(why, "subscriptions could not be changed");
                for ask in batch {
                    let _ = ask.reply.send(Err(Failure::Unavailable(why.clone())));
                }
            }
        }
    }

    async fn commit(&self, batch: &[Ask]) -> Result<Vec<Result<Answer, Refusal>>, Setback> {
        let mut setback = Setback::LostRace;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE * attempt).await;
            }
            self.log.refresh().await;
            self.catch_up().await?;
            let (plan, position) = self.journal.with_position(|state, position| (self.plan(state, batch), position));
            if plan.recorded.is_empty() {
                return Ok(plan.answers);
            }
            match self.submit(plan.command(position)).await {
                Ok(()) => {
                    // A delivery is composed from the journal, so the wake must be in it first.
                    let caught_up = self.catch_up().await;
                    for delivery in plan.deliveries {
                        let _ = self.deliveries.send(delivery);
                    }
                    caught_up?;
                    return Ok(plan.answers);
                }
                Err(Setback::BadStream(why)) if batch.len() > 1 => return Err(Setback::BadStream(why)),
                Err(Setback::Unavailable(why)) => return Err(Setback::Unavailable(why)),
                Err(again) => setback = again,
            }
        }
        Err(setback)
    }

    async fn catch_up(&self) -> Result<(), Setback> {
        self.journal.catch_up().await.map_err(|error| Setback::Unavailable(error.to_string()))
    }

    /// Decides each ask on the same state: no two of a batch are about the same subscription.
    fn plan(&self, state: &State, batch: &[Ask]) -> Plan {
        let now = self.log.now_ms();
        let mut plan = Plan::default();
        for ask in batch {
            let around = Around { streams: &self.log, now, chance: &ask.chance };
            match decide::decide(state, &ask.id, &ask.command, around) {
                Ok(decision) => {
                    plan.add(state.get(&ask.id), &ask.id, decision.events, now);
                    plan.answers.push(Ok(decision.answer));
                }
                Err(refusal) => plan.answers.push(Err(refusal)),
            }
        }
        plan
    }

    async fn submit(&self, command: LogCommand) -> Result<(), Setback> {
        let mut unknown = String::new();
        for _ in 0..RESUBMITS {
            match self.log.submit(command.clone()).await {
                Ok(_) => return Ok(()),
                Err(SubmitError::Rejected(Rejection::Conflict { .. }) | SubmitError::NotOwner) => return Err(Setback::LostRace),
                Err(SubmitError::Rejected(rejection)) => return Err(Setback::BadStream(rejection.to_string())),
                Err(SubmitError::Unknown(why)) => unknown = why,
                Err(error @ (SubmitError::NotWritten(_) | SubmitError::Overloaded)) => {
                    return Err(Setback::Unavailable(error.to_string()));
                }
            }
        }
        Err(Setback::Unavailable(unknown))
    }
}

/// The first waiting ask of each subscription; the others wait for what becomes of it.
fn one_each(waiting: &mut VecDeque<Ask>) -> Vec<Ask> {
    let mut chosen = BTreeSet::new();
    let (mut batch, mut rest) = (Vec::new(), VecDeque::new());
    for ask in waiting.drain(..) {
        if batch.len() < BATCH && chosen.insert(ask.id.clone()) {
            batch.push(ask);
        } else {
            rest.push_back(ask);
        }
    }
    *waiting = rest;
    batch
}

impl Plan {
    fn add(&mut self, subscription: Option<&Subscription>, id: &Arc<str>, events: Vec<Event>, now: u64) {
        for event in events {
            if let Event::Woken { generation, stream, wake_stream: Some(_), .. } = &event
                && let Some(wake_stream) = subscription.and_then(Subscription::wake_stream)
            {
                let message = json!({
                    "type": "wake",
                    "subscription_id": id,
                    "stream": stream,
                    "generation": generation,
                    "ts": now,
                });
                self.messages.entry(wake_stream.clone()).or_default().push(message.to_string());
            }
            if let Event::Woken { generation, deliver_until: Some(_), .. } | Event::DeliveryRetried { generation, .. } = &event {
                self.deliveries.push(Delivery { id: id.clone(), generation: *generation });
            }
            self.recorded.push(Recorded::new(now, id.clone(), event));
        }
    }

    fn command(&self, position: Option<u64>) -> LogCommand {
        let mut command = journal::command(position, &self.recorded);
        command.id = Some(u128::from_le_bytes(random::bytes()));
        for (wake_stream, messages) in &self.messages {
            let payload = Ok(Payload::messages(messages.iter().map(String::as_str)));
            let append = Append { content_type: None, payload, producer: None, stream_seq: None, close: false };
            command.changes.push((wake_stream.clone(), Change::Append(append)));
        }
        command
    }
}
