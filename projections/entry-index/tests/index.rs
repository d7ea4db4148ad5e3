//! The index on a real log in memory and in a real directory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;

use commands::RealSource;
use commands::sessions::{Recording, Sessions};
use entry_index::{EntriesProjector, EntryFilter, EntryIndex, FoundEntries, MessageFilter, Question, Ranked, Verdict};
use event_log::{Append, Change, Command, Create, Log, Options, Payload, StoreUrl};
use events::session::{Message, Session, SessionId};
use events::{AgentId, Entry, EventId, HouseId, StreamName, ThreadId, Ulid};
use projector::{Copies, Until, advance, rebuild, verify};
use tempfile::TempDir;

/// Half past midnight of the first of January 2026, in milliseconds.
const HALF_PAST: u64 = 1_767_225_600_000 + 30 * 60_000;

struct Site {
    log: Log,
    sessions: Sessions,
    index: EntryIndex,
    directory: TempDir,
}

async fn site() -> Site {
    let store = StoreUrl::Memory.open(&[], true).unwrap();
    let log = Log::open(store, Options { keep: true, ..Options::default() }).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let index = EntryIndex::open(directory.path(), log.clone()).unwrap();
    Site { sessions: Sessions::new(log.clone(), Arc::new(RealSource)), log, index, directory }
}

fn house(name: &str) -> HouseId {
    HouseId::new(name).unwrap()
}

/// What a session and its messages have in common.
#[derive(Clone, Copy)]
struct Talk {
    house: &'static str,
    project: &'static str,
    agent: &'static str,
    role: &'static str,
    minute: u32,
}

const TALK: Talk = Talk { house: "h-1", project: "/p/loud", agent: "pi", role: "assistant", minute: 30 };

impl Talk {
    fn session(&self, id: &str) -> Session {
        let Self { project, agent, .. } = self;
        let created = "2026-01-01T00:00:00Z";
        let text =
            format!(r#"{{"id":"{id}","source_agent":"{agent}","created_at":"{created}","project":"{project}","options":{{}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn message(&self, n: usize, said: &str) -> Message {
        let part = format!(r#"{{"id":"0","type":"text","provenance":"conversational","text":"{said}","options":{{}}}}"#);
        let text = format!(
            r#"{{"id":"m{n}","role":"{}","timestamp":"2026-01-01T00:{:02}:00Z","content":[{part}],"options":{{}}}}"#,
            self.role, self.minute
        );
        serde_json::from_str(&text).unwrap()
    }
}

fn agent(n: u8) -> AgentId {
    format!("00000000-0000-4000-8000-{n:012}").parse().unwrap()
}

impl Site {
    /// The whole of a session, from its first message on.
    async fn say(&self, talk: Talk, id: &str, said: &[&str]) {
        let messages = said.iter().enumerate().map(|(n, said)| talk.message(n, said)).collect();
        let session_id = SessionId::new(id).unwrap();
        let recording = Recording { session_id, session: Some(talk.session(id)), messages };
        self.sessions.record(&house(talk.house), recording).await.unwrap();
    }

    async fn write(&self, thread: &str, first: bool, author: u8, ts: u64, kind: &str, payload: &str) {
        let written = format!(r#"{{"id":"{}","ts":1,"type":"{kind}","v":1,"payload":{payload}}}"#, Ulid(1));
        let event = Entry::from_slice(written.as_bytes()).unwrap().event().unwrap();
        let id = EventId(Ulid(u128::from(self.log.position()) + 7));
        let entry = Entry::of(id, ts, Some(agent(author)), &event);
        let payload = Payload::messages([entry.to_json()].iter().map(String::as_str));
        let content_type = Some("application/json".into());
        let change = if first {
            Change::Create(Create { content_type, payload: Some(Ok(payload)), ..Create::default() })
        } else {
            Change::Append(Append { content_type, payload: Ok(payload), producer: None, stream_seq: None, close: false })
        };
        let stream = StreamName::Thread(ThreadId::new(thread).unwrap()).to_string();
        let changes = vec![(stream.into(), change)];
        self.log.submit(Command { id: None, since: None, expect: Vec::new(), changes }).await.unwrap();
    }

    async fn thread(&self, house: &str, thread: &str, tags: &str) {
        let created = format!(r#"{{"thread_id":"{thread}","house_id":"{house}","name":"standup","pinned":false,"tags":{tags}}}"#);
        self.write(thread, true, 1, HALF_PAST, "signal.thread.created", &created).await;
    }

    async fn chat(&self, thread: &str, text: &str) {
        self.write(thread, false, 1, HALF_PAST, "chat", &format!(r#"{{"text":"{text}"}}"#)).await;
    }

    async fn follow(&self) {
        advance(&self.log, &Arc::new(EntriesProjector), &self.index, |_| {}).await.unwrap();
    }

    fn ask(&self, of: &str, question: &str, filter: &MessageFilter, most: usize) -> Ranked {
        self.index.messages(&house(of), &Question::new(question), filter, most).unwrap().unwrap()
    }

    fn find(&self, of: &str, question: &str, filter: &EntryFilter, most: usize) -> FoundEntries {
        self.index.entries(&house(of), &Question::new(question), filter, 0, most).unwrap().unwrap()
    }

    fn found(&self, question: &str) -> Vec<String> {
        ids(&self.ask("h-1", question, &MessageFilter::default(), 10))
    }

    async fn sums(&self) -> projector::Sums {
        self.index.live_sums().await.unwrap().unwrap().1
    }

    async fn assert_verified(&self) {
        let report = verify(&self.log, &Arc::new(EntriesProjector), &self.index, |_| {}).await.unwrap();
        assert!(report.equal(), "{report:?}");
    }

    /// The copy that serves.
    fn copy(&self) -> PathBuf {
        self.directory.path().join(std::fs::read_to_string(self.directory.path().join("live")).unwrap())
    }
}

fn ids(ranked: &Ranked) -> Vec<String> {
    ranked.sessions.iter().map(|fit| fit.session_id.clone()).collect()
}

fn scores(ranked: &Ranked) -> Vec<(String, f32)> {
    ranked.sessions.iter().map(|fit| (fit.session_id.clone(), fit.score)).collect()
}

const LOUD: &str = "walrus walrus walrus";
const QUIET: &str =
    "among many other words of a rather long morning somebody mentions the walrus once and goes on with something else";

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

const OTHER: Talk = Talk { house: "h-2", ..TALK };

async fn speak_of_fish(site: &Site) {
    site.say(TALK, "mine", &["the walrus sleeps", "parseHeaderLine reads a line"]).await;
    site.say(TALK, "mine-too", &["the heron waits for the line", "walrus and heron"]).await;
    site.thread("h-1", "t-1", "[]").await;
    site.chat("t-1", "the heron is back").await;
}

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

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_said_gets_no_answer() {
    let site = site().await;
    speak_of_fish(&site).await;
    site.follow().await;
    for question in ["kangaroo", "volcano eruption schedule", "which kangaroo ate the invoice", "犀牛"] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert!(matches!(ranked.verdict, Verdict::Never { .. } | Verdict::Thin { .. }), "{question}: {:?}", ranked.verdict);
    }
    for question in ["trundleWidget", "how does trundleWidget see the walrus and the heron", "src/trundle.rs"] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert!(matches!(ranked.verdict, Verdict::Never { .. }), "{question}: {:?}", ranked.verdict);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fragments_paths_short_words_and_words_of_two_characters_are_found() {
    let site = site().await;
    site.say(TALK, "code", &["we call tokioRuntimeBuilder in crates/lantern/src/wick.rs with --no-verify"]).await;
    site.say(TALK, "japanese", &["日本語の検索は速い"]).await;
    site.say(TALK, "short", &["the ci is red"]).await;
    for n in 0..5 {
        site.say(TALK, &format!("other-{n}"), &[QUIET]).await;
    }
    site.follow().await;
    for (question, session) in [
        ("tokioRuntimeBuilder", "code"),
        ("RuntimeBuil", "code"),
        ("untimebuild", "code"),
        ("runtime", "code"),
        ("crates/lantern/src/wick.rs", "code"),
        ("wick.rs", "code"),
        ("--no-verify", "code"),
        ("検索", "japanese"),
        ("日本", "japanese"),
        ("ci", "short"),
        ("CI", "short"),
    ] {
        let ranked = site.ask("h-1", question, &MessageFilter::default(), 9);
        assert_eq!(ids(&ranked).first().map(String::as_str), Some(session), "{question}: {}", ranked.plan);
        assert!(matches!(ranked.verdict, Verdict::Answer { .. }), "{question}");
    }
}

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
