//! One message by its id, over HTTP, of a server that has everything.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::client::Client;
use crate::servers::ArbeServer;

/// Messages that are asked for, of as many sessions as it takes.
const MESSAGES: usize = 400;
const OF_A_SESSION: usize = 8;

/// Milliseconds: the first, and then the median and the 99th of a hundred.
pub(super) async fn ask(server: &ArbeServer) -> anyhow::Result<[f64; 3]> {
    let mut client = Client::new(server).await?;
    let mut ids = Vec::new();
    for session in sessions(server)?.into_iter().take(MESSAGES / OF_A_SESSION) {
        let (page, _) =
            client.post("/v1/get", &json!({ "protocol_version": 1, "session_id": session, "response_mode": "complete" })).await?;
        let messages = page["messages"].as_array().context("a page has messages")?;
        let step = (messages.len() / OF_A_SESSION).max(1);
        let some = messages.iter().step_by(step).take(OF_A_SESSION);
        ids.extend(some.filter_map(|message| message["id"].as_str()).map(|id| (session.clone(), id.to_owned())));
    }
    let (mut first, mut times) = (None, Vec::new());
    for (session, id) in &ids {
        let (page, took) =
            client.post("/v1/get", &json!({ "protocol_version": 1, "session_id": session, "message_id": id })).await?;
        ensure!(page["target"]["id"] == id.as_str(), "another message: {page}");
        let ms = took.as_secs_f64() * 1e3;
        first.get_or_insert(ms);
        times.push(ms);
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().context("nothing was asked");
    Ok([first.context("there are no messages")?, at(0.5)?, at(0.99)?])
}

fn sessions(server: &ArbeServer) -> anyhow::Result<Vec<String>> {
    let mut command = std::process::Command::new(crate::directories::arbe_binary()?);
    let listed = command.args(["sessions", "--json", "--data-dir"]).arg(server.data_dir()).output()?;
    ensure!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let lines = std::str::from_utf8(&listed.stdout)?.lines();
    let ids = lines.filter_map(|line| Some(serde_json::from_str::<Value>(line).ok()?["session"].as_str()?.to_owned()));
    Ok(ids.collect())
}
