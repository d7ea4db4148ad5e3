//! Runs the public Durable Streams conformance suite against a server.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::node::NodeProject;

#[derive(Debug)]
pub struct Report {
    pub total: usize,
    pub passed: usize,
    /// Name and first line of the reason.
    pub failed: Vec<(String, String)>,
}

pub fn run(node: &NodeProject, url: &str, test_timeout: Duration) -> Result<Report> {
    // Several tests measure real time: two suites at once would disturb each other.
    let _alone = node.lock("run.lock")?;
    let directory = tempfile::tempdir()?;
    let report = directory.path().join("report.json");
    let output = node
        .script("node_modules/vitest/vitest.mjs")
        .arg("run")
        .env("CONFORMANCE_URL", url)
        .env("CONFORMANCE_TEST_TIMEOUT_MS", test_timeout.as_millis().to_string())
        .env("CONFORMANCE_REPORT", &report)
        .output()
        .context("run vitest with node")?;
    let json = std::fs::read(&report).with_context(|| {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        format!("vitest left no report ({}):\n{out}\n{err}", output.status)
    })?;
    Ok(serde_json::from_slice::<Vitest>(&json)?.into())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} passed", self.passed, self.total)?;
        for (name, reason) in &self.failed {
            write!(f, "\n  {name}\n    {reason}")?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vitest {
    num_total_tests: usize,
    num_passed_tests: usize,
    test_results: Vec<File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    assertion_results: Vec<Assertion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assertion {
    full_name: String,
    status: String,
    #[serde(default)]
    failure_messages: Vec<String>,
}

impl From<Vitest> for Report {
    fn from(vitest: Vitest) -> Self {
        let assertions = vitest.test_results.into_iter().flat_map(|file| file.assertion_results);
        let failed = assertions.filter(|assertion| assertion.status != "passed").map(|assertion| {
            let reason = assertion.failure_messages.first().and_then(|message| message.lines().next());
            (assertion.full_name, reason.unwrap_or(&assertion.status).to_owned())
        });
        Self { total: vitest.num_total_tests, passed: vitest.num_passed_tests, failed: failed.collect() }
    }
}
