use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use event_log::{
    Change, Cluster, Command, Cursor, Expect, FollowError, Header, Kind, Log, Options, Record, Rejection, Store, SubmitError,
    check, encode_slot,
};
use futures::future::join_all;
use object_store::memory::InMemory;
use replay_tests::rig::{Slow, append, create, memory, messages, over, pages, text};

/// A server that others cannot reach: who wants to write takes over.
async fn server(store: &Store, name: &str) -> Log {
    let options = Options { url: format!("http://{name}"), keep: false, ..Options::default() };
    Log::open(store.clone(), options).await.unwrap()
}

async fn header(store: &Store, kind: Kind, n: u64, epoch: u64) -> Header {
    let cluster = Cluster::load(store.objects.as_ref()).await.unwrap().unwrap().id();
    let url = if kind == Kind::Claim { "http://dead".to_owned() } else { String::new() };
    Header { kind, cluster, shard: 0, n, epoch, writer: 4_242, nonce: 1, prev: [7; 32], before: 0, durable: 0, time: 1, url }
}

async fn put(store: &Store, header: &Header, records: &[Record]) {
    let bytes: Bytes = encode_slot(header, records);
    store.slots.create(header.n, bytes).await.unwrap();
}

#[tokio::test]
async fn a_deposed_owner_with_four_slots_in_flight_loses_and_repeats_nothing() {
    let objects = Arc::new(InMemory::new());
    let mut slow = over(objects.clone(), 4, 64);
    let _slow = Slow::before(&mut slow, Duration::from_millis(30));
    let (owner, rival) = (server(&slow, "a").await, server(&over(objects, 4, 64), "b").await);
    owner.submit(create("s", "application/json")).await.unwrap();
    let mut writers = Vec::new();
    for i in 0..40_u128 {
        let owner = owner.clone();
        let command = Command { id: Some(i), ..messages("s", &[i.to_string()]) };
        writers.push(tokio::spawn(async move { owner.submit(command).await }));
        tokio::time::sleep(Duration::from_millis(3)).await;
        if i == 20 {
            rival.submit(messages("s", &["1000".to_owned()])).await.unwrap();
        }
    }
    let done = join_all(writers).await;
    assert!(done.iter().all(|one| one.as_ref().unwrap().is_ok()));
    // Who was deposed without noticing hears of it at its next look at the store.
    while rival.position() < owner.position() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let read = pages(&rival, "s", 10_000).await.unwrap();
    let chunks: Vec<_> = read.iter().flat_map(|page| &page.chunks).map(|c| std::str::from_utf8(c).unwrap()).collect();
    let mut found: Vec<u64> = chunks.iter().flat_map(|chunk| chunk.split(',')).map(|text| text.parse().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, (0..40).chain([1_000]).collect::<Vec<_>>());
    assert!(owner.counters().slots_lost.load(std::sync::atomic::Ordering::Relaxed) > 0, "the take-over met slots in flight");
}

#[tokio::test]
async fn a_claim_ahead_of_a_hole_whose_claimer_dies_costs_one_take_over() {
    let store = memory(4, 64);
    let owner = server(&store, "a").await;
    owner.submit(create("s", "text/plain")).await.unwrap();
    let head = owner.position();
    put(&store, &header(&store, Kind::Claim, head + 2, 900).await, &[]).await;
    for i in 0..6 {
        owner.submit(append("s", format!("{i};"))).await.unwrap();
    }
    assert_eq!(text(&pages(&owner, "s", 100).await.unwrap()), "0;1;2;3;4;5;");
    let other = server(&store, "b").await;
    assert_eq!(text(&pages(&other, "s", 100).await.unwrap()), "0;1;2;3;4;5;");
}

#[tokio::test]
async fn a_claim_ahead_of_a_hole_with_both_dead_is_passed_by_the_next() {
    let store = memory(4, 64);
    let owner = server(&store, "a").await;
    owner.submit(create("s", "text/plain")).await.unwrap();
    let head = owner.position();
    owner.close().await;
    put(&store, &header(&store, Kind::Claim, head + 2, 900).await, &[]).await;
    let next = server(&store, "b").await;
    for i in 0..4 {
        next.submit(append("s", format!("{i};"))).await.unwrap();
    }
    assert_eq!(text(&pages(&next, "s", 100).await.unwrap()), "0;1;2;3;");
}

#[tokio::test]
async fn reader_packer_and_checker_agree_on_a_void_slot_in_the_middle() {
    let objects = Arc::new(InMemory::new());
    let store = over(objects, 1, 4);
    let log = Log::open(store.clone(), Options { memory: 0, ..Options::default() }).await.unwrap();
    log.submit(create("s", "text/plain")).await.unwrap();
    log.submit(append("s", "a;")).await.unwrap();
    let valid = event_log::decode_slot(&store.slots.get(log.position() - 1).await.unwrap().unwrap()).unwrap();
    let mut forged = valid.records.clone();
    if let event_log::Op::Appended(appended) = &mut forged[0].op {
        appended.first = 2;
        appended.payload = event_log::Payload::bytes("FORGED".into());
    }
    put(&store, &header(&store, Kind::Data, log.position(), 1).await, &forged).await;
    for i in 0..20 {
        log.submit(append("s", format!("{i};"))).await.unwrap();
    }
    let wanted: String = "a;".to_owned() + &(0..20).map(|i| format!("{i};")).collect::<String>();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(log.counters().packs.load(std::sync::atomic::Ordering::Relaxed) > 0);
    assert_eq!(text(&pages(&log, "s", 7).await.unwrap()), wanted);
    replay_tests::rig::remove(&store, "pack").await;
    assert_eq!(text(&pages(&log, "s", 7).await.unwrap()), wanted, "and without packs");
    let mut follower = log.follow(Cursor::default()).await.unwrap();
    let mut records = 0;
    while let Some(commit) = follower.try_next().await.unwrap() {
        records += commit.records().len();
    }
    let report = check::check(store, &mut |_| {}).await.unwrap();
    assert_eq!((report.void_slots, report.records), (1, records as u64));
}

#[tokio::test]
async fn a_command_id_holds_across_a_take_over() {
    let store = memory(1, 64);
    let (a, b) = (server(&store, "a").await, server(&store, "b").await);
    a.submit(create("s", "text/plain")).await.unwrap();
    let command = Command { id: Some(5), ..append("s", "once;") };
    let first = a.submit(command.clone()).await.unwrap();
    assert_eq!(b.submit(command.clone()).await.unwrap(), first);
    assert_eq!(a.submit(command).await.unwrap(), first);
    assert_eq!(text(&pages(&b, "s", 100).await.unwrap()), "once;");
}

#[tokio::test]
async fn of_two_servers_with_the_same_expectation_one_wins() {
    let store = memory(1, 64);
    let (a, b) = (server(&store, "a").await, server(&store, "b").await);
    a.submit(create("s", "application/json")).await.unwrap();
    for round in 0..20 {
        let expect = vec![Expect { stream: "s".into(), tail: Some(round) }];
        let command = Command { expect, ..messages("s", &[round.to_string()]) };
        let (one, other) = tokio::join!(a.submit(command.clone()), b.submit(command));
        let results = [one, other];
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1, "{results:?}");
        let lost = results.iter().find_map(|r| r.as_ref().err()).unwrap();
        let actual = Some(round + 1);
        assert!(matches!(lost, SubmitError::Rejected(Rejection::Conflict { actual: a, .. }) if *a == actual), "{lost}");
    }
}

#[tokio::test]
async fn a_cursor_ahead_of_the_log_or_of_another_history_is_refused() {
    let (store, elsewhere) = (memory(1, 64), memory(1, 64));
    let (log, other) = (server(&store, "a").await, server(&elsewhere, "a").await);
    for (log, count) in [(&log, 3), (&other, 6)] {
        log.submit(create("s", "text/plain")).await.unwrap();
        for _ in 0..count {
            log.submit(append("s", "x")).await.unwrap();
        }
    }
    let mut follower = other.follow(Cursor::default()).await.unwrap();
    while let Some(commit) = follower.try_next().await.unwrap() {
        let refused = log.follow(commit.cursor).await;
        assert!(matches!(refused, Err(FollowError::OtherHistory(_))), "{:?}", commit.cursor);
        assert!(other.follow(commit.cursor).await.is_ok());
    }
}

#[tokio::test]
async fn a_follower_sees_everything_while_writers_write() {
    let store = memory(4, 8);
    let (a, b) = (server(&store, "a").await, server(&store, "b").await);
    a.submit(create("s", "application/json")).await.unwrap();
    let following = tokio::spawn(async move {
        let mut follower = b.follow(Cursor::default()).await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 201 {
            let commit = follower.next().await.unwrap();
            assert_eq!(commit.before(), seen.len() as u64, "no gap and nothing twice");
            seen.extend(commit.records().iter().map(|record| record.stream.clone()));
        }
    });
    for i in 0..200 {
        a.submit(messages("s", &[i.to_string()])).await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(20), following).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_command_changes_all_its_streams_or_none() {
    let log = server(&memory(1, 64), "a").await;
    for stream in ["a", "b"] {
        log.submit(create(stream, "text/plain")).await.unwrap();
    }
    let mut command = append("a", "together");
    command.changes.extend(append("b", "together").changes);
    log.submit(command.clone()).await.unwrap();
    command.changes.push(("missing".into(), Change::Delete));
    assert!(matches!(log.submit(command).await, Err(SubmitError::Rejected(Rejection::NotFound))));
    for stream in ["a", "b"] {
        assert_eq!(text(&pages(&log, stream, 100).await.unwrap()), "together");
    }
}

#[test]
fn a_log_outlives_the_runtime_that_opened_it_without_failing() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = event_log::StoreUrl::File(directory.path().join("log"));
    let log = runtime.block_on(async {
        let log = event_log::Log::open(url.open(&[], true).unwrap(), event_log::Options::default()).await.unwrap();
        let create = event_log::Change::Create(event_log::Create::default());
        log.submit(event_log::Command::one("a", create)).await.unwrap();
        log
    });
    drop(runtime);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(*log.failed().borrow(), None);
}
