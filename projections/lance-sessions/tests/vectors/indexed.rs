//! The index of vectors: when it is made, and what becomes of it.

use std::fs::{self, File, TryLockError};
use std::sync::Arc;
use std::time::Duration;

use events::session::Role;
use lance_sessions::{Again, Filter, Step, Tuning, Upkeep};

use crate::site::{PLACE, Place, direction, fake, house, ids, numbered, site};

#[tokio::test(flavor = "multi_thread")]
async fn many_vectors_are_indexed_and_more_are_folded_in() {
    let source = fake("fake-a", 256, true);
    let site = site(&source).await;
    let site = site.indexed_from(500);
    site.say(Place { session: "s/1", ..PLACE }, &numbered("alpha", 499)).await;
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    assert!(!site.plan(&source, &Filter::default()).await.contains("ANNSubIndex"), "too few");
    site.say(Place { session: "s/2", role: "assistant", ..PLACE }, &numbered("beta", 101)).await;
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    let answers = Filter { role: Some(Role::Assistant), ..Filter::default() };
    let plan = site.plan(&source, &answers).await;
    let (_, looked_up) = plan.split_once("ANNSubIndex").unwrap().1.split_once("ScalarIndexQuery").unwrap();
    assert!(looked_up.contains("role_idx"), "{plan}");
    assert_eq!(ids(&site.near(&source, "alpha 7", &Filter::default(), 1).await), ["s/1 m7"]);
    assert_eq!(site.near(&source, "alpha 7", &answers, 30).await.len(), 30);
    site.say(Place { session: "s/3", ..PLACE }, &numbered("gamma", 20)).await;
    assert_eq!(ids(&site.near(&source, "gamma 5", &Filter::default(), 1).await), ["s/3 m5"], "what is not folded is found too");
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    let health = site.datasets.health(&house()).await.unwrap();
    assert_eq!((health["messages"].unindexed, health["messages"].embedded), (0, 620), "{health:?}");
    assert_eq!(ids(&site.near(&source, "gamma 5", &Filter::default(), 1).await), ["s/3 m5"]);
    let versions = site.versions();
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    assert_eq!(site.versions(), versions, "what is in order is left alone");
}

/// A server that embeds does nothing else for vectors; a quick source has given them to the feeder before.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_embeds_makes_the_index_that_is_due() {
    for quick in [true, false] {
        let source = fake("fake-a", 256, quick);
        let site = site(&source).await.indexed_from(256);
        site.say(Place { session: "s/1", ..PLACE }, &numbered("alpha", 255)).await;
        site.embed(Again::Missing).await.unwrap();
        assert!(!site.plan(&source, &Filter::default()).await.contains("ANNSubIndex"), "too few");
        site.say(Place { session: "s/2", ..PLACE }, &numbered("beta", 5)).await;
        let done = site.embed(Again::Missing).await.unwrap().done;
        assert_eq!(done, if quick { 0 } else { 5 });
        assert!(site.plan(&source, &Filter::default()).await.contains("ANNSubIndex"), "quick: {quick}");
        assert_eq!(ids(&site.near(&source, "beta 3", &Filter::default(), 1).await), ["s/2 m3"]);
        let versions = site.versions();
        site.say(Place { session: "s/3", ..PLACE }, &numbered("gamma", 5)).await;
        site.embed(Again::Missing).await.unwrap();
        assert_eq!(site.versions(), versions + if quick { 1 } else { 2 }, "a few more are left out of it");
        site.say(Place { session: "s/4", ..PLACE }, &numbered("delta", 1_100)).await;
        site.embed(Again::Missing).await.unwrap();
        assert_eq!(site.datasets.health(&house()).await.unwrap()["messages"].unindexed, 0, "many are not");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_index_is_made_others_write_and_search() {
    let source = fake("fake-a", 256, true);
    let site = Arc::new(site(&source).await.indexed_from(2_000));
    site.say(Place { session: "s", ..PLACE }, &numbered("alpha", 4_000)).await;
    let making = {
        let site = site.clone();
        tokio::spawn(async move { site.embed(Again::Missing).await.unwrap() })
    };
    let readers = File::create(site.messages().join("../../../readers")).unwrap();
    let (mut meanwhile, mut held) = (0, false);
    while !making.is_finished() {
        let session = format!("s/{meanwhile}");
        site.say(Place { session: &session, ..PLACE }, &numbered("beta", 2)).await;
        let filter = Filter { session: Some(session.parse().unwrap()), ..Filter::default() };
        assert_eq!(site.near(&source, "beta 1", &filter, 5).await.len(), 2);
        meanwhile += 1;
        held |= matches!(readers.try_lock(), Err(TryLockError::WouldBlock));
        readers.unlock().unwrap();
    }
    assert!(held, "what is read for long is not removed meanwhile");
    making.await.unwrap();
    assert!(meanwhile > 0 && site.plan(&source, &Filter::default()).await.contains("ANNSubIndex"), "{meanwhile}");
    site.verify().await;
}

/// One thread, whose clock can be set.
#[tokio::test]
async fn what_becomes_of_an_index_is_told_before_and_a_failure_is_tried_again_after_a_while() {
    let source = fake("fake-a", 256, true);
    let site = site(&source).await.indexed_from(256);
    site.say(Place { session: "s/1", ..PLACE }, &numbered("alpha", 300)).await;
    let in_the_way = site.messages().join("_indices");
    fs::write(&in_the_way, "").unwrap();
    let steps = async || {
        let mut steps = Vec::new();
        site.datasets.embed(&house(), Again::Missing, |step| steps.push(step)).await.unwrap();
        (steps, site.plan(&source, &Filter::default()).await.contains("ANNSubIndex"))
    };
    assert_eq!(steps().await, (vec![Step::Indexing], false), "it cannot be written");
    fs::remove_file(&in_the_way).unwrap();
    assert_eq!(steps().await, (vec![], false), "not at once");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(601)).await;
    tokio::time::resume();
    assert_eq!(steps().await, (vec![Step::Indexing], true), "though nothing was written since");
    assert_eq!(steps().await, (vec![], true));
}

/// Fragments that are large by their vectors, so that the feeder leaves them as they are.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_index_is_of_is_not_scattered_over_many_fragments() {
    const WIDTH: usize = 1_024;
    let source = fake("fake-a", WIDTH, true);
    let site = site(&source).await.indexed_from(1_000);
    let say = async |from: usize, to: usize| {
        for n in from..to {
            site.say(Place { session: &format!("s/{n}"), ..PLACE }, &numbered(&format!("alpha{n}"), 512)).await;
        }
    };
    let fragments = async || site.datasets.health(&house()).await.unwrap()["messages"].fragments;
    // All of them, so that what is found does not depend on where the centres lie.
    let thorough = Tuning { nprobes: 64, refine: 40 };
    let nearest = async |n: usize| {
        let query = direction(&format!("alpha{n} 77"), WIDTH).unwrap();
        site.datasets.nearest(&house(), &query, source.model, &Filter::default(), 5, thorough).await.unwrap()
    };
    say(0, 2).await;
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    assert!(site.plan(&source, &Filter::default()).await.contains("ANNSubIndex"));
    say(2, 36).await;
    let before = [nearest(1).await, nearest(20).await, nearest(35).await];
    assert_eq!((ids(&before[1][..1]), fragments().await), (vec!["s/20 m77".into()], 36));
    site.datasets.update_indexes(Upkeep::WhatIsDue, |_, _| {}).await.unwrap();
    assert_eq!(fragments().await, 36, "not worth it where nobody asked");
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    let health = site.datasets.health(&house()).await.unwrap();
    assert!(health["messages"].fragments <= 2 && health["messages"].unindexed == 0, "{health:?}");
    assert!(site.plan(&source, &Filter::default()).await.contains("ANNSubIndex"));
    assert_eq!([nearest(1).await, nearest(20).await, nearest(35).await], before);
    site.verify().await;
}
