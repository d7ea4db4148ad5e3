use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use event_log::store::local::LocalSlots;
use event_log::store::{Creation, SlotStore};
use event_log::{Log, Options, Status};
use futures::future::join_all;
use replay_tests::rig::{Slow, append, create, memory, messages, pages, text};

async fn winners(handles: &[Arc<dyn SlotStore>], slot: u64, body: impl Fn(usize) -> Bytes) -> Vec<usize> {
    let creates = (0..24).map(|i| {
        let (slots, bytes) = (handles[i % handles.len()].clone(), body(i));
        tokio::spawn(async move { (i, slots.create(slot, bytes).await.unwrap()) })
    });
    let done = join_all(creates).await;
    done.into_iter().map(Result::unwrap).filter(|(_, creation)| *creation == Creation::Created).map(|(i, _)| i).collect()
}

/// A well-formed slot, since local files know a torn one from a whole one.
fn slot(i: usize) -> Bytes {
    let header = event_log::Header {
        kind: event_log::Kind::Claim,
        cluster: 1,
        shard: 0,
        n: 0,
        epoch: 1,
        writer: i as u64,
        nonce: i as u64,
        prev: [0; 32],
        before: 0,
        durable: 0,
        time: 0,
        url: String::new(),
    };
    event_log::encode_slot(&header, &[])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_concurrent_creates_one_wins_and_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let local = |create| -> Arc<dyn SlotStore> { Arc::new(LocalSlots::open(directory.path(), create).unwrap()) };
    let memory = memory(1, 4).slots;
    for handles in [vec![memory.clone(), memory], vec![local(true), local(true)]] {
        for n in 0..20 {
            let won = winners(&handles, n, slot).await;
            assert_eq!(won.len(), 1, "slot {n}");
            for handle in &handles {
                assert_eq!(handle.get(n).await.unwrap(), Some(slot(won[0])), "slot {n}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_handles_of_a_directory_never_overwrite_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let handles = [LocalSlots::open(directory.path(), true).unwrap(), LocalSlots::open(directory.path(), true).unwrap()];
    let body = |n: u64| {
        let header = event_log::Header { url: "x".repeat(20_000), ..event_log::decode_slot(&slot(n as usize)).unwrap().header };
        event_log::encode_slot(&header, &[])
    };
    let [one, other] = handles.map(|slots| {
        tokio::spawn(async move {
            let mut won = 0;
            for n in 0..600 {
                won += u64::from(slots.create(n, body(n)).await.unwrap() == Creation::Created);
                tokio::task::yield_now().await;
            }
            // Runways are laid in the background.
            tokio::time::sleep(Duration::from_millis(100)).await;
            won
        })
    });
    assert_eq!(one.await.unwrap() + other.await.unwrap(), 600);
    let fresh = LocalSlots::open(directory.path(), false).unwrap();
    for n in 0..600 {
        assert_eq!(fresh.get(n).await.unwrap(), Some(body(n)), "slot {n}");
    }
}

async fn slow_log(latency_ms: u64) -> (Log, Arc<Slow>) {
    let mut store = memory(1, 256);
    let slow = Slow::before(&mut store, Duration::from_millis(latency_ms));
    (Log::open(store, Options::default()).await.unwrap(), slow)
}

#[tokio::test]
async fn an_append_to_an_idle_log_costs_one_put() {
    let (log, slow) = slow_log(1).await;
    log.submit(create("a", "text/plain")).await.unwrap();
    let before = slow.creates.load(Ordering::Relaxed);
    for i in 1..=10 {
        log.submit(append("a", "x")).await.unwrap();
        assert_eq!(slow.creates.load(Ordering::Relaxed), before + i);
    }
}

#[tokio::test]
async fn a_thousand_concurrent_appends_share_a_handful_of_slots() {
    let (log, slow) = slow_log(20).await;
    join_all((0..1_000).map(|i| log.submit(create(&format!("s{i}"), "text/plain")))).await;
    let before = slow.creates.load(Ordering::Relaxed);
    let done = join_all((0..1_000).map(|i| log.submit(append(&format!("s{i}"), format!("{i}"))))).await;
    assert!(done.iter().all(Result::is_ok));
    let puts = slow.creates.load(Ordering::Relaxed) - before;
    assert!(puts <= 4, "{puts} slots");
    for i in 0..1_000 {
        assert_eq!(text(&pages(&log, &format!("s{i}"), 100).await.unwrap()), i.to_string());
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_cancel_its_commit() {
    let (log, _slow) = slow_log(20).await;
    log.submit(create("a", "text/plain")).await.unwrap();
    let gone = tokio::time::timeout(Duration::from_millis(5), log.submit(append("a", "still here"))).await;
    assert!(gone.is_err());
    let landed = async {
        while text(&pages(&log, "a", 100).await.unwrap()) != "still here" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), landed).await.unwrap();
}

#[tokio::test]
async fn a_command_id_is_answered_with_its_first_receipt() {
    let store = memory(1, 4);
    let log = Log::open(store.clone(), Options::default()).await.unwrap();
    log.submit(create("a", "application/json")).await.unwrap();
    let mut command = messages("a", &["1".to_owned()]);
    command.id = Some(77);
    let first = log.submit(command.clone()).await.unwrap();
    assert_eq!(first.outcomes[0].status, Status::Done);
    log.submit(messages("a", &["2".to_owned()])).await.unwrap();
    assert_eq!(log.submit(command.clone()).await.unwrap(), first);
    log.close().await;
    let again = Log::open(store.clone(), Options::default()).await.unwrap();
    assert!(again.position() > 0);
    assert_eq!(again.submit(command).await.unwrap(), first, "across a checkpoint");
    assert_eq!(text(&pages(&again, "a", 100).await.unwrap()), "12");
}

#[tokio::test]
async fn the_memory_budget_holds_for_what_compresses_well() {
    let budget = 1 << 20;
    let log = Log::open(memory(1, 8), Options { memory: budget, ..Options::default() }).await.unwrap();
    log.submit(create("a", "text/plain")).await.unwrap();
    let body = "the same words ".repeat(4_000);
    for _ in 0..60 {
        log.submit(append("a", body.clone())).await.unwrap();
        assert!(log.cached_bytes() <= budget);
    }
    assert!(log.cached_bytes() > budget / 2, "recent slots are kept");
    assert!(log.cached_bytes() / body.len() < 20, "by their size in memory, not by what the store charges");
    let all: BTreeSet<usize> = pages(&log, "a", 50_000).await.unwrap().iter().map(|page| page.bytes).collect();
    assert_eq!(all.len(), 1, "every page is full, and so is the last: {all:?}");
}
