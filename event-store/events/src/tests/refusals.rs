use super::{golden, stored};
use crate::{DecodeError, Entry, Family, KINDS, family};

#[test]
fn an_unknown_kind_is_refused_by_name_and_version() {
    for (kind, v) in [("signal.thread.exploded", 1), ("signal.thread.pinned", 2), ("chat", 0), ("pi", 1), ("pi.", 1), ("", 1)] {
        match stored(kind, v, "{}").event() {
            Err(DecodeError::UnknownKind { kind: named, v: version }) => assert_eq!((named.as_str(), version), (kind, v)),
            other => panic!("{kind} {v}: {other:?}"),
        }
    }
}

#[test]
fn an_unknown_field_is_refused_in_every_payload() {
    for (kind, v) in KINDS {
        let mut entry = Entry::from_json(&golden::fixture(kind, *v).unwrap()).unwrap();
        let mut payload: serde_json::Map<String, serde_json::Value> = entry.payload.decode().unwrap();
        payload.insert("surprise".into(), true.into());
        entry.payload = crate::Json::of(&payload).unwrap();
        assert!(matches!(entry.event(), Err(DecodeError::Payload { .. })), "{kind}");
    }
}

#[test]
fn a_missing_field_is_never_filled_in() {
    for (kind, payload) in [
        ("chat", "{}"),
        ("signal.thread.created", r#"{"thread_id":"t","house_id":"h","pinned":false}"#),
        ("signal.thread.created", r#"{"thread_id":"t","house_id":"h","tags":[]}"#),
        ("signal.command.finished", r#"{"command_id":"c","duration_ms":1}"#),
        ("signal.environment.created", r#"{"environment_id":"e","name":"n"}"#),
    ] {
        assert!(matches!(stored(kind, 1, payload).event(), Err(DecodeError::Payload { .. })), "{kind} {payload}");
    }
}

#[test]
fn a_value_that_breaks_its_type_is_refused() {
    for (kind, payload) in [
        ("signal.thread.agent_spawn", r#"{"child_thread_id":"a b"}"#),
        ("signal.thread.status_changed", r#"{"status":"stuck"}"#),
        ("signal.thread.status_changed", r#"{"status":"idle","reason":"bored"}"#),
        ("signal.thread.pinned", "null"),
        ("signal.house.member_added", r#"{"agent_id":"0190a3c2-7b1e-7d4f-8a55-3f0c9d1e2b6a","role":"admin"}"#),
        ("signal.environment.created", r#"{"environment_id":"e","name":"n","config":[1]}"#),
        ("signal.environment.updated", r#"{"environment_id":"e","name":"n","config":null}"#),
        ("signal.secret.rotated", r#"{"secret_id":"x","vault_secret_id":"1"}"#),
        ("signal.agent.registered", r#"{"agent_id":"0190a3c2-7b1e-7d4f-8a55-3f0c9d1e2b6a","kind":"bot","runtime":""}"#),
        ("chat", r#"{"text":"a","text":"b"}"#),
    ] {
        assert!(matches!(stored(kind, 1, payload).event(), Err(DecodeError::Payload { .. })), "{kind} {payload}");
    }
}

#[test]
fn an_envelope_with_a_field_too_many_or_too_few_is_no_entry() {
    let good = r#"{"id":"01J9ZK3T6V8X0Q2R4S6T8V0W2X","ts":1,"type":"chat","v":1,"payload":{"text":""}}"#;
    assert!(Entry::from_json(good).is_ok());
    assert!(Entry::from_slice(good.as_bytes()).is_ok());
    for (from, to) in [
        (r#""ts":1"#, r#""ts":1,"seq":1"#),
        (r#""ts":1,"#, ""),
        (r#""ts":1"#, r#""ts":-1"#),
        (r#""v":1,"#, ""),
        (r#","payload":{"text":""}"#, ""),
        ("01J9", "81J9"),
        (r#""v":1"#, r#""v":1,"author_agent_id":"me""#),
        (r#""ts":1"#, r#""ts":1,"ts":2"#),
    ] {
        let bad = good.replacen(from, to, 1);
        assert!(matches!(Entry::from_json(&bad), Err(DecodeError::Entry(_))), "{bad}");
    }
}

#[test]
fn a_kind_names_its_family_without_its_payload() {
    assert_eq!(family("chat"), Some(Family::Content));
    assert_eq!(family("pi.something_new"), Some(Family::Content));
    assert_eq!(family("signal.command.output"), Some(Family::Dispatch));
    assert_eq!(family("signal.thread.exploded"), None);
    for (kind, v) in KINDS {
        let event = Entry::from_json(&golden::fixture(kind, *v).unwrap()).unwrap().event().unwrap();
        assert_eq!(family(kind), Some(event.family()), "{kind}");
    }
}
