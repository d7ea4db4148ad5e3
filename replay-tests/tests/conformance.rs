//! The public Durable Streams suite, whole, against `arbe serve` on every kind of store.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::join_all;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use replay_tests::conformance;
use replay_tests::node::NodeProject;
use replay_tests::s3::{Faults, S3Server};
use replay_tests::servers::{ArbeServer, Azurite};

const TESTS: usize = 338;
const USUAL: Duration = Duration::from_secs(30);
const PATIENT: Duration = Duration::from_secs(120);

fn assert_conforms(node: &NodeProject, mut server: ArbeServer, test_timeout: Duration) -> Result<()> {
    let report = conformance::run(node, server.url(), test_timeout)?;
    let ended = server.stop()?;
    let log = server.log();
    assert_eq!((report.passed, report.total), (TESTS, TESTS), "{report}\n{log}");
    // Not through print!, which is held back when a test passes: the count is worth seeing.
    writeln!(std::io::stderr(), "conformance: {} of {} on {}", report.passed, report.total, server.store())?;
    assert!(ended.success(), "{ended}\n{log}");
    assert!(!log.contains("ERROR"), "{log}");
    Ok(())
}

#[test]
fn the_suite_passes_in_memory() -> Result<()> {
    let Some(node) = NodeProject::install()? else {
        return Ok(());
    };
    let server = ArbeServer::start("memory:", &[], &[])?;
    assert_conforms(&node, server, USUAL)
}

#[test]
fn the_suite_passes_on_files() -> Result<()> {
    let Some(node) = NodeProject::install()? else {
        return Ok(());
    };
    let directory = tempfile::tempdir()?;
    let store = format!("file://{}", directory.path().display());
    let server = ArbeServer::start(&store, &[], &[])?;
    assert_conforms(&node, server, USUAL)
}

#[test]
fn the_suite_passes_on_s3() -> Result<()> {
    let Some(node) = NodeProject::install()? else {
        return Ok(());
    };
    let s3 = S3Server::start(Faults::default())?;
    let server = ArbeServer::start(&s3.store_url("suite"), &s3.env(), &[])?;
    assert_conforms(&node, server, USUAL)
}

#[test]
fn the_suite_passes_on_s3_when_every_put_takes_50_ms_longer() -> Result<()> {
    let Some(node) = NodeProject::install()? else {
        return Ok(());
    };
    let put_latency = Duration::from_millis(50);
    let s3 = S3Server::start(Faults { put_latency, ..Faults::default() })?;
    let server = ArbeServer::start(&s3.store_url("suite"), &s3.env(), &[])?;
    assert_conforms(&node, server, PATIENT)
}

#[test]
fn the_suite_passes_on_azure() -> Result<()> {
    let Some(node) = NodeProject::install()? else {
        return Ok(());
    };
    let azurite = Azurite::start(&node)?;
    let server = ArbeServer::start(&azurite.store_url("suite"), &azurite.env(), &[])?;
    assert_conforms(&node, server, USUAL)
}

#[tokio::test]
async fn azurite_lets_one_of_sixteen_creates_win() -> Result<()> {
    let Some(node) = NodeProject::install()? else {
        return Ok(());
    };
    let azurite = Azurite::start(&node)?;
    let store = azurite.client().build()?;
    for round in 0..10 {
        let key = Path::from(format!("race/{round}"));
        let tries = (0..16).map(|writer: u8| {
            let (store, key, body) = (&store, &key, PutPayload::from(writer.to_string()));
            async move { store.put_opts(key, body, PutMode::Create.into()).await }
        });
        let outcomes = join_all(tries).await;
        let lost = |outcome: &&Result<_, _>| matches!(outcome, Err(Error::AlreadyExists { .. }));
        assert_eq!(outcomes.iter().filter(lost).count(), 15, "{outcomes:?}");
        let winner = outcomes.iter().position(Result::is_ok).context("one wins")?;
        let stored = store.get(&key).await?.bytes().await?;
        assert_eq!(stored, winner.to_string());
    }
    Ok(())
}
