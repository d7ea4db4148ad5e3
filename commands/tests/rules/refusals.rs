//! Every code, met. A new one without a case here fails, and so does a constraint of the rows without one.

use commands::CODES;
use commands::command::{
    AddMember, BindSecret, CreateThread, Delegate, DeleteEnvironment, FinishRun, IssueKey, MarkSandboxLive, Outcome,
    RegisterAgent, RemoveMember, RenameHouse, RequestSandbox, ResumeSandbox, SetDefaultEnvironment, SetRole, SetSecret,
    SetThreadEnvironment, SetThreadSandbox, TagThread, UpdateEnvironment,
};
use events::{JsonObject, Role, Runtime, Uuid};

use crate::scene::*;

macro_rules! refusals {
    ($($name:ident: $code:literal, $case:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let case: fn(&mut Scene) -> &'static str = $case;
                assert_eq!(case(&mut scene()), $code);
            }
        )*

        /// Name, code, and what comes to it.
        const CASES: &[(&str, &str, fn(&mut Scene) -> &'static str)] = &[$((stringify!($name), $code, $case)),*];
    };
}

#[test]
fn every_code_has_a_case() {
    let missing: Vec<_> = CODES.iter().filter(|code| !CASES.iter().any(|(_, met, _)| met == *code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The lines of `migrations/README.md` that name a case here.
#[test]
fn every_constraint_of_the_rows_is_refused_under_its_code() {
    let (_, table) = include_str!("../../../migrations/README.md").split_once("\n## Constraints\n").unwrap();
    let lines = table.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| `"));
    let mut seen = 0;
    for line in lines {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect();
        let [constraint, _, code, case] = cells[..] else { panic!("{line}") };
        match code {
            "bad_request" => assert_eq!(case, "over HTTP", "{constraint}"),
            "none" => assert!(constraint.starts_with("reconciliation_"), "{constraint}"),
            _ => assert!(CASES.iter().any(|(name, met, _)| (*name, *met) == (case, code)), "{constraint}: {code} by {case}"),
        }
        seen += 1;
    }
    assert!(seen > 30, "{seen}");
}

/// The same cases put to the shell on a real log, with and without an idempotency key.
#[tokio::test]
async fn what_is_refused_leaves_the_log_as_it_was() {
    for (name, code, case) in CASES {
        let mut scene = scene();
        case(&mut scene);
        let (actor, command) = scene.last_refused.clone().unwrap();
        let (log, commands) = crate::handler::on(&scene.log).await;
        for key in [None, Some("key")] {
            let before = log.position();
            let error = commands.execute(actor, command.clone(), key).await.expect_err(name);
            assert_eq!((error.code(), log.position()), (*code, before), "{name}");
        }
    }
}

fn rename(id: &str, name: &str) -> RenameHouse {
    RenameHouse { house_id: house(id), name: name.to_owned() }
}

fn set_secret(id: &str, name: &str) -> SetSecret {
    SetSecret { house_id: house("h"), secret_id: Some(secret(id)), name: name.to_owned(), vault_secret_id: Uuid::nil() }
}

fn issue(id: &str, digit: char) -> IssueKey {
    IssueKey { agent_id: MEMBER, key_id: Some(key(id)), hash: hash(digit), label: None }
}

refusals! {
    what_does_not_exist_is_not_found: "not_found", |s| s.refused(AS_OWNER, rename("nowhere", "x"));
    another_house_is_not_found: "not_found", |s| s.refused(AS_STRANGER, rename("h", "x"));
    a_member_does_not_rename_the_house: "forbidden", |s| s.refused(AS_MEMBER, rename("h", "x"));
    a_member_does_not_add_members: "forbidden", |s| s.refused(AS_MEMBER, add_member("h", STRANGER));
    a_member_does_not_choose_the_default_environment: "forbidden", |s| {
        s.refused(AS_MEMBER, SetDefaultEnvironment { house_id: house("h"), environment_id: Some(environment("e")) })
    };
    a_member_does_not_delete_environments: "forbidden", |s| {
        s.refused(AS_MEMBER, DeleteEnvironment { environment_id: environment("e") })
    };
    a_blank_name_is_invalid: "invalid", |s| s.refused(AS_OWNER, rename("h", "  "));
    a_long_name_is_invalid: "invalid", |s| s.refused(AS_OWNER, rename("h", &"x".repeat(201)));
    a_name_with_a_control_character_is_invalid: "invalid", |s| s.refused(AS_OWNER, rename("h", "a\u{7}b"));
    a_secret_name_that_is_no_variable_is_invalid: "invalid", |s| s.refused(AS_MEMBER, set_secret("x", "a-b"));
    a_binding_that_is_no_variable_is_invalid: "invalid", |s| {
        s.refused(AS_MEMBER, BindSecret { environment_id: environment("e"), name: "1A".to_owned(), required: true })
    };
    a_deep_config_is_invalid: "invalid", |s| {
        let config = format!("{}1{}", r#"{"a":"#.repeat(33), "}".repeat(33));
        let config = JsonObject::parse(&config).unwrap();
        s.refused(AS_OWNER, commands::command::CreateEnvironment { config, ..create_environment("h", "deep") })
    };
    a_recipe_with_a_slip_is_invalid: "invalid", |s| {
        let config = JsonObject::parse(r#"{"image":"debian","limits":{"cpu":2}}"#).unwrap();
        s.refused(AS_OWNER, commands::command::CreateEnvironment { config, ..create_environment("h", "slip") })
    };
    an_update_with_a_slip_is_invalid: "invalid", |s| {
        let config = Some(JsonObject::parse(r#"{"imgae":"debian"}"#).unwrap());
        s.refused(AS_OWNER, UpdateEnvironment { environment_id: environment("e"), name: None, config })
    };
    a_large_config_is_too_large: "too_large", |s| {
        let config = JsonObject::parse(&format!(r#"{{"a":"{}"}}"#, "x".repeat(64 << 10))).unwrap();
        s.refused(AS_OWNER, commands::command::CreateEnvironment { config, ..create_environment("h", "large") })
    };
    a_message_of_more_than_a_mebibyte_is_too_large: "too_large", |s| {
        s.refused(AS_MEMBER, say("t", &"x".repeat((1 << 20) + 1)))
    };
    a_second_house_of_an_id_is_refused: "id_taken", |s| s.refused(SYSTEM, create_house("h", OWNER));
    a_second_thread_of_an_id_is_refused: "id_taken", |s| s.refused(AS_MEMBER, chat("h", "t"));
    a_second_agent_of_an_id_is_refused: "id_taken", |s| s.refused(SYSTEM, bot(OWNER));
    a_second_environment_of_an_id_is_refused_across_houses: "id_taken", |s| {
        s.refused(AS_STRANGER, create_environment("other", "e"))
    };
    a_second_sandbox_of_an_id_is_refused_across_houses: "id_taken", |s| s.refused(AS_STRANGER, request("other", "s", "oe"));
    a_second_thread_of_an_id_is_refused_across_houses: "id_taken", |s| s.refused(AS_STRANGER, chat("other", "t"));
    a_second_environment_of_an_id_is_refused: "id_taken", |s| s.refused(AS_MEMBER, create_environment("h", "e"));
    a_second_sandbox_of_an_id_is_refused: "id_taken", |s| s.refused(AS_MEMBER, request("h", "s", "e"));
    a_second_secret_of_an_id_is_refused_across_houses: "id_taken", |s| {
        s.given(AS_MEMBER, set_secret("x", "TOKEN"));
        s.refused(AS_STRANGER, SetSecret { house_id: house("other"), ..set_secret("x", "TOKEN") })
    };
    an_agent_has_one_key_of_an_id: "id_taken", |s| {
        s.given(AS_MEMBER, issue("k", 'a'));
        s.refused(AS_MEMBER, issue("k", 'b'))
    };
    nobody_joins_a_house_that_is_not_there: "not_found", |s| s.refused(AS_OWNER, add_member("nowhere", MEMBER));
    an_environment_is_of_a_house_that_is_there: "not_found", |s| s.refused(AS_OWNER, create_environment("nowhere", "n"));
    a_secret_is_of_a_house_that_is_there: "not_found", |s| {
        s.refused(AS_OWNER, SetSecret { house_id: house("nowhere"), ..set_secret("x", "TOKEN") })
    };
    a_sandbox_is_of_a_house_that_is_there: "not_found", |s| s.refused(AS_OWNER, request("nowhere", "n", "e"));
    a_thread_is_of_a_house_that_is_there: "not_found", |s| s.refused(AS_OWNER, chat("nowhere", "n"));
    a_key_is_of_an_agent_that_is_there: "agent_not_found", |s| {
        s.refused(SYSTEM, IssueKey { agent_id: NOBODY, ..issue("k", 'a') })
    };
    an_unknown_agent_does_not_become_a_member: "agent_not_found", |s| s.refused(AS_OWNER, add_member("h", NOBODY));
    a_thread_is_not_addressed_to_an_unknown_agent: "agent_not_found", |s| {
        s.refused(AS_MEMBER, CreateThread { parent_agent_id: Some(NOBODY), ..chat("h", "n") })
    };
    a_human_with_a_runtime_is_refused: "human_has_no_runtime", |s| {
        s.refused(SYSTEM, RegisterAgent { runtime: Some(Runtime::new("pi").unwrap()), ..human(NOBODY) })
    };
    a_bot_without_a_runtime_is_refused: "bot_needs_runtime", |s| {
        s.refused(SYSTEM, RegisterAgent { runtime: None, ..bot(NOBODY) })
    };
    a_bot_does_not_own_a_house: "bot_cannot_own", |s| {
        s.refused(AS_OWNER, SetRole { house_id: house("h"), agent_id: BOT, role: Role::Owner })
    };
    a_key_belongs_to_one_agent: "key_taken", |s| {
        s.given(AS_MEMBER, issue("k1", 'a'));
        s.refused(AS_MEMBER, issue("k2", 'a'))
    };
    a_driver_is_a_member: "not_a_member", |s| {
        s.given(SYSTEM, bot(NOBODY));
        s.refused(AS_MEMBER, CreateThread { agent_id: Some(NOBODY), ..chat("h", "n") })
    };
    who_is_no_member_is_not_removed: "not_a_member", |s| {
        s.refused(AS_OWNER, RemoveMember { house_id: house("h"), agent_id: STRANGER })
    };
    a_member_is_not_added_twice: "already_member", |s| s.refused(AS_OWNER, add_member("h", MEMBER));
    the_last_owner_does_not_leave: "last_owner", |s| {
        s.refused(AS_OWNER, RemoveMember { house_id: house("h"), agent_id: OWNER })
    };
    the_last_owner_stays_owner: "last_owner", |s| {
        s.refused(AS_OWNER, SetRole { house_id: house("h"), agent_id: OWNER, role: Role::Member })
    };
    a_bot_that_drives_a_thread_stays_a_member: "member_drives_threads", |s| {
        s.refused(AS_OWNER, RemoveMember { house_id: house("h"), agent_id: BOT })
    };
    a_house_has_one_secret_of_a_name: "name_taken", |s| {
        s.given(AS_MEMBER, set_secret("x", "TOKEN"));
        s.refused(AS_MEMBER, set_secret("y", "TOKEN"))
    };
    a_thread_has_a_bounded_number_of_tags: "too_many_tags", |s| {
        let tags = (0..65).map(|tag| tag.to_string()).collect();
        s.refused(AS_MEMBER, TagThread { thread_id: thread("t"), tags })
    };
    a_tag_is_short: "too_many_tags", |s| {
        s.refused(AS_MEMBER, TagThread { thread_id: thread("t"), tags: vec!["x".repeat(65)] })
    };
    work_is_not_delegated_without_end: "too_deep", |s| {
        s.given(AS_OWNER, SetDefaultEnvironment { house_id: house("h"), environment_id: Some(environment("e")) });
        s.given(AS_MEMBER, delegate("t", "c1"));
        for n in 1..7 {
            s.given(AS_BOT, delegate(&format!("c{n}"), &format!("c{}", n + 1)));
        }
        s.refused(AS_BOT, delegate("c7", "c8"))
    };
    a_thread_has_at_most_one_parent: "two_parents", |s| {
        let (parent_thread_id, parent_agent_id) = (Some(thread("t")), Some(BOT));
        s.refused(AS_MEMBER, CreateThread { parent_thread_id, parent_agent_id, ..chat("h", "n") })
    };
    an_unknown_parent_is_refused: "parent_not_found", |s| {
        s.refused(AS_MEMBER, CreateThread { parent_thread_id: Some(thread("none")), ..chat("h", "n") })
    };
    a_parent_in_a_strange_house_looks_like_none: "parent_not_found", |s| {
        s.refused(AS_MEMBER, CreateThread { parent_thread_id: Some(thread("ot")), ..chat("h", "n") })
    };
    a_parent_in_another_house_of_ones_own_is_called_so: "parent_in_other_house", |s| {
        s.given(AS_STRANGER, add_member("other", MEMBER));
        s.refused(AS_MEMBER, CreateThread { parent_thread_id: Some(thread("ot")), ..chat("h", "n") })
    };
    a_human_does_not_drive_a_thread: "driver_not_a_bot", |s| {
        s.refused(AS_MEMBER, CreateThread { agent_id: Some(MEMBER), ..chat("h", "n") })
    };
    a_human_is_not_delegated_to: "driver_not_a_bot", |s| {
        s.refused(AS_MEMBER, Delegate { agent_id: MEMBER, ..delegate("t", "n") })
    };
    an_environment_of_another_house_is_refused: "environment_not_found", |s| {
        s.refused(AS_MEMBER, CreateThread { environment_id: Some(environment("oe")), ..chat("h", "n") })
    };
    a_thread_does_not_switch_to_an_environment_of_another_house: "environment_not_found", |s| {
        let environment_id = Some(environment("oe"));
        s.refused(AS_MEMBER, SetThreadEnvironment { thread_id: thread("t"), environment_id })
    };
    the_default_environment_is_the_houses_own: "environment_not_found", |s| {
        s.refused(AS_OWNER, SetDefaultEnvironment { house_id: house("h"), environment_id: Some(environment("oe")) })
    };
    a_sandbox_is_built_from_the_houses_own_recipe: "environment_not_found", |s| s.refused(AS_MEMBER, request("h", "n", "oe"));
    an_environment_that_a_sandbox_came_from_stays: "environment_in_use", |s| {
        s.refused(AS_OWNER, DeleteEnvironment { environment_id: environment("e") })
    };
    an_environment_that_a_thread_names_stays: "environment_in_use", |s| {
        s.given(AS_OWNER, create_environment("h", "e2"));
        s.given(AS_OWNER, CreateThread { environment_id: Some(environment("e2")), ..chat("h", "n") });
        s.refused(AS_OWNER, DeleteEnvironment { environment_id: environment("e2") })
    };
    the_default_environment_stays: "environment_in_use", |s| {
        s.given(AS_OWNER, create_environment("h", "e2"));
        s.given(AS_OWNER, SetDefaultEnvironment { house_id: house("h"), environment_id: Some(environment("e2")) });
        s.refused(AS_OWNER, DeleteEnvironment { environment_id: environment("e2") })
    };
    a_task_without_any_environment_fails_loudly: "no_environment", |s| s.refused(AS_MEMBER, delegate("t", "n"));
    a_sandbox_without_any_environment_fails_loudly: "no_environment", |s| {
        s.refused(AS_MEMBER, RequestSandbox { environment_id: None, thread_id: Some(thread("t")), ..request("h", "n", "e") })
    };
    a_sandbox_of_another_house_is_refused: "sandbox_not_found", |s| {
        s.refused(AS_MEMBER, SetThreadSandbox { thread_id: thread("t"), sandbox_id: Some(sandbox("os")) })
    };
    a_new_thread_does_not_use_a_sandbox_of_another_house: "sandbox_not_found", |s| {
        s.refused(AS_MEMBER, CreateThread { sandbox_id: Some(sandbox("os")), ..chat("h", "n") })
    };
    a_task_does_not_reuse_a_sandbox_of_another_house: "sandbox_not_found", |s| {
        s.refused(AS_MEMBER, Delegate { sandbox_id: Some(sandbox("os")), ..delegate("t", "n") })
    };
    nothing_starts_to_point_at_a_dead_sandbox: "sandbox_dead", |s| {
        s.given(SYSTEM, dead("s"));
        s.refused(AS_MEMBER, SetThreadSandbox { thread_id: thread("t"), sandbox_id: Some(sandbox("s")) })
    };
    only_a_dead_sandbox_is_resumed: "sandbox_not_dead", |s| {
        s.refused(SYSTEM, ResumeSandbox { sandbox_id: sandbox("s"), new_sandbox_id: Some(sandbox("n")), provider: None })
    };
    a_thread_is_not_given_a_second_machine: "has_sandbox", |s| {
        s.given(AS_MEMBER, SetThreadSandbox { thread_id: thread("t"), sandbox_id: Some(sandbox("s")) });
        s.refused(SYSTEM, RequestSandbox { thread_id: Some(thread("t")), ..request("h", "n", "e") })
    };
    a_sandbox_is_resumed_once: "nothing_to_resume", |s| {
        s.given(AS_MEMBER, SetThreadSandbox { thread_id: thread("t"), sandbox_id: Some(sandbox("s")) });
        s.given(SYSTEM, dead("s"));
        let resume = |id| ResumeSandbox { sandbox_id: sandbox("s"), new_sandbox_id: Some(sandbox(id)), provider: None };
        s.given(SYSTEM, resume("n1"));
        s.refused(SYSTEM, resume("n2"))
    };
    a_dead_sandbox_does_not_come_alive: "wrong_sandbox_status", |s| {
        s.given(SYSTEM, dead("s"));
        s.refused(SYSTEM, MarkSandboxLive { sandbox_id: sandbox("s"), provider_ref: "m".to_owned() })
    };
    nothing_is_said_in_a_closed_thread: "thread_closed", |s| {
        s.given(AS_MEMBER, commands::command::CloseThread { thread_id: thread("t") });
        s.refused(AS_MEMBER, say("t", "hello"))
    };
    a_driven_thread_is_not_closed: "wrong_status", |s| {
        s.refused(AS_MEMBER, commands::command::CloseThread { thread_id: thread("d") })
    };
    a_chat_does_not_run: "wrong_status", |s| s.refused(AS_MEMBER, start("t", "r1"));
    a_run_that_did_not_start_does_not_finish: "wrong_status", |s| s.refused(AS_BOT, finish("d", Outcome::Completed));
    a_late_word_of_an_earlier_run_ends_nothing: "wrong_run", |s| {
        s.given(AS_BOT, start("d", "r1"));
        s.refused(AS_BOT, FinishRun { run_id: Some(run("r0")), ..finish("d", Outcome::Completed) })
    };
    nothing_is_cancelled_where_nothing_runs: "nothing_in_progress", |s| {
        s.refused(AS_MEMBER, commands::command::CancelRun { thread_id: thread("d"), run_id: None })
    };
    nobody_speaks_as_another: "author_mismatch", |s| {
        s.refused(AS_MEMBER, commands::command::AppendEntry { author_agent_id: Some(OWNER), ..say("t", "hello") })
    };
    a_human_does_not_post_a_transcript: "kind_not_allowed", |s| s.refused(AS_MEMBER, entry("t", "pi.assistant", "{}"));
    a_bot_does_not_narrate_anothers_run: "kind_not_allowed", |s| {
        s.refused(commands::Actor::Agent(OTHER_BOT), entry("d", "signal.dispatch.heartbeat", r#"{"run_id":"r1"}"#))
    };
    a_fact_of_the_thread_is_not_posted: "kind_not_allowed", |s| s.refused(AS_BOT, entry("d", "signal.thread.pinned", "{}"));
    an_unknown_signal_is_refused: "unknown_kind", |s| s.refused(AS_BOT, entry("d", "signal.thread.exploded", "{}"));
    a_payload_that_does_not_fit_is_invalid: "invalid", |s| s.refused(AS_BOT, entry("t", "chat", r#"{"txt":"hello"}"#));
    a_message_is_addressed_to_a_member: "not_a_member", |s| {
        s.refused(AS_MEMBER, entry("t", "chat", &format!(r#"{{"text":"hello","to":"{STRANGER}"}}"#)))
    };
    an_owner_of_one_house_is_nobody_in_another: "not_found", |s| {
        s.refused(AS_STRANGER, AddMember { role: Role::Owner, ..add_member("h", STRANGER) })
    };
}
