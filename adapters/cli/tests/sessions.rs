//! Datasets of sessions beside a running server and without one: fed, read, rebuilt and verified with the binary as people run it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use postgres_rows::ClusterOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

#[path = "../../../projections/postgres-rows/tests/rows/missing.rs"]
mod missing;

struct Site {
    data: TempDir,
}

impl Site {
    fn new() -> Self {
        let data = tempfile::Builder::new().prefix("sessions-").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(data.path(), PermissionsExt::from_mode(0o755)).unwrap();
        Self { data }
    }

    fn arbe(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arbe"));
        command.args(args).env_clear().env("HOME", "/nonexistent").env("ARBE_DATA_DIR", self.data.path());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.arbe(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        let done = self.run(&[args, &["--json"]].concat());
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn sync(&self, more: &[&str]) -> Value {
        let from = fixtures("pi");
        self.json(&[&["sync", "--client", "pi", "--from", from.to_str().unwrap()], more].concat()).remove(0)
    }
}

fn fixtures(client: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sessions").join(client)
}

/// Versions of all tables.
fn versions(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap).filter(|it| it.file_type().unwrap().is_dir());
    entries
        .map(|entry| match entry.file_name() == "_versions" {
            true => std::fs::read_dir(entry.path()).unwrap().count(),
            false => versions(&entry.path()),
        })
        .sum()
}

#[test]
fn synced_sessions_are_rows_that_can_be_read_and_a_second_sync_writes_no_version() {
    let site = Site::new();
    let messages = site.sync(&[])["clients"]["pi"]["messages"].as_u64().unwrap();
    let status = &site.json(&["status"])[0];
    assert_eq!(status["tables"]["messages"]["rows"], messages);
    assert_eq!(status["clients"]["pi"], 5);
    let before = versions(&site.data.path().join("lance"));
    site.sync(&["--all"]);
    assert_eq!(versions(&site.data.path().join("lance")), before);

    let session = site.json(&["sessions"])[0]["session"].as_str().unwrap().to_owned();
    let (mut told, mut after) = (Vec::new(), Vec::new());
    loop {
        let line: Vec<&str> =
            ["get", &session, "--mode", "verbatim"].into_iter().chain(after.iter().map(String::as_str)).collect();
        let page = site.json(&line).remove(0);
        told.extend(page["messages"].as_array().unwrap().clone());
        if page["messages_remaining"] == 0 {
            break;
        }
        after = vec!["--after".to_owned(), told.last().unwrap()["id"].as_str().unwrap().to_owned()];
    }
    let complete = site.json(&["get", &session, "--mode", "complete"]).remove(0);
    assert_eq!(complete["messages"].as_array().unwrap().len(), told.len());
    let said = site.json(&["get", &session]).remove(0);
    assert!(said["messages"].as_array().unwrap().len() < told.len() && said["messages"][0]["text"].is_string());
    let id = said["messages"][0]["id"].as_str().unwrap();
    let message = site.json(&["get", &session, "--message", id, "--context", "1"]).remove(0);
    assert_eq!((message["target"]["id"].as_str().unwrap(), message["after"].as_array().unwrap().len()), (id, 1));
    assert!(message["target"]["parts"][0]["type"].is_string());
    let alone = site.json(&["get", &session, "--message", id, "--context", "0"]).remove(0);
    assert_eq!((&alone["before"], &alone["after"]), (&json!([]), &json!([])));
    assert_eq!(site.run(&["get", "no such session"]).status.code(), Some(3));
    assert_eq!(site.run(&["get", &session, "--after", "nothing"]).status.code(), Some(2));
}

/// The datasets that serve, of the only house.
fn live_house(site: &Site) -> std::path::PathBuf {
    let live = std::fs::read_to_string(site.data.path().join("lance/live")).unwrap();
    let copy = site.data.path().join("lance").join(live.trim()).join("houses");
    std::fs::read_dir(&copy).unwrap().map(Result::unwrap).find(|it| it.path().is_dir()).unwrap().path()
}

#[test]
fn stages_are_done_alone_or_left_out_and_damage_is_found_and_mended() {
    let site = Site::new();
    site.sync(&["--skip", "update-indexes"]);
    assert_eq!(site.json(&["status"])[0]["tables"]["messages"]["rows"], 0);
    assert_eq!(site.json(&["status"])[0]["storage"]["current"], false);
    let session = site.json(&["sessions"])[0]["session"].as_str().unwrap().to_owned();
    site.json(&["get", &session, "--mode", "complete"]);
    assert!(site.json(&["status"])[0]["tables"]["messages"]["rows"].as_u64().unwrap() > 0, "whoever reads feeds first");
    assert!(site.json(&["status"])[0]["tables"]["messages"]["unindexed"].as_u64().unwrap() > 0);
    site.json(&["sync", "--only", "update-indexes"]);
    assert_eq!(site.json(&["status"])[0]["tables"]["messages"]["unindexed"], 0);
    assert_eq!(site.json(&["verify", "sessions"])[0]["equal"], true);
    let house = live_house(&site);
    for file in std::fs::read_dir(house.join("messages.lance/data")).unwrap() {
        std::fs::write(file.unwrap().path(), "no longer what it was").unwrap();
    }
    let damaged = site.run(&["verify", "sessions"]);
    let said = String::from_utf8(damaged.stderr).unwrap();
    assert_eq!(damaged.status.code(), Some(5), "{said}");
    assert!(said.contains("a dataset is damaged") && said.contains("`arbe rebuild sessions` makes it anew"), "{said}");
    assert_eq!(site.json(&["rebuild", "sessions"])[0]["live"], true);
    std::fs::remove_dir_all(live_house(&site).join("parts.lance")).unwrap();
    let gone = site.run(&["get", &session, "--mode", "verbatim"]);
    let said = String::from_utf8(gone.stderr).unwrap();
    assert_eq!(gone.status.code(), Some(1), "a table that is gone is not an empty one: {said}");
    assert!(said.contains("`arbe rebuild sessions` makes them anew"), "{said}");
    assert_eq!(site.run(&["status"]).status.code(), Some(1));
    assert_eq!(site.run(&["verify", "sessions"]).status.code(), Some(5));
    assert_eq!(site.json(&["rebuild", "sessions"])[0]["live"], true);
    assert_eq!(site.json(&["verify", "sessions"])[0]["equal"], true);
}

struct Server {
    process: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(site: &Site) -> Option<Self> {
        missing::unless_missing(ClusterOptions::default().check())?;
        let mut command = site.arbe(&["serve", "--listen", "127.0.0.1:0", "--log-level", "error"]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut greeting = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = greeting.next().unwrap().unwrap();
        let url = line.split([' ', ',']).find(|word| word.starts_with("http://")).unwrap().to_owned();
        Some(Self { process, url })
    }

    async fn post(&self, site: &Site, path: &str, body: &Value) -> (u16, Value) {
        let token = std::fs::read_to_string(site.data.path().join("owner-token")).unwrap();
        self.post_as(token.trim(), path, body).await
    }

    async fn post_as(&self, token: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = reqwest::Client::new().post(format!("{}{path}", self.url)).bearer_auth(token);
        let response = request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap();
        assert!(response.headers().contains_key("x-pond-request-id"));
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap())
    }
}

#[tokio::test]
async fn a_house_sees_nothing_of_another_and_a_thread_s_token_nothing_at_all() {
    let site = Site::new();
    let Some(server) = Server::start(&site) else { return };
    let said = |args: &[&str]| String::from_utf8(site.run(args).stdout).unwrap().trim().to_owned();
    let first = site.json(&["house", "list"])[0]["house_id"].as_str().unwrap().to_owned();
    let thread = said(&["thread", "create", "standup"]);
    let token = said(&["thread", "token", &thread]);
    let second = said(&["house", "create", "others"]);
    let bot = said(&["agent", "register", "visitor", "--kind", "bot", "--runtime", "pi"]);
    said(&["member", "add", &bot, "--role", "member", "--house", &second]);
    let key = &said(&["agent", "key", "issue", &bot]);

    let owned = |mut body: Value, house: &str| {
        body["namespace"] = json!(house);
        body
    };
    let (status, done) = server.post(&site, "/v1/ingest", &owned(batch("ours"), &first)).await;
    assert_eq!((status, &done["new"]), (200, &json!(3)), "{done}");
    let (position, get) = (&done["position"], |session: &str| json!({ "protocol_version": 1, "session_id": session }));
    let mut mine = owned(get("s1"), &first);
    mine["min_position"] = position.clone();
    assert_eq!(server.post(&site, "/v1/get", &mine).await.1["messages"][0]["text"], "ours");

    // The same answer for what is another's and for what nobody has.
    for wanted in ["s1", &thread, "nothing"] {
        let (status, answer) = server.post_as(key, "/v1/get", &get(wanted)).await;
        assert_eq!((status, answer["error"]["code"].as_str()), (404, Some("not_found")), "{wanted}: {answer}");
    }
    for house in [first.as_str(), "h-nobody"] {
        for (path, body) in [("/v1/get", get("s1")), ("/v1/ingest", batch("forged"))] {
            let (status, answer) = server.post_as(key, path, &owned(body, house)).await;
            assert_eq!((status, answer["error"]["code"].as_str()), (403, Some("namespace_unknown")), "{path} {house}: {answer}");
        }
    }
    let (_, theirs) = server.post_as(key, "/v1/ingest", &batch("theirs")).await;
    let mut get_theirs = get("s1");
    get_theirs["min_position"] = theirs["position"].clone();
    assert_eq!(server.post_as(key, "/v1/get", &get_theirs).await.1["messages"][0]["text"], "theirs");
    assert_eq!(server.post(&site, "/v1/get", &mine).await.1["messages"][0]["text"], "ours");

    let (status, answer) = server.post_as(&token, "/v1/get", &owned(get("s1"), &first)).await;
    assert!((400..500).contains(&status) && !answer.to_string().contains("ours"), "{status} {answer}");
}

fn batch(text: &str) -> Value {
    json!({ "protocol_version": 1, "events": [
        { "kind": "session", "id": "s1", "source_agent": "mine", "project": "/p", "created_at": "2026-01-01T00:00:00Z" },
        { "kind": "message", "session_id": "s1", "id": "m1", "role": "user", "timestamp": "2026-01-01T00:00:01Z" },
        { "kind": "part", "session_id": "s1", "message_id": "m1", "id": "p1", "type": "text", "provenance": "conversational", "text": text },
        { "kind": "message", "session_id": "s1", "id": "m2", "role": "tool", "timestamp": "2026-01-01T00:00:02Z" },
        { "kind": "part", "session_id": "s1", "message_id": "m2", "id": "p1", "type": "text", "provenance": "injected", "text": "no" },
        { "kind": "part", "session_id": "s1", "message_id": "m9", "id": "p1", "type": "text", "provenance": "injected", "text": "no" },
        { "kind": "message", "session_id": "s2", "id": "m1", "role": "user", "timestamp": "2026-01-01T00:00:01Z", "content": [] },
        { "kind": "other" },
    ]})
}

#[tokio::test]
async fn what_is_ingested_over_http_is_read_over_http_and_refused_rows_do_not_hold_up_others() {
    let site = Site::new();
    let Some(server) = Server::start(&site) else { return };
    let (status, done) = server.post(&site, "/v1/ingest", &batch("good morning")).await;
    assert_eq!((status, &done["new"], &done["refused"]), (200, &json!(3), &json!(5)), "{done}");
    let told: Vec<_> = done["results"].as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(told, ["new", "new", "new", "refused", "refused", "refused", "refused", "refused"]);
    let (_, again) = server.post(&site, "/v1/ingest", &batch("good evening")).await;
    assert_eq!((&again["new"], &again["unchanged"]), (&json!(0), &json!(3)), "{again}");

    let position = done["position"].as_u64().unwrap();
    let get = json!({ "protocol_version": 1, "session_id": "s1", "min_position": position });
    let (status, page) = server.post(&site, "/v1/get", &get).await;
    assert_eq!(status, 200, "{page}");
    assert_eq!((&page["messages"][0]["text"], &page["messages_remaining"]), (&json!("good morning"), &json!(0)));
    let cases = [
        (json!({ "protocol_version": 2, "session_id": "s1" }), 400, "version_unsupported"),
        (json!({ "protocol_version": 1, "session_id": "s1", "namespace": "not-mine" }), 403, "namespace_unknown"),
        (json!({ "protocol_version": 1, "session_id": "s9" }), 404, "not_found"),
        (json!({ "protocol_version": 1, "session_id": "s1", "min_position": position + 9_999 }), 400, "validation_failed"),
        (json!({ "protocol_version": 1, "session": "s1" }), 400, "validation_failed"),
        (json!([]), 400, "validation_failed"),
    ];
    for (body, status, code) in cases {
        let (got, answer) = server.post(&site, "/v1/get", &body).await;
        assert_eq!((got, answer["error"]["code"].as_str()), (status, Some(code)), "{body}");
    }
    let nobody = reqwest::Client::new().post(format!("{}/v1/get", server.url)).body("{}").send().await.unwrap();
    assert_eq!(nobody.status().as_u16(), 401);
    assert_eq!(nobody.json::<Value>().await.unwrap()["error"]["details"], json!({}));
    let mut differing = batch("x");
    differing["events"][0]["project"] = json!("/other");
    let (_, refused) = server.post(&site, "/v1/ingest", &differing).await;
    assert_eq!(refused["results"][0]["status"], "refused", "the project of a session does not change");

    // Nobody speaks in a thread but through the API.
    let thread = String::from_utf8(site.run(&["thread", "create", "standup"]).stdout).unwrap().trim().to_owned();
    let forged = json!({ "protocol_version": 1, "events": [
        { "kind": "session", "id": thread, "source_agent": "mine", "project": "/p", "created_at": "2026-01-01T00:00:00Z" },
        { "kind": "message", "session_id": thread, "id": "m1", "role": "user", "timestamp": "2026-01-01T00:00:01Z" },
        { "kind": "session", "id": "s3", "source_agent": "arbe", "project": "/p", "created_at": "2026-01-01T00:00:00Z" },
        { "kind": "session", "id": "s4", "source_agent": "mine", "project": "x".repeat(5_000), "created_at": "2026-01-01T00:00:00Z" },
    ]});
    let (_, refused) = server.post(&site, "/v1/ingest", &forged).await;
    assert_eq!((&refused["new"], &refused["refused"]), (&json!(0), &json!(4)), "{refused}");

    let session = |id: &str, parent: &str| {
        json!({ "kind": "session", "id": id, "parent_session_id": parent, "source_agent": "mine", "project": "/p",
            "created_at": "2026-01-01T00:00:00Z" })
    };
    let circle = json!({ "protocol_version": 1, "events": [
        "no object", session("c1", "c2"), session("c2", "c3"), session("c3", "c1"),
        { "kind": "message", "session_id": "c3", "id": "m1", "role": "user", "timestamp": "2026-01-01T00:00:01Z" },
    ]});
    let (_, refused) = server.post(&site, "/v1/ingest", &circle).await;
    let told: Vec<_> = refused["results"].as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(told, ["refused", "new", "new", "refused", "refused"], "{refused}");
    assert_eq!(refused["results"][3]["message"], "the parents of the session lead back to it");

    let told_late = json!({ "protocol_version": 1, "events": [
        { "kind": "message", "session_id": "s1", "id": "m1", "role": "user", "timestamp": "2026-01-01T00:00:01Z" },
        { "kind": "part", "session_id": "s1", "message_id": "m1", "id": "late", "type": "text", "provenance": "conversational",
            "text": "one more thing", "options": {} },
    ]});
    let (_, refused) = server.post(&site, "/v1/ingest", &told_late).await;
    assert_eq!(refused["results"][0]["status"], "unchanged", "{refused}");
    assert_eq!(refused["results"][1]["status"], "refused", "{refused}");

    // A message is there whole or not at all: what cannot be read may be a part of it.
    let part = |id: &str| {
        json!({ "kind": "part", "session_id": "g1", "message_id": "m1", "id": id, "type": "text", "provenance": "conversational",
            "text": id })
    };
    let mut torn = json!({ "protocol_version": 1, "events": [
        { "kind": "session", "id": "g1", "source_agent": "mine", "project": "/p", "created_at": "2026-01-01T00:00:00Z" },
        { "kind": "message", "session_id": "g1", "id": "m1", "role": "user", "timestamp": "2026-01-01T00:00:01Z" },
        part("p0"), "garbage", part("p2"),
    ]});
    let (_, refused) = server.post(&site, "/v1/ingest", &torn).await;
    assert_eq!((&refused["new"], &refused["refused"]), (&json!(1), &json!(4)), "{refused}");
    torn["events"][3] = part("p1");
    let (_, mended) = server.post(&site, "/v1/ingest", &torn).await;
    assert_eq!((&mended["new"], &mended["unchanged"]), (&json!(4), &json!(1)), "{mended}");

    // A sync beside the server waits until the server has fed the datasets.
    site.sync(&[]);
    let projections = site.json(&["projections"]);
    let names: Vec<_> = projections.iter().flat_map(|row| row["name"].as_str()).collect();
    assert!(names.contains(&"rows") && names.contains(&"sessions"), "{projections:?}");
    assert_eq!(site.json(&["verify", "sessions"])[0]["equal"], true);
}
