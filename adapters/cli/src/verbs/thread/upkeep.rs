//! What an operator asks about the threads of a house.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::output::{note, print, print_raw};
use crate::row::{Column, one, rows};
use crate::verbs::Platform;

const DIAGNOSIS: &[Column] = &[
    ("thread", "thread_id"),
    ("status", "status"),
    ("run", "run.run_id"),
    ("since", "@run.since_ms"),
    ("server", "run.server"),
    ("claims", "run.claims"),
    ("launched", "run.launched"),
    ("last sign of life", "@run.seen_ms"),
    ("silent for", "silent"),
    ("asked to stop", "@run.cancel_asked_ms"),
    ("open commands", "open_commands"),
    ("words waiting", "words_waiting"),
    ("answers open", "answers_open"),
    ("sandbox", "machine.sandbox_id"),
    ("recorded as", "machine.recorded"),
    ("provider", "machine.provider"),
    ("machine", "machine.provider_ref"),
    ("machine is", "machine.verdict"),
    ("because", "machine.why"),
    ("process", "machine.process.state"),
    ("exit code", "machine.process.exit_code"),
    ("signal", "machine.process.signal"),
    ("next", "forecast"),
];

pub(super) async fn diagnose(platform: &Platform, id: &str) -> anyhow::Result<()> {
    let answer = platform.get(&["threads", id, "diagnosis"], vec![]).await?;
    if platform.json {
        return print_raw(answer.read()?);
    }
    let mut row: Value = answer.read()?;
    let silent = row["run"]["silent_ms"].as_u64().map(|ms| Duration::from_secs(ms / 1_000));
    row["silent"] = silent.map_or(Value::Null, |time| humantime::format_duration(time).to_string().into());
    print(one(DIAGNOSIS, &row))
}

const PRUNED: &[Column] = &[
    ("WHAT", "what"),
    ("THREAD", "thread_id"),
    ("RUN", "run_id"),
    ("SANDBOX", "sandbox_id"),
    ("STATUS", "status"),
    ("WHY", "why"),
];

pub(super) async fn prune(platform: &Platform) -> anyhow::Result<()> {
    let house = platform.house().await?;
    let answer = platform.change(Method::POST, &["houses", &house, "prune"], json!({})).await?;
    if platform.json {
        return print_raw(answer.read()?);
    }
    let pruned: Value = answer.read()?;
    let told = |what: &'static str| {
        let items = pruned[what].as_array().into_iter().flatten();
        items.map(move |item| {
            let mut item = item.clone();
            item["what"] = what.into();
            item
        })
    };
    let all: Vec<Value> = told("ended").chain(told("taken")).chain(told("left")).collect();
    if all.is_empty() {
        note("there was nothing to do");
        return Ok(());
    }
    print(rows(PRUNED, &all))
}
