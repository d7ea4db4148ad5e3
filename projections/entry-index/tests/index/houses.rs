//! No house learns anything of another.

use std::sync::Arc;

use entry_index::{EntriesProjector, EntryFilter, MessageFilter, Question, Verdict};
use projector::{Until, rebuild};

use crate::site::{LOUD, Site, TALK, Talk, house, ids, site, speak_of_fish};

const OTHER: Talk = Talk { house: "h-2", ..TALK };

async fn speak_of_fish_elsewhere(site: &Site) {
    site.say(OTHER, "theirs", &["zebrafish swim with the walrus", "quuxHandlerFactory makes herons", LOUD]).await;
    site.thread("h-2", "t-2", r#"["secret"]"#).await;
    site.chat("t-2", "zebrafish again, and the heron").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_house_finds_what_another_says() {
    let site = site().await;
    speak_of_fish(&site).await;
    speak_of_fish_elsewhere(&site).await;
    site.follow().await;
    let none = MessageFilter::default();
    for word in
        ["zebrafish", "zebrafisch", "zebra", "quuxHandlerFactory", "quuxHandlr", "andlerFac", "zebrafish swim with everybody"]
    {
        let ranked = site.ask("h-1", word, &none, 9);
        let told = format!("{:?}", ranked.verdict);
        assert!(!matches!(ranked.verdict, Verdict::Answer { .. }), "{word}");
        assert!(!told.contains("there is"), "{word}: {told}");
        assert_eq!(site.find("h-1", word, &EntryFilter::default(), 9).total, 0, "{word}");
    }
    assert_eq!(ids(&site.ask("h-2", "zebra", &none, 9)).len(), 2, "it is found where it was said");
    let (Verdict::Never { why } | Verdict::Thin { why, .. }) = site.ask("h-2", "zebrafisch", &none, 9).verdict else {
        panic!("it is wrong")
    };
    assert!(why.contains("there is zebrafish"), "{why}");
    let theirs = MessageFilter { session: Some("theirs".into()), ..none };
    assert!(site.ask("h-1", "walrus", &theirs, 9).sessions.is_empty());
    for filter in [
        EntryFilter { thread: Some("t-2".into()), ..EntryFilter::default() },
        EntryFilter { tag: Some("secret".into()), ..EntryFilter::default() },
    ] {
        let (mine, own) = (site.find("h-1", "heron", &filter, 9).total, site.find("h-2", "heron", &filter, 9).total);
        assert_eq!((mine, own), (0, 1), "{filter:?}");
        assert_eq!(site.find("h-1", "", &filter, 9).total, 0, "without words: {filter:?}");
    }
    assert_eq!(site.index.whereabouts(&house("h-1"), &["theirs"]).unwrap(), [None]);
    assert!(
        site.index
            .messages(&house("h-3"), &Question::new("walrus"), &MessageFilter::default(), 9)
            .unwrap()
            .unwrap()
            .sessions
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_and_counts_of_a_house_do_not_depend_on_another() {
    let (alone, together) = (site().await, site().await);
    speak_of_fish_elsewhere(&together).await;
    for site in [&alone, &together] {
        speak_of_fish(site).await;
    }
    speak_of_more_elsewhere(&together).await;
    for site in [&alone, &together] {
        site.follow().await;
    }
    assert_eq!(alone.index.count(&house("h-1")).unwrap(), together.index.count(&house("h-1")).unwrap());
    for question in ["walrus", "heron line", "parseHeaderLine", "HeaderLine", "the heron waits", "walruss"] {
        let ask = |site: &Site| site.ask("h-1", question, &MessageFilter::default(), 9);
        let (one, two) = (ask(&alone), ask(&together));
        assert_eq!((&one.sessions, &one.verdict), (&two.sessions, &two.verdict), "{question}");
        let find = |site: &Site| site.find("h-1", question, &EntryFilter::default(), 9);
        let (one, two) = (find(&alone), find(&together));
        assert_eq!((one.entries, one.total), (two.entries, two.total), "{question}");
    }
}

async fn speak_of_more_elsewhere(site: &Site) {
    for n in 0..30 {
        site.say(OTHER, &format!("theirs-{n}"), &[LOUD, "the line of the heron"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_of_a_question_tells_no_words_of_another_house() {
    let site = site().await;
    speak_of_fish(&site).await;
    speak_of_fish_elsewhere(&site).await;
    site.follow().await;
    for question in ["zebra", "andlerFac", "heron"] {
        let plan = site.ask("h-1", question, &MessageFilter::default(), 9).plan;
        for word in ["zebrafish", "quuxhandlerfactory", "herons"] {
            assert!(!plan.contains(word), "{question}: {plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_house_that_is_a_small_part_of_all_finds_its_own_words_and_no_others() {
    let site = site().await;
    speak_of_fish(&site).await;
    let before = |site: &Site| {
        let ranked = site.ask("h-1", "heron line", &MessageFilter::default(), 9);
        (ranked.sessions, ranked.verdict, site.find("h-1", "heron", &EntryFilter::default(), 9).entries)
    };
    site.follow().await;
    let alone = before(&site);
    assert!(!alone.0.is_empty() && alone.2.len() == 1, "{alone:?}");
    let count = site.index.count(&house("h-1")).unwrap();
    let many: Vec<String> = (0..300).map(|n| format!("the heron and the line, {n}")).collect();
    site.say(OTHER, "theirs", &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    site.thread("h-2", "t-2", "[]").await;
    for n in 0..50 {
        site.chat("t-2", &format!("heron {n}")).await;
    }
    site.follow().await;
    rebuild(&site.log, &Arc::new(EntriesProjector), &site.index, Until::Head, |_| {}).await.unwrap();
    assert_eq!(before(&site), alone);
    assert_eq!((site.index.count(&house("h-1")).unwrap(), site.index.count(&house("h-2")).unwrap()), (count, 350));
    assert_eq!(site.find("h-2", "heron", &EntryFilter::default(), 99).total, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_another_house_says_often_do_not_crowd_out_fragments_forms_and_hints() {
    let site = site().await;
    site.say(TALK, "mine", &["headerParser reads it", "the gardener gardened", "zebrafish"]).await;
    site.follow().await;
    let told = || {
        let hint = site.ask("h-1", "zebrafisk", &MessageFilter::default(), 9).verdict;
        (site.found("erparse"), site.found("gardeners"), format!("{hint:?}"))
    };
    let alone = told();
    assert_eq!((&alone.0[..], &alone.1[..]), (&["mine".to_owned()][..], &["mine".to_owned()][..]));
    assert!(alone.2.contains("there is zebrafish"), "{}", alone.2);
    let letters: Vec<char> = ('a'..='z').filter(|letter| !"hk".contains(*letter)).collect();
    let said: Vec<String> = letters.iter().map(|end| format!("xerparse{end} gardener{end} zebrafis{end}")).collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    for n in 0..3 {
        site.say(OTHER, &format!("theirs-{n}"), &said).await;
    }
    site.follow().await;
    assert_eq!(told(), alone, "in segments of their own");
    rebuild(&site.log, &Arc::new(EntriesProjector), &site.index, Until::Head, |_| {}).await.unwrap();
    assert_eq!(told(), alone, "in one segment");
}
