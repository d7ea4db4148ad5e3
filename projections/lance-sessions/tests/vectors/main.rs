//! Vectors in the datasets, on a real log in memory and in a real directory. What makes them is a fake.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod about;
mod indexed;
mod parts;
mod site;
mod turns;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use events::HouseId;
use events::session::{Role, SessionId};
use lance::Dataset;
use lance::dataset::NewColumnTransform;
use lance::deps::arrow_schema::{DataType, Field, Schema};
use lance_sessions::{Again, Coverage, Datasets, EmbedError, Embedded, Filter, Project, SessionsProjector, Step, Tuning, Upkeep};
use projector::{Until, rebuild};

use crate::site::{PLACE, Place, direction, fake, house, ids, moment, numbered, site};

#[tokio::test(flavor = "multi_thread")]
async fn a_quick_source_is_asked_as_rows_are_written_and_a_rebuilt_copy_finds_the_same() {
    let source = fake("fake-a", 256, true);
    let site = site(&source).await;
    for session in ["s/1", "s/2"] {
        site.say(Place { session, ..PLACE }, &numbered("alpha beta", 6)).await;
    }
    site.say(Place { session: "s/3", ..PLACE }, &vec!["gamma".into(); 9]).await;
    assert_eq!(site.coverage("fake-a").await, (21, 21, 0));
    let before =
        (site.near(&source, "alpha 3", &Filter::default(), 7).await, site.near(&source, "gamma", &Filter::default(), 4).await);
    assert_eq!(ids(&before.0)[..2], ["s/1 m3", "s/2 m3"], "equally near: in the order of sessions");
    assert_eq!(ids(&before.1), ["s/3 m0", "s/3 m1", "s/3 m2", "s/3 m3"], "equally near: the earlier ones");
    assert!((before.1[0].similarity - 1.0).abs() < 0.01, "{:?}", before.1);
    let asked = source.asked.load(Ordering::SeqCst);
    assert_eq!(site.embed(Again::Stale).await.unwrap(), Embedded::default(), "there is nothing left to do");
    assert_eq!(source.asked.load(Ordering::SeqCst), asked);
    rebuild(&site.log, &Arc::new(SessionsProjector), &site.datasets, Until::Head, |_| {}).await.unwrap();
    assert_eq!(site.coverage("fake-a").await, (21, 21, 0));
    let after =
        (site.near(&source, "alpha 3", &Filter::default(), 7).await, site.near(&source, "gamma", &Filter::default(), 4).await);
    assert_eq!(before, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_copy_has_what_a_slow_source_has_kept_and_waits_for_nothing_else() {
    let source = fake("fake-a", 256, false);
    let site = site(&source).await;
    site.say(PLACE, &numbered("alpha", 20)).await;
    site.embed(Again::Missing).await.unwrap();
    site.say(Place { session: "later", ..PLACE }, &["beta".into(), "alpha 3".into()]).await;
    let asked = source.asked.load(Ordering::SeqCst);
    assert_eq!(site.coverage("fake-a").await, (22, 20, 0));
    assert_eq!(source.looked_for.load(Ordering::SeqCst), 0, "new rows are seldom said before, and to look takes time");
    rebuild(&site.log, &Arc::new(SessionsProjector), &site.datasets, Until::Head, |_| {}).await.unwrap();
    assert_eq!((site.coverage("fake-a").await, site.embedded().await), ((22, 21, 0), 21));
    let near = site.near(&source, "alpha 3", &Filter::default(), 30).await;
    assert_eq!((near.len(), ids(&near[..2])), (21, vec!["later m1".into(), "s m3".into()]), "the same was said before");
    assert_eq!(source.asked.load(Ordering::SeqCst), asked, "nobody waited for it");
    assert_eq!(site.embed(Again::Missing).await.unwrap(), Embedded { done: 1, of: 1, without_words: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_fails_stops_nothing_and_what_it_left_out_is_made_later() {
    let source = fake("fake-a", 256, true);
    let site = site(&source).await;
    source.failing.store(true, Ordering::SeqCst);
    site.say(PLACE, &numbered("alpha", 5)).await;
    assert_eq!(site.coverage("fake-a").await, (5, 0, 0));
    let failed = site.embed(Again::Missing).await;
    assert!(matches!(failed, Err(EmbedError::Model { .. })), "{failed:?}");
    source.failing.store(false, Ordering::SeqCst);
    assert_eq!(site.embed(Again::Missing).await.unwrap(), Embedded { done: 5, of: 5, without_words: 0 });
    assert_eq!(site.coverage("fake-a").await, (5, 5, 0));
    site.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_has_no_words_for_is_asked_once_and_never_found() {
    for quick in [true, false] {
        let source = fake("fake-a", 256, quick);
        let site = site(&source).await;
        site.say(PLACE, &["alpha".into(), "…!".into(), "?".into()]).await;
        let embedded = site.embed(Again::Missing).await.unwrap();
        let expected = if quick { Embedded::default() } else { Embedded { done: 3, of: 3, without_words: 2 } };
        assert_eq!(embedded, expected);
        assert_eq!(site.coverage("fake-a").await, (3, 1, 0));
        assert_eq!(site.embed(Again::Missing).await.unwrap(), Embedded::default());
        assert_eq!(source.asked.load(Ordering::SeqCst), 3);
        assert_eq!(ids(&site.near(&source, "beta", &Filter::default(), 3).await), ["s m0"]);
    }
}

fn made(step: Step) -> Option<Embedded> {
    match step {
        Step::Made(embedded) => Some(embedded),
        Step::Indexing => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn embedding_goes_on_where_it_was_interrupted_and_then_writes_no_version() {
    let source = fake("fake-a", 256, false);
    let site = site(&source).await;
    for session in ["s/1", "s/2", "s/3"] {
        site.say(Place { session, ..PLACE }, &numbered("alpha", 400)).await;
    }
    source.fails_from.store(500, Ordering::SeqCst);
    let failed = site.embed(Again::Missing).await;
    assert!(matches!(failed, Err(EmbedError::Model { .. })), "{failed:?}");
    let (texts, first, _) = site.coverage("fake-a").await;
    assert!(texts == 1_200 && first > 0 && first < 1_200, "{first} of {texts}");
    source.fails_from.store(u64::MAX, Ordering::SeqCst);
    let mut told = Vec::new();
    let fresh = Datasets::open(site.directory.path(), site.log.clone()).unwrap().with_vectors(source.clone());
    let embedded = fresh.embed(&house(), Again::Missing, |step| told.extend(made(step))).await.unwrap();
    assert_eq!((embedded.done, embedded.of), (1_200 - first, 1_200 - first));
    assert!(told.windows(2).all(|pair| pair[0].done <= pair[1].done) && told.last() == Some(&embedded), "{told:?}");
    let versions = site.versions();
    assert_eq!(site.embed(Again::Missing).await.unwrap(), Embedded::default());
    assert_eq!(site.versions(), versions, "nothing to do, no version");
    assert_eq!(site.coverage("fake-a").await, (1_200, 1_200, 0));
    site.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn few_messages_of_a_large_fragment_are_written_beside_it() {
    let source = fake("fake-a", 256, false);
    let site = site(&source).await;
    let mut texts = vec![String::new(); 40];
    texts.extend(numbered("alpha", 3));
    site.say(PLACE, &texts).await;
    let site = site.with(&fake("fake-a", 256, true));
    site.say(Place { session: "a", ..PLACE }, &["alpha 1".into()]).await;
    let site = site.with(&source);
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    assert_eq!(site.embed(Again::Missing).await.unwrap(), Embedded { done: 3, of: 3, without_words: 0 });
    assert_eq!(site.datasets.health(&house()).await.unwrap()["messages"].fragments, 3);
    for _ in 0..2 {
        let first = ids(&site.near(&source, "alpha 1", &Filter::default(), 1).await);
        assert_eq!(first, ["s m41"], "of two that are equally near the one recorded first, wherever it is written");
        let session = Filter { session: Some(SessionId::new("s").unwrap()), ..Filter::default() };
        assert_eq!(site.near(&source, "alpha 1", &session, 9).await.len(), 3);
        site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    }
    assert_eq!(site.datasets.health(&house()).await.unwrap()["messages"].unindexed, 0);
    site.verify().await;
}

/// Twelve messages are nearer than those that the filter lets through, of which there are more than are asked for.
async fn holds_before_ranking(column: &str, far: Place<'_>, filter: Filter) {
    let source = fake("fake-a", 256, true);
    let site = site(&source).await;
    site.say(Place { session: "near", ..PLACE }, &vec!["alpha".into(); 12]).await;
    site.say(far, &numbered("alpha beta", 7)).await;
    let everything = site.near(&source, "alpha", &Filter::default(), 5).await;
    assert!(everything.iter().all(|it| it.session_id.as_str() == "near"), "{everything:?}");
    let plan = site.plan(&source, &filter).await;
    let (_, before_ranking) = plan.split_once("KNNVectorDistance").unwrap();
    assert!(before_ranking.contains(&format!("AND {column} ")) || before_ranking.contains(&format!("({column} ")), "{plan}");
    let found = site.near(&source, "alpha", &filter, 5).await;
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found.iter().all(|it| it.session_id.as_str() == far.session), "{found:?}");
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    let plan = site.plan(&source, &filter).await;
    let (_, looked_up) = plan.split_once("KNNVectorDistance").unwrap().1.split_once("ScalarIndexQuery").unwrap();
    assert!(looked_up.contains(&format!("{column}_idx")) && looked_up.contains("embedding_model_idx"), "{plan}");
    assert_eq!(site.near(&source, "alpha", &filter, 5).await, found);
    let query = direction("alpha", 256).unwrap();
    let tuning = Tuning { refine: 1, ..Tuning::default() };
    let analysis = site.datasets.nearest_analysis(&house(), &query, "fake-a", &filter, 5, tuning).await.unwrap();
    assert!(analysis.contains("output_rows=5"), "{analysis}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_is_looked_up_before_anything_is_ranked() {
    let odd = r"/it's \ 50%_";
    let far = Place { session: "far", project: odd, ..PLACE };
    let filter = Filter { project: Some(vec![Project::Is("/none".into()), Project::Is(odd.into())]), ..Filter::default() };
    holds_before_ranking("project", far, filter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_beginning_of_a_project_is_looked_up_before_anything_is_ranked() {
    let far = Place { session: "far", project: "/it's/here", ..PLACE };
    let filter = Filter { project: Some(vec![Project::Begins("/it's/".into())]), ..Filter::default() };
    holds_before_ranking("project", far, filter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_looked_up_before_anything_is_ranked() {
    let far = Place { session: "it's far", ..PLACE };
    let filter = Filter { session: Some(SessionId::new("it's far").unwrap()), ..Filter::default() };
    holds_before_ranking("session_id", far, filter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_looked_up_before_anything_is_ranked() {
    let far = Place { session: "far", agent: "codex", ..PLACE };
    holds_before_ranking("source_agent", far, Filter { source_agent: Some("codex".into()), ..Filter::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_is_looked_up_before_anything_is_ranked() {
    let far = Place { session: "far", role: "assistant", ..PLACE };
    holds_before_ranking("role", far, Filter { role: Some(Role::Assistant), ..Filter::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_from_which_on_is_looked_up_before_anything_is_ranked() {
    let far = Place { session: "far", from: 100, ..PLACE };
    holds_before_ranking("timestamp", far, Filter { since: Some(moment(100)), ..Filter::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_before_which_is_looked_up_before_anything_is_ranked() {
    let source = fake("fake-a", 256, true);
    let site = site(&source).await;
    site.say(PLACE, &numbered("alpha", 20)).await;
    let filter = Filter { since: Some(moment(3)), until: Some(moment(6)), ..Filter::default() };
    let mut found = ids(&site.near(&source, "alpha 19", &filter, 5).await);
    found.sort();
    assert_eq!(found, ["s m3", "s m4", "s m5"]);
    let far = Place { session: "far", from: 0, ..PLACE };
    drop(site);
    let source = fake("fake-a", 256, true);
    let site = self::site(&source).await;
    site.say(Place { session: "near", from: 100, ..PLACE }, &vec!["alpha".into(); 12]).await;
    site.say(far, &numbered("alpha beta", 7)).await;
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    let filter = Filter { until: Some(moment(100)), ..Filter::default() };
    assert!(site.plan(&source, &filter).await.contains("timestamp_idx"));
    assert_eq!(site.near(&source, "alpha", &filter, 5).await.len(), 5);
    let none = Filter { project: Some(Vec::new()), ..Filter::default() };
    assert_eq!(site.near(&source, "alpha", &none, 5).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_of_another_model_are_not_compared() {
    let (old, new) = (fake("fake-a", 256, true), fake("fake-b", 256, true));
    let site = site(&old).await;
    site.say(Place { session: "old", ..PLACE }, &vec!["alpha".into(); 8]).await;
    let site = site.with(&new);
    assert_eq!(site.coverage("fake-b").await, (8, 0, 8), "search must know");
    assert_eq!(site.near(&new, "alpha", &Filter::default(), 8).await, []);
    assert_eq!(site.embed(Again::Missing).await.unwrap(), Embedded::default());
    site.say(Place { session: "new", ..PLACE }, &vec!["alpha beta".into(); 3]).await;
    assert_eq!(site.coverage("fake-b").await, (11, 3, 8));
    for _ in 0..2 {
        let found = site.near(&new, "alpha", &Filter::default(), 8).await;
        assert_eq!(ids(&found), ["new m0", "new m1", "new m2"]);
        assert!(found[0].similarity < 0.9, "{found:?}");
        assert_eq!(site.near(&old, "alpha", &Filter::default(), 20).await.len(), 8);
        site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    }
}

/// Of the first session the index has two segments, and the older says that there are no vectors.
#[tokio::test(flavor = "multi_thread")]
async fn how_many_are_embedded_with_the_model_is_counted_whatever_was_indexed_before() {
    let source = fake("fake-a", 256, false);
    let site = site(&source).await;
    site.say(Place { session: "s/1", ..PLACE }, &numbered("alpha", 30)).await;
    site.say(Place { session: "s/2", ..PLACE }, &vec![String::new(); 30]).await;
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    site.embed(Again::Missing).await.unwrap();
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    assert_eq!(site.coverage("fake-a").await, (30, 30, 0));
    assert_eq!(site.embedded().await, 30);
    let nobody = Datasets::open(site.directory.path(), site.log.clone()).unwrap();
    assert_eq!(nobody.health(&house()).await.unwrap()["messages"].embedded, 30, "with whatever model");
    let site = site.with(&fake("fake-b", 256, false));
    assert_eq!(site.embedded().await, 0, "with this model");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_the_same_width_takes_over_in_place_and_the_index_goes_first() {
    let (old, new) = (fake("fake-a", 256, true), fake("fake-b", 256, false));
    let site = site(&old).await;
    let site = site.indexed_from(256);
    site.say(Place { session: "s/1", ..PLACE }, &numbered("alpha", 300)).await;
    site.datasets.update_indexes(Upkeep::WhatIsDue, |_, _| {}).await.unwrap();
    assert!(site.plan(&old, &Filter::default()).await.contains("ANNSubIndex"));
    let site = site.with(&new).indexed_from(256);
    new.failing.store(true, Ordering::SeqCst);
    site.embed(Again::Stale).await.unwrap_err();
    assert!(!site.plan(&old, &Filter::default()).await.contains("ANNSubIndex"));
    assert_eq!(ids(&site.near(&old, "alpha 17", &Filter::default(), 1).await), ["s/1 m17"]);
    new.failing.store(false, Ordering::SeqCst);
    let embedded = site.embed(Again::Stale).await.unwrap();
    assert_eq!(embedded, Embedded { done: 300, of: 300, without_words: 0 });
    assert_eq!(site.coverage("fake-b").await, (300, 300, 0));
    assert!(site.plan(&new, &Filter::default()).await.contains("ANNSubIndex"), "it comes again with the last of them");
    assert_eq!(ids(&site.near(&new, "alpha 17", &Filter::default(), 1).await), ["s/1 m17"]);
    assert_eq!(site.near(&old, "alpha 17", &Filter::default(), 1).await, []);
    assert_eq!(site.embed(Again::Stale).await.unwrap(), Embedded::default());
    site.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_another_width_takes_over_and_rows_are_written_in_its_width() {
    let (old, new) = (fake("fake-a", 256, true), fake("fake-b", 64, true));
    let site = site(&old).await;
    site.say(Place { session: "s/1", ..PLACE }, &numbered("alpha", 30)).await;
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    let site = site.with(&new);
    let refused = site.embed(Again::Missing).await.unwrap();
    assert_eq!(refused, Embedded::default(), "nothing is missing");
    site.say(Place { session: "s/2", ..PLACE }, &numbered("alpha", 5)).await;
    assert_eq!(site.coverage("fake-b").await, (35, 0, 30), "rows of the width that is there have no vector of another");
    let refused = site.embed(Again::Missing).await;
    assert!(matches!(refused, Err(EmbedError::OtherWidth { stored: 256, dimensions: 64, .. })), "{refused:?}");
    assert_eq!(site.near(&new, "alpha", &Filter::default(), 3).await, []);
    assert_eq!(site.embed(Again::Stale).await.unwrap(), Embedded { done: 35, of: 35, without_words: 0 });
    assert_eq!(site.coverage("fake-b").await, (35, 35, 0));
    site.say(Place { session: "s/3", ..PLACE }, &numbered("gamma", 5)).await;
    assert_eq!(site.coverage("fake-b").await, (40, 40, 0), "the feeder writes the new width");
    for _ in 0..2 {
        assert_eq!(ids(&site.near(&new, "gamma 3", &Filter::default(), 1).await), ["s/3 m3"]);
        assert_eq!(ids(&site.near(&new, "alpha 17", &Filter::default(), 1).await), ["s/1 m17"]);
        assert_eq!(site.near(&old, "alpha 17", &Filter::default(), 1).await, []);
        site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    }
    site.verify().await;
    rebuild(&site.log, &Arc::new(SessionsProjector), &site.datasets, Until::Head, |_| {}).await.unwrap();
    assert_eq!(site.coverage("fake-b").await, (40, 40, 0));
}

/// The columns of the new width were added, and did not take the place of the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_width_that_was_cut_short_is_made_again() {
    let (old, new) = (fake("fake-a", 256, true), fake("fake-b", 64, true));
    let site = site(&old).await;
    site.say(Place { session: "s/1", ..PLACE }, &numbered("alpha", 5)).await;
    let mut messages = Dataset::open(site.messages().to_str().unwrap()).await.unwrap();
    let field = Field::new("new_vector", DataType::Float32, true);
    let left = NewColumnTransform::AllNulls(Arc::new(Schema::new(vec![field])));
    messages.add_columns(left, None, None).await.unwrap();
    site.say(Place { session: "s/2", ..PLACE }, &numbered("alpha", 5)).await;
    assert_eq!(site.coverage("fake-a").await, (10, 10, 0), "meanwhile everything goes on");
    let site = site.with(&new);
    assert_eq!(site.embed(Again::Stale).await.unwrap(), Embedded { done: 10, of: 10, without_words: 0 });
    let messages = Dataset::open(site.messages().to_str().unwrap()).await.unwrap();
    let names: Vec<_> = messages.schema().fields.iter().map(|field| field.name.clone()).collect();
    assert!(names.iter().all(|name| !name.starts_with("new_")), "{names:?}");
    assert_eq!(ids(&site.near(&new, "alpha 3", &Filter::default(), 2).await), ["s/1 m3", "s/2 m3"]);
    site.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_never_had_vectors_takes_any_width() {
    let none = fake("fake-a", 256, false);
    let site = site(&none).await;
    site.say(PLACE, &numbered("alpha", 5)).await;
    let new = fake("fake-b", 96, false);
    let site = site.with(&new);
    assert_eq!(site.embed(Again::Missing).await.unwrap(), Embedded { done: 5, of: 5, without_words: 0 });
    assert_eq!(ids(&site.near(&new, "alpha 2", &Filter::default(), 1).await), ["s m2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_while_others_are_embedded_is_lost_nowhere() {
    let source = fake("fake-a", 256, false);
    let site = Arc::new(site(&source).await);
    site.say(Place { session: "first", ..PLACE }, &numbered("alpha", 600)).await;
    let feeding = {
        let site = site.clone();
        tokio::spawn(async move {
            for n in 0..40 {
                site.say(Place { session: &format!("s/{n}"), ..PLACE }, &numbered("beta", 3)).await;
            }
        })
    };
    let upkeep = {
        let datasets = site.datasets.clone();
        tokio::spawn(async move {
            for _ in 0..3 {
                let _conflicts_are_told = datasets.update_indexes(Upkeep::Everything, |_, _| {}).await;
            }
        })
    };
    let mut done = 0;
    while !feeding.is_finished() {
        done += site.embed(Again::Missing).await.unwrap().done;
    }
    feeding.await.unwrap();
    upkeep.await.unwrap();
    done += site.embed(Again::Missing).await.unwrap().done;
    assert_eq!(done, 720);
    assert_eq!(site.coverage("fake-a").await, (720, 720, 0));
    site.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_house_finds_nothing_of_another() {
    let source = fake("fake-a", 256, true);
    let site = site(&source).await;
    let other = HouseId::new("h-2").unwrap();
    site.say_in(&other, PLACE, &vec!["alpha".into(); 5]).await;
    site.say(PLACE, &numbered("beta", 2)).await;
    let found = site.near(&source, "alpha", &Filter::default(), 5).await;
    assert_eq!((found.len(), site.datasets.houses().unwrap()), (2, vec![house(), other]));
    assert!(found.iter().all(|it| it.similarity < 0.9), "{found:?}");
    let nobody = HouseId::new("h-3").unwrap();
    let query = direction("alpha", 256).unwrap();
    assert_eq!(site.datasets.nearest(&nobody, &query, "fake-a", &Filter::default(), 5, Tuning::default()).await.unwrap(), []);
    assert_eq!(site.datasets.coverage(&nobody, "fake-a").await.unwrap(), Coverage::default());
}
