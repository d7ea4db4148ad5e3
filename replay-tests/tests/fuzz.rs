//! Whatever is sent to the API, the answer is one that its own OpenAPI document announces.

#![expect(clippy::disallowed_methods, reason = "tests are told by their surroundings what to do")]

use std::collections::BTreeMap;
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
const CONFIGURATION: &str = include_str!("../conformance/schemathesis.toml");

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

/// What stands for an id in `conformance/schemathesis.toml`, and the id.
type Names = BTreeMap<&'static str, String>;

impl Api<'_> {
    async fn make(&self, names: &mut Names, name: &'static str, path: &str, body: Value, field: &str) -> Result<String> {
        let made = self.post(path, body).await?;
        let id = made[field].as_str().with_context(|| format!("{path} answers with {field}"))?.to_owned();
        names.insert(name, id.clone());
        Ok(id)
    }
}

/// One of everything, so that made-up requests also meet what is there.
async fn furnish(api: &Api<'_>) -> Result<Names> {
    let mut names = Names::new();
    let house = api.make(&mut names, "seed-house", "/api/houses", json!({ "name": "seeds" }), "house_id").await?;
    for name in ["seed-spare", "seed-environment"] {
        let environment = json!({ "house_id": house, "name": name, "config": {} });
        api.make(&mut names, name, "/api/environments", environment, "environment_id").await?;
    }
    let environment = names["seed-environment"].clone();
    api.send(Method::PATCH, &format!("/api/houses/{house}"), json!({ "default_environment_id": environment })).await?;
    api.send(Method::PUT, &format!("/api/environments/{environment}/secrets/TOKEN"), json!({ "required": true })).await?;
    api.make(&mut names, "seed-human", "/api/agents", json!({ "kind": "human" }), "agent_id").await?;
    let bot = api.make(&mut names, "seed-bot", "/api/agents", json!({ "kind": "bot", "runtime": "pi" }), "agent_id").await?;
    for name in ["seed-human", "seed-bot"] {
        let member = json!({ "agent_id": names[name], "role": "member" });
        api.post(&format!("/api/houses/{house}/members"), member).await?;
    }
    for name in ["seed-requested", "seed-live", "seed-dead"] {
        let sandbox = json!({ "house_id": house, "provider": "local" });
        let id = api.make(&mut names, name, "/api/sandboxes", sandbox, "sandbox_id").await?;
        if name != "seed-requested" {
            api.post(&format!("/api/sandboxes/{id}/live"), json!({ "provider_ref": name })).await?;
        }
    }
    api.post(&format!("/api/sandboxes/{}/dead", names["seed-dead"]), Value::Null).await?;
    for (name, driver) in [("seed-chat", None), ("seed-driven", Some(&bot)), ("seed-idle", Some(&bot))] {
        let thread = json!({ "house_id": house, "agent_id": driver });
        let id = api.make(&mut names, name, "/api/threads", thread, "thread_id").await?;
        api.post(&format!("/api/threads/{id}/entries"), json!([{ "text": "one" }, { "text": "two" }])).await?;
    }
    let key = api.post(&format!("/api/agents/{bot}/keys"), Value::Null).await?;
    let token = key["key"].as_str().context("a key")?.to_owned();
    let driver = Api { client: api.client.clone(), url: api.url, token };
    driver.post(&format!("/api/threads/{}/runs", names["seed-driven"]), Value::Null).await?;
    Ok(names)
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
    let Some(mut schemathesis) = python::schemathesis()? else {
        return Ok(());
    };
    // Made-up recipes are recorded and not carried out.
    let mut server = ArbeServer::platform(&["--sandbox-provider", "none"])?;
    let url = server.url().to_owned();
    let mut api = Api { client: Client::new(), url: &url, token: server.data("owner-token")? };
    let names = furnish(&api).await?;
    let configured =
        names.iter().fold(CONFIGURATION.to_owned(), |text, (name, id)| text.replace(&format!("{name:?}"), &format!("{id:?}")));
    let configuration = tempfile::Builder::new().suffix(".toml").tempfile()?;
    std::fs::write(configuration.path(), configured)?;
    schemathesis.arg("--config-file").arg(configuration.path());
    let me = api.send(Method::GET, "/api/me", Value::Null).await?;
    let me: AgentId = serde_json::from_value(me["agent_id"].clone())?;
    api.token = lasting_token(&server, me)?;
    let found = fuzz(schemathesis, &server, &api.token);
    // Over a new connection: the server has closed the one that was idle.
    api.client = Client::new();
    let me = api.send(Method::GET, "/api/me", Value::Null).await.context("the run was locked out");
    let ended = server.stop()?;
    let log = server.log();
    found.and(me).with_context(|| format!("the server said:\n{log}"))?;
    assert!(ended.success(), "{ended}\n{log}");
    assert!(!log.contains("ERROR"), "{log}");
    Ok(())
}
