use proptest::prelude::*;

use crate::{AgentId, EventId, HouseId, InvalidId, JsonObject, KeyHash, PiEntry, Runtime, StreamName, ThreadId, is_platform};

#[test]
fn a_short_id_is_1_to_64_letters_digits_underscores_and_hyphens() {
    let longest = "x".repeat(64);
    for good in ["a", "Z9_-", "-", &longest] {
        assert_eq!(HouseId::new(good).unwrap().as_str(), good);
    }
    let long = "x".repeat(65);
    for bad in ["", " ", "a b", "a/b", "ä", "a.b", "a\n", "a\0", &long] {
        assert!(HouseId::new(bad).is_err(), "{bad:?}");
        assert!(bad.parse::<ThreadId>().is_err(), "{bad:?}");
        assert!(serde_json::from_value::<HouseId>(bad.into()).is_err(), "{bad:?}");
    }
}

#[test]
fn a_refused_id_is_named_but_not_repeated_at_length() {
    let InvalidId { text, .. } = HouseId::new(&"é".repeat(10_000)).unwrap_err();
    assert_eq!(text.chars().count(), 64);
}

#[test]
fn an_agent_id_is_a_uuid_with_hyphens() {
    let text = "0190a3c2-7b1e-7d4f-8a55-3f0c9d1e2b6a";
    let id: AgentId = text.parse().unwrap();
    assert_eq!(id.to_string(), text);
    assert_eq!(text.to_uppercase().parse::<AgentId>().unwrap(), id);
    for bad in [
        "",
        "0190a3c27b1e7d4f8a553f0c9d1e2b6a",
        "urn:uuid:0190a3c2-7b1e-7d4f-8a55-3f0c9d1e2b6a",
        "{0190a3c2-7b1e-7d4f-8a55-3f0c9d1e2b6a}",
    ] {
        assert!(bad.parse::<AgentId>().is_err(), "{bad:?}");
    }
}

#[test]
fn an_event_id_is_a_ulid_that_fits_in_128_bits() {
    let text = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
    let id: EventId = text.parse().unwrap();
    assert_eq!(id.to_string(), text);
    assert_eq!(text.to_lowercase().parse::<EventId>().unwrap(), id);
    for bad in
        ["", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "7ZZZZZZZZZZZZZZZZZZZZZZZZ", "7ZZZZZZZZZZZZZZZZZZZZZZZZU", "7ZZZZZZZZZZZZZZZZZZZZZZZÄ"]
    {
        assert!(bad.parse::<EventId>().is_err(), "{bad:?}");
    }
}

#[test]
fn streams_are_named_after_their_ids_and_found_again() {
    let thread = StreamName::Thread(ThreadId::new("t-1").unwrap());
    let house = StreamName::House(HouseId::new("h_1").unwrap());
    for (name, text) in [(thread, "arbe-thread-t-1"), (house, "arbe-house-h_1"), (StreamName::Agents, "arbe-agents")] {
        assert_eq!(name.to_string(), text);
        assert_eq!(StreamName::parse(text), Some(name));
        assert!(is_platform(text));
    }
}

#[test]
fn other_names_are_no_streams_of_ours() {
    for other in [
        "",
        "arbe-",
        "arbe-agents-",
        "arbe-thread-",
        "arbe-thread-a/b",
        "arbe-session-h",
        "arbe-session-h-",
        "arbe-session--k",
        "Arbe-agents",
        "notes",
    ] {
        assert_eq!(StreamName::parse(other), None, "{other:?}");
    }
    assert!(is_platform("arbe-session-h-1"));
    assert!(!is_platform("notes"));
    assert!(!is_platform("arbeit"));
}

#[test]
fn a_runtime_is_1_to_64_characters() {
    let longest = "ü".repeat(64);
    for good in ["pi", "claude-code", "my own thing", &longest] {
        assert_eq!(Runtime::new(good).unwrap().as_str(), good);
    }
    let long = "x".repeat(65);
    for bad in ["", "a\nb", &long] {
        assert!(Runtime::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_key_hash_is_64_lowercase_hex_digits() {
    assert!(KeyHash::new(&"a0".repeat(32)).is_ok());
    for bad in [String::new(), "A0".repeat(32), "g0".repeat(32), "a0".repeat(31)] {
        assert!(KeyHash::new(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_config_is_a_json_object_with_its_text_kept() {
    assert_eq!(JsonObject::parse(" {\"b\": 1.0,\n\"a\":2} ").unwrap().get(), "{\"b\": 1.0,\n\"a\":2}");
    for bad in ["[]", "null", "\"{}\"", "1", "", "{", "{} {}"] {
        assert!(JsonObject::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_signal_cannot_be_written_in_the_guise_of_a_transcript() {
    for bad in ["signal.thread.created", "chat", "pi", "pi.", "pix.chunk", " pi.chunk", "PI.chunk", ""] {
        assert!(PiEntry::new(bad, 1, super::json("{}")).is_err(), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_an_id_that_reads_back_differently(text in ".{0,70}") {
        if let Ok(id) = HouseId::new(&text) {
            prop_assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn no_name_parses_to_a_stream_of_another_name(text in "arbe-(thread-|house-|agents)?.{0,8}") {
        if let Some(name) = StreamName::parse(&text) {
            prop_assert_eq!(name.to_string(), text);
        }
    }
}
