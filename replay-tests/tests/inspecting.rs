//! The official inspector of MCP servers looks at `arbe mcp` and at `/mcp` of a running server, and both show it the same.

use anyhow::{Context, Result, ensure};
use replay_tests::agents::Ended;
use replay_tests::inspector::Inspector;
use replay_tests::servers::{ArbeServer, arbe_binary, sync, without_postgres};
use replay_tests::soak::http::request;
use serde_json::{Value, json};

/// Of a session of Codex that lies in this repository.
const SESSION: &str = "0199e4a5-5b78-78f2-b041-6b876f71fdab";
const ASKED: &str = "Why does add(2, 3) print -1?";
const READ: &str = "cat src/add.py";
const ANSWERED: &str = "It subtracts; I turned the sign around.";

/// As the inspector counts its failures.
const NOT_SIGNED_IN: i32 = 3;
const TOOL_FAILED: i32 = 5;

#[test]
fn over_stdio_the_inspector_is_shown_everything() -> Result<()> {
    let Some(inspector) = Inspector::install()? else { return Ok(()) };
    let data = tempfile::tempdir()?;
    let synced = sync(data.path(), "codex")?;
    let server = json!({ "command": arbe_binary()?, "args": ["--data-dir", data.path(), "mcp"] });
    Door { inspector: &inspector, server }.shows_everything(&synced)
}

#[test]
fn over_http_the_inspector_is_shown_everything_and_nothing_without_a_token() -> Result<()> {
    let Some(inspector) = Inspector::install()? else { return Ok(()) };
    if without_postgres() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let synced = sync(&directory.path().join("data"), "codex")?;
    let server = ArbeServer::platform_in(directory, &["--sandbox-provider", "none"])?;
    let url = format!("{}/mcp", server.url());
    let door = |headers: Value| {
        let server = json!({ "type": "streamable-http", "url": url, "headers": headers });
        Door { inspector: &inspector, server }
    };
    door(json!({ "Authorization": format!("Bearer {}", server.data("owner-token")?) })).shows_everything(&synced)?;
    door(json!({})).is_closed()?;
    door(json!({ "Authorization": "Bearer of-nobody" })).is_closed()?;
    assert_eq!(request(server.url(), "POST", "/mcp", &[], b"{}")?.status, 401);
    let log = server.log();
    assert!(!log.contains("ERROR"), "{log}");
    Ok(())
}

struct Door<'a> {
    inspector: &'a Inspector,
    server: Value,
}

impl Door<'_> {
    fn shows_everything(&self, synced: &Value) -> Result<()> {
        self.lists_two_tools()?;
        self.finds_and_reads()?;
        self.tells_what_is_not_there()?;
        self.describes_itself(synced)
    }

    fn ask(&self, question: &[&str]) -> Result<Value> {
        let ended = self.inspector.ask(&self.server, question)?;
        ensure!(ended.status.success(), "{question:?}: {ended:?}");
        result(&ended)
    }

    fn lists_two_tools(&self) -> Result<()> {
        // Strictly: a schema that some clients do not understand is a failure.
        let listed = self.ask(&["--method", "tools/list", "--strict"])?;
        let tools = listed["tools"].as_array().context("tools")?;
        let names: Vec<_> = tools.iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["pond_search", "pond_get"]);
        for tool in tools {
            let told = tool["description"].as_str().is_some_and(|text| text.contains("past session"));
            assert!(told && tool["annotations"]["readOnlyHint"] == true, "{tool}");
            assert_eq!(
                (&tool["inputSchema"]["type"], &tool["inputSchema"]["additionalProperties"]),
                (&json!("object"), &json!(false))
            );
        }
        assert_eq!(tools[0]["inputSchema"]["required"], json!(["query"]));
        Ok(())
    }

    /// As a model goes on from what it is told.
    fn finds_and_reads(&self) -> Result<()> {
        let mut search = vec!["--method", "tools/call", "--tool-name", "pond_search", "--tool-arg"];
        search.extend(["query=turned the sign around", "source_agent=codex", "role=assistant", "since=2025-10-14", "limit=1"]);
        let found = text(&self.ask(&search)?)?;
        assert!(found.starts_with("1 session, best first") && found.contains(ANSWERED), "{found}");
        let (session, message) = (word(&found, "session=")?, word(&found, "message=")?);
        assert_eq!((session, word(&found, "client=")?), (SESSION, "codex"), "{found}");

        let whole = self.get(&json!({ "session_id": session }))?;
        let (asked, answered) = (whole.find(ASKED), whole.find(ANSWERED));
        assert!(asked.is_some() && asked < answered && !whole.contains(READ), "{whole}");
        assert!(whole.ends_with("[the session ends here]\n"), "{whole}");

        let one = self.get(&json!({ "session_id": session, "message_id": message, "context_depth": 1 }))?;
        let (before, from) = one.split_once("-- asked for:\n").with_context(|| one.clone())?;
        assert!(from.starts_with("assistant ") && from.contains(ANSWERED) && before.contains("message="), "{one}");

        let verbatim = self.get(&json!({ "session_id": session, "response_mode": "verbatim" }))?;
        assert!(verbatim.contains(READ) && verbatim.contains("return a - b"), "{verbatim}");
        Ok(())
    }

    fn get(&self, arguments: &Value) -> Result<String> {
        text(&self.ask(&["--method", "tools/call", "--tool-name", "pond_get", "--tool-args-json", &arguments.to_string()])?)
    }

    fn tells_what_is_not_there(&self) -> Result<()> {
        let question = ["--method", "tools/call", "--tool-name", "pond_get", "--tool-arg", "session_id=of-nobody"];
        let ended = self.inspector.ask(&self.server, &question)?;
        assert_eq!(ended.status.code(), Some(TOOL_FAILED), "{ended:?}");
        let told = result(&ended)?;
        assert!(told["isError"] == true && text(&told)?.starts_with("not_found: "), "{told}");
        Ok(())
    }

    fn describes_itself(&self, synced: &Value) -> Result<()> {
        let listed = self.ask(&["--method", "resources/list"])?;
        let resources = listed["resources"].as_array().context("resources")?;
        let known: Vec<_> = resources.iter().map(|it| (&it["uri"], &it["mimeType"])).collect();
        let (markdown, json) = (json!("text/markdown"), json!("application/json"));
        let (schema, stats) = (json!("schema://pond"), json!("stats://pond"));
        assert_eq!(known, [(&schema, &markdown), (&stats, &json)]);

        let schema = self.read("schema://pond", "text/markdown")?;
        let (words, types) = schema.split_once("```json\n").context("a JSON Schema")?;
        assert!(words.starts_with("# What can be searched\n"), "{words}");
        let types: Value = serde_json::from_str(types.trim_end().trim_end_matches("```"))?;
        assert!(types["properties"]["SearchRequest"].is_object(), "{types}");

        let stats: Value = serde_json::from_str(&self.read("stats://pond", "application/json")?)?;
        for counted in ["sessions", "messages", "parts"] {
            assert_eq!(stats[counted], synced[counted], "{counted}: {stats} {synced}");
        }
        assert_eq!(stats["clients"], json!({ "codex": synced["sessions"] }));
        assert!(stats["searchable_messages"].as_u64() > Some(0), "{stats}");
        Ok(())
    }

    fn read(&self, uri: &str, kind: &str) -> Result<String> {
        let read = self.ask(&["--method", "resources/read", "--uri", uri])?;
        let contents = &read["contents"][0];
        assert_eq!((&contents["uri"], &contents["mimeType"]), (&json!(uri), &json!(kind)), "{read}");
        Ok(contents["text"].as_str().context("a text")?.to_owned())
    }

    fn is_closed(&self) -> Result<()> {
        let ended = self.inspector.ask(&self.server, &["--method", "tools/list"])?;
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(NOT_SIGNED_IN), ""), "{ended:?}");
        let told: Value = serde_json::from_str(ended.stderr.lines().last().unwrap_or_default())?;
        assert_eq!(told["error"]["code"], "auth_required", "{told}");
        Ok(())
    }
}

fn result(ended: &Ended) -> Result<Value> {
    let told: Value = serde_json::from_str(&ended.stdout).with_context(|| format!("{ended:?}"))?;
    Ok(told["result"].clone())
}

/// What a tool says.
fn text(result: &Value) -> Result<String> {
    Ok(result["content"][0]["text"].as_str().with_context(|| format!("{result} has a text"))?.to_owned())
}

/// What stands behind a name.
fn word<'a>(text: &'a str, name: &str) -> Result<&'a str> {
    text.split_whitespace().find_map(|word| word.strip_prefix(name)).with_context(|| format!("{name} in {text}"))
}
