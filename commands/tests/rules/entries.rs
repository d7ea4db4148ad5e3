use commands::command::AppendEntry;
use events::{Event, StreamName};

use crate::scene::*;

#[test]
fn an_entry_is_stamped_with_who_posts_it() {
    let mut scene = scene();
    scene.given(AS_MEMBER, say("t", "hello"));
    let (stream, seq, entry) = scene.log.last().unwrap();
    assert_eq!((stream, *seq, entry.author_agent_id), (&StreamName::Thread(thread("t")), 1, Some(MEMBER)));
}

#[test]
fn the_system_posts_for_a_member_and_for_nobody_else() {
    let mut scene = scene();
    let as_author = |author| AppendEntry { author_agent_id: Some(author), ..say("t", "hello") };
    scene.given(SYSTEM, as_author(MEMBER));
    assert_eq!(scene.log.last().unwrap().2.author_agent_id, Some(MEMBER));
    assert_eq!(scene.refused(SYSTEM, as_author(STRANGER)), "not_a_member");
    assert_eq!(scene.refused(SYSTEM, say("t", "a message without an author")), "invalid");
}

#[test]
fn what_many_say_at_once_does_not_conflict() {
    let mut scene = scene();
    let seen = scene.world.clone();
    for text in ["a", "b", "c"] {
        let decision = commands::decide(&seen, &AS_MEMBER, &say("t", text).into()).unwrap();
        assert!(scene.append_if_unmoved(&seen, decision));
    }
}

#[test]
fn a_transcript_entry_of_an_unknown_type_is_kept_whole() {
    let mut scene = scene();
    let payload = r#"{"b":1,"a":[1.0,2e5],"a":"\u00e9"}"#;
    let posted = AppendEntry { v: 7, ..entry("t", "pi.brand_new", payload) };
    let events = scene.given(AS_BOT, posted);
    let (_, Event::Content(events::Content::Pi(pi))) = &events[0] else { panic!("{events:?}") };
    assert_eq!((pi.kind(), pi.version(), pi.payload().get()), ("pi.brand_new", 7, payload));
}

#[test]
fn a_driving_bot_narrates_its_run() {
    let mut scene = scene();
    for (kind, payload) in [
        ("signal.dispatch.session_started", r#"{"run_id":"r","sandbox_id":"s","session_ref":"abc"}"#),
        ("signal.dispatch.pi_waiting", r#"{"run_id":"r","for":"a human"}"#),
        ("signal.command.started", r#"{"command_id":"c","command":"make","sandbox_id":"s"}"#),
        ("signal.command.output", r#"{"command_id":"c","stream":"stdout","text":"\u0000"}"#),
        ("signal.command.finished", r#"{"command_id":"c","exit_code":0,"truncated":false,"duration_ms":12}"#),
        ("signal.permission.requested", r#"{"request_id":"p","action":"push"}"#),
    ] {
        scene.given(AS_BOT, entry("d", kind, payload));
        assert_eq!(scene.refused(AS_MEMBER, entry("d", kind, payload)), "kind_not_allowed");
    }
    assert_eq!(
        scene.refused(AS_BOT, entry("d", "signal.command.started", r#"{"command_id":"c","command":"x","sandbox_id":"os"}"#)),
        "sandbox_not_found"
    );
}

#[test]
fn anybody_in_the_house_resolves_a_permission_but_who_asks_for_it() {
    let mut scene = scene();
    let resolved = entry("d", "signal.permission.resolved", r#"{"request_id":"p","allowed":true}"#);
    scene.given(AS_MEMBER, resolved.clone());
    assert_eq!(scene.refused(AS_BOT, resolved.clone()), "kind_not_allowed");
    assert_eq!(scene.refused(AS_STRANGER, resolved), "not_found");
}

#[test]
fn who_asks_for_a_permission_takes_it_back_and_no_bot_gives_one_in_a_chat() {
    let mut scene = scene();
    let resolved = |id: &str, allowed: bool| {
        entry(id, "signal.permission.resolved", &format!(r#"{{"request_id":"p","allowed":{allowed}}}"#))
    };
    scene.given(AS_BOT, resolved("d", false));
    scene.given(AS_BOT, resolved("t", false));
    scene.given(AS_MEMBER, resolved("t", true));
    scene.given(SYSTEM, resolved("t", true));
    assert_eq!(scene.refused(AS_BOT, resolved("t", true)), "kind_not_allowed");
}

#[test]
fn only_the_system_claims_a_run_and_only_it_runs_a_command_for_a_person() {
    let mut scene = scene();
    let claim = || entry("d", "signal.dispatch.claimed", r#"{"run_id":"r1","server":"one"}"#);
    assert_eq!(scene.refused(AS_BOT, claim()), "kind_not_allowed");
    scene.given(SYSTEM, claim());
    let command = || entry("t", "signal.command.started", r#"{"command_id":"c","command":"ls"}"#);
    assert_eq!(scene.refused(AS_MEMBER, command()), "kind_not_allowed");
    scene.given(SYSTEM, AppendEntry { author_agent_id: Some(MEMBER), ..command() });
}
