//! The provider of sprites.

use std::time::Duration;

use commands::ports::{MachineError, Machines, Verdict};
use sandboxes::sprite::{Options, Sprite};
use serde_json::{Value, json};

use crate::standin::every::{self, Case, Process, plain, wanted};
use crate::standin::server::Fault;
use crate::standin::sprite::{Sprites as StandIn, TOKEN};

fn provider(stand_in: &StandIn) -> Sprite {
    let mut options = Options::new(stand_in.url().parse().unwrap(), plain(TOKEN));
    options.patience = Duration::from_secs(5);
    options.start_patience = Duration::from_secs(5);
    options.poll = Duration::from_millis(20);
    options.task_socket = stand_in.task_socket().to_str().unwrap().to_owned();
    options.hold_refresh = Duration::from_millis(200);
    Sprite::new(options).unwrap()
}

async fn case() -> (StandIn, Case<Sprite>) {
    let stand_in = StandIn::start().await;
    let case = Case::new(provider(&stand_in)).await;
    (stand_in, case)
}

#[tokio::test]
async fn a_sprite_carries_the_platforms_labels() {
    let (stand_in, case) = case().await;
    assert_eq!(case.machine, "arbe-sandbox1");
    let labels = json!(["arbe.house=house1", "arbe.environment=environment1", "arbe.sandbox=sandbox1", "arbe.thread=thread1"]);
    assert_eq!(stand_in.body(&case.machine)["labels"], labels);
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_sprite_works_as_every_machine_does() {
    let (stand_in, case) = case().await;
    case.works_as_every_machine_does().await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_file_that_is_too_large_for_one_request_goes_through_a_command() {
    let (stand_in, case) = case().await;
    let large: Vec<u8> = (0..20_000_000_u32).map(|at| (at % 251) as u8).collect();
    case.provider.write(&case.machine, "large", large.clone().into()).await.unwrap();
    assert!(case.provider.read(&case.machine, "large").await.unwrap() == large);
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_session_that_is_made_again_goes_on_in_the_machines_own_tree() {
    let (stand_in, case) = case().await;
    case.a_session_that_is_made_again_goes_on_in_the_machines_own_tree().await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_process_goes_on_by_itself_and_runs_once() {
    let (stand_in, case) = case().await;
    case.a_process_goes_on_by_itself_and_runs_once().await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_process_holds_its_sprite_for_as_long_as_it_runs() {
    let (stand_in, case) = case().await;
    case.launch("run1", &["sh", "-c", "until [ -e go ]; do sleep 0.05; done"]).await.unwrap();
    let refreshed = || stand_in.tasks.held().get("arbe-run1").copied().unwrap_or_default();
    every::until("it is refreshed", || refreshed() >= 2).await;
    case.provider.write(&case.machine, "/work/go", "".into()).await.unwrap();
    case.ended("run1").await;
    every::until("nothing is held", || stand_in.tasks.held().is_empty()).await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn the_socket_for_holds_is_where_every_sprite_has_it() {
    let stand_in = StandIn::with(Vec::new()).await;
    let case = Case::new(Sprite::new(Options::new(stand_in.url().parse().unwrap(), plain(TOKEN))).unwrap()).await;
    case.launch("run1", &["true"]).await.unwrap();
    assert_eq!(case.ended("run1").await, every::Exit::Code(0));
    case.provider.keep_alive(&case.machine).await.unwrap();
    assert!(stand_in.tasks.held().contains_key("arbe-server"));
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_process_that_cannot_hold_its_sprite_is_not_begun() {
    let stand_in = StandIn::start().await;
    let mut options = Options::new(stand_in.url().parse().unwrap(), plain(TOKEN));
    options.task_socket = "/nowhere/api.sock".to_owned();
    let case = Case::new(Sprite::new(options).unwrap()).await;
    assert!(matches!(case.launch("run1", &["sleep", "600"]).await, Err(MachineError::Unavailable(_))));
    assert_eq!(case.provider.process(&case.machine, "run1").await.unwrap(), Process::Absent);
    assert!(stand_in.guest(&case.machine).processes().is_empty());
}

#[tokio::test]
async fn a_process_that_is_stopped_takes_all_its_children_with_it() {
    let (stand_in, case) = case().await;
    let guest = stand_in.guest(&case.machine);
    case.a_process_that_is_stopped_takes_all_its_children_with_it(|| guest.processes()).await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_process_is_stopped_whatever_is_left_of_it() {
    let (stand_in, case) = case().await;
    let guest = stand_in.guest(&case.machine);
    case.a_process_is_stopped_whatever_is_left_of_it(|| guest.processes()).await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_tool_finds_no_secret_in_what_runs_beside_it() {
    let (stand_in, case) = case().await;
    case.a_tool_finds_no_secret_in_what_runs_beside_it().await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_command_that_takes_too_long_or_is_given_up_leaves_nothing() {
    let (stand_in, case) = case().await;
    let guest = stand_in.guest(&case.machine);
    case.a_command_that_takes_too_long_or_is_given_up_leaves_nothing(|| guest.processes()).await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_secret_reaches_the_command_and_nothing_else() {
    let (stand_in, case) = case().await;
    let home = stand_in.guest(&case.machine);
    case.a_secret_reaches_the_command_and_nothing_else(home.home()).await;
    let seen = stand_in.watch.seen().join("\n");
    assert!(!seen.contains(every::PLANTED) && !seen.contains("env="), "a variable stands in an address");
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_working_tree_moves_to_another_machine() {
    let (stand_in, case) = case().await;
    case.a_working_tree_moves_to_another_machine().await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_repository_is_cloned_and_set_up_and_a_failing_setup_leaves_nothing_behind() {
    let stand_in = StandIn::start().await;
    every::a_repository_is_cloned_and_set_up(&provider(&stand_in)).await;
    let before = stand_in.count();
    every::a_failing_setup_leaves_nothing_behind(&provider(&stand_in)).await;
    assert_eq!(stand_in.count(), before);
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_sprite() {
    let stand_in = StandIn::start().await;
    let provider = provider(&stand_in);
    stand_in.watch.fail_once("POST /v1/sprites", Fault::DropAfter);
    let first = provider.create(&wanted("sandbox1")).await.unwrap();
    let second = provider.create(&wanted("sandbox1")).await.unwrap();
    assert_eq!(first.provider_ref, second.provider_ref);
    assert_eq!(stand_in.watch.seen().iter().filter(|seen| *seen == "POST /v1/sprites").count(), 1);
    stand_in.watch.fail("POST /v1/sprites", Fault::Status(503));
    assert!(matches!(provider.create(&wanted("sandbox2")).await, Err(MachineError::Unknown(_))));
    assert_eq!(stand_in.count(), 1);
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn paused_is_not_dead_and_dead_is_not_unreachable() {
    let (stand_in, case) = case().await;
    let machine = case.machine.as_str();
    assert_eq!(case.provider.probe(machine).await, Verdict::Live);
    for status in ["warm", "cold"] {
        stand_in.set_status(machine, status);
        assert_eq!(case.provider.probe(machine).await, Verdict::Resumable, "{status}");
    }
    stand_in.set_status(machine, "something_new");
    assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }));
    for fault in
        [Fault::Status(500), Fault::Status(401), Fault::Status(429), Fault::ForeignNotFound, Fault::DropBefore, Fault::Hang]
    {
        stand_in.watch.fail("GET /v1/sprites", fault);
        assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }), "{fault:?}");
        stand_in.watch.heal();
    }
    assert!(matches!(case.provider.probe("arbe-not-there").await, Verdict::Dead { .. }));
    stand_in.lose(machine);
    assert!(matches!(case.provider.probe(machine).await, Verdict::Dead { .. }));
    drop(stand_in);
    assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }));
}

#[tokio::test]
async fn a_sprite_that_is_not_found_but_listed_is_not_dead() {
    let (stand_in, case) = case().await;
    let machine = case.machine.as_str();
    stand_in.watch.fail(&format!("GET /v1/sprites/{machine}"), Fault::Status(404));
    assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }));
    stand_in.watch.fail("GET /v1/sprites?", Fault::Status(500));
    assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }));
    stand_in.watch.heal();
    assert_eq!(case.provider.probe(machine).await, Verdict::Live);
}

#[tokio::test]
async fn a_recipe_gives_no_variables_that_are_reserved() {
    let stand_in = StandIn::start().await;
    let made = provider(&stand_in).create(&every::with_reserved_names("sandbox1")).await.unwrap().provider_ref;
    assert_eq!(stand_in.body(&made)["environment"], json!({ "PLAIN": "as is" }));
}

#[tokio::test]
async fn what_is_unknown_changes_nothing() {
    let (stand_in, case) = case().await;
    let machine = case.machine.as_str();
    stand_in.set_status(machine, "something_new");
    let before = stand_in.watch.seen().len();
    case.provider.probe(machine).await;
    stand_in.watch.fail("GET /v1/sprites", Fault::Hang);
    case.provider.probe(machine).await;
    stand_in.watch.heal();
    let asked = stand_in.watch.seen().split_off(before);
    assert!(asked.iter().all(|seen| *seen == format!("GET /v1/sprites/{machine}")), "{asked:?}");
    assert_eq!(stand_in.status(machine).as_deref(), Some("something_new"));
}

#[tokio::test]
async fn a_cold_sprite_is_woken_with_its_files_and_without_its_processes() {
    let (stand_in, case) = case().await;
    let machine = case.machine.as_str();
    case.provider.write(machine, "/work/kept", "kept".into()).await.unwrap();
    case.launch("run1", &["sleep", "600"]).await.unwrap();
    stand_in.set_status(machine, "cold");
    case.provider.wake(machine).await.unwrap();
    assert_eq!(case.provider.probe(machine).await, Verdict::Live);
    assert_eq!(case.provider.read(machine, "/work/kept").await.unwrap(), "kept");
    assert_eq!(case.provider.process(machine, "run1").await.unwrap(), Process::Absent);
    assert!(matches!(case.launch("run1", &["true"]).await, Err(MachineError::Refused(_))), "a name is used once");
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_heartbeat_holds_the_sprite() {
    let (stand_in, case) = case().await;
    case.provider.keep_alive(&case.machine).await.unwrap();
    assert!(stand_in.tasks.held().contains_key("arbe-server"));
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn what_may_be_reached_becomes_a_policy() {
    let stand_in = StandIn::start().await;
    let mut confined = wanted("sandbox1");
    confined.recipe.egress = vec!["api.example.org:443".to_owned()];
    let made = provider(&stand_in).create(&confined).await.unwrap().provider_ref;
    let rules = json!([{ "domain": "api.example.org", "action": "allow" }, { "domain": "*", "action": "deny" }]);
    assert_eq!(stand_in.policy(&made).unwrap()["rules"], rules);
    every::relays_are_refused(&provider(&stand_in)).await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn all_pages_of_sprites_are_listed_and_only_ours() {
    let stand_in = StandIn::start().await;
    every::all_pages_are_listed(&provider(&stand_in)).await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_sprite_is_taken_away_once_and_for_all() {
    let (stand_in, case) = case().await;
    stand_in.watch.fail_once("DELETE /v1/sprites", Fault::DropAfter);
    case.provider.destroy(&case.machine).await.unwrap();
    case.provider.destroy(&case.machine).await.unwrap();
    assert!(matches!(case.provider.probe(&case.machine).await, Verdict::Dead { .. }));
    assert_eq!(stand_in.count(), 0);
}

#[tokio::test]
async fn the_stand_in_refuses_what_is_not_as_published() {
    let (stand_in, case) = case().await;
    let (api, sprite) = (format!("{}/v1/sprites", stand_in.url()), format!("{}/v1/sprites/{}", stand_in.url(), case.machine));
    let requests = [
        ("POST", api.clone(), json!({ "labels": [] })),
        ("POST", api.clone(), json!({ "name": "x", "label": "y" })),
        ("POST", api.clone(), json!({ "name": "x", "config": { "ramMB": 1 } })),
        ("POST", api.clone(), json!({ "name": "No_Name" })),
        ("GET", format!("{api}?max_results=51"), Value::Null),
        ("PATCH", sprite.clone(), Value::Null),
        ("GET", format!("{sprite}/fs/read?path=x"), Value::Null),
        ("POST", format!("{sprite}/fs/write?path=x&workingDir=/"), Value::Null),
        ("POST", format!("{sprite}/policy/network"), json!({ "rules": [{ "domain": "x", "action": "permit" }] })),
    ];
    every::are_refused(TOKEN, &requests).await;
    assert_eq!(stand_in.watch.violations(), requests.len());
}

#[tokio::test]
async fn the_vendors_own_sdk_passes_against_the_same_stand_in() {
    let Some(node) = every::interpreter("ARBE_SPRITES_NODE") else { return };
    // The SDK is installed beside its interpreter.
    let sdk = node.ancestors().map(|directory| directory.join("@fly/sprites/dist/index.js")).find(|path| path.is_file());
    let sdk = sdk.expect("@fly/sprites is in the node_modules of ARBE_SPRITES_NODE");
    let stand_in = StandIn::start().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/distant/sdk/sprites_sdk.mjs");
    every::passes(tokio::process::Command::new(node).arg(script).arg(sdk).args([&stand_in.url(), TOKEN])).await;
    assert_eq!(stand_in.count(), 0);
    stand_in.watch.assert_clean();
}
