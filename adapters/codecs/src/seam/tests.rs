use events::session::{AssistantBody, Content, Data, Message, Provenance, Session, Timestamp, ToolBody, UserBody};

use super::{Extracted, Head, Out, Parsed, Parts, Record, SessionDraft, VALUE_MAX};
use crate::fault::{Fault, Location, What};
use crate::lineage::Lineage;
use crate::restore::records;
use crate::value::{Path, Reader, Value};

mod bounds;
mod ids;

const SAID: Provenance = Provenance::Conversational;

pub(crate) fn record(text: &str) -> Record {
    at(text, "f", 0)
}

fn at(text: &str, file: &str, n: u64) -> Record {
    Record::new(Reader::only(text).unwrap(), file.into(), n + 1, n)
}

fn draft(fields: &str) -> SessionDraft {
    let record = record(fields);
    SessionDraft {
        id: record.copy(["id"]).unwrap(),
        parent: record.copy(["parent"]),
        cut: record.copy(["cut"]),
        project: record.copy(["project"]),
        created_at: record.time(["at"]),
        facts: vec![("openai", "model", record.copy_json(["id"]).unwrap())],
    }
}

fn place() -> Location {
    Location { file: "f".into(), line: Some(1) }
}

/// What a codec hands out.
pub(crate) fn handed(codec: impl FnOnce(&mut Out<'_>)) -> (Vec<Session>, Vec<Message>, Vec<Fault>) {
    let (mut sessions, mut messages) = (Vec::new(), Vec::new());
    let mut sink = |it| {
        match it {
            Parsed::Session(it) => sessions.push(it),
            Parsed::Message(_, it) => messages.push(it),
        }
        Ok(())
    };
    let mut out = Out::new("test", Timestamp::from_millis(7).unwrap(), &mut sink);
    codec(&mut out);
    let faults = out.finish().unwrap();
    (sessions, messages, faults)
}

pub(crate) fn session_of(codec: impl FnOnce(&mut Out<'_>, super::Handle)) -> Lineage {
    let (lineage, faults) = session_with_faults(codec);
    assert_eq!(faults, []);
    lineage
}

fn session_with_faults(codec: impl FnOnce(&mut Out<'_>, super::Handle)) -> (Lineage, Vec<Fault>) {
    let (mut sessions, messages, faults) = handed(|out| {
        let handle = out.session(draft(r#"{"id":"s","project":"p","at":1000}"#), place()).unwrap();
        codec(out, handle);
    });
    (Lineage { session: sessions.remove(0), messages, children: Vec::new(), bases: Vec::new() }, faults)
}

fn restored(lineage: &Lineage) -> Vec<(String, Vec<String>)> {
    let files = records(lineage).unwrap();
    files.into_iter().map(|(file, records)| (file, records.iter().map(|it| it.value.to_string()).collect())).collect()
}

#[test]
fn a_session_is_what_the_source_says_or_is_left_out() {
    let cases = [
        (r#"{"id":"s","project":"p","at":"2026-01-01T00:00:00Z"}"#, Ok("2026-01-01T00:00:00Z")),
        (r#"{"id":"s","project":"p"}"#, Ok("1970-01-01T00:00:00.007Z")),
        (r#"{"id":"s","project":""}"#, Err("the project cannot be told from the source; the session is left out")),
        (r#"{"id":"s"}"#, Err("the project cannot be told from the source; the session is left out")),
        (r#"{"id":"s","project":"p","cut":"m"}"#, Err("parent_message_id stands without parent_session_id")),
        (r#"{"id":"s","project":"p","parent":"s"}"#, Err("a session is not its own parent")),
        (r#"{"id":"","project":"p"}"#, Err("\"\" is not an id of 1 to 512 bytes without control characters")),
        (r#"{"id":"s","project":"p","parent":"\n"}"#, Err("\"\\n\" is not an id of 1 to 512 bytes without control characters")),
        (
            r#"{"id":"s","project":"p","parent":"q","cut":""}"#,
            Err("\"\" is not an id of 1 to 512 bytes without control characters"),
        ),
    ];
    for (fields, expected) in cases {
        let (sessions, _, faults) = handed(|out| _ = out.session(draft(fields), place()));
        let got = sessions.first().map(|it| it.created_at.to_string()).ok_or_else(|| faults[0].what.to_string());
        assert_eq!(got, expected.map(str::to_owned).map_err(str::to_owned), "{fields}");
        assert!(faults.iter().all(|it| it.adapter == "test" && it.location == place()));
    }
}

/// `adapter-integrity-event-ordering`
#[test]
fn a_session_comes_before_its_messages_and_a_message_is_whole() {
    let mut seen = Vec::new();
    let mut sink = |it| {
        seen.push(match it {
            Parsed::Session(it) => it.id.to_string(),
            Parsed::Message(of, it) => format!("{of} {} {}", it.id, it.parts().len()),
        });
        Ok(())
    };
    let mut out = Out::new("test", Timestamp::from_millis(0).unwrap(), &mut sink);
    let sessions = ["s", "t"].map(|id| out.session(draft(&format!(r#"{{"id":"{id}","project":"p"}}"#)), place()).unwrap());
    for (to, id) in sessions.into_iter().rev().zip(["a", "b"]) {
        let mut record = record(&format!(r#"{{"id":"{id}","x":"1","y":"2"}}"#));
        let head = Head { id: record.id(["id"]), ..Head::default() };
        let mut parts = Parts::<UserBody>::default();
        ["x", "y"].into_iter().filter_map(|key| record.text([key])).for_each(|text| _ = parts.text(text, SAID));
        out.user(to, record, head, parts);
    }
    assert_eq!(out.finish().unwrap(), []);
    assert_eq!(seen, ["s", "t", "t a 2", "s b 2"]);
}

#[test]
fn facts_of_one_provider_stand_together() {
    let lineage = session_of(|out, to| {
        let record = record(r#"{"m":"x","u":{"n":1.50},"big":"y"}"#);
        let fact = |key| record.copy_json([key]).unwrap();
        let facts = vec![("openai", "model", fact("m")), ("openai", "usage", fact("u")), ("source", "kind", fact("big"))];
        out.carry(to, record.clone(), Head { facts, ..Head::default() });
    });
    assert_eq!(lineage.session.options["openai"].get(), r#"{"model":"s"}"#);
    assert_eq!(lineage.session.options["source"].get(), r#"{"file":"f"}"#);
    let options = &lineage.messages[0].options;
    assert_eq!(options["openai"].get(), r#"{"model":"x","usage":{"n":1.50}}"#);
    assert_eq!(options["source"].get(), r#"{"kind":"y","n":0,"record":{"m":"x","u":{"n":1.50},"big":"y"}}"#);
}

/// `model-no-synthesis` allows the moment of what came before.
#[test]
fn a_message_without_a_moment_has_that_of_the_one_before() {
    let lineage = session_of(|out, to| {
        for text in ["{}", r#"{"t":2000}"#, r#"{"t":"no moment"}"#, r#"{"t":1500}"#, r#"{"t":true}"#] {
            let record = record(text);
            let timestamp = record.time(["t"]);
            out.carry(to, record, Head { timestamp, ..Head::default() });
        }
    });
    let moments: Vec<_> = lineage.messages.iter().map(|it| it.timestamp.millis()).collect();
    assert_eq!(moments, [1000, 2000, 2000, 1500, 1500]);
}

#[test]
fn the_sinks_error_ends_it() {
    let mut taken = 0;
    let mut sink = |_| {
        taken += 1;
        if taken == 2 { Err(std::io::Error::other("full")) } else { Ok(()) }
    };
    let mut out = Out::new("test", Timestamp::from_millis(0).unwrap(), &mut sink);
    let to = out.session(draft(r#"{"id":"s","project":"p"}"#), place()).unwrap();
    for _ in 0..5 {
        out.carry(to, record("{}"), Head::default());
    }
    assert_eq!(out.finish().unwrap_err().to_string(), "full");
    assert_eq!(taken, 2);
}

/// `model-lossless-projection`: every way of taking something out has its way back.
#[test]
fn whatever_is_taken_goes_back_to_its_place() {
    let text = r#"{"t":"a–b","j":{"x":[1.0,null]},"e":" {\"odd\" :  [ 1 ]}","f":"{\"odd\" :  [ 1 ]}","g":"no json","u":"data:image/png;name=x;base64,AA==","v":"https://x/y","w":"AA==","d":"data:,plain","k/~":{"0":"deep"},"rest":"\ud800"}"#;
    let lineage = session_of(|out, to| {
        let mut record = record(text);
        let mut parts = Parts::<AssistantBody>::default();
        let pieces = record.text(["t"]).unwrap().split(&[0, 2, 4, 4, 99]);
        assert_eq!(pieces.iter().map(|it| it.look().as_str()).collect::<Vec<_>>(), ["a–", "b"]);
        pieces.into_iter().for_each(|piece| _ = parts.text(piece, SAID));
        let id = record.copy(["w"]).unwrap();
        for key in ["e", "f", "g"] {
            let json = record.encoded([key]).unwrap();
            parts.tool_call(id.clone(), id.clone(), json, false, SAID);
        }
        let json = record.json(["j"]).unwrap();
        parts.tool_result(id.clone(), None, json, true, SAID);
        for key in ["u", "v", "w", "d"] {
            let (data, media_type) = record.data([key]).unwrap();
            parts.file(media_type, None, data, SAID);
        }
        let deep = record.text(Path::root().to("k/~").to("0")).unwrap();
        parts.reasoning(deep, SAID);
        parts.approval_request(id.clone(), id, SAID);
        assert!(record.text(["rest"]).is_none() && record.text(["nowhere"]).is_none() && record.data(["j"]).is_none());
        out.assistant(to, record, Head::default(), parts);
    });
    assert_eq!(restored(&lineage), [("f".to_owned(), vec![text.to_owned()])]);
    let shown: Vec<_> = lineage.messages[0].parts().iter().map(|part| format!("{:?}", part.body)).collect();
    assert!(shown[2].contains(r#"RawValue(" {\"odd\" :  [ 1 ]}")"#), "a text with space around it stays a text: {}", shown[2]);
    assert!(shown[3].contains(r#"RawValue({"odd" :  [ 1 ]})"#), "its JSON with its own spacing: {}", shown[3]);
    assert!(shown[4].contains(r#"RawValue("no json")"#), "{}", shown[4]);
    assert_eq!(shown[6], r#"File(File { media_type: "image/png", file_name: None, data: Inline("AA==") })"#);
    assert_eq!(shown[7], r#"File(File { media_type: "application/octet-stream", file_name: None, data: Url("https://x/y") })"#);
    assert_eq!(shown[9], r#"File(File { media_type: "application/octet-stream", file_name: None, data: Url("data:,plain") })"#);
}

#[test]
fn several_messages_may_stand_in_one_record_and_one_in_several() {
    let lineage = session_of(|out, to| {
        let mut first = at(r#"{"id":"m","result":"r","words":"w","call":"c"}"#, "f", 3);
        let (mut tool, mut user) = (Parts::<ToolBody>::default(), Parts::<UserBody>::default());
        let call = first.copy(["call"]).unwrap();
        tool.tool_result(call.clone(), None, first.json(["result"]).unwrap(), false, Provenance::Injected);
        user.text(first.text(["words"]).unwrap(), SAID);
        let id = first.copy(["id"]);
        let told = out.tool(to, first, Head { id, ..Head::default() }, tool);
        out.user_beside(to, &told, user);
        out.tool_beside(to, &told, Parts::default());

        let mut message = at(r#"{"id":"n"}"#, "f", 1);
        let (mut one, mut two) = (at(r#"{"id":"p1","text":"one"}"#, "parts/1", 0), at(r#"{"id":"p2"}"#, "parts/2", 0));
        let mut parts = Parts::<UserBody>::default();
        assert!(parts.is_empty());
        let name = one.copy(["id"]).unwrap();
        parts.text(one.text(["text"]).unwrap(), SAID).named(&name).own(one);
        let copied = two.copy(["id"]).unwrap();
        parts.text(copied, SAID).own(two.clone());
        two.json(["id"]);
        let id = message.copy(["id"]);
        message.json(["nowhere"]);
        out.user(to, message, Head { id, ..Head::default() }, parts);
        out.system(to, at(r#"{"text":null}"#, "other", 0), Head::default(), call);
    });
    let ids: Vec<_> = lineage.messages.iter().map(|it| it.id.as_str()).take(4).collect();
    assert_eq!(ids, ["m", "m+", "m+~2", "n"]);
    let files = [
        ("f", vec![r#"{"id":"n"}"#, r#"{"id":"m","result":"r","words":"w","call":"c"}"#]),
        ("other", vec![r#"{"text":null}"#]),
        ("parts/1", vec![r#"{"id":"p1","text":"one"}"#]),
        ("parts/2", vec![r#"{"id":"p2"}"#]),
    ];
    let files: Vec<_> = files.map(|(file, lines)| (file.to_owned(), lines.into_iter().map(str::to_owned).collect())).into();
    assert_eq!(restored(&lineage), files);
    assert!(matches!(&lineage.messages[4].content, Content::System(text) if text == "c"));
}

/// `adapter-integrity-opaque-ids`
#[test]
fn what_a_path_says_is_read_once() {
    let path = std::path::Path::new("/a/--b--/agent-x.y.jsonl");
    let of = |it: Option<Extracted<String>>| it.map(|it| it.look().clone());
    assert_eq!(of(Extracted::of_stem(path, "agent-")).as_deref(), Some("x"));
    assert_eq!(of(Extracted::of_stem(path, "")).as_deref(), Some("agent-x"));
    assert_eq!((of(Extracted::of_stem(path, "other-")), of(Extracted::of_stem(path, "agent-x"))), (None, None));
    assert_eq!(of(Extracted::of_directory(path, 0)).as_deref(), Some("--b--"));
    assert_eq!(of(Extracted::of_directory(path, 1)).as_deref(), Some("a"));
    assert_eq!(of(Extracted::of_directory(path, 2)), None);
    let outer = Extracted::of_stem(path, "").unwrap();
    assert_eq!(outer.piece(0..5).unwrap().within(&outer).look(), "agent-x/agent");
    assert!(outer.piece(3..99).is_none());
    assert!(outer.moment(|_| None).is_none() && outer.moment(|_| Timestamp::from_millis(1).ok()).is_some());
    let shown = record(r#"{"n":1.50,"b":true,"o":{},"z":null,"t":-1.5,"e":1e300}"#);
    let copy = |key| of(shown.copy([key]));
    assert_eq!((copy("n").as_deref(), copy("b").as_deref(), copy("o"), copy("z")), (Some("1.50"), Some("true"), None, None));
    assert_eq!(shown.time(["t"]).map(|it| it.look().millis()), Some(-1));
    assert!(shown.time(["e"]).is_none() && shown.time(["o"]).is_none() && shown.time(["nowhere"]).is_none());
    assert_eq!(format!("{}", Fault { adapter: "a", location: place(), what: What::NotUtf8 }), "a: f:1: not UTF-8");
}
