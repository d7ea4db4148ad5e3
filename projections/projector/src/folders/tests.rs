//! On directories of their own.

use event_log::Cursor;
use tempfile::TempDir;

use super::*;
use crate::sink::{SinkError, Span};

fn folders() -> (TempDir, Folders) {
    let directory = tempfile::tempdir().unwrap();
    let folders = Folders::open(&directory.path().join("copies"), "sayings", 1).unwrap();
    (directory, folders)
}

async fn live(folders: &Folders) -> Folder {
    match folders.live().await.unwrap().0 {
        Live::Current(copy) => copy,
        Live::Outdated { version } => panic!("the live copy is of version {version}"),
    }
}

fn checkpoint(next: u64) -> Checkpoint {
    Checkpoint { cursor: Cursor { next, digest: [7; 32] }, records: next * 10, time: 1_000 + next }
}

async fn commit(copy: &Folder, from: Checkpoint, to: Checkpoint, made: &[&str]) -> Result<(), SinkError> {
    let commit = Feeder::new(copy.clone()).begin(&Span { from, to }).await?;
    Ok(commit.end(made.iter().map(|name| (*name).to_owned()))?)
}

/// As if the copy had been replaced long ago.
fn age(copy: &Folder) {
    let marker = File::options().write(true).open(copy.path().join(RETIRED)).unwrap();
    let since = marker.metadata().unwrap().modified().unwrap();
    marker.set_modified(since - std::time::Duration::from_secs(120)).unwrap();
}

#[tokio::test]
async fn a_number_is_above_that_of_every_other_copy_and_of_a_live_one_that_is_lost() {
    let (_directory, folders) = folders();
    assert!(folders.serving().unwrap().is_none());
    assert_eq!(folders.checkpoint().unwrap(), Checkpoint::default());
    let first = live(&folders).await;
    assert_eq!((first.name(), live(&folders).await.name()), ("v1_1", "v1_1"), "a live copy is made once");
    assert_eq!(folders.beside("a").await.unwrap().name(), "v1_2");
    let next = Folders::open(folders.directory(), "sayings", 2).unwrap();
    assert_eq!(next.beside("a").await.unwrap().name(), "v2_3", "a copy of another version is not gone on with");
    let last = next.beside("b").await.unwrap();
    let (hold, _) = next.hold().await.unwrap();
    next.swap(hold, &last).unwrap();
    std::fs::remove_dir_all(last.path()).unwrap();
    assert_eq!(next.beside("c").await.unwrap().name(), "v2_5");
}

#[tokio::test]
async fn a_live_copy_of_another_version_is_outdated_and_goes_on_serving() {
    let (_directory, folders) = folders();
    let copy = live(&folders).await;
    let next = Folders::open(folders.directory(), "sayings", 2).unwrap();
    assert!(matches!(next.live().await.unwrap().0, Live::Outdated { version: 1 }));
    assert_eq!(next.serving().unwrap(), Some(copy));
}

#[tokio::test]
async fn a_label_finds_its_unfinished_copy_and_never_the_one_that_serves() {
    let (_directory, folders) = folders();
    let first = live(&folders).await;
    let copy = folders.beside("rebuild").await.unwrap();
    commit(&copy, Checkpoint::default(), checkpoint(3), &[]).await.unwrap();
    assert_eq!(folders.beside("rebuild").await.unwrap(), copy);
    assert_eq!(copy.checkpoint().unwrap(), checkpoint(3));
    let other = folders.beside("verify").await.unwrap();
    assert_ne!(other, copy);
    folders.discard(&other).await.unwrap();
    let (hold, _) = folders.hold().await.unwrap();
    folders.swap(hold, &copy).unwrap();
    let again = folders.beside("rebuild").await.unwrap();
    assert!(again != copy && again != first);
}

#[tokio::test]
async fn a_swap_puts_a_copy_in_the_place_of_another_which_goes_when_nobody_reads_it() {
    let (_directory, folders) = folders();
    let old = live(&folders).await;
    commit(&old, Checkpoint::default(), checkpoint(2), &[]).await.unwrap();
    let reading = old.reading().unwrap();
    let new = folders.beside("rebuild").await.unwrap();
    let (hold, at) = folders.hold().await.unwrap();
    assert_eq!(at, checkpoint(2));
    commit(&new, Checkpoint::default(), checkpoint(2), &[]).await.unwrap();
    folders.swap(hold, &new).unwrap();
    assert_eq!(folders.serving().unwrap(), Some(new.clone()));
    let told: Vec<_> = folders.copies().unwrap().into_iter().map(|it| (it.name, it.state, it.label, it.position)).collect();
    let expected = [("sayings_v1_1", "retired", "", 2), ("sayings_v1_2", "live", "", 2)];
    assert_eq!(told, expected.map(|(name, state, label, at)| (name.to_owned(), state, label.to_owned(), at)));
    let moved = commit(&old, checkpoint(2), checkpoint(3), &[]).await;
    assert!(matches!(moved, Err(SinkError::Moved)), "{moved:?}");
    live(&folders).await;
    assert!(old.path().exists(), "it was replaced just now");
    age(&old);
    live(&folders).await;
    assert!(old.path().exists(), "it is read");
    drop(reading);
    live(&folders).await;
    assert!(!old.path().exists() && new.path().exists());
}

#[tokio::test]
async fn nothing_is_committed_to_a_copy_that_is_held() {
    let (_directory, folders) = folders();
    let copy = live(&folders).await;
    let (hold, _) = folders.hold().await.unwrap();
    let held = copy.clone();
    let committing = tokio::spawn(async move { commit(&held, Checkpoint::default(), checkpoint(1), &[]).await });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(copy.checkpoint().unwrap(), Checkpoint::default());
    drop(hold);
    committing.await.unwrap().unwrap();
    assert_eq!(copy.checkpoint().unwrap(), checkpoint(1));
}

#[tokio::test]
async fn a_copy_that_serves_or_is_in_use_is_not_dropped() {
    let (_directory, folders) = folders();
    live(&folders).await;
    let (fed, read) = (folders.beside("fed").await.unwrap(), folders.beside("read").await.unwrap());
    let mut feeder = Feeder::new(fed.clone());
    assert!(feeder.claim().unwrap());
    let reading = read.reading().unwrap();
    for (name, dropped) in [
        ("sayings_v1_1", Dropped::Live),
        ("sayings_v1_2", Dropped::Busy),
        ("sayings_v1_3", Dropped::Busy),
        ("sayings_v1_4", Dropped::Unknown),
        ("v1_2", Dropped::Unknown),
        ("sayings_../copies", Dropped::Unknown),
    ] {
        assert_eq!(folders.drop_copy(name).await.unwrap(), dropped, "{name}");
    }
    drop((feeder, reading));
    for name in ["sayings_v1_2", "sayings_v1_3"] {
        assert_eq!(folders.drop_copy(name).await.unwrap(), Dropped::Gone, "{name}");
    }
    assert_eq!(folders.copies().unwrap().len(), 1);
}

#[tokio::test]
async fn one_feeds_a_copy_and_only_from_where_it_is() {
    let (_directory, folders) = folders();
    let copy = live(&folders).await;
    let (mut first, mut second) = (Feeder::new(copy.clone()), Feeder::new(copy.clone()));
    assert!(first.claim().unwrap() && !second.claim().unwrap());
    let span = Span { from: Checkpoint::default(), to: checkpoint(1) };
    assert!(matches!(second.begin(&span).await, Err(SinkError::Unavailable(_))));
    drop(first.begin(&span).await.unwrap());
    assert_eq!(copy.checkpoint().unwrap(), Checkpoint::default(), "a commit without an end is none");
    first.begin(&span).await.unwrap().end(["a".to_owned()]).unwrap();
    assert!(matches!(first.begin(&span).await, Err(SinkError::Moved)));
    let span = Span { from: checkpoint(1), to: checkpoint(2) };
    first.stopped("no more").await.unwrap();
    assert_eq!(folders.copies().unwrap()[0].stopped.as_deref(), Some("no more"));
    first.begin(&span).await.unwrap().end(["b".to_owned()]).unwrap();
    assert_eq!(folders.copies().unwrap()[0].stopped, None);
    assert_eq!(copy.state().unwrap().made().iter().collect::<Vec<_>>(), ["a", "b"]);
    drop(first);
    assert!(second.claim().unwrap(), "a claim ends with the one who had it");
}

#[tokio::test]
async fn a_state_that_is_missing_or_makes_no_sense_is_damage() {
    let (_directory, folders) = folders();
    let copy = live(&folders).await;
    let state = copy.path().join("state.json");
    std::fs::write(&state, "{").unwrap();
    assert!(matches!(copy.state(), Err(FolderError::Damaged { projection: "sayings", .. })));
    std::fs::remove_file(&state).unwrap();
    let error = copy.state().unwrap_err();
    assert!(error.to_string().contains("state.json is missing"), "{error}");
    assert!(matches!(SinkError::from(error), SinkError::Damaged(_)));
    assert_eq!(folders.hold().await.unwrap().1, Checkpoint::default(), "what is damaged may be replaced");
}

/// Copies are older than the program that opens them.
#[tokio::test]
async fn a_state_is_read_and_written_as_it_always_was() {
    let (_directory, folders) = folders();
    let copy = live(&folders).await;
    let digest = serde_json::to_string(&[7; 32]).unwrap();
    let stored = format!(
        r#"{{"next":3,"digest":{digest},"records":30,"time":1003,"stopped":"s","made":["h-1/parts"],"label":"rebuild","boot":"b"}}"#
    );
    std::fs::write(copy.path().join("state.json"), &stored).unwrap();
    let state = copy.state().unwrap();
    assert_eq!(state.checkpoint(), checkpoint(3));
    assert!(state.is_of_an_earlier_run() && state.made().contains("h-1/parts"));
    copy.write_state(&state).unwrap();
    assert_eq!(std::fs::read_to_string(copy.path().join("state.json")).unwrap(), stored);
    let oldest = format!(r#"{{"next":3,"digest":{digest},"records":30,"time":1003}}"#);
    std::fs::write(copy.path().join("state.json"), oldest).unwrap();
    let state = copy.state().unwrap();
    assert!(!state.is_of_an_earlier_run() && state.made().is_empty());
    assert_eq!(std::fs::read_to_string(folders.directory().join("live")).unwrap(), "v1_1");
    let mut files: Vec<_> = std::fs::read_dir(folders.directory()).unwrap().map(|it| it.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["live", "lock", "v1_1"]);
}
