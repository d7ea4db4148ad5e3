use serde_json::{Value, json};

use super::{assert_survives, assistant, home, parse, told, user};

/// `model-part-provenance`: what opencode puts into a message, as the notes of its formats list it, against what a person typed.
#[test]
fn what_the_harness_adds_is_injected_and_what_was_typed_is_not() {
    let marked = |text: &str| json!({"type": "text", "text": text, "synthetic": true});
    let typed = |text: &str| json!({"type": "text", "text": text});
    let reminder = "<system-reminder>\nYour operational mode has changed from plan to build.\n</system-reminder>";
    let cases: Vec<(Value, &str)> = vec![
        (
            marked("Called the Read tool with the following input: {}"),
            "user !text(Called the Read tool with the following input: {})",
        ),
        (marked("The following tool was executed by the user"), "user !text(The following tool was executed by the user)"),
        (marked(" Use the above message and context"), "user !text( Use the above message and context)"),
        (json!({"type": "text", "text": "shown only", "ignored": true}), "user !text(shown only)"),
        (typed("Continue if you have next steps"), "user text(Continue if you have next steps)"),
        (typed("what is a <system-reminder> for?"), "user text(what is a <system-reminder> for?)"),
        (typed("<system-reminder> never closed"), "user text(<system-reminder> never closed)"),
        (typed("say <system-reminder>x</system-reminder>"), "user text(say <system-reminder>x</system-reminder>)"),
        (
            json!({"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,AA"}),
            "user file(image/png a.png)",
        ),
        (
            json!({"type": "file", "mime": "image/png", "url": "data:image/png;base64,AA", "synthetic": true}),
            "user !file(image/png -)",
        ),
        (json!({"type": "subtask", "prompt": "Review", "description": "d", "agent": "general"}), "user !text(Review)"),
        (json!({"type": "agent", "name": "general"}), "user"),
        (typed(""), "user text()"),
    ];
    for (part, expected) in cases {
        let home = home(&[(user("msg_a", 1_000), vec![part]), (assistant("msg_b", 2_000, Some(2_100)), vec![])]);
        assert_eq!(told(&parse(home.path()).sessions[0].1)[0], expected);
        assert_survives(home.path());
    }
    let cases = [
        (reminder.to_owned(), vec![("!", reminder)]),
        (format!("déjà vu\n\n{reminder}"), vec![("", "déjà vu\n\n"), ("!", reminder)]),
        (
            format!("{reminder}\n\nfix it 🙂\n{reminder}\n"),
            vec![("!", reminder), ("", "\n\nfix it 🙂\n"), ("!", reminder), ("!", "\n")],
        ),
    ];
    for (text, pieces) in cases {
        let home = home(&[(user("msg_a", 1_000), vec![typed(&text)]), (assistant("msg_b", 2_000, Some(2_100)), vec![])]);
        let pieces: Vec<_> = pieces.iter().map(|(mark, piece)| format!("{mark}text({piece})")).collect();
        assert_eq!(told(&parse(home.path()).sessions[0].1)[0], format!("user {}", pieces.join(" ")).trim_end());
        assert_survives(home.path());
    }
}

#[test]
fn a_compaction_is_the_harness_s_own_question_and_summary() {
    let mut summary = assistant("msg_b", 2_000, Some(2_100));
    summary["summary"] = json!(true);
    let home = home(&[
        (
            user("msg_a", 1_000),
            vec![json!({"type": "compaction", "auto": true}), json!({"type": "text", "text": "What did we do so far?"})],
        ),
        (summary, vec![json!({"type": "text", "text": "## Goal"}), json!({"type": "reasoning", "text": "hm"})]),
        (assistant("msg_c", 3_000, Some(3_100)), vec![json!({"type": "text", "text": "On we go."})]),
    ]);
    let expected = ["user !text(What did we do so far?)", "assistant !text(## Goal) !reasoning(hm)", "assistant text(On we go.)"];
    assert_eq!(told(&parse(home.path()).sessions[0].1), expected);
}
