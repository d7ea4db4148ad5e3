//! A server that is root in a container, where few users are known or none but itself.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::scene::until;

/// Other tests of these, in a namespace of users of their own.
async fn passes(map: &str, tests: &[&str]) {
    let mut command = Command::new("unshare");
    command.args(["--user", "sh", "-c", "read go && exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    command.arg("--exact").args(tests).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let of = |process: &str, what: &str| format!("/proc/{process}/{what}");
    let id = child.id().to_string();
    let ours = fs::read_link(of("self", "ns/user")).unwrap();
    until("it has its namespace", || fs::read_link(of(&id, "ns/user")).unwrap() != ours).await;
    for kind in ["uid_map", "gid_map"] {
        fs::write(of(&id, kind), map).unwrap();
    }
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && told.contains(&format!("{} passed", tests.len())), "{map}: {told}");
}

/// Who is root of a container already cannot make another as he likes.
fn is_root_of_the_host() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    nix::unistd::getuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[tokio::test]
async fn in_a_container_that_knows_few_users_each_machine_is_still_one_of_them() {
    if !is_root_of_the_host() {
        return;
    }
    let tests = [
        "making::two_machines_cannot_see_each_other",
        "making::a_machine_that_is_destroyed_is_dead_and_stays_so",
        "making::a_repository_of_the_host_is_cloned_if_it_may_be",
    ];
    passes("0 0 65536\n", &tests).await;
}

#[tokio::test]
async fn in_a_container_that_knows_no_other_user_machines_are_the_servers_own() {
    if is_root_of_the_host() {
        passes("0 0 1\n", &["making::a_machine_that_is_destroyed_is_dead_and_stays_so"]).await;
    }
}
