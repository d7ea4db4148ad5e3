//! Whatever is sent to the API, the answer is one that its own OpenAPI document announces.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use events::AgentId;
use replay_tests::python;
use replay_tests::servers::ArbeServer;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// `make fuzz` takes longer.
const SECONDS: &str = "60";
/// The first of them in `conformance/schemathesis.toml`, which knows all ids from here.
const HUMAN: &str = "5eed0000-0000-4000-8000-000000000001";
const BOT: &str = "5eed0000-0000-4000-8000-000000000002";

struct Api<'a> {
    client: Client,
    url: &'a str,
    token: String,
}

impl Api<'_> {
    async fn send(&self, method: Method, path: &str, body: Value) -> Result<Value> {
        let mut request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        if !body.is_null() {
            request = request.json(&body);
        }
        let reply = request.send().await?;
        let (status, text) = (reply.status(), reply.text().await?);
        ensure!(status.is_success(), "{path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value> {
        self.send(Method::POST, path, body).await
    }
}

/// One of everything, so that made-up requests also meet what is there.
async fn furnish(api: &Api<'_>) -> Result<()> {
    let house = "seed-house";
    api.post("/api/houses", json!({ "house_id": house, "name": "seeds" })).await?;
    for id in ["seed-environment", "seed-spare"] {
        api.post("/api/environments", json!({ "environment_id": id, "house_id": house, "name": id, "config": {} })).await?;
    }
    api.send(Method::PATCH, "/api/houses/seed-house", json!({ "default_environment_id": "seed-environment" })).await?;
    api.send(Method::PUT, "/api/environments/seed-environment/secrets/TOKEN", json!({ "required": true })).await?;
    api.post("/api/agents", json!({ "agent_id": HUMAN, "kind": "human" })).await?;
    api.post("/api/agents", json!({ "agent_id": BOT, "kind": "bot", "runtime": "pi" })).await?;
    for id in [HUMAN, BOT] {
        api.post("/api/houses/seed-house/members", json!({ "agent_id": id, "role": "member" })).await?;
    }
    for id in ["seed-requested", "seed-live", "seed-dead"] {
        api.post("/api/sandboxes", json!({ "sandbox_id": id, "house_id": house, "provider": "local" })).await?;
    }
    for id in ["seed-live", "seed-dead"] {
        api.post(&format!("/api/sandboxes/{id}/live"), json!({ "provider_ref": id })).await?;
    }
    api.post("/api/sandboxes/seed-dead/dead", Value::Null).await?;
    for (id, driver) in [("seed-chat", None), ("seed-driven", Some(BOT)), ("seed-idle", Some(BOT))] {
        api.post("/api/threads", json!({ "thread_id": id, "house_id": house, "agent_id": driver })).await?;
        api.post(&format!("/api/threads/{id}/entries"), json!([{ "text": "one" }, { "text": "two" }])).await?;
    }
    let key = api.post(&format!("/api/agents/{BOT}/keys"), Value::Null).await?;
    let token = key["key"].as_str().context("a key")?.to_owned();
    let bot = Api { client: api.client.clone(), url: api.url, token };
    bot.post("/api/threads/seed-driven/runs", Value::Null).await?;
    Ok(())
}

/// An API key would be revoked by one of the requests, and the rest of them prove nothing.
fn lasting_token(server: &ArbeServer, agent: AgentId) -> Result<String> {
    let key = Sha256::digest(server.data("token-key")?).into();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    http_api::auth::agent_token(&key, agent, u64::try_from(now)?, 24 * 3_600_000).context("the token is signed")
}

fn fuzz(mut schemathesis: Command, server: &ArbeServer, token: &str) -> Result<()> {
    let document = format!("{}/openapi.json", server.url());
    schemathesis.args(["run", &document, "--no-color", "--max-time"]);
    match std::env::var("ARBE_FUZZ_SECONDS") {
        Ok(seconds) => schemathesis.arg(seconds),
        Err(_) => schemathesis.args([SECONDS, "--seed", "1"]),
    };
    let output = schemathesis.env("ARBE_TOKEN", token).current_dir(std::env::temp_dir()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let summary = said.lines().skip_while(|line| !line.contains(" SUMMARY "));
    summary.for_each(|line| eprintln!("{line}"));
    Ok(())
}

#[tokio::test]
async fn schemathesis_finds_no_answer_that_the_document_does_not_announce() -> Result<()> {
    let Some(schemathesis) = python::schemathesis()? else {
        return Ok(());
    };
    let mut server = ArbeServer::platform(&[])?;
    let url = server.url().to_owned();
    let mut api = Api { client: Client::new(), url: &url, token: server.data("owner-token")? };
    furnish(&api).await?;
    let me = api.send(Method::GET, "/api/me", Value::Null).await?;
    let me: AgentId = serde_json::from_value(me["agent_id"].clone())?;
    api.token = lasting_token(&server, me)?;
    let found = fuzz(schemathesis, &server, &api.token);
    let ended = server.stop()?;
    let log = server.log();
    found.with_context(|| format!("the server said:\n{log}"))?;
    assert!(ended.success(), "{ended}\n{log}");
    assert!(!log.contains("ERROR"), "{log}");
    Ok(())
}
