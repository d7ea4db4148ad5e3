use serde_json::json;

use super::*;
use crate::harness::{Facts, Harness};

fn evidence(end: Option<(&str, Option<&str>)>, exit: Exit) -> Evidence {
    let end = end.map(|(stop, error)| End { stop_reason: Some(stop.to_owned()), error: error.map(str::to_owned) });
    Evidence {
        spoke: true,
        prompt: Prompt::Accepted,
        end,
        exit,
        cancelled: false,
        timed_out: false,
        mirrored: Mirrored::Whole,
        last_words: String::new(),
    }
}

fn class_of(evidence: &Evidence) -> (String, Option<i32>) {
    match decide_outcome(evidence) {
        Outcome::Completed => ("completed".to_owned(), None),
        Outcome::Cancelled => ("cancelled".to_owned(), None),
        Outcome::Orphaned => ("orphaned".to_owned(), None),
        Outcome::Failed { class, exit_code, .. } => (class.to_owned(), exit_code),
    }
}

#[test]
fn an_outcome_is_told_from_the_last_end_and_the_exit_together() {
    let error = Some(("error", Some("500 scripted")));
    for (end, exit, expected) in [
        (Some(("stop", None)), Exit::Code(0), ("completed", None)),
        (Some(("length", None)), Exit::Code(0), ("completed", None)),
        (Some(("toolUse", None)), Exit::Code(0), ("completed", None)),
        (Some(("stop", None)), Exit::PutDown, ("completed", None)),
        (Some(("pending", None)), Exit::Code(0), ("model", Some(0))),
        (Some(("pending", None)), Exit::Signal(9), ("signal", Some(137))),
        (error, Exit::Code(0), ("model", Some(0))),
        (error, Exit::Code(1), ("model", Some(1))),
        (error, Exit::PutDown, ("model", None)),
        (Some(("aborted", None)), Exit::Code(0), ("aborted", Some(0))),
        (Some(("stop", None)), Exit::Code(3), ("exit", Some(3))),
        (Some(("stop", None)), Exit::Signal(11), ("signal", Some(139))),
        (None, Exit::Code(0), ("exit", Some(0))),
        (None, Exit::Code(1), ("exit", Some(1))),
        (None, Exit::Code(129), ("exit", Some(129))),
        (None, Exit::Code(130), ("exit", Some(130))),
        (None, Exit::Code(143), ("exit", Some(143))),
        (None, Exit::Signal(1), ("signal", Some(129))),
        (None, Exit::Signal(2), ("signal", Some(130))),
        (None, Exit::Signal(9), ("signal", Some(137))),
        (None, Exit::PutDown, ("exit", None)),
        (None, Exit::Unseen, ("orphaned", None)),
        (Some(("stop", None)), Exit::Unseen, ("orphaned", None)),
    ] {
        assert_eq!(class_of(&evidence(end, exit)), (expected.0.to_owned(), expected.1), "{end:?} {exit:?}");
    }
}

#[test]
fn a_run_that_we_cancelled_is_cancelled_however_it_went_down() {
    for exit in [Exit::Code(0), Exit::Code(143), Exit::Signal(9), Exit::PutDown] {
        for end in [None, Some(("aborted", None)), Some(("error", Some("aborted")))] {
            assert_eq!(decide_outcome(&Evidence { cancelled: true, ..evidence(end, exit) }), Outcome::Cancelled);
        }
    }
}

#[test]
fn a_signal_is_told_with_its_number_and_the_last_words() {
    let killed = Evidence { last_words: "out of memory\n".to_owned(), ..evidence(None, Exit::Signal(9)) };
    let message = "the harness was killed by signal 9: out of memory".to_owned();
    assert_eq!(decide_outcome(&killed), Outcome::Failed { class: class::SIGNAL, message, exit_code: Some(137) });
}

#[test]
fn a_harness_that_says_nothing_has_failed_even_with_exit_code_0() {
    let silent = Evidence { spoke: false, prompt: Prompt::Unanswered, ..evidence(None, Exit::Code(0)) };
    assert_eq!(class_of(&silent), ("start".to_owned(), Some(0)));
    let unknown = Evidence { last_words: "Error: no such model".to_owned(), exit: Exit::Code(1), ..silent };
    let message = "the harness said nothing and exited with 1: Error: no such model".to_owned();
    assert_eq!(decide_outcome(&unknown), Outcome::Failed { class: class::START, message, exit_code: Some(1) });
}

#[test]
fn a_refused_prompt_and_a_run_without_end_have_failed() {
    let refused = Evidence { prompt: Prompt::Refused("no API key".to_owned()), ..evidence(None, Exit::PutDown) };
    assert_eq!(class_of(&refused), ("prompt".to_owned(), None));
    let endless = Evidence { timed_out: true, ..evidence(None, Exit::Signal(9)) };
    assert_eq!(class_of(&endless), ("timeout".to_owned(), Some(137)));
}

#[test]
fn work_that_is_not_on_the_thread_is_not_completed() {
    let missing = Mirrored::Missing { entries: Some(2), why: "connection refused".to_owned() };
    let done = Evidence { mirrored: missing.clone(), ..evidence(Some(("stop", None)), Exit::Code(0)) };
    assert_eq!(class_of(&done), ("mirror".to_owned(), Some(0)));
    let model = Evidence { mirrored: missing, ..evidence(Some(("error", None)), Exit::Code(0)) };
    assert_eq!(class_of(&model).0, "model", "the first cause is told");
    let unseen = Mirrored::Missing { entries: None, why: "its file is gone".to_owned() };
    let message = "the work is done, but whether the thread has all of it cannot be told: its file is gone".to_owned();
    let unseen = decide_outcome(&Evidence { mirrored: unseen, ..evidence(Some(("stop", None)), Exit::Code(0)) });
    assert_eq!(unseen, Outcome::Failed { class: class::MIRROR, message, exit_code: Some(0) });
}

#[test]
fn an_end_without_an_answer_of_the_model_is_not_completed() {
    let silent = json!({ "type": "agent_end", "messages": [{ "role": "user", "content": [] }], "willRetry": false });
    let message = "the model gave no answer".to_owned();
    assert_eq!(decide_outcome(&after([silent])), Outcome::Failed { class: class::MODEL, message, exit_code: Some(0) });
    let message = "the model's last answer ended for a reason that is not known: refusal".to_owned();
    let refused = decide_outcome(&after(attempt("refusal", None, false)));
    assert_eq!(refused, Outcome::Failed { class: class::MODEL, message, exit_code: Some(0) });
}

fn attempt(stop: &str, error: Option<&str>, will_retry: bool) -> [serde_json::Value; 2] {
    let message = json!({ "role": "assistant", "content": [], "stopReason": stop, "errorMessage": error });
    [json!({ "type": "agent_start" }), json!({ "type": "agent_end", "messages": [message], "willRetry": will_retry })]
}

fn after(events: impl IntoIterator<Item = serde_json::Value>) -> Evidence {
    let mut facts = Facts::default();
    events.into_iter().for_each(|event| facts.note(Harness::Pi, &event));
    Evidence { spoke: facts.spoke, prompt: facts.prompt, end: facts.end, ..evidence(None, Exit::Code(0)) }
}

#[test]
fn three_errors_and_then_an_answer_are_a_completed_run() {
    let prompt = json!({ "type": "response", "command": "prompt", "success": true });
    let failing = || attempt("error", Some("500 scripted"), true);
    let events = [failing(), failing(), failing(), attempt("stop", None, false)].into_iter().flatten();
    assert_eq!(decide_outcome(&after([prompt].into_iter().chain(events))), Outcome::Completed);
}

#[test]
fn four_errors_are_a_failed_run_though_the_exit_code_is_0() {
    let failing = |will_retry| attempt("error", Some("500 scripted"), will_retry);
    let events = [failing(true), failing(true), failing(true), failing(false)].into_iter().flatten();
    let message = "500 scripted".to_owned();
    assert_eq!(decide_outcome(&after(events)), Outcome::Failed { class: class::MODEL, message, exit_code: Some(0) });
}

#[test]
fn an_error_that_is_to_be_retried_is_no_end() {
    assert_eq!(after(attempt("error", Some("500"), true)).end, None);
    let resumed = attempt("stop", None, false).into_iter().chain([json!({ "type": "agent_start" })]);
    assert_eq!(after(resumed).end, None, "work goes on after what looked like the end");
}
