use events::session::{Message, Provenance, Session, Timestamp};
use events::{AgentKind, Entry, ThreadId};

use crate::support::{Files, codec, fixtures, moved, shared_fixtures, shown};
use codecs::artifact::{Body, Restored};
use codecs::fault::Fault;
use codecs::lineage::Lineage;
use codecs::registry::Codec;
use codecs::restore::{Place, restore};
use codecs::seam::{Out, Parsed};
use codecs::thread::{ORIGIN, Thread, begin, entry};
use codecs::value::Value;

const HUMAN: &str = "0190a3c2-7b1e-7d4f-8a55-3f0c9d1e2b6a";
const BOT: &str = "5d1f0e7c-2f83-4c0b-9f43-8a1b0c6d7e21";

fn made(n: u64, author: Option<&str>, kind: &str, payload: &str) -> Entry {
    let author = author.map_or(String::new(), |it| format!(r#""author_agent_id":"{it}","#));
    let id = format!("01J9ZK3T6V8X0Q2R4S6T8V{n:04}");
    Entry::from_json(&format!(
        r#"{{"id":"{id}","ts":{},"type":"{kind}","v":1,{author}"payload":{payload}}}"#,
        1_730_000_000_000 + n
    ))
    .unwrap()
}

fn kind_of(entry: &Entry) -> Option<AgentKind> {
    let author = entry.author_agent_id.as_ref()?.to_string();
    [(HUMAN, AgentKind::Human), (BOT, AgentKind::Bot)].into_iter().find(|(id, _)| *id == author).map(|(_, kind)| kind)
}

fn parsed(id: &str, entries: &[Entry]) -> (Session, Vec<Message>, Vec<Fault>) {
    let id = ThreadId::new(id).unwrap();
    let (mut session, mut messages) = (None, Vec::new());
    let mut sink = |it| {
        match it {
            Parsed::Session(it) => session = Some(it),
            Parsed::Message(_, it) => messages.push(it),
        }
        Ok(())
    };
    let mut out = Out::new(ORIGIN, Timestamp::from_millis(0).unwrap(), &mut sink);
    let handle = begin(&mut out, Thread { id: &id, project: "house-1" }, &entries[0]).unwrap();
    for (n, it) in entries.iter().enumerate() {
        entry(&mut out, handle, &id, n as u64, it, kind_of(it));
    }
    let faults = out.finish().unwrap();
    (session.unwrap(), messages, faults)
}

fn lineage(id: &str, entries: &[Entry]) -> Lineage {
    let (session, messages, faults) = parsed(id, entries);
    assert_eq!(faults, []);
    Lineage::new(session, messages, Vec::new()).unwrap()
}

fn created() -> Entry {
    let payload = r#"{"thread_id":"t1","house_id":"house-1","parent_thread_id":"t0","tags":[],"pinned":false}"#;
    made(0, Some(HUMAN), "signal.thread.created", payload)
}

const HEADER: &str = r#"{"type":"session","version":3,"id":"t1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/sandbox"}"#;
const ECHO: &str = r#"{"type":"message","id":"e1","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"fix it"}],"timestamp":1}}"#;
const ANSWER: &str = r#"{"type":"message","id":"e2","parentId":"e1","timestamp":"2026-01-01T00:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"fixed"}],"api":"anthropic-messages","provider":"anthropic","model":"m","usage":{"input":1.50},"stopReason":"stop","timestamp":2}}"#;

fn driven() -> Vec<Entry> {
    vec![
        created(),
        made(1, Some(HUMAN), "chat", r#"{"text":"fix it"}"#),
        made(2, None, "pi.entry", HEADER),
        made(3, None, "pi.entry", ECHO),
        made(4, None, "pi.chunk", r#"{"delta":"fi","type":"message"}"#),
        made(5, None, "pi.assistant", ANSWER),
        made(6, None, "pi.entry", ECHO),
        made(7, None, "signal.thread.status_changed", r#"{"status":"completed"}"#),
        made(8, Some(HUMAN), "chat", r#"{"text":"thanks"}"#),
    ]
}

#[test]
fn a_thread_is_a_session_of_ours() {
    let (session, messages, faults) = parsed("t1", &driven());
    assert_eq!(faults, []);
    let parent = session.parent_session_id.as_ref().map(|it| it.as_str());
    assert_eq!((session.id.as_str(), parent, session.source_agent.as_str()), ("t1", Some("t0"), "arbe"));
    assert_eq!((session.project.as_str(), session.created_at.millis()), ("house-1", 1_730_000_000_000));
    let ids: Vec<_> = messages.iter().map(|it| it.id.to_string()).collect();
    assert_eq!(ids, driven().iter().map(|it| it.id.to_string()).collect::<Vec<_>>());
    let usage = r#"{"provider":"anthropic","model":"m","usage":{"input":1.50},"stop_reason":"stop"}"#;
    assert_eq!(messages[5].options["anthropic"].get(), usage);
    let expected = [
        r#"user Conversational Text(Text { text: "fix it" })"#,
        r#"user Injected Text(Text { text: "fix it" })"#,
        r#"assistant Conversational Text(Text { text: "fixed" })"#,
        r#"user Injected Text(Text { text: "fix it" })"#,
        r#"user Conversational Text(Text { text: "thanks" })"#,
    ];
    assert_eq!(shown(&messages), expected);
}

/// `model-lossless-projection`: whatever an entry holds, it is there again.
#[test]
fn every_entry_of_a_thread_can_be_had_back() {
    let entries = driven();
    let lineage = lineage("t1", &entries);
    let records = codecs::restore::records(&lineage).unwrap();
    let back: Vec<_> = records["arbe-thread-t1"].iter().map(|it| Entry::from_json(&it.value.to_string()).unwrap()).collect();
    assert_eq!(back, entries);
}

#[test]
fn who_signed_a_chat_decides_whose_turn_it_is() {
    let cases = [
        (Some(HUMAN), "user", Provenance::Conversational),
        (Some(BOT), "assistant", Provenance::Conversational),
        (Some("0190a3c2-7b1e-7d4f-8a55-000000000000"), "user", Provenance::Conversational),
        (None, "user", Provenance::Injected),
    ];
    for (author, role, provenance) in cases {
        let (_, messages, _) = parsed("t1", &[made(1, author, "chat", r#"{"text":"x"}"#)]);
        assert_eq!((messages[0].role().as_str(), messages[0].parts()[0].provenance), (role, provenance), "{author:?}");
    }
}

#[test]
fn a_transcript_entry_is_typed_in_whatever_form_it_was_posted() {
    let cases = [
        ("pi.assistant", r#"{"role":"assistant","content":[{"type":"text","text":"x"}],"usage":{"input":12}}"#, "assistant 1"),
        (
            "pi.tool_result",
            r#"{"toolCallId":"1","toolName":"bash","content":[{"type":"text","text":"ok"}],"isError":false}"#,
            "tool 1",
        ),
        ("pi.tool_result", r#"{"content":"ok"}"#, "system 0"),
        ("pi.compaction", r#"{"summary":"so far","tokensBefore":50123}"#, "user 1"),
        ("pi.compaction", r#"{"type":"compaction","id":"a","summary":"so far"}"#, "user 1"),
        (
            "pi.entry",
            r#"{ "type":"custom", "data":{"b":1.0,"a":1e400,"s":"\u00e9\/"},  "big":123456789012345678901 }"#,
            "system 0",
        ),
        ("pi.chunk", r#"{"role":"assistant","content":[{"type":"text","text":"x"}]}"#, "system 0"),
        ("pi.from_the_future", "[1]", "system 0"),
        ("chat", r#"{"words":"x"}"#, "system 0"),
        ("signal.from.the.future", r#"{"text":"x"}"#, "system 0"),
    ];
    for (kind, payload, expected) in cases {
        let (_, messages, faults) = parsed("t1", &[made(1, None, kind, payload)]);
        let message = &messages[0];
        assert_eq!(format!("{} {}", message.role().as_str(), message.parts().len()), expected, "{kind} {payload}");
        assert_eq!(faults, []);
    }
}

#[test]
fn an_entry_too_deep_to_read_is_told() {
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let deeper = format!("{}{}", "[".repeat(400), "]".repeat(400));
    let read =
        |payload: &str| Entry::from_json(&made(1, None, "pi.entry", "0").to_json().replace(":0}", &format!(":{payload}}}")));
    assert_eq!(parsed("t1", &[read(&deep).unwrap()]).2, []);
    let (_, messages, faults) = parsed("t1", &[created(), read(&deeper).unwrap()]);
    assert_eq!(messages.len(), 1);
    assert!(faults[0].to_string().starts_with("arbe: arbe-thread-t1:2: not JSON: nested too deep"), "{faults:?}");
}

fn restored(codec: &Codec, lineage: &Lineage) -> Restored {
    restore(codec, lineage, &Place { directory: "/work dir".to_owned() }).unwrap()
}

#[test]
fn pi_gets_its_own_entries_back_and_only_the_place_is_new() {
    let restored = restored(codec("pi"), &lineage("t1", &driven()));
    assert_eq!(restored.session_id, "t1");
    let [artifact] = &restored.artifacts[..] else { panic!("{restored:?}") };
    assert!(artifact.path.starts_with("sessions/--work dir--/") && artifact.path.ends_with("_t1.jsonl"), "{}", artifact.path);
    let header = HEADER.replace("/sandbox", "/work dir");
    assert_eq!(artifact.body.to_text().unwrap(), [header.as_str(), ECHO, ANSWER, ""].join("\n"));
    let dropped: Vec<_> = restored.report.dropped.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    assert_eq!(dropped, ["chat 1", "pi.chunk 1", "signal.thread.created 1", "signal.thread.status_changed 1"]);
}

/// Mirrored entry by entry, a real session comes back value by value.
#[test]
fn a_mirrored_session_comes_back_whole() {
    let roots = [Some(fixtures("pi")), shared_fixtures("pi")].into_iter().flatten();
    for (root, bundle) in
        roots.flat_map(|root| codec("pi").parse.discover(&root).unwrap().into_iter().map(move |it| (root.clone(), it)))
    {
        let originals = codec("pi").parse.originals(&bundle);
        let Body::Lines(lines) = &originals[0].body else { panic!("{root:?}") };
        let mut entries = vec![created()];
        entries.extend(lines.iter().enumerate().map(|(n, line)| made(n as u64 + 1, None, "pi.entry", &line.to_string())));
        let restored = restored(codec("pi"), &lineage("t1", &entries));
        let Body::Lines(back) = &restored.artifacts[0].body else { panic!("{restored:?}") };
        assert_eq!(back.len(), lines.len());
        assert!(lines.iter().zip(back).skip(1).all(|(one, two)| one == two), "{bundle:?}");
        assert_eq!(back[0].get("id").and_then(Value::as_str), Some("t1"));
    }
}

#[test]
fn a_thread_without_a_session_of_pi_is_told_like_any_other() {
    let entries = [
        created(),
        made(1, Some(HUMAN), "chat", r#"{"text":"hello"}"#),
        made(2, None, "pi.entry", &ECHO.replace("fix it", "hello")),
        made(3, Some(BOT), "pi.assistant", r#"{"role":"assistant","content":[{"type":"text","text":"good day"}]}"#),
        made(4, Some(BOT), "chat", r#"{"text":"and good bye"}"#),
    ];
    let (_, contents, report) = moved(codec("pi"), &lineage("t1", &entries));
    let expected = [
        r#"user Conversational Text(Text { text: "hello" })"#,
        r#"assistant Conversational Text(Text { text: "good day" })"#,
        r#"assistant Conversational Text(Text { text: "and good bye" })"#,
    ];
    assert_eq!(shown(&contents.sessions[0].1), expected);
    assert_eq!(report.dropped.into_iter().collect::<Vec<_>>(), [("record".to_owned(), 1)]);
}

/// `adapter-lineage-complete-restore`
#[test]
fn delegated_threads_come_along() {
    let mut whole = lineage("t1", &driven());
    let spawned = r#"{"thread_id":"t2","house_id":"house-1","parent_thread_id":"t1","tags":[],"pinned":false}"#;
    let child = [made(0, None, "signal.thread.created", spawned), made(1, Some(HUMAN), "chat", r#"{"text":"a task"}"#)];
    let (session, messages, _) = parsed("t2", &child);
    whole = Lineage::new(whole.session, whole.messages, vec![(session, messages)]).unwrap();
    let restored = restored(codec("pi"), &whole);
    let contents = Files::restored(&restored).parse(codec("pi"));
    let ids: Vec<_> =
        contents.sessions.iter().map(|(it, _)| (it.id.as_str(), it.parent_session_id.as_ref().map(|it| it.as_str()))).collect();
    assert_eq!(ids, [("t1", None), ("t2", Some("t1"))]);
}
