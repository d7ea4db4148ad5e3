use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{stored, strategies};
use crate::{Content, Entry, Event, KINDS, PiEntry};

proptest! {
    #[test]
    fn an_entry_reads_back_as_it_was_written(
        id in strategies::event_id(),
        ts in any::<u64>(),
        author in proptest::option::of(strategies::agent_id()),
        event in strategies::event(),
    ) {
        let entry = Entry::of(id, ts, author, &event);
        let text = entry.to_json();
        let read = Entry::from_json(&text).unwrap();
        prop_assert_eq!(&read, &entry);
        prop_assert_eq!(read.to_json(), text);
        prop_assert_eq!(read.event().unwrap(), event);
    }

    #[test]
    fn a_transcript_entry_is_kept_byte_for_byte(kind in "pi\\.[a-z_.]{1,20}", v in any::<u32>(), payload in strategies::json_text()) {
        let entry = stored(&kind, v, &payload);
        let event = entry.event().unwrap();
        prop_assert_eq!(event.kind(), &kind);
        prop_assert_eq!(event.version(), v);
        let again = Entry::of(entry.id, entry.ts, None, &event).to_json();
        let tail = format!("\"payload\":{payload}}}");
        prop_assert!(again.ends_with(&tail), "{again}");
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = Entry::from_json(&text).map(|entry| entry.event());
    }
}

#[test]
fn transcript_types_and_versions_newer_than_us_are_kept_whole() {
    let payload = "{ \"b\":1.0,\n \"a\":1e400, \"a\":\"\\ud800\", \"n\":12345678901234567890123 }";
    let event = stored("pi.hologram", 99, payload).event().unwrap();
    let Event::Content(Content::Pi(entry)) = &event else { panic!("{event:?}") };
    assert_eq!(entry, &PiEntry::new("pi.hologram", 99, super::json(payload)).unwrap());
    assert_eq!(entry.payload().get(), payload);
}

#[test]
fn a_config_is_kept_byte_for_byte() {
    let payload = "{\"environment_id\":\"e\",\"name\":\"n\",\"config\":{ \"z\": 1.0,\n\"a\":1e2 }}";
    let entry = stored("signal.environment.created", 1, payload);
    assert_eq!(Entry::of(entry.id, entry.ts, None, &entry.event().unwrap()).payload.get(), payload);
}

#[test]
fn the_generated_events_are_of_every_kind() {
    let mut runner = TestRunner::deterministic();
    let strategy = strategies::event();
    let seen: BTreeSet<String> =
        (0..5_000).map(|_| strategy.new_tree(&mut runner).unwrap().current().kind().to_owned()).collect();
    let missing: Vec<_> = KINDS.iter().filter(|(kind, _)| !seen.contains(*kind)).collect();
    assert!(missing.is_empty(), "never generated: {missing:?}");
}
