//! What is launched outlives the server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use commands::ports::{Exit, MachineError, Machines, ProcessState, Relay, Verdict, Wanted};
use sandboxes::local::{Local, OpenError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::scene::{directory, ended, execute, launch, options, until, wanted, with_word, word, word_of};

const DIRECTORY: &str = "ARBE_TEST_DIRECTORY";

/// Not a test but the server that the test below kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn a_server_that_is_killed() {
    #[expect(clippy::disallowed_methods, reason = "the test that starts it has no other way to say where")]
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let local = Local::open(options(Path::new(&directory))).await.unwrap();
    let address = std::fs::read_to_string(Path::new(&directory).join("address")).unwrap();
    local.create(&Wanted { relays: vec![Relay { port: 8080, to: address }], ..wanted("a") }).await.unwrap();
    let script = "echo begun; until test -e go; do sleep 0.05; done; exec 3<>/dev/tcp/127.0.0.1/8080; read -r line <&3; test \"$line\" = hello && exit 7";
    let mut run = launch("run_1", script);
    run.argv[0] = "bash".to_owned();
    local.launch("a", &run).await.unwrap();
    let [run, command] = [42001, 42002].map(|n| word_of(n, std::os::unix::process::parent_id()));
    local.launch("a", &launch("run_2", &format!("setsid sleep {run} & sleep {run}"))).await.unwrap();
    let mut sink = |_, _: &[u8]| {};
    println!("launched");
    local.execute("a", &execute(&format!("setsid sleep {command} & sleep {command}")), &mut sink).await.unwrap();
}

#[tokio::test]
async fn a_launched_process_outlives_a_server_that_is_killed_and_the_next_one_learns_its_end() {
    let directory = directory();
    let target = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    std::fs::write(directory.path().join("address"), target.local_addr().unwrap().to_string()).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "survival::a_server_that_is_killed", "--ignored", "--nocapture"]);
    let mut server = command.env(DIRECTORY, directory.path()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("launched")), "the server launches");
    until("the server's command runs", || with_word(&word(42002)).len() == 2).await;
    assert!(matches!(Local::open(options(directory.path())).await, Err(OpenError::Taken(_))), "one server at a time");
    server.kill().unwrap();
    server.wait().unwrap();

    let local = Local::open(options(directory.path())).await.unwrap();
    until("a command ends with its server", || with_word(&word(42002)).is_empty()).await;
    assert_eq!(local.process("a", "run_1").await.unwrap(), ProcessState::Running);
    assert_eq!(local.process("a", "run_2").await.unwrap(), ProcessState::Running);
    assert_eq!(local.log("a", "run_1").await.unwrap(), "begun\n");
    local.write("a", "/work/go", "".into()).await.unwrap();
    let (mut caller, _) = target.accept().await.unwrap();
    caller.write_all(b"hello\n").await.unwrap();
    let _ = caller.read(&mut [0]).await;
    assert_eq!(ended(&local, "a", "run_1").await, Exit::Code(7));
    local.stop("a", "run_2", std::time::Duration::from_millis(500)).await.unwrap();
    assert!(with_word(&word(42001)).is_empty());
    assert_eq!(ended(&local, "a", "run_2").await, Exit::Signal(15));
    local.destroy("a").await.unwrap();
}

#[tokio::test]
async fn what_is_asked_for_while_there_is_no_server_is_answered_by_the_next() {
    let directory = directory();
    let target = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relays = vec![Relay { port: 8080, to: target.local_addr().unwrap().to_string() }];
    let local = Local::open(options(directory.path())).await.unwrap();
    local.create(&Wanted { relays, ..wanted("a") }).await.unwrap();
    let script = "until test -e go; do sleep 0.05; done; exec 3<>/dev/tcp/127.0.0.1/8080; echo asked >&3; touch asked; read -r line <&3; test \"$line\" = hello && exit 7";
    let mut run = launch("run_1", script);
    run.argv[0] = "bash".to_owned();
    local.launch("a", &run).await.unwrap();
    drop(local);
    let tree = directory.path().join("machines/a/work");
    std::fs::write(tree.join("go"), "").unwrap();
    until("it has asked", || tree.join("asked").exists()).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let local = Local::open(options(directory.path())).await.unwrap();
    let (mut caller, _) = tokio::time::timeout(std::time::Duration::from_secs(5), target.accept()).await.unwrap().unwrap();
    let mut asked = [0; 6];
    caller.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"asked\n");
    caller.write_all(b"hello\n").await.unwrap();
    assert_eq!(ended(&local, "a", "run_1").await, Exit::Code(7));
    local.destroy("a").await.unwrap();
}

#[tokio::test]
async fn a_machine_of_another_host_is_unknown_here_and_not_dead() {
    let (here, there) = (directory(), directory());
    let made = Local::open(options(there.path())).await.unwrap().create(&wanted("a")).await.unwrap().provider_ref;
    let local = Local::open(options(here.path())).await.unwrap();
    assert!(!local.holds(&made));
    assert!(matches!(local.probe(&made).await, Verdict::Unknown { .. }));
    assert!(matches!(local.destroy(&made).await, Err(MachineError::Unavailable(_))));
    let again = Local::open(options(there.path())).await.unwrap();
    assert_eq!((again.holds(&made), again.probe(&made).await), (true, Verdict::Live));
}
