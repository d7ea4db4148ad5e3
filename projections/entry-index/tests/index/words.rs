//! What counts as said, and in what order it is told.

use std::sync::Arc;

use entry_index::{EntriesProjector, EntryFilter, MessageFilter, Verdict};
use projector::{Until, rebuild};

use crate::site::{QUIET, Site, TALK, ids, site};

async fn quiet(site: &Site) {
    for n in 0..5 {
        site.say(TALK, &format!("other-{n}"), &[QUIET]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_script_without_spaces_are_found_apart_from_each_other() {
    let site = site().await;
    site.say(TALK, "migration", &["迁移后一切都失败了，原因是超时"]).await;
    site.say(TALK, "speed", &["検索の速度を改善した"]).await;
    site.say(TALK, "katakana", &["フロー図にコメントを書き、エンジンのコマンドを直した"]).await;
    quiet(&site).await;
    site.thread("h-1", "t-1", "[]").await;
    site.chat("t-1", "检索的速度改善很多，迁移后失败").await;
    site.chat("t-1", "テストのテスト").await;
    site.chat("t-1", "フロー図にコメントを書き、エンジンのコマンドを直した").await;
    site.follow().await;
    for (question, session) in [("迁移失败原因", "migration"), ("検索速度改善", "speed")] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert_eq!(ids(&ranked).first().map(String::as_str), Some(session), "{question}: {}", ranked.plan);
        assert!(matches!(ranked.verdict, Verdict::Answer { .. }), "{question}: {:?}", ranked.verdict);
    }
    assert_eq!(site.find("h-1", "迁移失败", &EntryFilter::default(), 9).total, 1);
    assert_eq!(site.find("h-1", "テストのテスト", &EntryFilter::default(), 9).total, 1);
    for question in ["迁移火星", "迁移火星原因", "火星原因", "フロントエンド"] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert!(!matches!(ranked.verdict, Verdict::Answer { .. }), "{question}: {:?}", ranked.verdict);
    }
    for question in ["迁移原因", "フロントエンド"] {
        assert_eq!(site.find("h-1", question, &EntryFilter::default(), 9).total, 0, "{question}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_of_a_directory_that_nobody_writes_is_not_that_of_another_file_of_that_name() {
    let site = site().await;
    for n in 0..12 {
        site.say(TALK, &format!("file-{n}"), &[&format!("it stands in crates/wick{n}/src/lib.rs, see there")]).await;
    }
    site.say(TALK, "rare", &["it is in oil.rs now"]).await;
    site.follow().await;
    let ranked = site.ask("h-1", "crates/wavelet/src/lib.rs", &MessageFilter::default(), 9);
    assert_eq!(ranked.verdict, Verdict::Never { why: "nobody says \"wavelet\"".into() });
    for there in ["/home/me/wavelet/src/lib.rs", "crates/wavelet/src/oil.rs", "lamp/crates/wick3/src/lib.rs"] {
        let ranked = site.ask("h-1", there, &MessageFilter::default(), 9);
        assert!(!matches!(ranked.verdict, Verdict::Never { .. }), "{there}: {:?}", ranked.verdict);
    }
    let ranked = site.ask("h-1", "crates/wick3/src/lib.rs", &MessageFilter::default(), 9);
    assert!(matches!(ranked.verdict, Verdict::Answer { .. }), "{:?}", ranked.verdict);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_marked_by_the_forms_that_it_was_found_by() {
    let site = site().await;
    site.say(TALK, "forms", &["we deleted the EventHandlerFactory"]).await;
    site.thread("h-1", "t-1", "[]").await;
    site.chat("t-1", "we deleted it").await;
    quiet(&site).await;
    site.follow().await;
    assert!(site.ask("h-1", "delete", &MessageFilter::default(), 9).heard.contains("deleted"));
    assert!(site.ask("h-1", "HandlerFac", &MessageFilter::default(), 9).heard.contains("eventhandlerfactory"));
    assert!(site.find("h-1", "delete", &EntryFilter::default(), 9).heard.contains("deleted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_messages_that_say_as_much_the_newest_is_told_first_however_segments_lie() {
    let site = site().await;
    let said = ["retry upload", "upload retry", "Retry: upload"];
    for n in 1..=said.len() {
        site.say(TALK, "talk", &said[..n]).await;
        site.follow().await;
    }
    quiet(&site).await;
    site.follow().await;
    let told = |site: &Site| {
        let ranked = site.ask("h-1", "retry upload", &MessageFilter::default(), 9);
        ranked.sessions[0].matches.iter().map(|it| it.seq).collect::<Vec<_>>()
    };
    let before = told(&site);
    assert!(before.is_sorted_by(|one, two| one > two), "{before:?}");
    rebuild(&site.log, &Arc::new(EntriesProjector), &site.index, Until::Head, |_| {}).await.unwrap();
    assert_eq!(told(&site), before);
}
