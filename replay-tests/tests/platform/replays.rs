//! Whatever was asked: following with crashes, rebuilding, rebuilding again, and projecting twice all end in the same rows.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use event_log::{Commit, Cursor, Log, Op};
use events::{Entry, StreamName};
use postgres_rows::{Rows, RowsProjector};
use projector::{Checkpoint, Copies, Live, Projector, Recorded, Runner, Sink, SinkError, Span, Until, rebuild, verify};
use proptest::prelude::prop;

use crate::draw::{Draw, draws};
use crate::dump::dump;
use crate::play::{memory, on_drawn, opened, play};
use crate::postgres::database;
use crate::running::{PACE, run};

/// Polls a future so many times, then drops it. Every await it comes by is a place to die.
async fn dies_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

async fn follow_and_die(log: &Log, rows: &Rows, polls: usize) {
    let runner = Runner::new(log.clone(), Arc::new(RowsProjector), rows.clone(), PACE);
    // At the head nothing wakes the runner any more.
    let _ = tokio::time::timeout(Duration::from_millis(60), dies_after(polls, runner.run())).await;
}

/// Every event projected twice and every span committed twice.
async fn feed_twice(log: &Log, rows: &Rows) {
    let Live::Current(mut sink) = rows.live().await.unwrap() else { panic!("another version") };
    let mut follower = log.follow(Cursor::default()).await.unwrap();
    let mut from = Checkpoint::default();
    while let Some(commit) = follower.try_next().await.unwrap() {
        let records = commit.before() + commit.records().len() as u64;
        let span = Span { from, to: Checkpoint { cursor: commit.cursor, records, time: commit.time() } };
        let project = || -> Vec<_> { recorded(&commit).iter().flat_map(|one| RowsProjector.project(one).unwrap()).collect() };
        assert_eq!(format!("{:?}", project()), format!("{:?}", project()));
        sink.commit(&span, project()).await.unwrap();
        assert!(matches!(sink.commit(&span, project()).await, Err(SinkError::Moved)));
        from = span.to;
    }
}

pub fn recorded(commit: &Commit) -> Vec<Recorded> {
    let mut all = Vec::new();
    for (record, ordinal) in commit.records().iter().zip(commit.before()..) {
        let (Op::Appended(appended), Some(stream)) = (&record.op, StreamName::parse(&record.stream)) else { continue };
        let event_log::Body::Inline(data) = &appended.payload.body else { panic!("a small entry") };
        for unit in 0..appended.payload.units() {
            let entry = Entry::from_slice(&data[appended.payload.span(unit, unit + 1)]).unwrap();
            let (seq, position, event) = (appended.first + unit, commit.cursor.next, entry.event().unwrap());
            all.push(Recorded { stream: stream.clone(), seq, position, ordinal, ts: entry.ts, entry, event });
        }
    }
    all
}

async fn all_ways_end_the_same(draws: &[Draw], deaths: &[usize]) {
    let (db, twice) = (database().await.unwrap(), database().await.unwrap());
    let log = memory().await;
    let commands = opened(&log).await;
    for (part, polls) in draws.chunks(draws.len().div_ceil(deaths.len())).zip(deaths) {
        play(&commands, part).await;
        follow_and_die(&log, &db.rows, *polls).await;
    }
    commands.caught_up().await.unwrap();
    run(&log, &db.rows).reaches(log.position()).await;
    let followed = dump(&db.rows).await;
    for _ in 0..2 {
        assert!(rebuild(&log, &Arc::new(RowsProjector), &db.rows, Until::Head, |_| {}).await.unwrap().swapped);
        assert_eq!(dump(&db.rows).await, followed);
    }
    feed_twice(&log, &twice.rows).await;
    assert_eq!(dump(&twice.rows).await, followed);
    let report = verify(&log, &Arc::new(RowsProjector), &db.rows, |_| {}).await.unwrap();
    assert!(report.equal(), "{report:?}");
    commands.with_world(crate::invariants::check);
    db.rows.close().await;
    twice.rows.close().await;
}

#[test]
fn following_with_crashes_and_rebuilding_and_projecting_twice_are_the_same() {
    let deaths = prop::collection::vec(1..120_usize, 1..8);
    on_drawn(12, (draws(300..1_000), deaths), async |(draws, deaths)| all_ways_end_the_same(&draws, &deaths).await);
}
