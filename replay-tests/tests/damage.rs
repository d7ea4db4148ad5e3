//! What is broken is found and named, and never passed over, written into, or panicked about.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use event_log::check::{Report, check};
use event_log::{Cursor, Log, Options, Store, StoreUrl, checkpoint, decode_slot, pack};
use object_store::ObjectStoreExt;
use object_store::path::Path as Key;
use proptest::prelude::*;
use replay_tests::rig::{append, create, memory, over, pages, text};

/// For looking only.
fn files(directory: &Path) -> Store {
    StoreUrl::File(directory.to_owned()).open(&[], false).unwrap()
}

fn writable(directory: &Path) -> Store {
    StoreUrl::File(directory.to_owned()).open(&[], true).unwrap()
}

fn quiet() -> Options {
    Options { keep: false, ..Options::default() }
}

/// A log on files: a claim, a creation, and `appends` appends.
async fn small_log(directory: &Path, appends: usize) -> PathBuf {
    let log = Log::open(writable(directory), quiet()).await.unwrap();
    log.submit(create("s", "text/plain")).await.unwrap();
    for i in 0..appends {
        log.submit(append("s", format!("{i};"))).await.unwrap();
    }
    log.close().await;
    directory.join("j/00/000000000000.slots")
}

async fn report(store: Store) -> Report {
    check(store, &mut |_| {}).await.unwrap()
}

/// Where the frames of a slot file end.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (0, Vec::new());
    while let Some(head) = bytes.get(at..at + 4) {
        let len = u32::from_le_bytes(head.try_into().unwrap()) as usize;
        if len == 0 {
            break;
        }
        at += 8 + len;
        ends.push(at);
    }
    ends
}

#[tokio::test]
async fn every_flipped_byte_of_the_slots_is_found_and_stops_an_open() {
    let directory = tempfile::tempdir().unwrap();
    let file = small_log(directory.path(), 2).await;
    let whole = std::fs::read(&file).unwrap();
    let ends = frames(&whole);
    assert_eq!(ends.len(), 4);
    for at in 0..*ends.last().unwrap() {
        let mut broken = whole.clone();
        broken[at] ^= 0x10;
        std::fs::write(&file, &broken).unwrap();
        let slot = ends.iter().position(|end| at < *end).unwrap();
        let found = report(files(directory.path())).await.damages;
        assert!(found.iter().any(|f| f.key == format!("j/00/000000000000.slots#{slot}")), "byte {at}: {found:?}");
        assert!(Log::open(files(directory.path()), quiet()).await.is_err(), "byte {at}");
        if at % 20 == 0 {
            assert!(Log::open(writable(directory.path()), quiet()).await.is_err(), "byte {at}");
            assert!(std::fs::read(&file).unwrap() == broken, "nothing was written into the damage at byte {at}");
        }
    }
}

#[tokio::test]
async fn a_slot_file_cut_anywhere_below_the_acknowledged_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let file = small_log(directory.path(), 3).await;
    let whole = std::fs::read(&file).unwrap();
    for cut in (0..*frames(&whole).last().unwrap()).step_by(7) {
        std::fs::write(&file, &whole[..cut]).unwrap();
        assert!(!report(files(directory.path())).await.damages.is_empty(), "cut at {cut}");
        assert!(Log::open(files(directory.path()), quiet()).await.is_err(), "cut at {cut}");
    }
}

#[tokio::test]
async fn the_torn_tail_of_a_crashed_write_is_recovered_and_never_an_acknowledged_slot() {
    let directory = tempfile::tempdir().unwrap();
    let file = small_log(directory.path(), 3).await;
    let (whole, mark) = (std::fs::read(&file).unwrap(), directory.path().join("j/00/tail"));
    let ends = frames(&whole);
    let (last, end) = (ends[ends.len() - 2], ends[ends.len() - 1]);
    for cut in last..end {
        let mut torn = whole[..cut].to_vec();
        torn.resize(whole.len(), 0);
        std::fs::write(&file, &torn).unwrap();
        std::fs::write(&mark, (ends.len() as u64 - 1).to_le_bytes()).unwrap();
        let log = Log::open(writable(directory.path()), quiet()).await.unwrap();
        assert_eq!(text(&pages(&log, "s", 100).await.unwrap()), "0;1;", "cut at {cut}");
        log.submit(append("s", "new;")).await.unwrap();
        log.close().await;
        let log = Log::open(files(directory.path()), quiet()).await.unwrap();
        assert_eq!(text(&pages(&log, "s", 100).await.unwrap()), "0;1;new;", "cut at {cut}");
        assert!(report(files(directory.path())).await.damages.is_empty());
    }
}

/// A log with packs, a checkpoint and a blob.
async fn rich_log() -> Store {
    let store = memory(1, 3);
    let log = Log::open(store.clone(), Options::default()).await.unwrap();
    log.submit(create("s", "text/plain")).await.unwrap();
    for i in 0..20 {
        log.submit(append("s", format!("{i};"))).await.unwrap();
    }
    log.submit(append("s", Bytes::from(vec![b'x'; 2 << 20]))).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    log.close().await;
    assert!(report(store.clone()).await.damages.is_empty());
    store
}

async fn keys(store: &Store, prefix: &str) -> Vec<Key> {
    use futures::TryStreamExt;
    let found: Vec<_> = store.objects.list(Some(&Key::from(prefix))).try_collect().await.unwrap();
    let mut keys: Vec<Key> = found.into_iter().map(|meta| meta.location).collect();
    keys.sort_unstable();
    keys
}

async fn get(store: &Store, key: &Key) -> Bytes {
    store.objects.get(key).await.unwrap().bytes().await.unwrap()
}

/// Does something to one object, and expects the check to name it.
async fn named(store: &Store, key: &Key, instead: Option<Bytes>, culprit: &str) {
    let before = get(store, key).await;
    match instead {
        Some(bytes) => drop(store.objects.put(key, bytes.into()).await.unwrap()),
        None => store.objects.delete(key).await.unwrap(),
    }
    let found = report(store.clone()).await.damages;
    assert!(found.iter().any(|finding| finding.key == culprit), "{key} → {culprit}: {found:?}");
    store.objects.put(key, before.into()).await.unwrap();
}

#[tokio::test]
async fn every_kind_of_broken_object_is_named() {
    let store = rich_log().await;
    for prefix in ["j/00", "pack/00", "ckpt/00", "blobs"] {
        let all = keys(&store, prefix).await;
        assert!(!all.is_empty(), "{prefix}");
        for key in all.iter().filter(|key| key.filename() != Some("LATEST")) {
            let bytes = get(&store, key).await;
            let mut flipped = bytes.to_vec();
            flipped[bytes.len() / 3] ^= 1;
            named(&store, key, Some(flipped.into()), key.as_ref()).await;
            named(&store, key, Some(bytes.slice(..bytes.len() - 5)), key.as_ref()).await;
            named(&store, key, Some(Bytes::new()), key.as_ref()).await;
        }
    }
}

#[tokio::test]
async fn every_kind_of_missing_object_is_named() {
    let store = rich_log().await;
    let slots = keys(&store, "j/00").await;
    for slot in &slots[..slots.len() - 1] {
        named(&store, slot, None, slot.as_ref()).await;
    }
    let blob = &keys(&store, "blobs").await[0];
    named(&store, blob, None, blob.as_ref()).await;
    let latest = get(&store, &Key::from("ckpt/00/LATEST")).await;
    let newest: u64 = std::str::from_utf8(&latest).unwrap().parse().unwrap();
    named(&store, &checkpoint::path(newest), None, "ckpt/00/LATEST").await;
    let pack = keys(&store, "pack/00").await.pop().unwrap();
    named(&store, &pack, None, pack.as_ref()).await;
}

#[tokio::test]
async fn a_stale_index_is_named() {
    let store = rich_log().await;
    let packs = keys(&store, "pack/00").await;
    let other = get(&store, packs.last().unwrap()).await;
    named(&store, &packs[0], Some(other), packs[0].as_ref()).await;
    let checkpoints = keys(&store, "ckpt/00").await;
    let (first, latest) = (&checkpoints[0], Key::from("ckpt/00/LATEST"));
    let elsewhere = keys(&rich_log().await, "ckpt/00").await;
    assert_eq!(elsewhere.first(), Some(first), "both logs were written alike");
    for other in &checkpoints[1..] {
        if *other != latest {
            named(&store, first, Some(get(&store, other).await), first.as_ref()).await;
        }
    }
    named(&store, &latest, Some("9999".into()), latest.as_ref()).await;
    named(&store, &latest, Some("no number".into()), latest.as_ref()).await;
}

#[tokio::test]
async fn an_open_refuses_a_hole_and_never_writes_into_it() {
    let store = rich_log().await;
    for key in keys(&store, "ckpt/00").await {
        store.objects.delete(&key).await.unwrap();
    }
    let slots = keys(&store, "j/00").await;
    for slot in &slots[1..slots.len() - 1] {
        let bytes = get(&store, slot).await;
        store.objects.delete(slot).await.unwrap();
        let refused = Log::open(store.clone(), quiet()).await.unwrap_err().to_string();
        assert!(refused.contains(slot.as_ref()), "{refused}");
        assert!(store.objects.head(slot).await.is_err(), "nothing was written into {slot}");
        store.objects.put(slot, bytes.into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_file_of_slots_in_the_middle_is_named() {
    let directory = tempfile::tempdir().unwrap();
    small_log(directory.path(), 2).await;
    std::fs::write(directory.path().join("j/00/000000000001.slots"), b"").unwrap();
    let found = report(files(directory.path())).await.damages;
    assert!(found.iter().any(|f| f.key.starts_with("j/00/000000000000.slots#")), "{found:?}");
    assert!(Log::open(files(directory.path()), quiet()).await.is_err());
}

#[tokio::test]
async fn damaged_packs_and_checkpoints_cost_time_and_nothing_else() {
    let store = rich_log().await;
    let log = Log::open(store.clone(), Options { memory: 0, ..quiet() }).await.unwrap();
    let wanted = text(&pages(&log, "s", 1 << 20).await.unwrap());
    for prefix in ["pack/00", "ckpt/00"] {
        for key in keys(&store, prefix).await {
            let mut bytes = get(&store, &key).await.to_vec();
            bytes[0] ^= 0xff;
            store.objects.put(&key, bytes.into()).await.unwrap();
        }
        assert!(text(&pages(&log, "s", 1 << 20).await.unwrap()) == wanted, "with damage in {prefix}");
    }
    let log = Log::open(over(store.objects.clone(), 1, 3), quiet()).await.unwrap();
    assert!(text(&pages(&log, "s", 1 << 20).await.unwrap()) == wanted);
    assert!(log.follow(Cursor::default()).await.is_ok());
}

fn samples() -> &'static Vec<Bytes> {
    static SAMPLES: std::sync::OnceLock<Vec<Bytes>> = std::sync::OnceLock::new();
    SAMPLES.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = rich_log().await;
            let mut samples = Vec::new();
            for prefix in ["j/00", "pack/00", "ckpt/00"] {
                for key in keys(&store, prefix).await {
                    samples.push(get(&store, &key).await);
                }
            }
            samples
        })
    })
}

/// With the checksum made right again, so that the parser behind it is reached.
fn sealed(bytes: &[u8]) -> Bytes {
    let body = bytes.len().saturating_sub(32);
    let mut out = bytes[..body].to_vec();
    let digest = blake3::hash(&out);
    out.extend_from_slice(digest.as_bytes());
    out.into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn corrupt_objects_never_panic(which in any::<prop::sample::Index>(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in any::<prop::sample::Index>(), shorten in any::<bool>()) {
        let sample = which.get(samples());
        let mut bytes = sample.to_vec();
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if shorten {
            bytes.truncate(cut.index(bytes.len()));
        }
        for bytes in [Bytes::from(bytes.clone()), sealed(&bytes)] {
            let _ = decode_slot(&bytes);
            let _ = pack::decode_index(&bytes);
            let _ = pack::decode(&bytes);
            let _ = pack::decode_block(&bytes);
            let log = bytes.get(8..24).map_or(1, |id| u128::from_le_bytes(id.try_into().unwrap()));
            let _ = checkpoint::decode(log, &bytes);
        }
    }
}
