//! The official clients against `arbe serve` on files, as an application would use them.

use std::process::Command;

use anyhow::Result;
use replay_tests::node::NodeProject;
use replay_tests::python;
use replay_tests::servers::ArbeServer;

fn assert_content(mut client: Command) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let store = format!("file://{}", directory.path().display());
    let mut server = ArbeServer::start(&store, &[], &[])?;
    let output = client.arg(server.url()).output()?;
    let ended = server.stop()?;
    let log = server.log();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}\n{log}");
    assert!(ended.success(), "{ended}\n{log}");
    assert!(!log.contains("ERROR"), "{log}");
    Ok(())
}

#[test]
fn the_typescript_client_writes_reads_tails_and_closes() -> Result<()> {
    let Some(node) = NodeProject::install()? else {
        return Ok(());
    };
    assert_content(node.script("client.mjs"))
}

#[test]
fn the_python_client_writes_reads_and_tails() -> Result<()> {
    let Some(client) = python::client()? else {
        return Ok(());
    };
    assert_content(client)
}
