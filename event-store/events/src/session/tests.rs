use super::{Incoherent, Message, Session, Timestamp};

fn message(role: &str, content: &str) -> Result<Message, serde_json::Error> {
    let text = format!(r#"{{"id":"m","role":"{role}","timestamp":"2026-01-01T00:00:00Z","content":{content},"options":{{}}}}"#);
    serde_json::from_str(&text)
}

#[test]
fn a_role_holds_only_its_kinds_of_parts() {
    let part = |kind: &str, fields: &str| {
        format!(r#"[{{"id":"0","type":"{kind}","provenance":"conversational",{fields},"options":{{}}}}]"#)
    };
    let text = part("text", r#""text":"a""#);
    let call = part("tool_call", r#""call_id":"c","name":"n","params":{}"#);
    let result = part("tool_result", r#""call_id":"c","result":null"#);
    let answer = part("tool_approval_response", r#""approval_id":"a","approved":true"#);
    for (role, fits, unfit) in [
        ("user", vec![&text], vec![&call, &result, &answer]),
        ("assistant", vec![&text, &call, &result], vec![&answer]),
        ("tool", vec![&result, &answer], vec![&text, &call]),
    ] {
        fits.iter().for_each(|it| assert!(message(role, it).is_ok(), "{role} {it}"));
        unfit.iter().for_each(|it| assert!(message(role, it).is_err(), "{role} {it}"));
    }
    assert!(message("system", "\"\"").is_ok());
    assert!(message("system", &text).is_err());
    assert!(message("user", "\"text\"").is_err());
}

#[test]
fn a_part_without_provenance_or_with_a_field_of_another_is_refused() {
    for part in [
        r#"{"id":"0","type":"text","text":"a"}"#,
        r#"{"id":"0","type":"text","provenance":"guessed","text":"a"}"#,
        r#"{"id":"0","type":"text","provenance":"injected","text":"a","call_id":"c"}"#,
        r#"{"id":"0","type":"text","provenance":"injected"}"#,
        r#"{"id":"0","type":"file","provenance":"injected","media_type":"a/b","data":"","url":""}"#,
        r#"{"id":"0","type":"song","provenance":"injected","text":"a"}"#,
        r#"{"id":"","type":"text","provenance":"injected","text":"a"}"#,
    ] {
        assert!(message("user", &format!("[{part}]")).is_err(), "{part}");
    }
}

#[test]
fn model_parent_pointer_coherence_and_model_project_non_empty() {
    let session = |fields: &str, project: &str| -> Session {
        let text = format!(
            r#"{{"id":"s",{fields}"source_agent":"pi","created_at":"2026-01-01T00:00:00Z","project":"{project}","options":{{}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(session("", "p").check(), Ok(()));
    assert_eq!(session(r#""parent_session_id":"q","parent_message_id":"m","#, "p").check(), Ok(()));
    assert_eq!(session(r#""parent_message_id":"m","#, "p").check(), Err(Incoherent::CutWithoutParent));
    assert_eq!(session(r#""parent_session_id":"s","#, "p").check(), Err(Incoherent::OwnParent));
    assert_eq!(session("", "").check(), Err(Incoherent::NoProject));
}

#[test]
fn a_moment_is_kept_to_the_microsecond() {
    for (text, micros, again) in [
        ("1970-01-01T00:00:00.000001Z", 1, "1970-01-01T00:00:00.000001Z"),
        ("2026-01-19T09:15:30.1234569+01:00", 1_768_810_530_123_456, "2026-01-19T08:15:30.123456Z"),
    ] {
        let moment: Timestamp = text.parse().unwrap();
        assert_eq!((moment.micros(), moment.to_string()), (micros, again.to_owned()));
    }
    for text in ["yesterday", "2026-01-19", "99999-01-01T00:00:00Z", ""] {
        assert!(text.parse::<Timestamp>().is_err(), "{text}");
    }
    assert!(Timestamp::from_millis(i64::MAX).is_err());
}
