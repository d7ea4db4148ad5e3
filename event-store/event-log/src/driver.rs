//! The one task (on local files, a thread) that moves the log forward: follows it, owns it when it must, and commits in groups.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

use crate::chain::{Chain, Verdict};
use crate::command::{Command, Receipt, SubmitError};
use crate::core::{Core, Damage, FetchError};
use crate::decide::{Decision, decide};
use crate::draft::{Ahead, Draft};
use crate::peers::Peers;
use crate::record::Record;
use crate::slot::{self, Header, Kind, Slot};
use crate::store::{Pace, StoreError};

mod claim;
mod forward;
mod place;

use place::{Placed, place};

/// A slot is closed when it holds this much.
const SLOT_BYTES: usize = 4 << 20;
const SLOT_RECORDS: usize = 8_192;
/// How often a server looks whether somebody else wrote, when nobody here waits.
const IDLE_POLL: Duration = Duration::from_secs(1);
/// On local files, a slot waits a few naps for those who wrote lately, if they were this many.
const CROWD: usize = 40;
/// After such a pause nobody is expected.
const CROWD_MEMORY: Duration = Duration::from_millis(10);
const NAP: Duration = Duration::from_micros(200);
const NAPS: u32 = 4;

pub(crate) type Reply = oneshot::Sender<Result<Receipt, SubmitError>>;

#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) command: Command,
    pub(crate) reply: Reply,
    /// Came from another server, so it is not passed on again.
    pub(crate) forwarded: bool,
    /// An owner that did not answer: it is deposed rather than asked again.
    pub(crate) suspect: Option<u64>,
    pub(crate) attempts: u32,
    /// An owner may have written it and its answer got lost.
    pub(crate) maybe_written: bool,
    /// Room in the queue; given back when the command is settled.
    pub(crate) _permit: OwnedSemaphorePermit,
}

impl Submission {
    /// What one server did not write, another may have.
    pub(crate) fn humble(&self, error: SubmitError) -> SubmitError {
        match error {
            SubmitError::NotWritten(_) | SubmitError::Overloaded if self.maybe_written => SubmitError::Unknown(error.to_string()),
            SubmitError::NotWritten(_)
            | SubmitError::Overloaded
            | SubmitError::Rejected(_)
            | SubmitError::Unknown(_)
            | SubmitError::NotOwner => error,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Request {
    Submit(Submission),
    /// Answered when everything that was durable before the request has been seen.
    Refresh(oneshot::Sender<()>),
    /// Finish what is queued, take nothing more.
    Stop,
}

pub(crate) struct Driver {
    pub(crate) core: Arc<Core>,
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) requests: mpsc::Receiver<Request>,
    /// The way back in for commands that must be routed again.
    pub(crate) again: mpsc::WeakSender<Request>,
    pub(crate) me: u64,
    pub(crate) url: String,
    backlog: VecDeque<Request>,
    ahead: Ahead,
    flights: VecDeque<Flight>,
    /// Who waits for a look at the store while slots are in flight: the next of them to land is one.
    looks: Vec<oneshot::Sender<()>>,
    puts: FuturesOrdered<BoxFuture<'static, Result<Placed, StoreError>>>,
    pace: Pace,
    /// How many commands came together lately.
    crowd: usize,
    last_start: Instant,
    last_poll: Instant,
}

/// A slot on its way.
struct Flight {
    slot: Arc<Slot>,
    bytes: Bytes,
    answers: Vec<Answer>,
    /// They asked before it left, so that its landing tells them that nobody else wrote before.
    looks: Vec<oneshot::Sender<()>>,
}

/// A command decided on what is in flight; its answer is true only once that is durable.
struct Answer {
    submission: Submission,
    result: Result<Receipt, SubmitError>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Halt {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("shutting down")]
    Stopped,
}

impl Driver {
    pub(crate) fn new(
        core: Arc<Core>,
        peers: Arc<dyn Peers>,
        requests: mpsc::Receiver<Request>,
        again: mpsc::WeakSender<Request>,
        url: String,
    ) -> Self {
        let me = core.world.random().max(1);
        let pace = core.store.slots.pace();
        let now = Instant::now();
        Self {
            core,
            peers,
            requests,
            again,
            me,
            url,
            backlog: VecDeque::new(),
            ahead: Ahead::default(),
            flights: VecDeque::new(),
            looks: Vec::new(),
            puts: FuturesOrdered::new(),
            pace,
            crowd: 0,
            last_start: now,
            last_poll: now,
        }
    }

    /// Runs until every handle is dropped, or the log turns out to be damaged.
    pub(crate) async fn run(mut self) {
        let _witness = Witness(self.core.clone());
        loop {
            match self.turn().await {
                Ok(()) => {}
                Err(Halt::Stopped) => break,
                Err(Halt::Fetch(FetchError::Unavailable(why))) => {
                    tracing::warn!(why, "the store does not answer, trying again");
                    tokio::time::sleep(self.pace.poll.max(Duration::from_millis(100))).await;
                }
                Err(Halt::Fetch(error @ (FetchError::Damaged(_) | FetchError::Fatal(_)))) => {
                    self.core.fail(&error);
                    self.refuse_all(&error).await;
                    break;
                }
            }
        }
    }

    async fn turn(&mut self) -> Result<(), Halt> {
        if self.flights.is_empty() && !self.looks.is_empty() {
            self.catch_up().await?;
            answer(&mut self.looks);
        }
        let room = self.flights.len() < self.pace.depth;
        let start_at = if self.flights.is_empty() { self.last_start } else { self.last_start + self.pace.linger };
        let may_start = room && (self.flights.is_empty() || Instant::now() >= start_at);
        if may_start && let Some(request) = self.backlog.pop_front() {
            return self.admit(request).await;
        }
        let poll_at = self.last_poll + self.poll_interval();
        tokio::select! {
            biased;
            Some(placed) = self.puts.next(), if !self.flights.is_empty() => self.settle(placed).await,
            request = self.requests.recv(), if may_start => match request {
                Some(request) => self.admit(request).await,
                None => self.drain().await,
            },
            () = tokio::time::sleep_until(start_at), if room && !may_start => Ok(()),
            () = tokio::time::sleep_until(poll_at), if self.flights.is_empty() => self.catch_up().await,
        }
    }

    fn poll_interval(&self) -> Duration {
        if !self.owns() && self.core.someone_waits() { self.pace.poll } else { IDLE_POLL }
    }

    fn owns(&self) -> bool {
        self.core.state.read().chain.writer == self.me
    }

    async fn drain(&mut self) -> Result<(), Halt> {
        while let Some(placed) = self.puts.next().await {
            self.settle(placed).await?;
        }
        Err(Halt::Stopped)
    }

    /// Takes a request and everything that has queued up behind it.
    async fn admit(&mut self, first: Request) -> Result<(), Halt> {
        if self.pace.own_thread && matches!(first, Request::Submit(_)) && self.owns() {
            self.await_crowd();
        }
        let (mut batch, mut refreshes) = self.gather(first);
        self.crowd = batch.len().max((self.crowd * 3 + batch.len()) / 4);
        if self.flights.is_empty() {
            if !refreshes.is_empty()
                && let Err(halt) = self.catch_up().await
            {
                self.put_back(batch);
                self.backlog.extend(refreshes.into_iter().map(Request::Refresh));
                return Err(halt);
            }
            if !batch.is_empty() && !self.owns() {
                batch = self.route(batch).await?;
            }
        }
        if self.flights.is_empty() {
            answer(&mut refreshes);
        }
        self.looks.append(&mut refreshes);
        if !batch.is_empty() {
            self.start(batch);
        }
        Ok(())
    }

    /// Among many writers, fewer and fuller slots serve all of them sooner. Who writes after a pause does not wait.
    fn await_crowd(&mut self) {
        if self.last_start.elapsed() > CROWD_MEMORY {
            self.crowd = 0;
        }
        let mut here = self.queued();
        for _ in 0..NAPS {
            if !worth_waiting(self.crowd, here) {
                return;
            }
            std::thread::sleep(NAP);
            let before = std::mem::replace(&mut here, self.queued());
            if here == before {
                return;
            }
        }
    }

    /// With the one at hand.
    fn queued(&self) -> usize {
        1 + self.backlog.len() + self.requests.len()
    }

    fn gather(&mut self, first: Request) -> (Vec<Submission>, Vec<oneshot::Sender<()>>) {
        let (mut batch, mut refreshes) = (Vec::new(), Vec::new());
        let mut weight = 0;
        let mut next = Some(first);
        while let Some(request) = next.take() {
            match request {
                Request::Submit(submission) => {
                    weight += submission.command.weight();
                    batch.push(submission);
                }
                Request::Refresh(done) => refreshes.push(done),
                Request::Stop => self.requests.close(),
            }
            if weight < SLOT_BYTES && batch.len() < SLOT_RECORDS {
                next = self.backlog.pop_front().or_else(|| self.requests.try_recv().ok());
            }
        }
        (batch, refreshes)
    }

    /// Commands that could not be taken on yet keep their turn.
    fn put_back(&mut self, batch: Vec<Submission>) {
        let behind = std::mem::take(&mut self.backlog);
        self.backlog = batch.into_iter().map(Request::Submit).chain(behind).collect();
    }

    /// Decides a batch on top of what is in flight and sends its slot off.
    fn start(&mut self, batch: Vec<Submission>) {
        let core = self.core.clone();
        let state = core.state.read();
        let (chain, durable) = (self.tip(&state.chain), state.chain.next);
        let now = core.world.now_ms().max(chain.time);
        let mut records: Vec<Record> = Vec::new();
        let mut answers = Vec::with_capacity(batch.len());
        for submission in batch {
            let draft = Draft::new(&state, &self.ahead, now);
            let ordinal = chain.records + records.len() as u64;
            let result = match decide(draft, ordinal, &submission.command) {
                Ok(Decision::Known(receipt)) => Ok(receipt),
                Ok(Decision::Forgotten) => Err(SubmitError::Unknown("too long ago to tell whether it was written".into())),
                Ok(Decision::New { records: new, outcomes, changes }) => {
                    let position = if new.is_empty() { chain.next } else { chain.next + 1 };
                    let receipt = Receipt { position, outcomes };
                    self.ahead.absorb(chain.next, changes);
                    if let Some(id) = submission.command.id.filter(|_| !new.is_empty()) {
                        self.ahead.remember(chain.next, id, receipt.clone());
                    }
                    records.extend(new);
                    Ok(receipt)
                }
                Err(rejection) => Err(rejection.into()),
            };
            answers.push(Answer { submission, result });
        }
        drop(state);
        if records.is_empty() {
            return self.answer_later(answers);
        }
        let header = self.header(Kind::Data, &chain, durable, now);
        let bytes = slot::encode(&header, &records);
        let weight = slot::weight(&records);
        let slot = Arc::new(Slot { header, digest: slot::digest_of(&bytes), records, weight });
        let (slots, n, placed) = (core.store.slots.clone(), chain.next, bytes.clone());
        self.puts.push_back(Box::pin(async move { place(slots.as_ref(), n, placed).await }));
        let looks = std::mem::take(&mut self.looks);
        self.flights.push_back(Flight { slot, bytes, answers, looks });
        self.last_start = Instant::now();
    }

    /// Answers that wrote nothing may still rest on slots in flight.
    fn answer_later(&mut self, answers: Vec<Answer>) {
        match self.flights.back_mut() {
            Some(flight) => flight.answers.extend(answers),
            None => answers.into_iter().for_each(Answer::send),
        }
    }

    /// The chain as it will be when everything in flight has landed.
    fn tip(&self, durable: &Chain) -> Chain {
        let mut chain = durable.clone();
        if let Some(last) = self.flights.back() {
            let header = &last.slot.header;
            chain.next = header.n + 1;
            chain.digest = last.slot.digest;
            chain.records = header.before + last.slot.records.len() as u64;
            chain.time = header.time;
        }
        chain
    }

    fn header(&self, kind: Kind, chain: &Chain, durable: u64, time: u64) -> Header {
        Header {
            kind,
            cluster: self.core.cluster,
            shard: 0,
            n: chain.next,
            epoch: chain.epoch,
            writer: self.me,
            nonce: self.core.world.random(),
            prev: chain.digest,
            before: chain.records,
            durable,
            time,
            url: if kind == Kind::Claim { self.url.clone() } else { String::new() },
        }
    }

    /// The oldest slot in flight has an outcome.
    async fn settle(&mut self, placed: Result<Placed, StoreError>) -> Result<(), Halt> {
        let mut flight = self.flights.pop_front().expect("a put settles only while its flight is known");
        match placed.map_err(FetchError::from) {
            Ok(Placed::Ours) => {
                let n = flight.slot.header.n;
                let counters = &self.core.counters;
                counters.slots_written.fetch_add(1, Ordering::Relaxed);
                counters.bytes_written.fetch_add(flight.bytes.len() as u64, Ordering::Relaxed);
                counters.records_written.fetch_add(flight.slot.records.len() as u64, Ordering::Relaxed);
                let verdict = self.core.absorb(flight.slot, flight.bytes.len()).map_err(FetchError::from)?;
                if verdict != Verdict::Data {
                    let what = "a slot of ours does not chain on the slots before it".to_owned();
                    return Err(FetchError::from(Damage { key: self.core.store.slots.key(n), what }).into());
                }
                self.core.hear();
                self.ahead.settle(n);
                answer(&mut flight.looks);
                flight.answers.into_iter().for_each(Answer::send);
                Ok(())
            }
            Ok(Placed::Theirs(bytes)) => self.lost(flight, bytes).await,
            Err(error) => {
                let unknown = SubmitError::Unknown(error.to_string());
                self.looks.append(&mut flight.looks);
                flight.answers.into_iter().for_each(|answer| answer.replace(Err(unknown.clone())));
                Err(error.into())
            }
        }
    }

    /// Somebody took the slot: what we had in flight is void for ever, so its commands are decided again.
    async fn lost(&mut self, flight: Flight, theirs: Bytes) -> Result<(), Halt> {
        self.core.counters.slots_lost.fetch_add(1, Ordering::Relaxed);
        tracing::info!(slot = flight.slot.header.n, "lost a slot to another writer");
        while self.puts.next().await.is_some() {}
        let mut lost = vec![flight];
        lost.extend(self.flights.drain(..));
        self.ahead.clear();
        lost.iter_mut().for_each(|flight| self.looks.append(&mut flight.looks));
        self.put_back(lost.into_iter().flat_map(|flight| flight.answers).map(|answer| answer.submission).collect());
        self.take(&theirs)?;
        self.catch_up().await
    }

    fn take(&mut self, bytes: &Bytes) -> Result<Verdict, Halt> {
        let n = self.core.state.read().chain.next;
        let slot = Arc::new(self.core.decode(n, bytes).map_err(FetchError::from)?);
        let verdict = self.core.absorb(slot, bytes.len()).map_err(FetchError::from)?;
        self.core.owner.store(self.owns(), Ordering::Relaxed);
        Ok(verdict)
    }

    /// Reads every slot that others have written. Only when nothing of ours is in flight.
    async fn catch_up(&mut self) -> Result<(), Halt> {
        self.last_poll = Instant::now();
        loop {
            let next = self.core.state.read().chain.next;
            match self.core.fetch_bytes(next).await? {
                Some(bytes) => self.take(&bytes)?,
                None => {
                    self.core.hear();
                    return Ok(());
                }
            };
        }
    }

    async fn refuse_all(&mut self, error: &FetchError) {
        let unknown = SubmitError::Unknown(error.to_string());
        for flight in self.flights.drain(..) {
            flight.answers.into_iter().for_each(|answer| answer.replace(Err(unknown.clone())));
        }
        self.requests.close();
        let mut queued: Vec<Request> = self.backlog.drain(..).collect();
        while let Some(request) = self.requests.recv().await {
            queued.push(request);
        }
        for request in queued {
            if let Request::Submit(submission) = request {
                let refusal = submission.humble(SubmitError::NotWritten(error.to_string()));
                let _ = submission.reply.send(Err(refusal));
            }
        }
    }
}

fn answer(looks: &mut Vec<oneshot::Sender<()>>) {
    for done in looks.drain(..) {
        let _ = done.send(());
    }
}

fn worth_waiting(crowd: usize, here: usize) -> bool {
    crowd >= CROWD && here < crowd * 3 / 4
}

/// A driver that panics must not leave a server that looks well.
struct Witness(Arc<Core>);

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&"the writer of the log has failed");
        }
    }
}

impl Answer {
    fn send(self) {
        let result = self.result;
        // The caller may have hung up; the commit stands all the same.
        let _ = self.submission.reply.send(result);
    }

    fn replace(self, result: Result<Receipt, SubmitError>) {
        let _ = self.submission.reply.send(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_waits_only_for_a_crowd_that_is_not_here_yet() {
        assert!(!worth_waiting(1, 1), "a lone writer");
        assert!(!worth_waiting(CROWD - 1, 1), "a few writers");
        assert!(worth_waiting(100, 1), "the first of many");
        assert!(!worth_waiting(100, 75), "most are here");
    }
}
