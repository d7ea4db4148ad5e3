//! Rules of the specification that are about how, not what.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use commands::RealSource;
use commands::sessions::{Recording, Sessions};
use event_log::{Log, Options, StoreUrl};
use events::HouseId;
use events::session::SessionId;
use lance::Dataset;
use lance_sessions::{Around, Datasets, SessionsProjector, Table};
use projector::advance;

fn house() -> HouseId {
    HouseId::new("h-1").unwrap()
}

async fn log() -> (Log, Sessions) {
    let log = Log::open(StoreUrl::Memory.open(&[], true).unwrap(), Options::default()).await.unwrap();
    (log.clone(), Sessions::new(log, Arc::new(RealSource)))
}

async fn record(sessions: &Sessions, messages: u64) {
    let session = r#"{"id":"s","source_agent":"pi","created_at":"2026-01-01T00:00:00Z","project":"/p"}"#;
    let message = |n: u64| {
        let part = format!(r#"{{"id":"0","type":"text","provenance":"conversational","text":"word {n}"}}"#);
        let text = format!(r#"{{"id":"m{n}","role":"user","timestamp":"2026-01-01T00:00:00Z","content":[{part}]}}"#);
        serde_json::from_str(&text).unwrap()
    };
    let messages = (0..messages).map(message).collect();
    let session_id = SessionId::new("s").unwrap();
    sessions
        .record(&house(), Recording { session_id, session: Some(serde_json::from_str(session).unwrap()), messages })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_as_the_rules_say() {
    let directory = tempfile::tempdir().unwrap();
    let (log, sessions) = log().await;
    let datasets = Datasets::open(directory.path(), log.clone()).unwrap();
    record(&sessions, 2).await;
    advance(&log, &Arc::new(SessionsProjector), &datasets, |_| {}).await.unwrap();
    let live = directory.path().join(std::fs::read_to_string(directory.path().join("live")).unwrap()).join("houses/h-1");
    for (table, keys) in [
        (Table::Sessions, vec!["id"]),
        (Table::Messages, vec!["session_id", "id"]),
        (Table::Parts, vec!["session_id", "message_id", "id"]),
    ] {
        let dataset = Dataset::open(live.join(format!("{}.lance", table.name())).to_str().unwrap()).await.unwrap();
        assert!(dataset.manifest().uses_stable_row_ids(), "lance-table-creation-stable-row-ids");
        let found: Vec<_> = dataset.schema().unenforced_primary_key().iter().map(|field| field.name.clone()).collect();
        assert_eq!(found, keys, "lance-table-creation-unenforced-pk, -session-scoped-pk");
        let version = dataset.schema().metadata.get("arbe:schema-version");
        assert_eq!(version.map(String::as_str), Some("1"), "lance-dataset-schema-version");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_handle_wrote_is_seen_by_the_next_read() {
    let directory = tempfile::tempdir().unwrap();
    let (log, sessions) = log().await;
    let (writer, reader) =
        (Datasets::open(directory.path(), log.clone()).unwrap(), Datasets::open(directory.path(), log.clone()).unwrap());
    for messages in [1, 4, 9] {
        record(&sessions, messages).await;
        advance(&log, &Arc::new(SessionsProjector), &writer, |_| {}).await.unwrap();
        let found = reader.count(&house(), &SessionId::new("s").unwrap(), Around::default()).await.unwrap();
        assert_eq!(found, messages);
    }
}

/// Opening, scanning and writing happen in one file.
#[test]
fn lance_is_reached_through_the_substrate_alone() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        seen += 1;
        if path.ends_with("substrate.rs") {
            continue;
        }
        for forbidden in
            ["DatasetBuilder", "Dataset::open", "Dataset::write", "InsertBuilder", "MergeInsert", ".lance\"", "dataset.scan()"]
        {
            assert!(!text.contains(forbidden), "{} has {forbidden}", path.display());
        }
        // `lance-chokepoints-storage`: what Lance wrote is read by Lance. Copies as a whole are the projector's folders.
        assert!(!text.contains("::fs::") && !text.contains("use std::fs"), "{} reaches around Lance", path.display());
    }
    assert!(seen > 10);
}
