//! `model-part-provenance`, `adapter-provenance-required`

use codecs::check::check;

use super::{codec, contents, header, home, line, said, told};

/// What is the client's, and what the user's after it.
const FUSED: &[(&str, &str)] = &[
    ("<environment_context>\n  <cwd>/x</cwd>\n</environment_context>", ""),
    ("<environment_context>\n<cwd>/x</cwd>\n</environment_context>\n\n", "do </environment_context> it"),
    ("  \n<user_instructions>\n\nBe brief.\n\n</user_instructions>\n", ""),
    ("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nQuote </INSTRUCTIONS> well.\n</INSTRUCTIONS>", ""),
    (
        "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nA\n</INSTRUCTIONS>\n<environment_context>\nB</environment_context>\n",
        "hello ✓",
    ),
    ("<subagent_notification>\n{\"agent_id\":\"1\"}\n</subagent_notification>", ""),
    ("<turn_aborted>\nstopped\n</turn_aborted>", ""),
    ("<skill>\n<name>x</name>\n</skill>", ""),
    ("<recommended_plugins>\nx\n</recommended_plugins>", ""),
    ("<user_action>\n  <context>review</context>\n</user_action>", ""),
    ("<user_shell_command>\n<command>\nls\n</command>\n</user_shell_command>", ""),
    ("<hook_prompt hook_run_id=\"1\">again</hook_prompt>", ""),
    ("<codex_internal_context source=\"goal\">go on</codex_internal_context>", ""),
    ("<image name=[Image #1]>", ""),
    ("<image name=[Image #1] path=\"a b.png\">", ""),
    ("</image>", ""),
    (
        "# Context from my IDE setup:\n\n## Open tabs:\n- a: a\n\n## My request for Codex:\n",
        "Fix it.\n\n## My request for Codex:\nis a heading\n",
    ),
    ("\n# Files mentioned by the user:\n\n## a.png: /tmp/a.png\n\n## My request for Codex:\n", "use ü this\n"),
    ("\n# Review findings:\n\n## Finding 1 (a:1)\nbad\n\n## My request for Codex:\n", "Commit"),
];

#[test]
fn what_the_client_put_there_is_split_off_to_the_byte() {
    for (injected, authored) in FUSED {
        let text = header() + &said(&format!("{injected}{authored}"));
        let mut expected = vec![format!("user injected {injected}")];
        expected.extend((!authored.is_empty()).then(|| format!("user {authored}")));
        assert_eq!(told(&contents(&text).sessions[0].1), expected);
        let (home, scratch) = (home(&text), tempfile::tempdir().unwrap());
        assert_eq!(check(codec(), &home.bundle, scratch.path()).unwrap(), [], "{injected}");
    }
}

#[test]
fn what_the_user_wrote_stays_the_users() {
    for authored in [
        "hello",
        "",
        "What is <environment_context>?",
        "<skill> tags: what are they?",
        "<environment_context> is never closed",
        "<image> is an element",
        "<image name=x>\nis not alone",
        "# AGENTS.md instructions should be shorter",
        "# Context from my IDE setup: there is none",
        "Please put\n## My request for Codex:\ninto the docs",
        "<div>\n</div>",
        "## User Input\nx",
    ] {
        let told = told(&contents(header() + &said(authored)).sessions[0].1);
        assert_eq!(told, [format!("user {authored}")]);
    }
}

#[test]
fn what_the_source_says_of_a_text_is_believed() {
    let item = |told: &str| {
        let notes = format!(r#"{{"content_item_metadata":[{{"provenance":{{"type":"{told}"}}}}]}}"#);
        line(
            "response_item",
            &format!(
                r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"plain"}}],"internal_chat_message_metadata_passthrough":{notes}}}"#
            ),
        )
    };
    for (source, expected) in [("user", "user plain"), ("harness", "user injected plain"), ("skills", "user injected plain")] {
        assert_eq!(told(&contents(header() + &item(source)).sessions[0].1), [expected]);
    }
}

#[test]
fn a_task_is_the_childs_prompt_and_a_result_is_a_notice() {
    let item = |text: &str| {
        let text = serde_json::to_string(text).unwrap();
        line(
            "response_item",
            &format!(r#"{{"type":"agent_message","author":"/a","content":[{{"type":"input_text","text":{text}}}]}}"#),
        )
    };
    let task = "Message Type: NEW_TASK\nTask name: /root/a\nSender: /root\nPayload:\nCount.";
    let answer = "Message Type: FINAL_ANSWER\nTask name: /root\nSender: /root/a\nPayload:\nThree.";
    let told = told(&contents(header() + &item(task) + &item(answer)).sessions[0].1);
    let (head, _) = task.split_at(task.len() - "Count.".len());
    assert_eq!(told, [format!("user injected {head}"), "user Count.".to_owned(), format!("user injected {answer}")]);
}
