//! An index of several parts, of which not all are searched.

use events::session::Role;
use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance_sessions::{Filter, Project, Tuning, Upkeep};

use crate::site::{FakeVectors, PLACE, Place, Site, direction, fake, house, ids, moment, numbered, site};

const FAMILIES: u64 = 20;
const OF_A_FAMILY: u64 = 60;
const FAR: u64 = 40;
const PARTS: u64 = 24;

/// Families of messages, each about a word of its own, and some that nothing has in common with them.
async fn families(source: &std::sync::Arc<FakeVectors>) -> Site {
    let site = site(source).await.indexed_from(500).in_parts_of((FAMILIES * OF_A_FAMILY + FAR) / PARTS);
    let about = |word: &str, count: u64| numbered(&format!("{word} {word} {word}"), count);
    for family in 0..FAMILIES {
        let place = Place { session: &format!("near/{family}"), ..PLACE };
        site.say_in(&house(), place, &about(&format!("word{family}"), OF_A_FAMILY)).await;
    }
    let far = Place { session: "far", agent: "codex", project: "/far", role: "assistant", from: 100_000 };
    site.say(far, &about("distant", FAR)).await;
    site.datasets.update_indexes(Upkeep::Everything, |_, _| {}).await.unwrap();
    let messages = Dataset::open(site.messages().to_str().unwrap()).await.unwrap();
    let index: serde_json::Value = serde_json::from_str(&messages.index_statistics("vector_idx").await.unwrap()).unwrap();
    assert_eq!(index["indices"][0]["num_partitions"], PARTS, "{index}");
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_as_a_filter_lets_through_are_found_in_whatever_part_they_are() {
    let source = fake("fake-a", 256, true);
    let site = families(&source).await;
    let none = Filter::default();
    for filter in [
        Filter { project: Some(vec![Project::Is("/far".into())]), ..none.clone() },
        Filter { project: Some(vec![Project::Begins("/fa".into())]), ..none.clone() },
        Filter { session: Some("far".parse().unwrap()), ..none.clone() },
        Filter { source_agent: Some("codex".into()), ..none.clone() },
        Filter { role: Some(Role::Assistant), ..none.clone() },
        Filter { since: Some(moment(100_000)), ..none.clone() },
        Filter { since: Some(moment(100_000)), until: Some(moment(200_000)), role: Some(Role::Assistant), ..none.clone() },
    ] {
        let plan = site.plan(&source, &filter).await;
        let (_, looked_up) = plan.split_once("ANNSubIndex").unwrap().1.split_once("ScalarIndexQuery").unwrap();
        assert!(looked_up.contains("embedding_model_idx"), "{plan}");
        for (nprobes, wanted) in [(1, 10), (1, FAR), (16, FAR)] {
            let query = direction("word7", source.dimensions).unwrap();
            let tuning = Tuning { nprobes, ..Tuning::default() };
            let found = site.datasets.nearest(&house(), &query, source.model, &filter, wanted as usize, tuning).await.unwrap();
            assert_eq!(found.len() as u64, wanted, "{nprobes} parts, {filter:?}");
            assert!(found.iter().all(|it| it.session_id.as_str() == "far"), "{filter:?}");
        }
    }
    let few = Filter { until: Some(moment(3)), ..none };
    let found = site.near(&source, "distant", &few, 100).await;
    assert_eq!(found.len() as u64, 3 * FAMILIES, "in every part there is one");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_of_all_is_found_in_whatever_part_it_is() {
    let source = fake("fake-a", 256, true);
    let site = families(&source).await;
    for family in 0..FAMILIES {
        let asked = format!("word{family} word{family} word{family} 11");
        assert_eq!(ids(&site.near(&source, &asked, &Filter::default(), 1).await), [format!("near/{family} m11")]);
    }
}
