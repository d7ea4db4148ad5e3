//! The private Postgres itself.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres_rows::{Cluster, ClusterError, ClusterOptions, Rows, RowsProjector};
use projector::verify;

use crate::house::Town;
use crate::postgres::{directory, options, unless_missing};
use crate::running::run;
use crate::story::Story;

fn pid(cluster: &Cluster) -> i32 {
    cluster.pid().expect("a postmaster") as i32
}

async fn gone(pid: i32) {
    for _ in 0..500 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if status.is_empty() || status.contains("State:\tZ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("postgres {pid} still runs");
}

#[tokio::test]
async fn a_killed_postgres_comes_back_and_the_rows_are_whole() {
    let directory = directory();
    let Some(cluster) = unless_missing(Cluster::start(options(&directory)).await) else { return };
    let rows = Rows::connect(cluster.options(), 4).await.expect("a database");
    let mut story = Story::new().await;
    let running = run(&story.log, &rows);
    let mut town = Town::settle(21, &mut story).await;
    for _ in 0..2 {
        town.live(&mut story, 50).await;
        let old = pid(&cluster);
        kill(Pid::from_raw(old), Signal::SIGKILL).expect("a kill");
        let position = town.live(&mut story, 50).await;
        running.reaches(position).await;
        assert_ne!(pid(&cluster), old);
    }
    let report = verify(&story.log, &std::sync::Arc::new(RowsProjector), &rows, |_| {}).await.expect("a report");
    assert!(report.equal(), "{report:?}");
    let last = pid(&cluster);
    drop(running);
    rows.close().await;
    cluster.stop().await;
    gone(last).await;
}

#[tokio::test]
async fn a_stopped_cluster_starts_again_with_its_rows_and_a_guest_never_stops_it() {
    let directory = directory();
    let Some(cluster) = unless_missing(Cluster::start(options(&directory)).await) else { return };
    Rows::connect(cluster.options(), 2).await.expect("a database").close().await;
    let guest = Cluster::start(options(&directory)).await.expect("a guest");
    assert_eq!(pid(&guest), pid(&cluster));
    guest.stop().await;
    let first = pid(&cluster);
    let rows = Rows::connect(cluster.options(), 2).await.expect("it still runs");
    assert_eq!(rows.copies().await.expect("copies"), []);
    rows.close().await;
    cluster.stop().await;
    gone(first).await;
    let again = Cluster::start(options(&directory)).await.expect("a second start");
    let rows = Rows::connect(again.options(), 2).await.expect("the same database");
    assert_eq!(rows.copies().await.expect("copies"), []);
    rows.close().await;
    again.stop().await;
}

#[tokio::test]
async fn the_postgres_of_a_killed_server_is_found_and_kept() {
    let directory = directory();
    let Some(cluster) = unless_missing(Cluster::start(options(&directory)).await) else { return };
    let left = pid(&cluster);
    cluster.abandon().await;
    let found = Cluster::start(options(&directory)).await.expect("it is found");
    assert_eq!(pid(&found), left);
    found.stop().await;
    gone(left).await;
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_is_no_obstacle() {
    let directory = directory();
    let deep = directory.path().join("a".repeat(60)).join("b".repeat(60));
    std::fs::create_dir_all(&deep).expect("directories");
    let options = ClusterOptions { directory: deep, binaries: None };
    let Some(cluster) = unless_missing(Cluster::start(options).await) else { return };
    Rows::connect(cluster.options(), 2).await.expect("a database").close().await;
    cluster.stop().await;
}

#[test]
fn the_error_for_missing_binaries_says_how_to_install_them() {
    let text = ClusterError::NoBinaries { looked: String::new() }.to_string();
    assert!(text.contains("apt-get install postgresql") && text.contains("database_url"), "{text}");
}
