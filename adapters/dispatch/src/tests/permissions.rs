use commands::Actor;

use super::scene::*;
use crate::desk::turn_id;

#[test]
fn what_is_said_to_a_request_for_leave_is_no_task_until_it_is_answered() {
    let mut scene = scene();
    scene.starts("d", "r1");
    let asked = r#"{"request_id":"r1.1","action":"bash"}"#;
    let request = scene.entry(Actor::Agent(PIA), "d", None, "signal.permission.requested", asked);
    let reply = format!(r#"{{"text":"because","reply_to":"{request}"}}"#);
    let words = |scene: &Scene| scene.desk.room(&thread("d")).unwrap().words.len();
    scene.entry(Actor::Agent(ADA), "d", None, "chat", &reply);
    assert_eq!(words(&scene), 0);
    scene.says(ADA, "d", "something else");
    assert_eq!(words(&scene), 1);
    let refused = r#"{"request_id":"r1.1","allowed":false}"#;
    scene.entry(Actor::Agent(ADA), "d", None, "signal.permission.resolved", refused);
    scene.entry(Actor::Agent(ADA), "d", None, "chat", &reply);
    assert_eq!(words(&scene), 2);
}

#[test]
fn an_answer_that_asked_for_leave_is_known_by_it() {
    let mut scene = scene();
    let said = scene.says(ADA, "t", "@pia hello");
    let turn = turn_id(&thread("t"), &said, PIA);
    scene.is_claimed("t", Some(PIA), &turn, "one");
    let asked = |scene: &Scene| scene.desk.turn(&thread("t"), &turn).unwrap().asked;
    assert!(!asked(&scene));
    let request = format!(r#"{{"request_id":"{turn}.0.0","action":"run_command"}}"#);
    scene.entry(Actor::Agent(PIA), "t", None, "signal.permission.requested", &request);
    assert!(asked(&scene));
}
