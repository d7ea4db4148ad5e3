//! However a copy came about, it says the same.

use std::sync::Arc;

use entry_index::{EntriesProjector, EntryFilter, EntryIndex, IndexError, MessageFilter, Question};
use projector::{Copies, Until, advance, rebuild};

use crate::site::{HALF_PAST, Site, TALK, house, scores, site, speak_of_fish};

const QUESTIONS: [&str; 5] = ["walrus", "heron line", "HeaderLine", "the heron waits", "word 3"];

async fn speak_of_much(site: &Site, n: usize) {
    let said: Vec<String> =
        (0..4).map(|m| format!("word {m} about the walrus and heron{}", " line".repeat((n + m) % 3))).collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    site.say(TALK, &format!("s-{n}"), &said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_followed_in_small_steps_ranks_and_sums_as_one_built_at_once() {
    let site = site().await;
    for n in 0..12 {
        speak_of_much(&site, n).await;
        site.follow().await;
    }
    speak_of_fish(&site).await;
    site.follow().await;
    site.write("t-1", false, 1, HALF_PAST, "signal.thread.tagged", r#"{"tags":["green"]}"#).await;
    site.follow().await;
    let all = || QUESTIONS.map(|question| scores(&site.ask("h-1", question, &MessageFilter::default(), 9)));
    let entries = || site.find("h-1", "heron", &EntryFilter { tag: Some("green".into()), ..EntryFilter::default() }, 9).entries;
    let (before, entries_before, sums) = (all(), entries(), site.sums().await);
    assert!(before.iter().all(|found| !found.is_empty()) && entries_before.len() == 1, "{before:?}");
    site.assert_verified().await;
    let followed = site.copy();
    let rebuilt = rebuild(&site.log, &Arc::new(EntriesProjector), &site.index, Until::Head, |_| {}).await.unwrap();
    assert!(rebuilt.swapped);
    assert_ne!(site.copy(), followed);
    assert_eq!(all(), before);
    assert_eq!(entries(), entries_before);
    assert_eq!(site.sums().await, sums);
    site.assert_verified().await;
    let fresh = tempfile::tempdir().unwrap();
    let fresh_index = EntryIndex::open(fresh.path(), site.log.clone()).unwrap();
    advance(&site.log, &Arc::new(EntriesProjector), &fresh_index, |_| {}).await.unwrap();
    assert_eq!(fresh_index.live_sums().await.unwrap().unwrap().1, sums, "in one step");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_many_come_to_feed_a_little_of_does_not_stay_in_as_many_pieces() {
    let site = site().await;
    for n in 0..40 {
        speak_of_much(&site, n).await;
        site.follow().await;
    }
    let index = std::fs::read_dir(site.copy().join("index")).unwrap();
    let pieces = index.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "idx")).count();
    assert!((1..=8).contains(&pieces), "{pieces}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_change_with_what_is_indexed() {
    let site = site().await;
    speak_of_much(&site, 0).await;
    site.follow().await;
    let before = site.sums().await;
    speak_of_much(&site, 1).await;
    site.follow().await;
    let now = site.sums().await;
    assert!(now["words"] != before["words"] && now["notes"] != before["notes"], "{now:?}");
}

/// The feeder died after the index was committed, and before the checkpoint.
#[tokio::test(flavor = "multi_thread")]
async fn documents_are_not_doubled_when_the_checkpoint_was_lost() {
    let site = site().await;
    speak_of_much(&site, 0).await;
    site.thread("h-1", "t-1", r#"["blue"]"#).await;
    site.follow().await;
    let state = site.copy().join("state.json");
    let before = std::fs::read(&state).unwrap();
    speak_of_much(&site, 1).await;
    site.chat("t-1", "the heron is back").await;
    site.write("t-1", false, 1, HALF_PAST, "signal.thread.tagged", r#"{"tags":["green"]}"#).await;
    site.follow().await;
    let (sums, count) = (site.sums().await, site.index.count(&house("h-1")).unwrap());
    let found = |site: &Site| scores(&site.ask("h-1", "heron", &MessageFilter::default(), 9));
    let expected = found(&site);
    let copy = site.copy();
    assert_ne!(std::fs::read(&state).unwrap(), before, "the checkpoint moved");
    std::fs::write(&state, &before).unwrap();
    let again = EntryIndex::open(site.directory.path(), site.log.clone()).unwrap();
    let site = Site { index: again, ..site };
    site.follow().await;
    assert_eq!(site.copy(), copy, "it is the same copy");
    assert_eq!(site.sums().await, sums);
    assert_eq!((site.index.count(&house("h-1")).unwrap(), found(&site)), (count, expected.clone()));
    site.assert_verified().await;
    std::fs::write(&state, &before).unwrap();
    speak_of_much(&site, 2).await;
    site.follow().await;
    assert_eq!(site.index.count(&house("h-1")).unwrap(), count + 4, "what is new is added");
    site.assert_verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_whose_list_of_segments_is_gone_is_damaged_and_not_empty() {
    let site = site().await;
    speak_of_much(&site, 0).await;
    site.follow().await;
    std::fs::remove_file(site.copy().join("index/meta.json")).unwrap();
    let again = EntryIndex::open(site.directory.path(), site.log.clone()).unwrap();
    let asked = again.messages(&house("h-1"), &Question::new("heron"), &MessageFilter::default(), 9);
    assert!(matches!(asked, Err(IndexError::Damaged(_))), "{asked:?}");
}
