//! What filters leave, and that they come before ranking.

use entry_index::{EntryFilter, MessageFilter, Verdict};

use crate::site::{HALF_PAST, LOUD, QUIET, TALK, Talk, agent, house, ids, site};

fn micros(minute: i64) -> i64 {
    (1_767_225_600 + minute * 60) * 1_000_000
}

fn assert_filtered_first(plan: &str, shown: &str) {
    let first = plan.lines().next().unwrap();
    assert!(first.starts_with("filter, before ranking: "), "{plan}");
    assert!(first.contains(shown), "{shown} is not in {plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_filtered_before_they_are_ranked() {
    let none = MessageFilter::default();
    let text = |text: &str| Some(text.to_owned());
    let cases = [
        (Talk { project: "/p/quiet", ..TALK }, MessageFilter { project: text("/p/quiet"), ..none.clone() }, 3, "/p/quiet"),
        (Talk { project: "/p/quiet", ..TALK }, MessageFilter { project: text("/p/qui*"), ..none.clone() }, 3, "/p/qui"),
        (TALK, MessageFilter { session: text("quiet-1"), ..none.clone() }, 1, "TermSetQuery"),
        (Talk { agent: "codex", ..TALK }, MessageFilter { source_agent: text("codex"), ..none.clone() }, 3, "codex"),
        (Talk { role: "user", ..TALK }, MessageFilter { role: text("user"), ..none.clone() }, 3, "user"),
        (Talk { minute: 40, ..TALK }, MessageFilter { since: Some(micros(40)), ..none.clone() }, 3, "RangeQuery"),
        (Talk { minute: 20, ..TALK }, MessageFilter { until: Some(micros(30)), ..none.clone() }, 3, "RangeQuery"),
    ];
    for (quiet, filter, wanted, shown) in cases {
        let site = site().await;
        for n in 0..5 {
            site.say(TALK, &format!("loud-{n}"), &[LOUD]).await;
        }
        for n in 0..3 {
            site.say(quiet, &format!("quiet-{n}"), &[QUIET]).await;
        }
        site.follow().await;
        let all = ids(&site.ask("h-1", "walrus", &none, wanted));
        assert!(all.iter().all(|id| id.starts_with("loud")), "others fit better: {all:?}");
        let ranked = site.ask("h-1", "walrus", &filter, wanted);
        assert_filtered_first(&ranked.plan, shown);
        assert!(matches!(ranked.verdict, Verdict::Answer { .. }), "{filter:?}");
        let left = ids(&ranked);
        assert_eq!(left.len(), wanted, "{filter:?}");
        assert!(left.iter().all(|id| id.starts_with("quiet")), "{filter:?}: {left:?}");
        assert!(filter.session.is_none() || left == ["quiet-1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_is_in_since_and_not_in_until_and_a_project_without_a_star_is_the_whole_of_it() {
    let site = site().await;
    site.say(TALK, "s", &[LOUD]).await;
    site.follow().await;
    let count = |filter: MessageFilter| site.ask("h-1", "walrus", &filter, 9).sessions.len();
    let none = MessageFilter::default();
    assert_eq!(count(MessageFilter { since: Some(micros(30)), ..none.clone() }), 1);
    assert_eq!(count(MessageFilter { since: Some(micros(30) + 1), ..none.clone() }), 0);
    assert_eq!(count(MessageFilter { until: Some(micros(30)), ..none.clone() }), 0);
    assert_eq!(count(MessageFilter { until: Some(micros(30) + 1), ..none.clone() }), 1);
    assert_eq!(count(MessageFilter { project: Some("/p/lou".into()), ..none.clone() }), 0);
    assert_eq!(
        count(MessageFilter { project: Some("/p/lou*".into()), role: Some("user".into()), ..none }),
        0,
        "all of them hold"
    );
}

/// An entry: thread, author, minutes, type.
type Wrote = (&'static str, u8, u64, &'static str);

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_filtered_before_they_are_ranked() {
    let none = EntryFilter::default();
    let text = |text: &str| Some(text.to_owned());
    let author = agent(2).to_string();
    let cases: [(Wrote, EntryFilter, &str); 8] = [
        (("t-2", 1, 0, "chat"), EntryFilter { thread: text("t-2"), ..none.clone() }, "TermSetQuery"),
        (("t-1", 2, 0, "chat"), EntryFilter { author: text(&author), ..none.clone() }, &author),
        (("t-1", 1, 0, "pi.assistant"), EntryFilter { kind: text("pi.assistant"), ..none.clone() }, "pi.assistant"),
        (("t-1", 1, 0, "pi.assistant"), EntryFilter { kind: text("pi.*"), ..none.clone() }, "RangeQuery"),
        (("t-2", 1, 0, "chat"), EntryFilter { tag: text("blue"), ..none.clone() }, "TermSetQuery"),
        (("t-2", 1, 0, "chat"), EntryFilter { status: text("closed"), ..none.clone() }, "TermSetQuery"),
        (("t-1", 1, 10, "chat"), EntryFilter { since: Some(micros(40)), ..none.clone() }, "RangeQuery"),
        (("t-1", 1, 0, "chat"), EntryFilter { until: Some(micros(31)), ..none.clone() }, "RangeQuery"),
    ];
    for ((thread, author, minutes, kind), filter, shown) in cases {
        let site = site().await;
        site.thread("h-1", "t-1", "[]").await;
        site.thread("h-1", "t-2", r#"["blue"]"#).await;
        site.write("t-2", false, 1, HALF_PAST, "signal.thread.status_changed", r#"{"status":"closed"}"#).await;
        let later = if filter.until.is_some() { 60_000 } else { 0 };
        for _ in 0..5 {
            site.write("t-1", false, 1, HALF_PAST + later, "chat", &format!(r#"{{"text":"{LOUD}"}}"#)).await;
        }
        for _ in 0..3 {
            site.write(thread, false, author, HALF_PAST + minutes * 60_000, kind, &format!(r#"{{"text":"{QUIET}"}}"#)).await;
        }
        site.follow().await;
        let (all, found) = (site.find("h-1", "walrus", &none, 2), site.find("h-1", "walrus", &filter, 2));
        assert_filtered_first(&found.plan, shown);
        assert_eq!((all.total, found.total), (8, 3), "{filter:?}");
        assert_eq!(found.entries.len(), 2);
        assert!(all.entries[1].score > found.entries[0].score, "others fit better: {filter:?}");
        let of = site.index.thread(&house("h-1"), found.entries[0].stream).unwrap();
        assert_eq!(of.as_deref(), Some(thread));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_follow_a_thread_that_is_tagged_anew_or_changes_its_status() {
    let site = site().await;
    site.thread("h-1", "t-1", r#"["blue","red"]"#).await;
    site.chat("t-1", QUIET).await;
    site.follow().await;
    let tagged =
        |tag: &str| site.find("h-1", "walrus", &EntryFilter { tag: Some(tag.into()), ..EntryFilter::default() }, 9).total;
    let stands = |status: &str| {
        site.find("h-1", "walrus", &EntryFilter { status: Some(status.into()), ..EntryFilter::default() }, 9).total
    };
    assert_eq!((tagged("blue"), tagged("red"), tagged("green"), stands("open"), stands("closed")), (1, 1, 0, 1, 0));
    site.write("t-1", false, 1, HALF_PAST, "signal.thread.tagged", r#"{"tags":["green","red"]}"#).await;
    site.follow().await;
    assert_eq!((tagged("blue"), tagged("red"), tagged("green"), stands("open"), stands("closed")), (0, 1, 1, 1, 0));
    site.write("t-1", false, 1, HALF_PAST, "signal.thread.status_changed", r#"{"status":"closed"}"#).await;
    site.follow().await;
    assert_eq!((tagged("blue"), tagged("red"), tagged("green"), stands("open"), stands("closed")), (0, 1, 1, 0, 1));
    site.chat("t-1", LOUD).await;
    site.follow().await;
    assert_eq!((tagged("green"), stands("closed")), (2, 2), "what is said later stands in it too");
    site.assert_verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_which_nothing_is_recorded_is_named_with_those_that_there_are() {
    let site = site().await;
    site.say(TALK, "mine", &[LOUD]).await;
    site.say(Talk { agent: "codex", ..TALK }, "other", &[QUIET]).await;
    site.say(Talk { house: "h-2", agent: "opencode", ..TALK }, "theirs", &[LOUD]).await;
    site.follow().await;
    let ask = |agent: &str| {
        site.ask("h-1", "walrus", &MessageFilter { source_agent: Some(agent.into()), ..MessageFilter::default() }, 9)
    };
    assert_eq!(ids(&ask("pi")), ["mine"]);
    for nobody in ["nope", "opencode"] {
        let Verdict::Never { why } = ask(nobody).verdict else { panic!("{nobody}") };
        assert_eq!(why, format!("no session of a client {nobody:?} is recorded; there are codex, pi"));
    }
    assert_eq!(site.index.clients(&house("h-1")).unwrap(), ["codex".to_owned(), "pi".to_owned()].into());
}
