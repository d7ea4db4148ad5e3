//! On a real log in memory.

use std::sync::Arc;

use event_log::{Log, Options, StoreUrl};
use events::HouseId;
use events::session::{Message, Session, SessionId};

use super::{Recording, Refusal, Row, Sessions, session_stream};
use crate::source::RealSource;

async fn sessions() -> (Log, Sessions) {
    let store = "memory:".parse::<StoreUrl>().unwrap().open(&[], true).unwrap();
    let log = Log::open(store, Options { keep: false, ..Options::default() }).await.unwrap();
    (log.clone(), Sessions::new(log, Arc::new(RealSource)))
}

fn house() -> HouseId {
    HouseId::new("h-1").unwrap()
}

fn session(project: &str) -> Session {
    let text = format!(r#"{{"id":"s/1","source_agent":"pi","created_at":"2026-01-01T00:00:00Z","project":"{project}"}}"#);
    serde_json::from_str(&text).unwrap()
}

fn message(id: &str, text: &str) -> Message {
    let part = format!(r#"{{"id":"0","type":"text","provenance":"conversational","text":"{text}","options":{{}}}}"#);
    let text = format!(r#"{{"id":"{id}","role":"user","timestamp":"2026-01-01T00:00:01Z","content":[{part}],"options":{{}}}}"#);
    serde_json::from_str(&text).unwrap()
}

fn recording(messages: Vec<Message>) -> Recording {
    Recording { session_id: SessionId::new("s/1").unwrap(), session: Some(session("p")), messages }
}

#[tokio::test]
async fn adapter_integrity_additive_sync_what_is_there_is_not_changed_and_a_repetition_appends_nothing() {
    let (log, sessions) = sessions().await;
    let first = sessions.record(&house(), recording(vec![message("a", "1"), message("b", "2")])).await.unwrap();
    assert_eq!((first.rows.session, first.rows.messages), (Row::New, vec![Row::New, Row::New]));
    let at = log.position();
    let again = sessions.record(&house(), recording(vec![message("a", "1"), message("b", "2")])).await.unwrap();
    assert_eq!((again.rows.messages, log.position()), (vec![Row::Unchanged, Row::Unchanged], at));
    let corrupted = vec![message("a", "other"), message("b", "2"), message("c", "3")];
    let grown = sessions.record(&house(), recording(corrupted)).await.unwrap();
    assert_eq!(grown.rows.messages, [Row::Unchanged, Row::Unchanged, Row::New]);
    let (stored, messages) = sessions.read(&house(), &SessionId::new("s/1").unwrap()).await.unwrap().unwrap();
    assert_eq!((stored, messages), (session("p"), vec![message("a", "1"), message("b", "2"), message("c", "3")]));
    assert_eq!(log.with_stream(&session_stream(&house(), &stored_id()).to_string(), |it| it.head.tail), Some(4));
}

fn stored_id() -> SessionId {
    SessionId::new("s/1").unwrap()
}

#[tokio::test]
async fn a_session_that_says_otherwise_of_its_project_or_client_is_refused_and_so_are_orphans() {
    let (log, sessions) = sessions().await;
    let orphan = Recording { session: None, ..recording(vec![message("a", "1")]) };
    let refused = sessions.record(&house(), orphan).await.unwrap();
    assert_eq!(refused.rows.messages, [Row::Refused(Refusal::NoSession)]);
    sessions.record(&house(), recording(vec![message("a", "1")])).await.unwrap();
    let at = log.position();
    let other = Recording { session: Some(session("q")), ..recording(vec![message("b", "1")]) };
    let refused = sessions.record(&house(), other).await.unwrap();
    assert_eq!(refused.rows.session, Row::Refused(Refusal::Immutable("project")));
    assert_eq!(refused.rows.messages, [Row::Refused(Refusal::Immutable("project"))]);
    assert_eq!(log.position(), at);
}

#[tokio::test]
async fn adapter_integrity_dedup_the_same_id_twice_in_one_recording_is_written_once() {
    let (_, sessions) = sessions().await;
    let rows = sessions.record(&house(), recording(vec![message("a", "1"), message("a", "2")])).await.unwrap().rows;
    assert_eq!(rows.messages, [Row::New, Row::Unchanged]);
}

#[tokio::test]
async fn sixteen_recordings_of_one_session_at_once_write_each_message_once() {
    let (log, sessions) = sessions().await;
    let messages: Vec<_> = (0..50).map(|n| message(&format!("m{n}"), "text")).collect();
    let house = house();
    let all = (0..16).map(|_| sessions.record(&house, recording(messages.clone())));
    let results = futures::future::join_all(all).await;
    let new: usize =
        results.iter().map(|it| it.as_ref().unwrap().rows.messages.iter().filter(|row| **row == Row::New).count()).sum();
    assert_eq!(new, 50);
    assert_eq!(log.with_stream(&session_stream(&house, &stored_id()).to_string(), |it| it.head.tail), Some(51));
}

#[tokio::test]
async fn a_file_is_an_object_of_its_own_and_comes_back_as_it_was() {
    use base64::Engine;
    let (_, sessions) = sessions().await;
    let data = base64::engine::general_purpose::STANDARD.encode(vec![7; 10_000]);
    let odd = format!("{}\\n", "A".repeat(8_000));
    let part = |id: u8, data: &str| {
        format!(
            r#"{{"id":"{id}","type":"file","provenance":"conversational","media_type":"image/png","data":"{data}","options":{{}}}}"#
        )
    };
    let content = [part(0, &data), part(1, &odd)].join(",");
    let text = format!(r#"{{"id":"f","role":"user","timestamp":"2026-01-01T00:00:01Z","content":[{content}],"options":{{}}}}"#);
    let message: Message = serde_json::from_str(&text).unwrap();
    sessions.record(&house(), recording(vec![message.clone()])).await.unwrap();
    let raw = sessions.read_stream(&session_stream(&house(), &stored_id())).await.unwrap().unwrap().1;
    assert!(serde_json::to_string(&raw[0]).unwrap().contains("pond://blob/"));
    assert_eq!(sessions.read(&house(), &stored_id()).await.unwrap().unwrap().1, [message]);
}

#[tokio::test]
async fn a_house_lists_its_own_sessions_only() {
    let (_, sessions) = sessions().await;
    sessions.record(&house(), recording(Vec::new())).await.unwrap();
    sessions.record(&HouseId::new("h").unwrap(), recording(Vec::new())).await.unwrap();
    assert_eq!(sessions.list(&house()).await.unwrap().len(), 1);
    assert_eq!(sessions.list(&HouseId::new("h-1-2").unwrap()).await.unwrap().len(), 0);
    assert_eq!(sessions.list(&HouseId::new("h").unwrap()).await.unwrap(), [session("p")]);
}

#[tokio::test]
async fn parts_that_come_late_are_told_and_a_message_told_again_with_fewer_is_the_same() {
    let (log, sessions) = sessions().await;
    let more = |ids: &[&str]| {
        let mut message = message("a", "1");
        let events::session::Content::User(parts) = &mut message.content else { panic!("a user's message") };
        let first = parts[0].clone();
        *parts = ids.iter().map(|id| events::session::Part { id: id.parse().unwrap(), ..first.clone() }).collect();
        message
    };
    sessions.record(&house(), recording(vec![more(&["0", "1"])])).await.unwrap();
    let at = log.position();
    let rows = sessions.record(&house(), recording(vec![more(&["1"])])).await.unwrap().rows;
    assert_eq!(rows.messages, [Row::Unchanged]);
    let rows = sessions.record(&house(), recording(vec![more(&["0", "1", "2"])])).await.unwrap().rows;
    assert_eq!((rows.messages.as_slice(), log.position()), ([Row::Other(vec!["2".parse().unwrap()])].as_slice(), at));
}

#[tokio::test]
async fn a_session_that_goes_on_in_another_file_and_project_keeps_its_own_and_says_where_the_rest_stands() {
    let (_, sessions) = sessions().await;
    let from = |file: &str, project: &str, id: &str| {
        let source = |text: String| events::Json::parse(&text).unwrap();
        let mut session = session(project);
        session.options.insert("source".into(), source(format!(r#"{{"file":"{file}"}}"#)));
        let mut message = message(id, id);
        message.options.insert("source".into(), source(r#"{"n":0}"#.to_owned()));
        Recording { session_id: stored_id(), session: Some(session), messages: vec![message] }
    };
    for (file, project, id) in [("a", "p", "1"), ("b", "q", "2")] {
        let mut recorder = sessions.recorder(&house(), &stored_id()).await.unwrap().moving();
        assert_eq!(recorder.record(from(file, project, id)).await.unwrap().rows.messages, [Row::New]);
    }
    let (stored, messages) = sessions.read(&house(), &stored_id()).await.unwrap().unwrap();
    assert_eq!(stored.project, "p");
    let places: Vec<_> = messages.iter().map(|it| it.options["source"].get().to_owned()).collect();
    assert_eq!(places, [r#"{"n":0}"#, r#"{"file":"b","n":0}"#]);
}
