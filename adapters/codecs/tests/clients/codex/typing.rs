use codecs::check::parse;
use codecs::value::{Reader, Value};
use events::session::{BodyRef, Content, Message, PartRef};

use super::{ID, codec, contents, fixture, header, home_with, line, said, told};

fn options(message: &Message, namespace: &str) -> Value {
    message.options.get(namespace).map_or(Value::Null, |json| Reader::only(json.get()).unwrap())
}

#[test]
fn a_session_is_told_part_by_part() {
    let contents = fixture("2025-10-14T22-34-00");
    assert_eq!(contents.faults, []);
    let (session, messages) = &contents.sessions[0];
    assert_eq!((session.id.as_str(), session.project.as_str()), (ID, "/srv/demo"));
    assert_eq!(session.created_at.to_string(), "2025-10-14T20:34:00.1Z");
    let told: Vec<_> = told(messages).into_iter().map(|it| it.replace('\n', "|")).collect();
    let provider_ran = |part: PartRef<'_>| {
        if let BodyRef::ToolCall(call) = part.body { call.provider_executed.then(|| call.call_id.clone()) } else { None }
    };
    let search = messages.iter().flat_map(Message::parts).find_map(provider_ran);
    let search = format!("assistant {} calls web_search_call {{\"type\":\"search\",\"query\":\"python add\"}}", search.unwrap());
    let expected = [
        "user injected <user_instructions>||Be brief.||</user_instructions>",
        "user injected <environment_context>|  <cwd>/srv/demo</cwd>|  <approval_policy>on-request</approval_policy>|  \
         <shell>bash</shell>|</environment_context>",
        "user injected # Context from my IDE setup:||## Active file: src/add.py||## Open tabs:|- add.py: src/add.py||\
         ## My request for Codex:|",
        "user Why does add(2, 3) print -1?|",
        "assistant thinks **Reading the file**",
        "assistant thinks **Finding the sign**",
        "assistant thinks It subtracts.",
        r#"assistant call_one calls shell {"command":["bash","-lc","cat src/add.py"],"timeout":1e3}"#,
        r#"tool injected call_one gives "{\"output\":\"def add(a, b):\\n    return a - b\\n\",\"metadata\":{\"exit_code\":0,\"duration_seconds\":0.1}}""#,
        r#"assistant call_two calls update_plan "not JSON {""#,
        r#"tool injected call_two fails {"content":"failed to parse function arguments","success":false}"#,
        r#"assistant call_three calls apply_patch "*** Begin Patch\n*** Update File: src/add.py\n@@\n-    return a - b\n+    return a + b\n*** End Patch""#,
        r#"tool injected call_three fails "Exit code: 1\nWall time: 0 seconds\nOutput:\nno such file\n""#,
        &search,
        r#"assistant call_four calls local_shell_call {"type":"exec","command":["echo","hi"],"timeout_ms":null}"#,
        r#"tool injected call_four gives [{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]"#,
        r#"assistant call_five calls tool_search_call {"query":"calendar"}"#,
        r#"tool injected call_five gives [{"name":"calendar"}]"#,
        "assistant It subtracts; I turned the sign around.",
        "user injected <turn_aborted>|The user stopped the turn.|</turn_aborted>",
        "user injected <image name=[Image #1]>",
        r#"user image/png Inline("iVBORw0KGgo=")"#,
        "user injected </image>",
        "user What is this? \0\u{8}\u{c} ✓",
        r#"assistant application/octet-stream Inline("iVBORw0KGgo=")"#,
        "assistant One.",
        "assistant Two.",
    ];
    assert_eq!(told, expected);
}

/// What the screen was told is carried: said once, restored twice.
#[test]
fn the_same_words_in_an_event_are_not_said_again() {
    for name in ["2025-10-14T22-34-00", "14-15-34", "14-15-57", "14-15-59", "3d19f76f"] {
        for (_, messages) in fixture(name).sessions {
            for message in &messages {
                let record = options(message, "source").get("record").cloned();
                let kind = record.as_ref().and_then(|it| it.get("type")).and_then(Value::as_str);
                if matches!(kind, Some("event_msg" | "compacted" | "turn_context" | "world_state" | "token_usage_record")) {
                    assert_eq!(message.content, Content::System(String::new()), "{name} {}", message.id);
                }
            }
        }
    }
}

#[test]
fn model_usage_and_end_of_a_turn_are_facts() {
    let messages = &fixture("2025-10-14T22-34-00").sessions[0].1;
    let facts: Vec<_> = messages.iter().map(|message| options(message, "openai").to_string()).filter(|it| it != "null").collect();
    let model = facts.iter().filter(|it| *it == r#"{"model":"gpt-5-codex"}"#).count();
    assert_eq!(model, messages.iter().filter(|message| matches!(message.content, Content::Assistant(_))).count());
    let others: Vec<_> = facts.iter().filter(|it| !it.contains("gpt-5-codex")).collect();
    assert_eq!(
        others,
        [r#"{"usage":{"input_tokens":20,"output_tokens":7,"total_tokens":27}}"#, r#"{"stop_reason":"interrupted"}"#]
    );
}

#[test]
fn ids_are_the_items_own_or_their_place_in_the_thread() {
    let messages = &fixture("14-15-34").sessions[0].1;
    for message in messages {
        let record = options(message, "source").get("record").cloned();
        let Some(record) = record else { continue };
        let own = record.get("payload").filter(|_| record.get("type").and_then(Value::as_str) == Some("response_item"));
        let own = own.and_then(|it| it.get("id")).and_then(Value::as_str).map(str::to_owned);
        let place = record.get("ordinal").map(ToString::to_string);
        assert_eq!(Some(message.id.as_str()), own.or(place).as_deref());
    }
    let twice = &fixture("2025-10-14T22-34-00").sessions[0].1;
    assert!(twice.iter().any(|message| message.id.as_str() == "msg_same"));
    assert!(twice.iter().any(|message| message.id.as_str() == "msg_same~2"), "`adapter-integrity-dedup`");
}

/// `model-project-non-empty`: the first generation names the directory only to the model.
#[test]
fn the_oldest_generation_says_where_it_ran_in_its_first_message() {
    let contents = fixture("3d19f76f");
    let session = &contents.sessions[0].0;
    assert_eq!((session.project.as_str(), contents.faults.len()), ("/srv/demo", 0));
    let older = r#"{"id":"a","timestamp":"2025-05-01T00:00:00Z","instructions":null}"#.to_owned()
        + "\n{\"type\":\"message\",\"id\":null,\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\
           \"<environment_context>\\nCurrent working directory: /srv/old\\nApproval policy: never\\n</environment_context>\"}]}\n";
    assert_eq!(self::contents(older).sessions[0].0.project, "/srv/old");
    let bare = r#"{"id":"a","timestamp":"2025-05-01T00:00:00Z","git":{"repository_url":"git@example.com:a/b.git"}}"#;
    assert_eq!(self::contents(bare).sessions[0].0.project, "git@example.com:a/b.git");
}

#[test]
fn a_file_without_a_header_is_known_by_its_name() {
    let text = line("turn_context", r#"{"cwd":"/srv/demo","model":"m"}"#) + &said("hello");
    for file in [format!("sessions/2025/10/14/rollout-2025-10-14T22-34-00-{ID}.jsonl"), format!("{ID}.jsonl")] {
        let contents = parse(codec(), &home_with(&file, &text).bundle).unwrap();
        let (session, messages) = &contents.sessions[0];
        assert_eq!((session.id.as_str(), session.project.as_str()), (ID, "/srv/demo"));
        assert_eq!(session.created_at.to_string(), "2025-10-14T20:34:01Z");
        assert_eq!(told(messages), ["user hello"]);
    }
}

/// Several texts of instructions in one record are several messages, and one record again.
#[test]
fn instructions_are_the_systems_one_text_at_a_time() {
    let (_, messages) = &fixture("6000-7000").sessions[0];
    let told = told(messages);
    assert_eq!(told[0], "system You are a coding agent.");
    assert_eq!(told[1], "system <permissions instructions>\nAsk first.\n</permissions instructions>");
    assert_eq!(told[2], "system <collaboration_mode>\nAlone.\n</collaboration_mode>");
    assert!(!told.iter().any(|it| it.contains("You are the parent")), "the copied header is carried");
}

/// `adapter-bounded-values`
#[test]
fn a_text_beyond_all_bounds_becomes_its_size() {
    let size = codecs::seam::VALUE_MAX + 1;
    let contents = contents(header() + &said(&"x".repeat(size)) + &said("after"));
    assert_eq!(told(&contents.sessions[0].1), [format!("user pond:truncated:{size}"), "user after".to_owned()]);
}
