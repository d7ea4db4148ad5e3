use commands::Actor;
use commands::command::{IssueKey, RegisterAgent, RenameAgent, RevokeKey};
use events::AgentId;

use crate::scene::*;

fn issue(agent_id: AgentId, id: &str, digit: char) -> IssueKey {
    IssueKey { agent_id, key_id: Some(key(id)), hash: hash(digit), label: Some("laptop".to_owned()) }
}

fn revoke(agent_id: AgentId, id: &str) -> RevokeKey {
    RevokeKey { agent_id, key_id: key(id) }
}

#[test]
fn a_key_names_its_agent_until_it_is_revoked() {
    let mut scene = scene();
    scene.given(AS_MEMBER, issue(MEMBER, "k", 'a'));
    assert_eq!(scene.world.agent_by_key(&hash('a')), Some(MEMBER));
    scene.given(AS_MEMBER, revoke(MEMBER, "k"));
    assert_eq!(scene.world.agent_by_key(&hash('a')), None);
    assert!(scene.given(AS_MEMBER, revoke(MEMBER, "k")).is_empty());
    assert_eq!(scene.refused(AS_MEMBER, issue(MEMBER, "k2", 'a')), "key_taken", "a revoked key stays dead");
}

#[test]
fn nobody_makes_a_key_for_another_human() {
    assert_eq!(scene().refused(AS_OWNER, issue(MEMBER, "k", 'a')), "forbidden");
}

#[test]
fn who_registers_a_human_hands_over_the_first_key_and_no_second() {
    let mut scene = scene();
    scene.given(AS_OWNER, human(NOBODY));
    scene.given(AS_OWNER, issue(NOBODY, "k", 'a'));
    assert_eq!(scene.refused(AS_OWNER, issue(NOBODY, "k2", 'b')), "forbidden");
}

#[test]
fn who_registers_a_bot_keeps_its_keys() {
    let mut scene = scene();
    scene.given(AS_MEMBER, bot(NOBODY));
    scene.given(AS_MEMBER, issue(NOBODY, "k", 'a'));
    scene.given(AS_MEMBER, issue(NOBODY, "k2", 'b'));
    scene.given(AS_MEMBER, revoke(NOBODY, "k"));
}

#[test]
fn an_owner_of_all_its_houses_revokes_the_keys_of_a_bot_and_makes_none() {
    let mut scene = scene();
    scene.given(AS_BOT, issue(BOT, "k", 'a'));
    assert_eq!(scene.refused(AS_OWNER, issue(BOT, "k2", 'b')), "forbidden");
    assert_eq!(scene.refused(AS_MEMBER, revoke(BOT, "k")), "forbidden");
    scene.given(AS_OWNER, revoke(BOT, "k"));
}

#[test]
fn who_only_knows_a_bots_id_has_no_power_over_it() {
    let mut scene = scene();
    scene.given(AS_MEMBER, bot(NOBODY));
    assert_eq!(scene.refused(AS_STRANGER, add_member("other", NOBODY)), "agent_not_found");
    assert_eq!(scene.refused(AS_STRANGER, issue(NOBODY, "k", 'a')), "forbidden");
    scene.given(AS_BOT, issue(BOT, "k", 'a'));
    scene.given(AS_STRANGER, add_member("other", BOT));
    assert_eq!(scene.refused(AS_STRANGER, issue(BOT, "k2", 'b')), "forbidden");
    assert_eq!(scene.refused(AS_STRANGER, revoke(BOT, "k")), "forbidden");
}

#[test]
fn nobody_revokes_the_key_of_another_human() {
    let mut scene = scene();
    scene.given(AS_MEMBER, issue(MEMBER, "k", 'a'));
    assert_eq!(scene.refused(AS_OWNER, revoke(MEMBER, "k")), "forbidden");
    scene.given(AS_MEMBER, revoke(MEMBER, "k"));
    assert_eq!(scene.world.agent_by_key(&hash('a')), None);
}

#[test]
fn an_agent_names_itself() {
    let mut scene = scene();
    let name = |name: &str| RenameAgent { agent_id: MEMBER, name: Some(name.to_owned()) };
    scene.given(AS_MEMBER, name("Ada"));
    assert_eq!(scene.refused(AS_OWNER, name("Bob")), "forbidden");
    assert_eq!(scene.world.agent(MEMBER).unwrap().name.as_deref(), Some("Ada"));
}

#[test]
fn who_is_not_in_the_directory_puts_nobody_into_it() {
    assert_eq!(scene().refused(Actor::Agent(NOBODY), bot(AgentId(events::Uuid::from_u128(100)))), "forbidden");
}

#[test]
fn a_request_does_not_choose_ids() {
    let body = format!(r#"{{"agent_id":"{NOBODY}","kind":"human"}}"#);
    assert!(serde_json::from_str::<RegisterAgent>(&body).is_err());
    assert!(serde_json::from_str::<RegisterAgent>(r#"{"kind":"human"}"#).is_ok());
}
