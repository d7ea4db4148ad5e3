//! Clients: they ask, hang up, ask again, and remember what they were told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use event_log::{Change, Command, From, Receipt, Rejection, Status, SubmitError};

use super::history::{Answer, History, Seen, Told};
use super::intent::{Intent, chunks};
use super::net::{Net, SERVERS, Up};

pub struct Client {
    pub net: Arc<Net>,
    pub history: Arc<History>,
    pub id: u64,
    pub home: usize,
    /// Next sequence number as an idempotent producer, by stream.
    pub sequences: BTreeMap<Arc<str>, u64>,
}

/// What one request came to.
enum Reply {
    Answer(Result<Receipt, SubmitError>),
    /// The server died or the client had enough.
    Silence,
}

impl Client {
    pub async fn run(mut self) {
        for k in 0..self.net.env.plan.commands {
            self.net.env.pause(0, 200).await;
            if self.net.env.chance(200) {
                self.read().await;
            }
            if let Some(intent) = self.intend(k) {
                self.carry_out(intent).await;
            }
        }
    }

    /// A server that is up, at home if possible.
    pub async fn server(&mut self) -> Up {
        loop {
            if self.net.env.chance(100) {
                self.home = self.net.env.below(SERVERS as u64) as usize;
            }
            if let Some(up) = self.net.get(self.home) {
                return up;
            }
            self.home = (self.home + 1) % SERVERS;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn request(&mut self, command: Command) -> Reply {
        let Up { log, life } = self.server().await;
        let patience = if self.net.env.strikes(20) { self.net.env.below(40) } else { 8_000 };
        tokio::select! {
            biased;
            () = life.death() => Reply::Silence,
            answer = tokio::time::timeout(Duration::from_millis(patience), log.submit(command)) => match answer {
                Ok(answer) => Reply::Answer(answer),
                Err(_) => Reply::Silence,
            },
        }
    }

    async fn carry_out(&mut self, intent: Intent) {
        let asked_at = self.net.env.elapsed_ms();
        let mut unsure = false;
        let answer = loop {
            let answer = match self.request(intent.command.clone()).await {
                Reply::Answer(Ok(receipt)) => Answer::Done(receipt),
                Reply::Answer(Err(SubmitError::Rejected(rejection))) => Answer::Rejected(rejection),
                Reply::Answer(Err(SubmitError::NotWritten(_) | SubmitError::Overloaded)) => Answer::NotWritten,
                Reply::Answer(Err(SubmitError::Unknown(_))) | Reply::Silence => Answer::Unknown,
                Reply::Answer(Err(SubmitError::NotOwner)) => {
                    self.net.env.problem(format!("{}: a client was told about ownership", intent.marker));
                    Answer::Unknown
                }
            };
            let settled = matches!(answer, Answer::Done(_) | Answer::Rejected(_));
            if settled || !intent.can_retry {
                break answer;
            }
            unsure = true;
            self.net.env.pause(1, 100).await;
        };
        self.net.env.note(format_args!("{} {:?}", intent.marker, answer));
        self.learn(&intent, &answer, unsure);
        self.history.told.lock().push(Told {
            marker: intent.marker,
            command: intent.command,
            appends: intent.appends,
            asked_at,
            told_at: self.net.env.elapsed_ms(),
            retried: unsure,
            answer,
        });
    }

    /// An idempotent producer counts what is in the log.
    fn learn(&mut self, intent: &Intent, answer: &Answer, retried: bool) {
        let Some((stream, seq)) = &intent.stamped else { return };
        match answer {
            Answer::Done(receipt) => {
                if receipt.outcomes.iter().any(|o| o.status == Status::Already) && !retried {
                    self.net.env.problem(format!("{}: taken for a retry of something never sent", intent.marker));
                }
                self.sequences.insert(stream.clone(), seq + 1);
            }
            Answer::Rejected(Rejection::ProducerGap { expected, .. }) => {
                self.sequences.insert(stream.clone(), *expected);
            }
            Answer::Rejected(_) | Answer::NotWritten | Answer::Unknown => {}
        }
    }

    async fn read(&mut self) {
        let up = self.server().await;
        let stream = self.stream();
        let limit = self.net.env.within(8, 200) as usize;
        let page = tokio::select! {
            biased;
            () = up.life.death() => return,
            page = up.log.read(&stream, From::Start, limit) => page,
        };
        up.log.touch(&stream);
        if let Ok(page) = page {
            self.history.seen.lock().push(Seen {
                stream,
                generation: page.generation,
                from: page.start.position,
                to: page.next.position,
                bytes: chunks(&page),
            });
        }
    }

    pub fn stream(&self) -> Arc<str> {
        let env = &self.net.env;
        if env.chance(150) {
            return format!("f/{}{}", env.below(8), env.below(2)).into();
        }
        format!("s/{:02}", env.below(env.plan.streams)).into()
    }
}

/// Deletes, closes and creations have no message to be found by.
pub fn appends_of(command: &Command) -> Vec<Arc<str>> {
    let holds = |change: &Change| match change {
        Change::Append(_) => true,
        Change::Create(create) => create.payload.is_some(),
        Change::Close { .. } | Change::Delete | Change::Renew | Change::Expire => false,
    };
    command.changes.iter().filter(|(_, change)| holds(change)).map(|(stream, _)| stream.clone()).collect()
}
