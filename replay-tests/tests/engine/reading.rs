use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use event_log::{Change, Command, Create, ForkFrom, Log, Offset, Options, Page, ReadError, Store, check};
use object_store::memory::InMemory;
use replay_tests::rig::{Standing, append, create, memory, messages, over, pages, remove, text};

type Cut = (Offset, Offset, Vec<u8>);

fn cuts(pages: &[Page]) -> Vec<Cut> {
    pages.iter().map(|page| (page.start, page.next, page.chunks.concat())).collect()
}

async fn all_cuts(log: &Log) -> Vec<Cut> {
    let mut all = Vec::new();
    for stream in log.stream_names("") {
        let limits = if stream.as_ref() == "raw" { [700_000, 1_000_000, 4_000_000] } else { [5, 64, 100_000] };
        for limit in limits {
            all.extend(cuts(&pages(log, &stream, limit).await.unwrap()));
        }
    }
    all
}

async fn write_some(log: &Log) {
    for stream in ["j1", "j2"] {
        log.submit(create(stream, "application/json")).await.unwrap();
    }
    log.submit(create("text", "text/plain; charset=utf-8")).await.unwrap();
    log.submit(create("raw", "application/octet-stream")).await.unwrap();
    for i in 0..60_u32 {
        let texts: Vec<String> = (0..=i % 4).map(|k| format!("{{\"n\":{i},\"k\":{k}}}")).collect();
        log.submit(messages(if i % 3 == 0 { "j1" } else { "j2" }, &texts)).await.unwrap();
        log.submit(append("text", "é€😀a".repeat(i as usize % 5 + 1))).await.unwrap();
        log.submit(append("raw", Bytes::from(vec![i as u8; i as usize % 7 + 1]))).await.unwrap();
    }
    log.submit(append("raw", Bytes::from(vec![9; 3 << 20]))).await.unwrap();
}

fn small(store: &Store) -> (Store, Options) {
    (store.clone(), Options { memory: 4_000, ..Options::default() })
}

#[tokio::test]
async fn a_page_is_the_same_bytes_from_slots_packs_checkpoints_and_without_them() {
    let store = memory(1, 3);
    let (plain, options) = small(&store);
    let log = Log::open(plain, Options { keep: false, ..options }).await.unwrap();
    write_some(&log).await;
    let wanted = all_cuts(&log).await;
    log.close().await;
    let (packing, options) = small(&store);
    let log = Log::open(packing, options).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert!(log.counters().packs.load(std::sync::atomic::Ordering::Relaxed) > 16, "packs were made and merged");
    assert_eq!(all_cuts(&log).await, wanted, "through packs");
    log.submit(create("later", "text/plain")).await.unwrap();
    log.submit(Command::one("later", Change::Delete)).await.unwrap();
    log.close().await;
    let (reopened, options) = small(&store);
    let log = Log::open(reopened, Options { keep: false, ..options }).await.unwrap();
    assert_eq!(all_cuts(&log).await, wanted, "from a checkpoint");
    assert!(check::check(store.clone(), &mut |_| {}).await.unwrap().damages.is_empty());
    remove(&store, "pack").await;
    assert_eq!(all_cuts(&log).await, wanted, "with the packs deleted");
    remove(&store, "ckpt").await;
    let (bare, options) = small(&store);
    let log = Log::open(bare, options).await.unwrap();
    assert_eq!(all_cuts(&log).await, wanted, "from nothing but slots");
}

#[tokio::test]
async fn a_page_of_text_ends_between_characters() {
    let log = Log::open(memory(1, 64), Options::default()).await.unwrap();
    log.submit(create("t", "text/plain")).await.unwrap();
    for part in ["ab", "€uro", "😀", "x"] {
        log.submit(append("t", part)).await.unwrap();
    }
    for limit in 4..12 {
        for page in pages(&log, "t", limit).await.unwrap() {
            assert!(std::str::from_utf8(&page.chunks.concat()).is_ok(), "limit {limit}: {:?}", page.chunks);
        }
        assert_eq!(text(&pages(&log, "t", limit).await.unwrap()), "ab€uro😀x");
    }
}

fn fork_of(source: &str, target: &str, at: Option<Offset>) -> Command {
    let fork = ForkFrom { source: source.into(), at, sub: 0, prefix: None };
    Command::one(target, Change::Create(Create { fork: Some(fork), ..Create::default() }))
}

#[tokio::test]
async fn a_fork_reads_through_sources_that_were_deleted() {
    let store = over(Arc::new(InMemory::new()), 1, 2);
    let (packing, options) = small(&store);
    let log = Log::open(packing, options).await.unwrap();
    log.submit(create("a", "text/plain")).await.unwrap();
    log.submit(append("a", "one;")).await.unwrap();
    log.submit(fork_of("a", "b", None)).await.unwrap();
    log.submit(append("a", "lost;")).await.unwrap();
    log.submit(append("b", "two;")).await.unwrap();
    let (_, tail) = log.head("b").unwrap();
    log.submit(fork_of("b", "c", Some(tail))).await.unwrap();
    log.submit(append("c", "three;")).await.unwrap();
    log.submit(Command::one("a", Change::Delete)).await.unwrap();
    log.submit(Command::one("b", Change::Delete)).await.unwrap();
    assert!(matches!(pages(&log, "a", 5).await, Err(ReadError::Gone)));
    assert_eq!(text(&pages(&log, "c", 3).await.unwrap()), "one;two;three;");
    tokio::time::sleep(Duration::from_millis(500)).await;
    log.close().await;
    let (again, options) = small(&store);
    let log = Log::open(again, options).await.unwrap();
    assert_eq!(text(&pages(&log, "c", 3).await.unwrap()), "one;two;three;", "after packing and a checkpoint");
    log.submit(Command::one("c", Change::Delete)).await.unwrap();
    assert_eq!(log.stream_count(), 0, "the last fork takes its sources along");
    log.submit(create("a", "text/plain")).await.unwrap();
    assert_eq!(text(&pages(&log, "a", 3).await.unwrap()), "");
}

fn mortal(stream: &str, ttl_seconds: u64) -> Command {
    let create = Create { content_type: Some("text/plain".into()), ttl_seconds: Some(ttl_seconds), ..Create::default() };
    Command::one(stream, Change::Create(create))
}

#[tokio::test]
async fn a_lifetime_ends_unless_it_is_renewed_by_reads_and_writes() {
    let clock = Standing::at(1_000_000, 1);
    let log = Log::open(memory(1, 64), Options { world: clock.clone(), ..Options::default() }).await.unwrap();
    for stream in ["idle", "read", "written"] {
        log.submit(mortal(stream, 10)).await.unwrap();
    }
    for _ in 0..4 {
        clock.pass(6_000);
        log.touch("read");
        let _ = log.submit(append("written", "x")).await;
    }
    assert_eq!(log.stream_names(""), ["read".into(), "written".into()]);
    assert!(matches!(pages(&log, "idle", 10).await, Err(ReadError::NotFound)));
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    assert_eq!(log.stream_count(), 2, "its end is in the log");
    log.submit(mortal("idle", 99)).await.unwrap();
}

#[tokio::test]
async fn a_renewed_lifetime_is_known_to_the_next_server() {
    let (store, clock) = (memory(1, 64), Standing::at(1_000_000, 1));
    let log = Log::open(store.clone(), Options { world: clock.clone(), ..Options::default() }).await.unwrap();
    log.submit(mortal("s", 10)).await.unwrap();
    clock.pass(9_000);
    log.touch("s");
    tokio::time::sleep(Duration::from_millis(100)).await;
    log.close().await;
    clock.pass(9_000);
    let world = Standing::at(1_018_000, 2);
    let next = Log::open(store, Options { world: world.clone(), ..Options::default() }).await.unwrap();
    assert_eq!(next.stream_names("").len(), 1);
    world.pass(11_000);
    assert_eq!(next.stream_names("").len(), 0);
}

#[tokio::test]
async fn the_size_of_what_is_kept_beside_the_streams_is_told_without_reading_it() {
    let log = Log::open(memory(4, 64), Options { keep: false, ..Options::default() }).await.unwrap();
    let hash = log.put_blob("kept".into()).await.unwrap();
    assert_eq!((log.blob_bytes(&hash).await.unwrap(), log.blob(&hash).await.unwrap().len()), (4, 4));
    let (missing, odd, no_hash) = ("0".repeat(64), &hash[..63], "../../streams");
    for hash in [missing.as_str(), odd, no_hash, "", "é"] {
        let refused = log.blob_bytes(hash).await.unwrap_err().to_string();
        assert!(refused.contains("there is no such blob"), "{hash}: {refused}");
    }
}
