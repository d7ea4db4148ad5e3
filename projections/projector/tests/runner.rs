//! The runner over a sink in memory: what is kept when a commit is refused, lost, or made by another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use event_log::{Append, Change, Command, Create, Log, Options, Payload, StoreUrl};
use events::{Chat, Content, Entry, Event, EventId, StreamName, ThreadId, Ulid};
use projector::{
    Checkpoint, Copies, Live, Pace, Projector, Recorded, RunState, Runner, Sink, SinkError, Span, Sums, Unprojectable, Until,
    rebuild, verify,
};

/// Keeps what was said, as `stream/seq: text`.
struct Sayings;

impl Projector for Sayings {
    const NAME: &'static str = "sayings";
    const VERSION: u32 = 1;
    type Change = String;

    fn project(&self, recorded: &Recorded) -> Result<Vec<String>, Unprojectable> {
        let Event::Content(Content::Chat(chat)) = &recorded.event else { return Ok(Vec::new()) };
        if chat.text == "unspeakable" {
            return Err(Unprojectable("it must not be said".into()));
        }
        Ok(vec![format!("{}/{}: {}", recorded.stream, recorded.seq, chat.text)])
    }
}

#[derive(Clone, Debug, Default)]
struct Copy {
    checkpoint: Checkpoint,
    said: Vec<String>,
    stopped: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Memory {
    copies: Arc<Mutex<BTreeMap<String, Copy>>>,
    /// Commits that end in an error after they were made.
    lost_replies: Arc<Mutex<u32>>,
    /// Nothing is refused any more.
    mended: Arc<Mutex<bool>>,
}

struct MemorySink {
    memory: Memory,
    label: String,
}

impl MemorySink {
    fn with<T>(&self, look: impl FnOnce(&mut Copy) -> T) -> T {
        look(self.memory.copies.lock().expect("a lock").entry(self.label.clone()).or_default())
    }
}

impl Sink<String> for MemorySink {
    async fn checkpoint(&mut self) -> Result<Checkpoint, SinkError> {
        Ok(self.with(|copy| copy.checkpoint))
    }

    async fn claim(&mut self) -> Result<bool, SinkError> {
        Ok(true)
    }

    async fn commit(&mut self, span: &Span, changes: Vec<String>) -> Result<(), SinkError> {
        let mended = *self.memory.mended.lock().expect("a lock");
        if let Some(change) = changes.iter().position(|said| said.ends_with("refused")).filter(|_| !mended) {
            return Err(SinkError::Refused { change, why: "not here".into() });
        }
        self.with(|copy| {
            if copy.checkpoint != span.from {
                return Err(SinkError::Moved);
            }
            copy.checkpoint = span.to;
            copy.said.extend(changes);
            Ok(())
        })?;
        let mut lost = self.memory.lost_replies.lock().expect("a lock");
        if *lost > 0 {
            *lost -= 1;
            return Err(SinkError::Unavailable("the reply was lost".into()));
        }
        Ok(())
    }

    async fn stopped(&mut self, why: &str) -> Result<(), SinkError> {
        self.with(|copy| copy.stopped = Some(why.to_owned()));
        Ok(())
    }
}

impl Copies<String> for Memory {
    type Sink = MemorySink;
    type Hold = ();

    async fn live(&self) -> Result<Live<MemorySink>, SinkError> {
        Ok(Live::Current(MemorySink { memory: self.clone(), label: "live".into() }))
    }

    async fn beside(&self, label: &str) -> Result<MemorySink, SinkError> {
        Ok(MemorySink { memory: self.clone(), label: label.to_owned() })
    }

    async fn hold(&self) -> Result<((), Checkpoint), SinkError> {
        Ok(((), self.copy("live").checkpoint))
    }

    async fn swap(&self, (): (), copy: &mut MemorySink) -> Result<(), SinkError> {
        let mut copies = self.copies.lock().expect("a lock");
        let risen = copies.remove(&copy.label).unwrap_or_default();
        copies.insert("live".into(), risen);
        Ok(())
    }

    fn address(&self, copy: &MemorySink) -> String {
        copy.label.clone()
    }

    async fn discard(&self, copy: MemorySink) -> Result<(), SinkError> {
        self.copies.lock().expect("a lock").remove(&copy.label);
        Ok(())
    }

    async fn sums(&self, copy: &mut MemorySink) -> Result<Sums, SinkError> {
        Ok(Sums::from([("said".into(), copy.with(|copy| copy.said.join("\n")))]))
    }

    async fn live_sums(&self) -> Result<Option<(Checkpoint, Sums)>, SinkError> {
        let live = self.copy("live");
        Ok(Some((live.checkpoint, Sums::from([("said".into(), live.said.join("\n"))]))))
    }
}

impl Memory {
    fn copy(&self, label: &str) -> Copy {
        self.copies.lock().expect("a lock").get(label).cloned().unwrap_or_default()
    }
}

async fn log() -> Log {
    Log::open(StoreUrl::Memory.open(&[], true).expect("a store"), Options::default()).await.expect("a log")
}

async fn say(log: &Log, n: u64, text: &str) -> u64 {
    let stream = StreamName::Thread(ThreadId::new("t").expect("an id")).to_string();
    let event = Event::Content(Content::Chat(Chat { text: text.into(), to: None, reply_to: None }));
    let entry = Entry::of(EventId(Ulid::from_parts(n, u128::from(n))), n, None, &event).to_json();
    let payload = Ok(Payload::messages([entry.as_str()]));
    let change = if n == 0 {
        let content_type = Some("application/json".into());
        Change::Create(Create { content_type, payload: Some(payload), ..Create::default() })
    } else {
        Change::Append(Append { content_type: None, payload, producer: None, stream_seq: None, close: false })
    };
    log.submit(Command::one(stream, change)).await.expect("a commit").position
}

fn runner(log: &Log, memory: &Memory) -> Runner<Sayings, Memory> {
    let pace = Pace { retry_after: Duration::from_millis(1), ..Pace::default() };
    Runner::new(log.clone(), Arc::new(Sayings), memory.clone(), pace)
}

#[tokio::test]
async fn a_lost_reply_neither_loses_nor_doubles_a_change() {
    let (log, memory) = (log().await, Memory::default());
    *memory.lost_replies.lock().expect("a lock") = 3;
    let runner = runner(&log, &memory);
    let monitor = runner.monitor();
    let task = tokio::spawn(async move { runner.run().await });
    let mut position = 0;
    for n in 0..20 {
        position = say(&log, n, "word").await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(monitor.watermark().reached(position, Duration::from_secs(10)).await);
    task.abort();
    let expected: Vec<String> = (0..20).map(|n| format!("arbe-thread-t/{n}: word")).collect();
    assert_eq!(memory.copy("live").said, expected);
    let counted = monitor.status(position).events;
    assert!((1..=20).contains(&counted), "what was applied without an answer is not counted twice: {counted}");
}

#[tokio::test]
async fn what_comes_before_an_event_that_cannot_be_applied_is_kept() {
    for bad in ["refused", "unspeakable"] {
        let (log, memory) = (log().await, Memory::default());
        for (n, text) in (0..).zip(["one", "two", bad, "never"]) {
            say(&log, n, text).await;
        }
        let runner = runner(&log, &memory);
        let stop = runner.run().await;
        assert_eq!((stop.stream.as_str(), stop.seq, stop.kind.as_str()), ("arbe-thread-t", 2, "chat"));
        assert_eq!(memory.copy("live").said, ["arbe-thread-t/0: one", "arbe-thread-t/1: two"]);
        assert_eq!(memory.copy("live").stopped, Some(stop.to_string()));
        let status = runner.monitor().status(log.position());
        assert_eq!((status.lag, status.state), (2, RunState::Stopped { stop }));
    }
}

#[tokio::test]
async fn a_rebuild_takes_the_place_of_the_live_copy_and_verify_tells_them_apart() {
    let (log, memory) = (log().await, Memory::default());
    let mut position = 0;
    for n in 0..10 {
        position = say(&log, n, &format!("word {n}")).await;
    }
    let mut last = None;
    let rebuilt = rebuild(&log, &Arc::new(Sayings), &memory, Until::Head, |progress| last = Some(progress)).await;
    assert_eq!(rebuilt.expect("a rebuild").checkpoint.position(), position);
    let mut last = last.expect("progress");
    assert_eq!((last.position, last.done), (position, 1.0));
    assert!(verify(&log, &Arc::new(Sayings), &memory, |_| {}).await.expect("a report").equal());
    memory.copies.lock().expect("a lock").get_mut("live").expect("a copy").said.pop();
    assert!(!verify(&log, &Arc::new(Sayings), &memory, |_| {}).await.expect("a report").equal());
    let until = Until::Position(position - 1);
    let past = rebuild(&log, &Arc::new(Sayings), &memory, until, |progress| last = progress).await.expect("a copy");
    assert_eq!((memory.copy(&past.address).said.len(), last.done), (9, 1.0));
    assert_eq!(last.eta, Some(Duration::ZERO));
    let again = rebuild(&log, &Arc::new(Sayings), &memory, until, |_| {}).await.expect("the same copy");
    assert_eq!((again.applied, again.checkpoint), (0, past.checkpoint));
    assert!(past.applied > 0);
}

#[tokio::test]
async fn a_projection_that_stopped_goes_on_with_the_copy_that_a_rebuild_left() {
    let (log, memory) = (log().await, Memory::default());
    for (n, text) in (0..).zip(["one", "refused", "two"]) {
        say(&log, n, text).await;
    }
    let runner = runner(&log, &memory);
    let monitor = runner.monitor();
    let task = tokio::spawn(async move { runner.keep().await });
    while !matches!(monitor.status(0).state, RunState::Stopped { .. }) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    *memory.mended.lock().expect("a lock") = true;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(matches!(monitor.status(0).state, RunState::Stopped { .. }), "the live copy is the same");
    rebuild(&log, &Arc::new(Sayings), &memory, Until::Head, |_| {}).await.expect("a rebuild");
    let position = say(&log, 3, "three").await;
    assert!(monitor.watermark().reached(position, Duration::from_secs(10)).await);
    assert_eq!(memory.copy("live").said.len(), 4);
    assert_eq!(monitor.status(position).state, RunState::Active);
    task.abort();
}

/// Counts letters; cares for nothing that `Sayings` trips over.
struct Letters;

impl Projector for Letters {
    const NAME: &'static str = "letters";
    const VERSION: u32 = 3;
    type Change = String;

    fn project(&self, recorded: &Recorded) -> Result<Vec<String>, Unprojectable> {
        let Event::Content(Content::Chat(chat)) = &recorded.event else { return Ok(Vec::new()) };
        Ok(vec![chat.text.len().to_string()])
    }
}

#[tokio::test]
async fn projections_run_side_by_side_and_one_that_stops_does_not_stop_the_other() {
    let (log, sayings, letters) = (log().await, Memory::default(), Memory::default());
    let pace = Pace { retry_after: Duration::from_millis(1), ..Pace::default() };
    let (one, other) = (runner(&log, &sayings), Runner::new(log.clone(), Arc::new(Letters), letters.clone(), pace));
    let (said, counted) = (one.monitor(), other.monitor());
    let tasks = [tokio::spawn(async move { one.run().await }), tokio::spawn(async move { other.run().await })];
    let mut position = 0;
    for (n, text) in (0..).zip(["a", "bb", "unspeakable", "dddd"]) {
        position = say(&log, n, text).await;
    }
    assert!(counted.watermark().reached(position, Duration::from_secs(10)).await);
    let mut tasks = tasks.into_iter();
    let stop = tasks.next().expect("a task").await.expect("an end");
    assert_eq!((stop.seq, said.status(position).lag, counted.status(position).lag), (2, 2, 0));
    assert_eq!(sayings.copy("live").said.len(), 2);
    assert_eq!(letters.copy("live").said, ["1", "2", "11", "4"]);
    tasks.for_each(|task| task.abort());
}
