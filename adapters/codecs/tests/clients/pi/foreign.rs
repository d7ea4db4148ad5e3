use super::*;
use codecs::artifact::Body;
use codecs::restore::{Place, RestoreError, restore};

const FOREIGN: &str = r#"
{"id":"0a/b","source_agent":"claude-code","created_at":"2026-01-01T00:00:00.123456Z","project":"/old","options":{}}
{"id":"m0","role":"system","timestamp":"2026-01-01T00:00:00Z","content":"instructions","options":{}}
{"id":"m1","role":"user","timestamp":"2026-01-01T00:00:01Z","content":[{"id":"0","type":"text","provenance":"injected","text":"<reminder>","options":{}},{"id":"1","type":"text","provenance":"conversational","text":"look","options":{}},{"id":"2","type":"file","provenance":"conversational","media_type":"image/png","data":"iVBORw0KGgo=","options":{}},{"id":"3","type":"file","provenance":"conversational","media_type":"application/pdf","data":"JVBERg==","options":{}}],"options":{}}
{"id":"m2","role":"assistant","timestamp":"2026-01-01T00:00:02Z","content":[{"id":"0","type":"reasoning","provenance":"conversational","text":"hm","options":{}}],"options":{}}
{"id":"m3","role":"assistant","timestamp":"2026-01-01T00:00:03Z","content":[{"id":"0","type":"text","provenance":"conversational","text":"two calls","options":{}},{"id":"1","type":"tool_call","provenance":"conversational","call_id":"c1","name":"Bash","params":{"command":"ls"},"provider_executed":false,"options":{}}],"options":{}}
{"id":"m4","role":"system","timestamp":"2026-01-01T00:00:03Z","content":"","options":{"source":{"record":{"type":"progress"}}}}
{"id":"m5","role":"assistant","timestamp":"2026-01-01T00:00:04Z","content":[{"id":"0","type":"tool_call","provenance":"conversational","call_id":"c2","name":"apply_patch","params":"*** Begin","provider_executed":false,"options":{}}],"options":{"anthropic":{"model":"claude-x","usage":{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":5},"stop_reason":"tool_use"}}}
{"id":"m6","role":"tool","timestamp":"2026-01-01T00:00:05Z","content":[{"id":"0","type":"tool_result","provenance":"injected","call_id":"c2","is_failure":true,"result":{"ok":false},"options":{}}],"options":{}}
{"id":"m7","role":"user","timestamp":"2026-01-01T00:00:06Z","content":[{"id":"0","type":"text","provenance":"conversational","text":"hurry","options":{}}],"options":{}}
{"id":"m8","role":"tool","timestamp":"2026-01-01T00:00:07Z","content":[{"id":"0","type":"tool_result","provenance":"injected","call_id":"c1","name":"Bash","is_failure":false,"result":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}],"options":{}},{"id":"1","type":"tool_result","provenance":"injected","call_id":"lost","is_failure":false,"result":"x","options":{}}],"options":{}}
{"id":"m9","role":"assistant","timestamp":"2026-01-01T00:00:08Z","content":[{"id":"0","type":"text","provenance":"conversational","text":"done","options":{}}],"options":{"openai":{"model":"gpt","stop_reason":"max_output_tokens"}}}
"#;

const CHILD: &str = r#"
{"id":"child","parent_session_id":"0a/b","source_agent":"claude-code","created_at":"2026-01-01T00:00:04Z","project":"/old","options":{}}
{"id":"k1","role":"user","timestamp":"2026-01-01T00:00:04Z","content":[{"id":"0","type":"text","provenance":"conversational","text":"a task","options":{}}],"options":{}}
"#;

fn lineage() -> Lineage {
    let (session, messages) = canonical(FOREIGN);
    Lineage::new(session, messages, vec![canonical(CHILD)]).unwrap()
}

fn pick(messages: &[Message]) -> Vec<String> {
    shown(messages).into_iter().filter(|it| !it.is_empty()).collect()
}

#[test]
fn a_session_of_another_client_says_the_same_in_pi() {
    let (restored, contents, report) = moved(codec("pi"), &lineage());
    assert!(!restored.native && contents.faults.is_empty());
    let [(session, messages), (child, task)] = &contents.sessions[..] else { panic!("{contents:?}") };
    let (session, messages, child, task) =
        if child.id.as_str() == "child" { (session, messages, child, task) } else { (child, task, session, messages) };
    assert_eq!((session.id.as_str(), session.project.as_str()), (restored.session_id.as_str(), "/srv/demo"));
    assert_eq!(child.parent_session_id.as_ref(), Some(&session.id));
    assert_eq!(pick(task), [r#"user Conversational Text(Text { text: "a task" })"#]);
    let expected = [
        r#"user Injected Text(Text { text: "<reminder>" })"#,
        r#"user Conversational Text(Text { text: "look" })"#,
        r#"user Conversational File(File { media_type: "image/png", file_name: None, data: Inline("iVBORw0KGgo=") })"#,
        r#"assistant Conversational Reasoning(Reasoning { text: "hm" })"#,
        r#"assistant Conversational Text(Text { text: "two calls" })"#,
        r#"assistant Conversational ToolCall(ToolCall { call_id: "c1", name: "Bash", params: Json(RawValue({"command":"ls"})), provider_executed: false })"#,
        r#"assistant Conversational ToolCall(ToolCall { call_id: "c2", name: "apply_patch", params: Json(RawValue({"input":"*** Begin"})), provider_executed: false })"#,
        r#"tool Injected ToolResult(ToolResult { call_id: "c1", name: Some("Bash"), is_failure: false, result: Json(RawValue([{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"}])) })"#,
        r#"tool Injected ToolResult(ToolResult { call_id: "c2", name: Some("apply_patch"), is_failure: true, result: Json(RawValue("{\"ok\":false}")) })"#,
        r#"user Conversational Text(Text { text: "hurry" })"#,
        r#"assistant Conversational Text(Text { text: "done" })"#,
    ];
    assert_eq!(pick(messages), expected);
    let dropped: Vec<_> = report.dropped.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(dropped, [("file", 1), ("record", 1), ("system", 1), ("tool_result without its call", 1)]);
}

/// What pi 0.78 and 1.5 ask of a file.
#[test]
fn a_made_file_has_what_pi_cannot_do_without() {
    let (restored, ..) = moved(codec("pi"), &lineage());
    let id = &restored.session_id;
    assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !id.is_empty());
    let artifact = &restored.artifacts[0];
    assert_eq!(artifact.path, format!("sessions/--srv-demo--/2026-01-01T00-00-00-123Z_{id}.jsonl"));
    let Body::Lines(lines) = &artifact.body else { panic!("{artifact:?}") };
    let header =
        format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"2026-01-01T00:00:00.123Z","cwd":"/srv/demo"}}"#);
    assert_eq!(lines[0].to_string(), header);
    for (index, line) in lines.iter().enumerate().skip(1) {
        let parent = line.get("parentId").unwrap().as_str().map(str::to_owned);
        assert_eq!(parent, (index > 1).then(|| format!("{:08x}", index - 1)));
    }
    let turn = lines[3].get("message").unwrap().to_string();
    let tail = r#""api":"anthropic-messages","provider":"anthropic","model":"claude-x","usage":{"input":3,"output":4,"cacheRead":5,"cacheWrite":0,"totalTokens":12,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"toolUse","timestamp":1767225602000}"#;
    assert!(turn.ends_with(tail), "{turn}");
    assert!(lines.last().unwrap().to_string().contains(r#""stopReason":"length""#));
    let paths: Vec<_> = restored.artifacts.iter().map(|it| it.path.as_str()).collect();
    let Body::Lines(child) = &restored.artifacts[1].body else { panic!("{paths:?}") };
    assert_eq!(child[0].get("parentSession").and_then(codecs::value::Value::as_str), Some(paths[0]));
}

fn known_as(id: &str) -> String {
    let mut session = lineage().session;
    session.id = id.parse().unwrap();
    codec("pi").serialize.session_id(&session)
}

#[test]
fn an_id_that_pi_takes_is_kept() {
    for id in ["01a1e275-2b80-7165-80c0-c3ea37ec59d9", "thread_abc", "a.b", "x"] {
        assert_eq!(known_as(id), id);
    }
    for id in ["a/b", "-a", "ä", "a_", &"x".repeat(200)] {
        let made = known_as(id);
        assert!(made.len() == 32 && made != id, "{made}");
    }
}

#[test]
fn a_blob_must_be_loaded_before() {
    let mut lineage = lineage();
    let blob = r#"{"id":"b","role":"user","timestamp":"2026-01-01T00:00:09Z","content":[{"id":"0","type":"file","provenance":"conversational","media_type":"image/png","url":"pond://blob/00","options":{}}],"options":{}}"#;
    lineage.messages.push(serde_json::from_str(blob).unwrap());
    let place = Place { directory: "/srv/demo".to_owned() };
    let error = restore(codec("pi"), &lineage, &place).unwrap_err();
    assert_eq!(error, RestoreError::BlobNotLoaded { message: "b".into(), part: "0".into() });
}

/// `adapter-native-restore-lossless`: where a session came from decides, not the codec.
#[test]
fn a_session_that_only_claims_to_be_of_pi_is_refused() {
    let mut lineage = lineage();
    lineage.session.source_agent = "pi".to_owned();
    let error = restore(codec("pi"), &lineage, &Place { directory: "/".to_owned() }).unwrap_err();
    assert!(matches!(error, RestoreError::NoRecord { why: "options.source is missing", .. }), "{error}");
}
