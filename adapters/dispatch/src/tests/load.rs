use commands::Actor;
use events::{Entry, EventId, Json, Ulid};

use super::scene::*;
use crate::load::{Tally, standing};

fn stands(scene: &Scene) -> (Vec<(&'static str, u64)>, Option<u64>) {
    let (runs, oldest) = standing(&scene.desk);
    (runs.into_iter().filter(|(_, count)| *count > 0).collect(), oldest)
}

#[test]
fn a_run_waits_until_a_server_takes_it_and_then_goes_its_way() {
    let mut scene = scene();
    assert_eq!(stands(&scene), (vec![], None));
    let since = scene.now;
    scene.starts("d", "r1");
    assert_eq!(stands(&scene), (vec![("waiting", 1)], Some(since)));
    scene.is_claimed("d", None, &run("r1"), "one");
    assert_eq!(stands(&scene), (vec![("starting", 1)], None));
    scene.entry(Actor::System, "d", None, "signal.dispatch.session_started", r#"{"run_id":"r1"}"#);
    assert_eq!(stands(&scene), (vec![("running", 1)], None));
    scene.is_cancelled("d");
    assert_eq!(stands(&scene), (vec![("stopping", 1)], None));
    scene.ends("d");
    assert_eq!(stands(&scene), (vec![], None));
}

#[test]
fn words_that_a_bot_is_to_answer_wait_too() {
    let mut scene = scene();
    let since = scene.now;
    let said = scene.says(ADA, "t", "@pia hello");
    scene.desk.heard(&thread("t"), &said, &[PIA]);
    assert_eq!(stands(&scene), (vec![], Some(since)));
}

#[test]
fn classes_of_failures_are_plain_and_not_without_number() {
    let tally = Tally::default();
    let fail = |class: &str| {
        let payload = Json::of(&serde_json::json!({ "error_class": class, "message": "x" })).unwrap();
        let (id, kind) = (EventId(Ulid(1)), "signal.dispatch.failed".to_owned());
        tally.hear(&Entry { id, ts: 1, kind, v: 1, author_agent_id: None, payload });
    };
    (0..200).for_each(|n| fail(&format!("class_{n}")));
    fail("a\"} 1\nfake{x=\"");
    fail("class_1");
    let counted = tally.failures();
    assert_eq!((counted["class_1"], counted["other"], counted.len()), (2, 200 - 64 + 1, 65));
}
