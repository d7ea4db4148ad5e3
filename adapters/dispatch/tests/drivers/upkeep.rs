use std::time::Duration;

use commands::SandboxStatus;
use commands::command::CancelRun;
use commands::ports::{Diagnosis, FoundProcess, Hands, HandsError, MachineError, RunCommand, SeenAs, Verdict};
use dispatch::Dispatcher;
use events::{HouseId, SandboxId, ThreadId, ThreadStatus};
use serde_json::json;

use crate::place::{ADA, Place};

const LONG: Duration = Duration::from_secs(3_600);

fn unknown() -> Option<Verdict> {
    Some(Verdict::Unknown { why: "no answer".to_owned() })
}

fn is_destroyed(place: &Place, sandbox: &SandboxId) -> bool {
    place.commands.with_world(|world| world.sandbox(sandbox).unwrap().destroyed)
}

/// Somebody who never looks by himself.
async fn inattentive() -> Place {
    let mut place = Place::open(json!({})).await;
    place.options.patience.watch = LONG;
    place
}

/// Waits until a diagnosis says so.
async fn foretold(dispatcher: &Dispatcher, thread: &ThreadId, words: &str) -> Diagnosis {
    for _ in 0..500 {
        let told = dispatcher.diagnose(thread).await.unwrap();
        if told.forecast.starts_with(words) {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{words}: {:?}", dispatcher.diagnose(thread).await);
}

#[tokio::test]
async fn who_reads_a_thread_has_its_run_looked_at_and_not_more_often_than_once_a_second() {
    let mut place = inattentive().await;
    let dispatcher = place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let (began, before) = (tokio::time::Instant::now(), place.yard.probes());
    let looked = |times: u32| {
        dispatcher.look(&child);
        place.yard.probes() >= before + times
    };
    place.until("it is looked at twice", || looked(2)).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?} for two looks", began.elapsed());
    place.yard.lose(&place.machine(&child));
    let is_over = || {
        dispatcher.look(&child);
        place.look(&child).status == ThreadStatus::Failed
    };
    place.until("it is found dead", is_over).await;
    dispatcher.look(&ThreadId::new("nowhere").unwrap());
}

#[tokio::test]
async fn a_house_is_asked_after_and_only_what_is_surely_dead_is_buried() {
    let mut place = inattentive().await;
    let dispatcher = place.start();
    let mut children = Vec::new();
    for _ in 0..4 {
        let (child, _) = place.delegate("work", None).await;
        place.launched(&child, 1).await;
        children.push(child);
    }
    let machine = |n: usize| place.machine(&children[n]);
    place.yard.says(&machine(1), unknown());
    place.yard.says(&machine(2), Some(Verdict::Dead { why: "404".to_owned() }));
    place.yard.says(&machine(3), Some(Verdict::Resumable));
    place.yard.stray("left-over", &place.house, None);
    place.yard.stray("of-others", &HouseId::new("elsewhere").unwrap(), None);
    let seen = dispatcher.reconcile(&place.house).await.unwrap();
    let of = |machine: &str| seen.iter().find(|it| it.provider_ref.as_deref() == Some(machine)).unwrap();
    for (n, verdict) in [SeenAs::Live, SeenAs::Unknown, SeenAs::Dead, SeenAs::Resumable].into_iter().enumerate() {
        let it = of(&machine(n));
        assert_eq!((it.verdict, &it.threads), (verdict, &vec![children[n].clone()]));
    }
    assert_eq!((of("left-over").verdict, seen.len()), (SeenAs::Stray, 5), "{seen:?}");
    for (n, child) in children.iter().enumerate() {
        let expected =
            if n == 2 { (ThreadStatus::Failed, SandboxStatus::Dead) } else { (ThreadStatus::Running, SandboxStatus::Live) };
        let thread = place.look(child);
        let sandbox = place.commands.with_world(|world| world.sandbox(thread.sandbox_id.as_ref().unwrap()).unwrap().status);
        assert_eq!((thread.status, sandbox), expected, "{n}");
    }
    let failed = place.payloads(&children[2], "signal.thread.pi_failed").await;
    assert_eq!(failed[0]["error_class"], "sandbox_dead");
    let again = dispatcher.reconcile(&place.house).await.unwrap();
    let dead = again.iter().find(|it| it.provider_ref.as_deref() == Some(machine(2).as_str())).unwrap();
    assert_eq!(dead.verdict, SeenAs::Stray, "it is dead in the log and still listed");
}

#[tokio::test]
async fn a_provider_that_does_not_list_hides_nothing_that_is_known() {
    let mut place = inattentive().await;
    let dispatcher = place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    place.yard.fail("list", MachineError::Unavailable("503".to_owned()));
    let seen = dispatcher.reconcile(&place.house).await.unwrap();
    assert_eq!((seen[0].verdict, seen[1].verdict, seen.len()), (SeenAs::Live, SeenAs::Unknown, 2));
    assert!(seen[1].why.as_ref().unwrap().contains("503"));
}

#[tokio::test]
async fn a_diagnosis_says_what_is_known_and_what_follows_and_changes_nothing() {
    let mut place = inattentive().await;
    (place.options.patience.orphan, place.options.patience.lease) = (LONG, LONG);
    place.yard.hold("before create");
    let dispatcher = place.start();
    let idle = dispatcher.diagnose(&place.chat).await.unwrap();
    assert_eq!((idle.run, idle.machine, idle.forecast.as_str()), (None, None, "nothing until something is said here"));
    let nobody = dispatcher.diagnose(&ThreadId::new("nowhere").unwrap()).await;
    assert!(matches!(nobody, Err(HandsError::Refused(_))), "{nobody:?}");

    let (held, _) = place.delegate("work", None).await;
    place.yard.is_held().await;
    let told = dispatcher.diagnose(&held).await.unwrap();
    let run = told.run.unwrap();
    assert_eq!((run.launched, run.server.as_deref(), run.claims), (false, Some("one"), 1));
    assert!(
        told.forecast.starts_with("this server brings it onto its machine; if that cannot be reached it fails in"),
        "{}",
        told.forecast
    );

    let (child, run) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    place.say(ADA, &child, "hurry").await;
    let before = place.log.position();
    let told = dispatcher.diagnose(&child).await.unwrap();
    let machine = told.machine.unwrap();
    assert_eq!((told.words_waiting, machine.verdict, machine.process), (1, SeenAs::Live, Some(FoundProcess::Running)));
    assert_eq!(told.forecast, "nothing: its process runs, however long it is silent");
    place.yard.says(&place.machine(&child), unknown());
    let told = dispatcher.diagnose(&child).await.unwrap();
    assert!(
        told.forecast.starts_with("the machine is unknown (no answer): nothing changes until it answers; else"),
        "{}",
        told.forecast
    );
    place.yard.says(&place.machine(&child), None);
    place.yard.let_end(&place.machine(&child), run.as_str(), 3);
    let told = foretold(&dispatcher, &child, "its process ended with 3: the run fails at the next look").await;
    assert_eq!(told.machine.unwrap().process, Some(FoundProcess::Exited { exit_code: Some(3), signal: None }));
    place.yard.lose(&place.machine(&child));
    let told = dispatcher.diagnose(&child).await.unwrap();
    assert!(told.forecast.starts_with("the machine is gone (the directory is gone): all runs on it fail"), "{}", told.forecast);
    assert_eq!((place.log.position(), place.look(&child).status), (before, ThreadStatus::Running));
}

#[tokio::test]
async fn a_sweep_ends_what_is_over_and_leaves_what_runs_or_is_not_known() {
    let mut place = inattentive().await;
    let dispatcher = place.start();
    let mut children = Vec::new();
    for _ in 0..5 {
        let (child, run) = place.delegate("work", None).await;
        place.launched(&child, 1).await;
        children.push((child, run));
    }
    let machine = |n: usize| place.machine(&children[n].0);
    place.yard.let_end(&machine(1), children[1].1.as_str(), 3);
    place.yard.says(&machine(2), Some(Verdict::Dead { why: "404".to_owned() }));
    place.yard.let_end(&machine(3), children[3].1.as_str(), 0);
    place.yard.says(&machine(3), unknown());
    place.ask(ADA, CancelRun { thread_id: children[4].0.clone(), run_id: None }).await;
    foretold(&dispatcher, &children[1].0, "its process ended with 3: the run fails at the next look").await;
    foretold(&dispatcher, &children[4].0, "it was asked to stop: its process is stopped at the next look").await;
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    let expected =
        [ThreadStatus::Running, ThreadStatus::Failed, ThreadStatus::Failed, ThreadStatus::Running, ThreadStatus::Cancelled];
    for (n, expected) in expected.into_iter().enumerate() {
        let (child, run) = &children[n];
        assert_eq!(place.look(child).status, expected, "{n}");
        let ended = pruned.ended.iter().find(|it| it.thread_id == *child);
        assert_eq!(
            ended.map(|it| (it.run_id.clone(), it.status)),
            (expected != ThreadStatus::Running).then(|| (run.clone(), expected))
        );
    }
    let why = |n: usize| pruned.left.iter().find(|it| it.thread_id.as_ref() == Some(&children[n].0)).unwrap().why.as_str();
    assert_eq!(why(0), "nothing: its process runs, however long it is silent");
    assert!(why(3).starts_with("the machine is unknown (no answer): nothing changes until it answers"), "{}", why(3));
    assert!(pruned.ended.iter().any(|it| it.why == "its process ended with 3"), "{pruned:?}");
    let mut taken: Vec<_> = pruned.taken.iter().map(|it| it.provider_ref.clone()).collect();
    let mut over = vec![machine(1), machine(2), machine(4)];
    (taken.sort(), over.sort());
    assert_eq!(taken, over, "those whose run has ended and that answer, and what is still listed of one that is dead");
}

#[tokio::test]
async fn a_sweep_takes_idle_machines_of_delegated_work_after_their_trees_were_kept() {
    let mut place = inattentive().await;
    place.options.patience.keep = LONG;
    let dispatcher = place.start();
    let (child, run) = place.delegate("write", None).await;
    place.launched(&child, 1).await;
    let own = place.machine(&child);
    let sandbox = place.look(&child).sandbox_id.unwrap();
    std::fs::write(place.yard.work(&own).join("kept"), "at rest").unwrap();
    let ask = RunCommand { thread_id: place.chat.clone(), command: "true".to_owned(), cwd: None, timeout: None };
    dispatcher.run_command(ADA, ask, None).await.unwrap();
    let shared = place.look(&place.chat).sandbox_id.unwrap();
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    assert_eq!(pruned.taken, [], "one is at work, and a chat stands on the other");
    let why = |id: &SandboxId| pruned.left.iter().find(|it| it.sandbox_id.as_ref() == Some(id)).unwrap().why.as_str();
    assert_eq!((why(&sandbox), why(&shared)), ("there is work on it", "it is not there for delegated work alone"));

    place.finish(&child, "written").await;
    place.yard.let_end(&own, run.as_str(), 0);
    place.see(&place.chat, "chat", 1).await;
    place.yard.says(&own, unknown());
    place.yard.fail("snapshot", MachineError::Unavailable("busy".to_owned()));
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    assert!(pruned.taken.is_empty() && place.yard.work(&own).is_dir(), "what does not answer is left: {pruned:?}");
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    assert!(pruned.taken.is_empty() && place.yard.work(&own).is_dir(), "also if its tree could be kept: {pruned:?}");
    place.yard.says(&own, None);
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    assert_eq!(pruned.taken.iter().map(|it| &it.sandbox_id).collect::<Vec<_>>(), [&sandbox]);
    assert!(is_destroyed(&place, &sandbox) && !place.yard.work(&own).is_dir() && !is_destroyed(&place, &shared));
    place.say(ADA, &child, "go on").await;
    place.launched(&child, 2).await;
    let fresh = place.machine(&child);
    assert_eq!(std::fs::read_to_string(place.yard.work(&fresh).join("kept")).unwrap(), "at rest");
}

#[tokio::test]
async fn a_sweep_takes_what_is_left_of_sandboxes_that_are_over_and_nothing_that_the_log_does_not_know() {
    let mut place = inattentive().await;
    let dispatcher = place.start();
    let (child, _) = place.delegate("work", None).await;
    place.launched(&child, 1).await;
    let (gone, sandbox) = (place.machine(&child), place.look(&child).sandbox_id.unwrap());
    place.yard.says(&gone, Some(Verdict::Dead { why: "error".to_owned() }));
    dispatcher.reconcile(&place.house).await.unwrap();
    place.yard.stray("unnamed", &place.house, None);
    place.yard.stray("unknown", &place.house, Some(&SandboxId::new("nowhere").unwrap()));
    place.yard.stray("of-others", &HouseId::new("elsewhere").unwrap(), Some(&sandbox));
    let (other, _) = place.delegate("work", None).await;
    place.launched(&other, 1).await;
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    assert_eq!(pruned.taken.iter().map(|it| it.provider_ref.as_str()).collect::<Vec<_>>(), [gone.as_str()]);
    assert!(is_destroyed(&place, &sandbox) && !place.yard.work(&gone).is_dir());
    for stays in ["unnamed", "unknown", "of-others", &place.machine(&other)] {
        assert!(place.yard.work(stays).is_dir(), "{stays}");
    }
}

#[tokio::test]
async fn a_sweep_says_of_a_provider_that_does_not_list_that_nothing_was_looked_for_there() {
    let mut place = inattentive().await;
    let dispatcher = place.start();
    place.yard.fail("list", MachineError::Unavailable("503".to_owned()));
    let pruned = dispatcher.prune(&place.house).await.unwrap();
    let why: Vec<_> = pruned.left.iter().map(|it| it.why.as_str()).collect();
    assert!(why.len() == 1 && why[0].starts_with("yard does not list its machines: ") && why[0].contains("503"), "{why:?}");
}

#[tokio::test]
async fn a_command_that_is_asked_for_again_while_it_runs_is_run_once() {
    let mut place = Place::open(json!({})).await;
    let dispatcher = place.start();
    let ask = |command: &str| RunCommand { thread_id: place.chat.clone(), command: command.to_owned(), cwd: None, timeout: None };
    let once = ask("echo x >> count; sleep 0.3; wc -l < count");
    let again = async |after: u64| {
        tokio::time::sleep(Duration::from_millis(after)).await;
        dispatcher.run_command(ADA, once.clone(), Some("k")).await.unwrap()
    };
    let (first, second, third) = tokio::join!(again(0), again(0), again(150));
    assert_eq!((first.output.trim(), second.output.trim(), third.output.trim()), ("1", "1", "1"));
    let mark = commands::ports::command_mark(&place.chat, ADA, "k");
    assert!(first.command_id.ends_with(&format!(".{mark}")) && first.command_id == third.command_id);
}
