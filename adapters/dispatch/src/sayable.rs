//! Free text from outside, as the log takes it.

use commands::Command;
use commands::command::{Failure, FinishRun, MarkSandboxDead};
use events::dispatch::{Failed, Warned};
use events::{Chat, Content, DispatchEvent, Event};

/// Characters. Whoever prints more is not read to the end.
const LONGEST: usize = 8_000;
const UNTOLD: &str = "what is known of the cause cannot be told";

pub(crate) fn sayable(text: &str) -> String {
    plain(&text.chars().take(LONGEST).collect::<String>())
}

/// The rows cannot hold a NUL, so no event may.
fn plain(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}

/// What drivers say may repeat what machines and models have said.
pub(crate) fn said(event: Event) -> Event {
    if let Event::Dispatch(DispatchEvent::Warned(Warned { run_id, warning, message })) = event {
        Warned { run_id, warning, message: sayable(&message) }.into()
    } else if let Event::Dispatch(DispatchEvent::Failed(Failed { run_id, error_class, message })) = event {
        Failed { run_id, error_class, message: sayable(&message) }.into()
    } else if let Event::Content(Content::Chat(Chat { text, to, reply_to })) = event {
        Content::Chat(Chat { text: plain(&text), to, reply_to }).into()
    } else {
        event
    }
}

/// The same with no text of others in it. `None`: there was none.
pub(crate) fn without_words(command: &Command) -> Option<Command> {
    if let Command::FinishRun(finish @ FinishRun { failure: Some(failure), .. }) = command {
        let failure = Failure { message: UNTOLD.to_owned(), ..failure.clone() };
        Some(FinishRun { failure: Some(failure), ..finish.clone() }.into())
    } else if let Command::MarkSandboxDead(MarkSandboxDead { sandbox_id, reason: Some(_) }) = command {
        Some(MarkSandboxDead { sandbox_id: sandbox_id.clone(), reason: None }.into())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use commands::command::Outcome;
    use events::{SandboxId, ThreadId};

    use super::*;

    #[test]
    fn what_others_said_is_told_without_what_nobody_can_keep() {
        assert_eq!(sayable("a\0b"), "a\u{FFFD}b");
        assert_eq!(sayable(&"ä".repeat(LONGEST + 1)).chars().count(), LONGEST);
        let warned = Warned { run_id: None, warning: "w".to_owned(), message: "\0".repeat(LONGEST + 1) };
        let Event::Dispatch(DispatchEvent::Warned(told)) = said(warned.into()) else { panic!("another event") };
        assert_eq!(told.message, "\u{FFFD}".repeat(LONGEST));
        let chat = Content::Chat(Chat { text: "x\0".repeat(LONGEST), to: None, reply_to: None });
        let Event::Content(Content::Chat(told)) = said(chat.into()) else { panic!("another event") };
        assert_eq!(told.text, "x\u{FFFD}".repeat(LONGEST), "what a child came to has its own bound");
    }

    #[test]
    fn what_is_refused_for_its_words_has_the_same_effect_without_them() {
        let failure = Failure { error_class: "sandbox_setup".to_owned(), message: "odd".to_owned(), exit_code: Some(1) };
        let (thread_id, outcome) = (ThreadId::new("t").unwrap(), Outcome::Failed);
        let finish = FinishRun { thread_id, run_id: None, outcome, reason: None, failure: Some(failure.clone()) };
        let plain = FinishRun { failure: Some(Failure { message: UNTOLD.to_owned(), ..failure }), ..finish.clone() };
        let without = |command: Command| format!("{:?}", without_words(&command));
        assert_eq!(without(finish.clone().into()), format!("{:?}", Some(Command::from(plain))));
        assert_eq!(without(FinishRun { failure: None, ..finish }.into()), "None");
        let sandbox_id = SandboxId::new("s").unwrap();
        let dead = MarkSandboxDead { sandbox_id: sandbox_id.clone(), reason: Some("odd".to_owned()) };
        let plain = MarkSandboxDead { sandbox_id, reason: None };
        assert_eq!(without(dead.into()), format!("{:?}", Some(Command::from(plain))));
    }
}
