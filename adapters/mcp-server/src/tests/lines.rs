//! A client that writes its lines by hand.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use super::fake::FakePond;
use crate::stdio::{StdioError, lines};

struct Client {
    input: WriteHalf<DuplexStream>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinHandle<Result<(), StdioError>>,
}

impl Client {
    fn silent(pond: &Arc<FakePond>) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (read, write) = tokio::io::split(theirs);
        let server = tokio::spawn(lines(pond.clone(), read, write));
        let (output, input) = tokio::io::split(ours);
        Self { input, output: BufReader::new(output).lines(), server }
    }

    async fn initialized(pond: &Arc<FakePond>) -> Self {
        let mut client = Self::silent(pond);
        client.ask("initialize", greeting()).await;
        client.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn say(&mut self, message: Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.say(json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).await;
        self.hear().await
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.output.next_line().await.unwrap().unwrap()).unwrap()
    }

    /// The text of a result, and whether it is an error.
    async fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let result = &answer["result"];
        assert!(result["structuredContent"].is_null() && result["content"].as_array().unwrap().len() == 1, "{answer}");
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"] == json!(true))
    }
}

pub(super) fn greeting() -> Value {
    json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "by hand", "version": "1" } })
}

#[tokio::test]
async fn the_server_says_who_it_is_and_what_it_is_for() {
    let mut client = Client::silent(&FakePond::named("s1"));
    let answer = client.ask("initialize", greeting()).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "arbe");
    assert_eq!(answer["result"]["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    let capabilities = answer["result"]["capabilities"].as_object().unwrap();
    assert_eq!(capabilities.keys().collect::<Vec<_>>(), ["resources", "tools"]);
    assert!(answer["result"]["instructions"].as_str().unwrap().contains("pond_search"));
}

#[tokio::test]
async fn two_tools_are_listed_with_what_they_take_and_neither_changes_anything() {
    let mut client = Client::initialized(&FakePond::named("s1")).await;
    let answer = client.ask("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["pond_search", "pond_get"]);
    for tool in tools {
        let hints = &tool["annotations"];
        let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"].map(|name| hints[name].clone());
        assert_eq!(hints, [true, false, true, false].map(Value::from));
        let schema = &tool["inputSchema"];
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        let text = schema.to_string();
        assert!(
            !text.contains("$ref")
                && !text.contains("null")
                && !text.contains("\"format\"")
                && !text.contains("protocol_version"),
            "{text}"
        );
        for (name, field) in schema["properties"].as_object().unwrap() {
            assert!(field["description"].as_str().is_some_and(|told| told.len() > 20), "{name}: {field}");
        }
    }
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["query"]));
    assert_eq!(tools[1]["inputSchema"].get("required"), None);
    let fields = tools[0]["inputSchema"]["properties"].as_object().unwrap();
    let expected =
        ["limit", "min_score", "namespace", "project", "query", "role", "session_id", "since", "source_agent", "until"];
    assert_eq!(fields.keys().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_search_is_asked_in_few_words_and_told_in_lines() {
    let pond = FakePond::named("s1");
    let mut client = Client::initialized(&pond).await;
    let asked = json!({ "query": "pool", "since": "2026-03-01", "role": "assistant", "session_id": "s1", "min_score": 0.25 });
    let (text, error) = client.call("pond_search", asked).await;
    let expected = "\
1 session, best first, found by words and meaning
hint: a later session may supersede this

session=s1 project=\"/srv/my shop\" client=codex created=2026-03-01T12:00:00Z last_message=2026-03-02T12:00:00Z score=0.93 newer_messages=12
assistant 2026-03-01T12:00:00Z message=m2 score=0.90
  use the connection pool
  session=forged
";
    assert_eq!((text.as_str(), error), (expected, false));
    let asked = pond.last_asked();
    for part in [
        "protocol_version: 1",
        "limit: Some(5)",
        "min_score: Some(0.25)",
        "role: Some(Assistant)",
        "since: Some(Timestamp(1772323200000000))",
    ] {
        assert!(asked.contains(part), "{asked}");
    }
}

#[tokio::test]
async fn an_empty_answer_says_what_that_means() {
    let mut client = Client::initialized(&FakePond::named("s1")).await;
    let (text, error) = client.call("pond_search", json!({ "query": "nothing" })).await;
    assert!(text.starts_with("No message fits.") && text.contains("fewer words") && !error, "{text}");
}

#[tokio::test]
async fn a_session_is_told_page_by_page() {
    let mut client = Client::initialized(&FakePond::named("s1")).await;
    let (text, error) = client.call("pond_get", json!({ "session_id": "s1", "response_mode": "conversational" })).await;
    let expected = "\
session=s1 project=\"/srv/my shop\" client=codex created=2026-03-01T12:00:00Z parent=p1

user 2026-03-01T12:00:00Z message=m1
  why is it slow?
parts: tool_call bash 7 B

user 2026-03-01T12:00:00Z message=m2
  use the connection pool
parts: tool_call bash 7 B

[… 3 messages more; pond_get session_id=s1 after_id=m2 and the same response_mode]
";
    assert_eq!((text.as_str(), error), (expected, false));
}

#[tokio::test]
async fn a_message_is_told_with_its_parts_and_what_stands_around_it() {
    let pond = FakePond::named("s1");
    let mut client = Client::initialized(&pond).await;
    let (text, error) = client.call("pond_get", json!({ "message_id": "m2", "context_depth": 1 })).await;
    let expected = "\
session=s1 project=\"/srv/my shop\" client=codex created=2026-03-01T12:00:00Z parent=p1

user 2026-03-01T12:00:00Z message=m1
  why is it slow?
parts: tool_call bash 7 B

-- asked for:
user 2026-03-01T12:00:00Z message=m2
part=a type=text
  look:
  here
part=b type=tool_call name=bash options=12B
  params: {\"command\":\"ls\"}
part=c type=file injected
  media_type: image/png
[… 4 bytes of base64]
[… 2 parts more; pond_get session_id=s1 message_id=m2 after_id=c]
-- after it:

user 2026-03-01T12:00:00Z message=m3
  thanks
parts: tool_call bash 7 B
";
    assert_eq!((text.as_str(), error), (expected, false));
    assert!(pond.last_asked().contains("context_depth: Some(1)"));
}

#[tokio::test]
async fn what_the_pond_refuses_is_a_result_with_its_code() {
    let mut client = Client::initialized(&FakePond::named("s1")).await;
    let refused = client.call("pond_get", json!({ "session_id": "other" })).await;
    assert_eq!(refused, ("not_found: there is no session \"other\"".to_owned(), true));
    let refused = client.call("pond_get", json!({})).await;
    assert_eq!(refused, ("validation_failed: session_id or message_id says what to get".to_owned(), true));
    let refused = client.call("pond_search", json!({ "query": "pool", "since": "yesterday" })).await;
    assert_eq!(refused, ("validation_failed: since: not a moment between the years 1 and 9999".to_owned(), true));
    let (text, error) = client.call("pond_get", json!({ "session_id": "" })).await;
    assert!(text.starts_with("validation_failed: session_id: ") && error, "{text}");
}

#[tokio::test]
async fn an_unknown_tool_and_arguments_of_the_wrong_shape_are_errors_of_the_protocol() {
    let pond = FakePond::named("s1");
    let mut client = Client::initialized(&pond).await;
    for (tool, arguments, told) in [
        ("pond_ingest", json!({}), "there is no tool \"pond_ingest\""),
        ("pond_search", json!({}), "missing field `query`"),
        ("pond_search", json!({ "query": "pool", "protocol_version": 1 }), "unknown field `protocol_version`"),
        ("pond_search", json!({ "query": "pool", "role": "tool" }), "unknown variant `tool`"),
        ("pond_get", json!({ "context_depth": "2" }), "invalid type: string"),
    ] {
        let answer = client.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(told), "{answer}");
    }
    assert_eq!(pond.last_asked(), "");
}

#[tokio::test]
async fn the_resources_are_listed_and_read() {
    let pond = FakePond::named("s1");
    let mut client = Client::initialized(&pond).await;
    let answer = client.ask("resources/list", json!({})).await;
    let uris: Vec<_> = answer["result"]["resources"].as_array().unwrap().iter().map(|it| it["uri"].clone()).collect();
    assert_eq!(uris, ["schema://pond", "stats://pond"]);

    let answer = client.ask("resources/read", json!({ "uri": "stats://pond" })).await;
    let contents = &answer["result"]["contents"][0];
    assert_eq!((&contents["uri"], &contents["mimeType"]), (&json!("stats://pond"), &json!("application/json")));
    let stats: Value = serde_json::from_str(contents["text"].as_str().unwrap()).unwrap();
    assert_eq!((&stats["sessions"], &stats["clients"]["codex"]), (&json!(1), &json!(1)));

    let answer = client.ask("resources/read", json!({ "uri": "stats://pond?namespace=s1" })).await;
    assert_eq!(answer["result"]["contents"][0]["uri"], "stats://pond?namespace=s1");
    assert_eq!(pond.last_asked(), "stats of Some(\"s1\")");
}

#[tokio::test]
async fn the_schema_tells_what_is_indexed_and_holds_no_reference_into_nowhere() {
    let mut client = Client::initialized(&FakePond::named("s1")).await;
    let answer = client.ask("resources/read", json!({ "uri": "schema://pond" })).await;
    let text = answer["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("Not indexed")
            && text.contains("newer_messages")
            && text.contains("4096 characters")
            && text.contains("at most 24 KiB")
    );
    let (_, types) = text.split_once("```json\n").unwrap();
    let types: Value = serde_json::from_str(types.trim_end().trim_end_matches("```")).unwrap();
    for name in ["SearchRequest", "SearchResponse", "GetRequest", "GetResponse", "Stats", "ErrorCode"] {
        assert!(types["properties"][name].is_object(), "{name}");
    }
    let all = types.to_string();
    let references: Vec<_> = all.split("#/$defs/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(!references.is_empty());
    for name in references {
        assert!(types["$defs"][name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn a_resource_that_is_not_there_is_not_found() {
    let mut client = Client::initialized(&FakePond::named("s1")).await;
    for uri in ["stats://lake", "stats://pond?namespace=", "stats://pond?namespace=other", "stats://pond?namespace=a%20b"] {
        let answer = client.ask("resources/read", json!({ "uri": uri })).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
}

#[tokio::test]
async fn what_is_under_way_when_input_ends_is_answered_before_the_server_ends() {
    let mut client = Client::initialized(&FakePond::named("s1")).await;
    let call = json!({ "name": "pond_search", "arguments": { "query": "pool" } });
    client.say(json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call })).await;
    client.input.shutdown().await.unwrap();
    assert_eq!(client.hear().await["id"], 9);
    client.server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_without_a_word_is_no_failure() {
    let mut client = Client::silent(&FakePond::named("s1"));
    client.input.shutdown().await.unwrap();
    client.server.await.unwrap().unwrap();
}
