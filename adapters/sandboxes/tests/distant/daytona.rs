//! The provider of sandboxes of Daytona.

use std::time::Duration;

use commands::ports::{MachineError, Machines, Verdict};
use sandboxes::daytona::{Daytona, Options};
use serde_json::{Value, json};

use crate::standin::daytona::{Daytona as StandIn, TOKEN};
use crate::standin::every::{self, Case, Process, plain, wanted};
use crate::standin::server::Fault;

fn provider(stand_in: &StandIn) -> Daytona {
    let mut options = Options::new(stand_in.url().parse().unwrap(), plain(TOKEN));
    options.patience = Duration::from_secs(5);
    options.start_patience = Duration::from_secs(5);
    options.poll = Duration::from_millis(20);
    Daytona::new(options).unwrap()
}

async fn case() -> (StandIn, Case<Daytona>) {
    let stand_in = StandIn::start().await;
    let case = Case::new(provider(&stand_in)).await;
    (stand_in, case)
}

#[tokio::test]
async fn a_sandbox_carries_the_platforms_labels_and_its_own_backstops() {
    let (stand_in, case) = case().await;
    let body = stand_in.body(&case.machine);
    assert_eq!(body["name"], "arbe-sandbox1");
    let labels = json!({
        "arbe.house": "house1", "arbe.environment": "environment1", "arbe.sandbox": "sandbox1", "arbe.thread": "thread1"
    });
    assert_eq!(body["labels"], labels);
    assert_eq!((body["autoStopInterval"].as_u64(), body["autoDeleteInterval"].as_i64()), (Some(3 * 24 * 60 + 60), Some(4320)));
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_sandbox_works_as_every_machine_does() {
    let (stand_in, case) = case().await;
    case.works_as_every_machine_does().await;
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
async fn a_process_of_a_sandbox_that_is_deleted_while_it_is_stopped_is_gone() {
    let (stand_in, case) = case().await;
    let close = format!("DELETE /toolbox/{}/process/session", case.machine);
    stand_in.watch.fail_once(&close, Fault::Hang);
    let (provider, machine) = (case.provider.clone(), case.machine.clone());
    let stopping = tokio::spawn(async move { provider.stop(&machine, "run1", Duration::ZERO).await });
    while stand_in.watch.count(&close) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stand_in.lose(&case.machine);
    let stopped = stopping.await.unwrap();
    assert!(matches!(stopped, Err(MachineError::Gone(_))), "{stopped:?}");
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
    assert!(!seen.contains(every::PLANTED), "a secret stands in an address");
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
async fn a_sandbox_that_is_asked_for_twice_is_made_once() {
    let (stand_in, case) = case().await;
    let again = case.provider.create(&wanted("sandbox1")).await.unwrap();
    assert_eq!(again.provider_ref, case.machine);
    assert_eq!((stand_in.count(), stand_in.watch.count("POST /api/sandbox ")), (1, 0));
    assert_eq!(stand_in.watch.seen().iter().filter(|seen| *seen == "POST /api/sandbox").count(), 1);
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_sandbox() {
    for (fault, found) in [(Fault::DropAfter, true), (Fault::Status(502), false)] {
        let stand_in = StandIn::start().await;
        let provider = provider(&stand_in);
        stand_in.watch.fail_once("POST /api/sandbox", fault);
        let made = provider.create(&wanted("sandbox1")).await;
        assert_eq!(made.is_ok(), found, "{made:?}");
        assert!(found || matches!(made, Err(MachineError::Unknown(_))), "{made:?}");
        provider.create(&wanted("sandbox1")).await.unwrap();
        assert_eq!(stand_in.count(), 1);
        stand_in.watch.assert_clean();
    }
}

#[tokio::test]
async fn stopped_is_not_dead_and_dead_is_not_unreachable() {
    let (stand_in, case) = case().await;
    let machine = case.machine.as_str();
    assert_eq!(case.provider.probe(machine).await, Verdict::Live);
    for state in ["stopped", "archived", "paused"] {
        stand_in.set_state(machine, state, None);
        assert_eq!(case.provider.probe(machine).await, Verdict::Resumable, "{state}");
    }
    stand_in.set_state(machine, "error", Some(true));
    assert_eq!(case.provider.probe(machine).await, Verdict::Resumable);
    for state in ["error", "build_failed", "destroyed", "destroying"] {
        stand_in.set_state(machine, state, Some(false));
        assert!(matches!(case.provider.probe(machine).await, Verdict::Dead { .. }), "{state}");
    }
    stand_in.set_state(machine, "started", None);
    for fault in
        [Fault::Status(500), Fault::Status(401), Fault::Status(429), Fault::ForeignNotFound, Fault::DropBefore, Fault::Hang]
    {
        stand_in.watch.fail("GET /api/sandbox", fault);
        assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }), "{fault:?}");
        stand_in.watch.heal();
    }
    assert!(matches!(case.provider.probe("not-there").await, Verdict::Dead { .. }));
    stand_in.lose(machine);
    assert!(matches!(case.provider.probe(machine).await, Verdict::Dead { .. }));
    drop(stand_in);
    assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }));
}

#[tokio::test]
async fn a_sandbox_that_is_not_found_but_listed_is_not_dead() {
    let (stand_in, case) = case().await;
    let machine = case.machine.as_str();
    let itself = format!("GET /api/sandbox/{machine}");
    stand_in.watch.fail(&itself, Fault::Status(404));
    assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }));
    assert!(matches!(case.provider.wake(machine).await, Err(MachineError::Unavailable(_))));
    stand_in.watch.fail("GET /api/sandbox?", Fault::Status(500));
    assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }));
    stand_in.watch.heal();
    assert_eq!(case.provider.probe(machine).await, Verdict::Live);
}

#[tokio::test]
async fn a_recipe_gives_no_variables_that_are_reserved() {
    let stand_in = StandIn::start().await;
    let made = provider(&stand_in).create(&every::with_reserved_names("sandbox1")).await.unwrap().provider_ref;
    assert_eq!(stand_in.body(&made)["env"], json!({ "PLAIN": "as is" }));
}

#[tokio::test]
async fn what_is_unknown_changes_nothing() {
    let (stand_in, case) = case().await;
    let machine = case.machine.as_str();
    let before = stand_in.watch.seen().len();
    for state in "creating restoring stopping pending_build building_snapshot unknown pulling_snapshot archiving resizing pausing"
        .split(' ')
    {
        stand_in.set_state(machine, state, None);
        assert!(matches!(case.provider.probe(machine).await, Verdict::Unknown { .. }), "{state}");
    }
    stand_in.set_state(machine, "stopping", None);
    assert!(matches!(case.run("true").await, Err(MachineError::Unavailable(_))));
    let changes: Vec<_> = stand_in.watch.seen().split_off(before);
    assert!(changes.iter().all(|seen| seen.starts_with("GET ") || seen.contains("/toolbox/")), "{changes:?}");
    assert_eq!(stand_in.state(machine).as_deref(), Some("stopping"));
}

#[tokio::test]
async fn a_stopped_sandbox_is_woken_with_its_files_and_without_its_processes() {
    let (stand_in, case) = case().await;
    let machine = case.machine.as_str();
    case.provider.write(machine, "/work/kept", "kept".into()).await.unwrap();
    case.launch("run1", &["sh", "-c", ": >begun; sleep 600"]).await.unwrap();
    case.begun().await;
    stand_in.set_state(machine, "stopped", None);
    assert!(matches!(case.provider.process(machine, "run1").await, Err(MachineError::Unavailable(_))));
    stand_in.start_slowly(3);
    case.provider.wake(machine).await.unwrap();
    assert_eq!(case.provider.read(machine, "/work/kept").await.unwrap(), "kept");
    assert_eq!(case.provider.process(machine, "run1").await.unwrap(), Process::Absent);
    assert!(matches!(case.launch("run1", &["true"]).await, Err(MachineError::Refused(_))), "a name is used once");
    stand_in.set_state(machine, "error", Some(true));
    case.provider.wake(machine).await.unwrap();
    stand_in.set_state(machine, "build_failed", None);
    assert!(matches!(case.provider.wake(machine).await, Err(MachineError::Gone(_))));
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_sandbox_that_stays_on_its_way_is_waited_for_only_so_long() {
    let stand_in = StandIn::start().await;
    stand_in.start_slowly(u32::MAX);
    let begun = tokio::time::Instant::now();
    assert!(matches!(provider(&stand_in).create(&wanted("sandbox1")).await, Err(MachineError::Unknown(_))));
    assert!(begun.elapsed() < Duration::from_secs(10));
    stand_in.start_slowly(0);
}

#[tokio::test]
async fn a_heartbeat_is_told_as_activity() {
    let (stand_in, case) = case().await;
    case.provider.keep_alive(&case.machine).await.unwrap();
    assert_eq!(stand_in.activity(&case.machine), 1);
}

#[tokio::test]
async fn a_launch_whose_answer_was_lost_runs_once() {
    let (stand_in, case) = case().await;
    let request = format!("POST /toolbox/{}/process/session/arbe-run1/exec", case.machine);
    stand_in.watch.fail_once(&request, Fault::DropAfter);
    case.launch("run1", &["sh", "-c", "echo once >>count"]).await.unwrap();
    case.ended("run1").await;
    assert_eq!(case.provider.read(&case.machine, "/work/count").await.unwrap(), "once\n");
    assert!(matches!(case.launch("run1", &["sh", "-c", "echo twice"]).await, Err(MachineError::Refused(_))));
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn output_goes_on_after_a_broken_socket() {
    let (stand_in, case) = case().await;
    stand_in.watch.fail_once(&format!("GET /toolbox/{}/process/session/", case.machine), Fault::DropBefore);
    let ran = case.run("echo one; sleep 0.3; echo two; echo three >&2; exit 4").await.unwrap();
    assert_eq!((ran.exit, ran.stdout.as_str(), ran.stderr.as_str()), (every::Exit::Code(4), "one\ntwo\n", "three\n"));
}

#[tokio::test]
async fn all_pages_of_sandboxes_are_listed_and_only_ours() {
    let stand_in = StandIn::start().await;
    let provider = provider(&stand_in);
    every::all_pages_are_listed(&provider).await;
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn a_sandbox_is_taken_away_once_and_for_all() {
    let (stand_in, case) = case().await;
    stand_in.watch.fail_once("DELETE /api/sandbox", Fault::Status(500));
    assert!(matches!(case.provider.destroy(&case.machine).await, Err(MachineError::Unknown(_))));
    stand_in.watch.fail_once("DELETE /api/sandbox", Fault::DropAfter);
    case.provider.destroy(&case.machine).await.unwrap();
    case.provider.destroy(&case.machine).await.unwrap();
    assert!(matches!(case.provider.probe(&case.machine).await, Verdict::Dead { .. }));
    assert_eq!(stand_in.count(), 0);
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_before_anything_is_made() {
    let stand_in = StandIn::start().await;
    every::relays_are_refused(&provider(&stand_in)).await;
    let mut sized = wanted("sandbox1");
    sized.recipe.image = Some("some-snapshot".to_owned());
    sized.recipe.limits.cpus = Some(2);
    assert!(matches!(provider(&stand_in).create(&sized).await, Err(MachineError::Refused(_))));
    sized.recipe.image = Some("docker://debian:12".to_owned());
    sized.recipe.limits.memory_mib = Some(1500);
    sized.recipe.egress = vec!["api.example.org:443".to_owned(), "10.0.0.1:80".to_owned()];
    let made = provider(&stand_in).create(&sized).await.unwrap().provider_ref;
    let body = stand_in.body(&made);
    assert_eq!(body["buildInfo"]["dockerfileContent"], "FROM debian:12\n");
    assert_eq!((body["cpu"].as_u64(), body["memory"].as_u64()), (Some(2), Some(2)));
    assert_eq!(
        (body["domainAllowList"].as_str(), body["networkAllowList"].as_str()),
        (Some("api.example.org"), Some("10.0.0.1/32"))
    );
    stand_in.watch.assert_clean();
}

#[tokio::test]
async fn the_stand_in_refuses_what_is_not_as_published() {
    let (stand_in, case) = case().await;
    let (api, toolbox) = (stand_in.url(), format!("{}/toolbox/{}", stand_in.url().trim_end_matches("/api"), case.machine));
    let requests = [
        ("POST", format!("{api}/sandbox"), json!({ "nmae": "x" })),
        ("POST", format!("{api}/sandbox"), json!({ "name": 1 })),
        ("POST", format!("{api}/sandbox"), json!({ "labels": { "a": 1 } })),
        ("PATCH", format!("{api}/sandbox/{}", case.machine), Value::Null),
        ("GET", format!("{api}/sandbox?limit=many"), Value::Null),
        ("GET", format!("{api}/sandbox?limits=1"), Value::Null),
        ("POST", format!("{toolbox}/process/execute"), json!({ "cmd": "true" })),
        ("POST", format!("{toolbox}/process/execute"), json!({ "command": "true", "timeout": "1" })),
        ("POST", format!("{toolbox}/process/session"), json!({})),
        ("GET", format!("{toolbox}/files/download"), Value::Null),
    ];
    every::are_refused(TOKEN, &requests).await;
    assert_eq!(stand_in.watch.violations(), requests.len());
}

#[tokio::test]
async fn the_vendors_own_sdk_passes_against_the_same_stand_in() {
    let Some(python) = every::interpreter("ARBE_DAYTONA_PYTHON") else { return };
    let stand_in = StandIn::start().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/distant/sdk/daytona_sdk.py");
    every::passes(tokio::process::Command::new(python).args([script, &stand_in.url(), TOKEN])).await;
    assert_eq!(stand_in.count(), 0);
    stand_in.watch.assert_clean();
}
