//! What is told where no entry fits.

use entry_index::EntryFilter;

use crate::site::{Site, site};

fn told(site: &Site, of: &str, question: &str, filter: &EntryFilter) -> Vec<String> {
    let found = site.find(of, question, filter, 9);
    assert_eq!(found.total, 0, "{question}");
    found.hints
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_entry_has_is_named_and_so_is_what_is_like_it_in_the_same_house() {
    let site = site().await;
    let everywhere = EntryFilter::default();
    site.thread("h-1", "t-1", "[]").await;
    site.chat("t-1", "the walrus sleeps").await;
    site.chat("t-1", "the heron waits").await;
    site.chat("t-1", "先迁移数据").await;
    site.chat("t-1", "昨天失败了").await;
    site.thread("h-2", "t-2", "[]").await;
    site.chat("t-2", "zebrafish and walrus").await;
    site.follow().await;
    let alone = |question: &str| told(&site, "h-1", question, &everywhere);
    assert_eq!(alone("wolrus sleeps"), [r#"nobody says "wolrus"; there is walrus"#]);
    assert_eq!(alone("zebrafish"), [r#"nobody says "zebrafish""#], "another house says it");
    assert_eq!(alone("zebrafisk"), [r#"nobody says "zebrafisk""#]);
    assert_eq!(alone("quokka wombat the numbat bilby"), ["quokka", "wombat", "numbat"].map(|it| format!("nobody says {it:?}")));
    assert_eq!(alone("walrus heron"), ["no entry has all of these words"]);
    assert_eq!(alone("迁移失败"), ["no entry has all of these words"]);
    let typed = EntryFilter { kind: Some("pi.*".into()), ..EntryFilter::default() };
    assert_eq!(told(&site, "h-1", "walrus", &typed), [r#"nothing that the filter lets through says "walrus""#]);
    assert_eq!(told(&site, "h-1", "wolrus", &typed), [r#"nobody says "wolrus""#], "what is like it cannot be found either");
    assert_eq!(told(&site, "h-3", "walrus", &everywhere), [r#"nobody says "walrus""#]);
}
