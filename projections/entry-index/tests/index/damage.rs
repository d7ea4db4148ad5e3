//! Files that are not what was written, in every kind of file that an index has.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use entry_index::{EntriesProjector, EntryFilter, EntryIndex, IndexError, Last, MessageFilter, Question};
use projector::{Pace, ReplayError, Runner, SinkError, verify};

use crate::site::{HALF_PAST, Site, TALK, house, site, speak_of_fish};

const KINDS: [&str; 7] = ["del", "fast", "fieldnorm", "idx", "pos", "store", "term"];
/// Bytes of each file that are turned one after the other.
const PLACES: u64 = 48;

/// Several segments, and a thread whose note was replaced in one of them.
async fn much() -> Site {
    let site = site().await;
    speak_of_fish(&site).await;
    let said: Vec<String> =
        (0..200).map(|n| format!("word {n} about the walrus and heron number{n} in lib/part{n}.rs")).collect();
    for n in 0..3 {
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        site.say(TALK, &format!("s-{n}"), &said).await;
        tag(&site, "green").await;
        site.follow().await;
    }
    site.assert_verified().await;
    site
}

async fn tag(site: &Site, tag: &str) {
    site.write("t-1", false, 1, HALF_PAST, "signal.thread.tagged", &format!(r#"{{"tags":["{tag}"]}}"#)).await;
}

fn kind(path: &Path) -> &str {
    path.extension().and_then(|kind| kind.to_str()).unwrap_or_default()
}

/// Of segments; one of every kind at least.
fn files(site: &Site) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(site.copy().join("index")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| KINDS.contains(&kind(path))).collect();
    files.sort();
    let kinds: BTreeSet<&str> = files.iter().map(|path| kind(path)).collect();
    assert!(KINDS.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    files
}

/// Turns bits, in place: whoever reads the file has it in memory.
fn turn(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_what_was_written_is_named_before_anything_of_it_is_read() {
    let site = much().await;
    for path in files(&site) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        for at in [0, length(&path) / 2, length(&path) - 1] {
            turn(&path, at);
            let verified = verify(&site.log, &Arc::new(EntriesProjector), &site.index, |_| {}).await;
            let named = matches!(&verified, Err(ReplayError::Sink(SinkError::Damaged(why))) if why.contains(name));
            assert!(named, "{name} at {at}: {verified:?}");
            turn(&path, at);
        }
    }
    site.assert_verified().await;
}

/// Everything that can be asked of an index.
fn ask(index: &EntryIndex) -> Result<(), IndexError> {
    let of = house("h-1");
    let filters =
        [MessageFilter::default(), MessageFilter { project: Some("/p/*".into()), since: Some(1), ..MessageFilter::default() }];
    for question in ["walrus", "HeaderLine", "lib/part7.rs number7", "the heron waits", "walross"].map(Question::new) {
        for filter in &filters {
            index.messages(&of, &question, filter, 9)?;
        }
        index.entries(&of, &question, &EntryFilter { tag: Some("green".into()), ..EntryFilter::default() }, 0, 9)?;
    }
    let found = index.whereabouts(&of, &["mine", "s-1"])?.into_iter().flatten();
    let lasts: Vec<Last> = found.map(|it| Last { root: it.root, stream: it.stream, seq: 1, time: 0 }).collect();
    index.newer(&of, &lasts)?;
    index.thread(&of, 7)?;
    index.count(&of)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_damaged_a_question_is_answered_or_refused() {
    let site = much().await;
    let index = site.copy().join("index");
    let lists = [index.join("meta.json"), index.join(".managed.json")];
    let mut refused = BTreeSet::new();
    for path in files(&site).into_iter().chain(lists) {
        for n in 0..PLACES {
            let at = length(&path) * n / PLACES;
            turn(&path, at);
            let opened = EntryIndex::open(site.directory.path(), site.log.clone()).unwrap();
            if ask(&opened).is_err() {
                refused.insert(kind(&path).to_owned());
            }
            turn(&path, at);
        }
    }
    assert!(["idx", "term", "store", "json"].iter().all(|kind| refused.contains(*kind)), "{refused:?}");
    ask(&site.index).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_damaged_is_built_anew_before_it_is_fed() {
    let mut site = much().await;
    for wanted in KINDS {
        let (copy, files) = (site.copy(), files(&site));
        let path = files.iter().find(|path| kind(path) == wanted).unwrap();
        turn(path, length(path) / 3);
        site.index = EntryIndex::open(site.directory.path(), site.log.clone()).unwrap();
        for n in 0..2 {
            tag(&site, &format!("{wanted}-{n}")).await;
            site.follow().await;
        }
        assert_ne!(site.copy(), copy, "{wanted}");
        site.assert_verified().await;
        ask(&site.index).unwrap();
    }
}

/// Whoever feeds has the files open, and does not check them again.
#[tokio::test(flavor = "multi_thread")]
async fn who_feeds_outlives_damage_and_builds_the_index_anew() {
    for wanted in KINDS {
        let site = much().await;
        let pace = Pace { retry_after: Duration::from_millis(20), ..Pace::default() };
        let runner = Runner::new(site.log.clone(), Arc::new(EntriesProjector), site.index.clone(), pace);
        let feeding = tokio::spawn(async move { runner.run().await });
        tag(&site, "blue").await;
        caught_up(&site).await;
        for path in files(&site).iter().filter(|path| kind(path) == wanted) {
            (0..length(path)).for_each(|at| turn(path, at));
        }
        for n in 0..12 {
            site.say(TALK, &format!("later-{wanted}-{n}"), &["the heron is late"]).await;
            tag(&site, &format!("red-{n}")).await;
            caught_up(&site).await;
        }
        assert!(!feeding.is_finished(), "{wanted}");
        feeding.abort();
        let _ = feeding.await;
        let again = EntryIndex::open(site.directory.path(), site.log.clone()).unwrap();
        let site = Site { index: again, ..site };
        tag(&site, "last").await;
        site.follow().await;
        site.assert_verified().await;
    }
}

async fn caught_up(site: &Site) {
    let reached = async {
        while site.index.checkpoint().is_ok_and(|at| at.position() < site.log.position()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reached).await.expect("the index follows");
}
