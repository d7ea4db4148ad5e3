//! Several real processes on one store. `soak` runs the same for longer.

use std::time::Duration;

use replay_tests::soak::{Options, StoreKind, run};

fn holds(store: StoreKind, seconds: u64) {
    let outcome = run(Options { duration: Duration::from_secs(seconds), store, seed: 7 }).unwrap();
    assert!(outcome.problems.is_empty(), "{:#?}", outcome.problems);
    assert!(outcome.kills >= 3 && outcome.acknowledged > 100, "{outcome:?}");
}

#[test]
fn kill_9_of_either_server_on_shared_files_loses_and_doubles_nothing() {
    holds(StoreKind::File, 8);
}

#[test]
fn kill_9_of_either_server_on_a_faulty_s3_loses_and_doubles_nothing() {
    holds(StoreKind::S3, 8);
}
