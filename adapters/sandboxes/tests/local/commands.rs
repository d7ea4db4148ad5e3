//! Commands in a machine: how they end, what they see, and that nothing of them stays.

use std::time::Duration;

use commands::ports::{Execute, Exit, MachineError, Machines, ProcessState};

use crate::scene::{Scene, execute, kill, launch, until, with_word, word};

#[tokio::test]
async fn exit_codes_signals_and_both_outputs_pass_through() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    for code in [0, 1, 7, 127] {
        assert_eq!(scene.run("a", &format!("exit {code}")).await.exit, Exit::Code(code));
    }
    assert_eq!(scene.run("a", "kill -9 $$").await.exit, Exit::Signal(9));
    assert_eq!(scene.run("a", "kill -15 $$").await.exit, Exit::Signal(15));
    let ran = scene.run("a", "echo out; echo err >&2; cat").await;
    assert_eq!((ran.exit, &*ran.stdout, &*ran.stderr), (Exit::Code(0), "out\n", "err\n"));
    let ran = scene.run("a", "yes | head -c 3000000").await;
    assert_eq!(ran.stdout.len(), 3_000_000);
}

#[tokio::test]
async fn a_command_sees_its_tree_its_home_and_the_programs_of_the_host() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let ran = scene.run("a", "pwd; echo $HOME; id -un; hostname; git --version >/dev/null && echo git").await;
    assert_eq!(ran.stdout, "/work\n/home/agent\nagent\nsandbox\ngit\n", "{}", ran.stderr);
    let ran = scene.run("a", "mkdir -p sub && touch sub/x ~/y /tmp/z && touch /usr/w; touch /v; touch /etc/u").await;
    assert_eq!(ran.exit, Exit::Code(1));
    assert_eq!(ran.stderr.matches("Read-only file system").count(), 3, "{}", ran.stderr);
    let ran = scene.execute("a", &Execute { cwd: Some("sub".to_owned()), ..execute("pwd; ls") }).await;
    assert_eq!(ran.stdout, "/work/sub\nx\n");
    let ran = scene.execute("a", &Execute { env: [("COLOR".to_owned(), "red".to_owned())].into(), ..execute("env") }).await;
    assert!(ran.stdout.contains("COLOR=red\n"));
    assert!(!ran.stdout.contains("CARGO"), "nothing of the server's own environment: {}", ran.stdout);
}

#[tokio::test]
async fn a_command_holds_no_right_and_no_file_of_the_hosts() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let ran =
        scene.run("a", "grep -E 'Cap(Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status; ulimit -c; ls /proc/self/fd | wc -l").await;
    let lines: Vec<_> = ran.stdout.lines().map(|line| line.split_whitespace().last().unwrap()).collect();
    // Three standard files, and the listing itself.
    assert_eq!(lines, ["0000000000000000", "0000000000000000", "0000000000000000", "1", "0", "4"], "{}", ran.stdout);
    assert_ne!(scene.run("a", "unshare --user true").await.exit, Exit::Code(0));
    assert_ne!(scene.run("a", "ls /root || ls /sys || ls /home/*/.. | grep -v agent").await.exit, Exit::Code(0));
    assert!(with_word("arbe-none").is_empty());
    let ran = scene.run("a", "ls -d /proc/[0-9]* | wc -l").await;
    assert!(ran.stdout.trim().parse::<u32>().unwrap() < 8, "own processes only: {}", ran.stdout);
}

#[tokio::test]
async fn a_command_that_takes_too_long_ends_with_all_that_it_began() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let word = word(41001);
    let command = format!("setsid sleep {word} & sleep {word}");
    let ran = scene.execute("a", &Execute { timeout: Duration::from_millis(300), ..execute(&command) }).await;
    assert_eq!(ran.exit, Exit::TimedOut);
    until("all of it has ended", || with_word(&word).is_empty()).await;
    assert_eq!(scene.run("a", "echo on").await.stdout, "on\n");
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_ends_with_all_that_it_began() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let (local, word) = (scene.local.clone(), word(41002));
    let command = execute(&format!("setsid sleep {word} & sleep {word}"));
    let waiting = tokio::spawn(async move {
        let mut sink = |_, _: &[u8]| {};
        local.execute("a", &command, &mut sink).await
    });
    until("it runs", || with_word(&word).len() == 2).await;
    waiting.abort();
    until("all of it has ended", || with_word(&word).is_empty()).await;
    let records = scene.machines().join("a/executed");
    until("its record is gone", || std::fs::read_dir(&records).unwrap().count() == 0).await;
}

#[tokio::test]
async fn what_a_command_left_in_the_background_ends_with_it() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let word = word(41003);
    assert_eq!(scene.run("a", &format!("setsid sleep {word} & echo done")).await.stdout, "done\n");
    until("all of it has ended", || with_word(&word).is_empty()).await;
}

#[tokio::test]
async fn nothing_is_left_whoever_of_the_processes_is_killed() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    // The supervisor, bubblewrap outside, bubblewrap inside, and the command itself.
    for (name, generation) in ["supervisor", "outer", "init", "tool"].into_iter().zip(0..) {
        let word = word(41010 + generation);
        scene.local.launch("a", &launch(name, &format!("setsid sleep {word} & sleep {word}; true"))).await.unwrap();
        until("it runs", || with_word(&word).len() == 2).await;
        let text = std::fs::read(scene.machines().join("a/launched").join(name)).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let pid = |who: &str| i32::try_from(record[who]["pid"].as_i64().unwrap()).unwrap();
        kill(match name {
            "supervisor" => pid("supervisor"),
            "outer" => parent(pid("init")),
            "init" => pid("init"),
            _ => parent(with_word(&word)[0]),
        });
        until("nothing is left", || with_word(&word).is_empty()).await;
        // That the first process inside was killed, and not the command, bubblewrap does not tell.
        let outside = ["supervisor", "outer"].contains(&name);
        let expected = if outside { Exit::Sandbox(9) } else { Exit::Signal(9) };
        assert_eq!(scene.ended("a", name).await, expected, "{name}");
    }
    let word = word(41019);
    scene.local.launch("a", &launch("child", &format!("setsid sleep {word} & wait; echo $?; exit 5"))).await.unwrap();
    until("it runs", || with_word(&word).len() == 1).await;
    kill(with_word(&word)[0]);
    assert_eq!(scene.ended("a", "child").await, Exit::Code(5));
}

fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_launched_process_is_asked_first_and_then_made_to_end() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let polite = launch("polite", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done");
    scene.local.launch("a", &polite).await.unwrap();
    // The trap is set once it has spoken.
    until_said(&scene, "polite", "up\n").await;
    scene.local.stop("a", "polite", Duration::from_secs(10)).await.unwrap();
    assert_eq!(scene.ended("a", "polite").await, Exit::Code(3));
    assert_eq!(scene.local.log("a", "polite").await.unwrap(), "up\nbye\n");

    let stubborn = launch("stubborn", "trap '' TERM; echo up; while :; do sleep 0.05; done");
    scene.local.launch("a", &stubborn).await.unwrap();
    until_said(&scene, "stubborn", "up\n").await;
    scene.local.stop("a", "stubborn", Duration::from_millis(200)).await.unwrap();
    assert_eq!(scene.ended("a", "stubborn").await, Exit::Signal(9));
    scene.local.stop("a", "stubborn", Duration::ZERO).await.unwrap();
    assert!(matches!(scene.local.stop("a", "none", Duration::ZERO).await, Err(MachineError::Gone(_))));
}

async fn until_said(scene: &Scene, name: &str, text: &str) {
    for _ in 0..500 {
        if scene.local.log("a", name).await.is_ok_and(|log| log == text) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{name} does not speak");
}

#[tokio::test]
async fn a_name_is_launched_once() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    assert_eq!(scene.local.process("a", "run_1").await.unwrap(), ProcessState::Absent);
    scene.local.launch("a", &launch("run_1", "until test -e go; do sleep 0.05; done")).await.unwrap();
    assert_eq!(scene.local.process("a", "run_1").await.unwrap(), ProcessState::Running);
    assert!(scene.local.list().await.unwrap()[0].state.starts_with("busy with 1, limits by "));
    assert!(matches!(scene.local.launch("a", &launch("run_1", "true")).await, Err(MachineError::Refused(_))));
    scene.local.write("a", "/work/go", "".into()).await.unwrap();
    assert_eq!(scene.ended("a", "run_1").await, Exit::Code(0));
    assert!(matches!(scene.local.launch("a", &launch("run_1", "true")).await, Err(MachineError::Refused(_))));
    for name in ["", "../x", "a/b", ".hidden"] {
        assert!(matches!(scene.local.launch("a", &launch(name, "true")).await, Err(MachineError::Refused(_))), "{name}");
    }
}

#[tokio::test]
async fn of_many_who_launch_one_name_one_does() {
    let scene = Scene::open().await;
    scene.machine("a").await;
    let attempts = (0..8).map(|_| {
        let local = scene.local.clone();
        tokio::spawn(async move { local.launch("a", &launch("run_1", "echo once >> log; sleep 0.2")).await })
    });
    let mut begun = 0;
    for attempt in attempts.collect::<Vec<_>>() {
        begun += usize::from(attempt.await.unwrap().is_ok());
    }
    assert_eq!(begun, 1);
    scene.ended("a", "run_1").await;
    assert_eq!(scene.run("a", "cat log").await.stdout, "once\n");
}
