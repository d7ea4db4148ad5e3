use event_log::Offset;

use super::*;

/// The stored form of every event. Lines are added, never edited.
const GOLDEN: &str = include_str!("golden_v1.jsonl");

fn mark(generation: u64, position: u64) -> Mark {
    Mark::at(Offset { generation, position })
}

fn every_event() -> Vec<Event> {
    let config = |delivery| Config {
        delivery,
        pattern: Some(Pattern::try_from("events/*".to_owned()).unwrap()),
        streams: ["manual/a".into()].into(),
        lease_ttl_ms: 30_000,
        description: Some("why".into()),
    };
    let webhook = Delivery::Webhook { url: "https://worker.example/hook".into() };
    let pull = Delivery::PullWake { wake_stream: "wake/pool".into() };
    let base_url: Arc<str> = "http://127.0.0.1:4437".into();
    let snapshot: BTreeMap<Arc<str>, Mark> = [("events/a".into(), mark(7, 3))].into();
    let (wake_id, stream): (Arc<str>, Arc<str>) = ("w_00".into(), "events/a".into());
    vec![
        Event::Created { config: config(webhook), base_url: base_url.clone() },
        Event::Created { config: Config { pattern: None, description: None, ..config(pull) }, base_url },
        Event::Deleted {},
        Event::Linked { links: vec![Linked { path: "events/a".into(), explicit: false, incarnation: 7, acked: Mark::START }] },
        Event::Unlinked { paths: vec!["events/a".into()] },
        Event::Woken {
            generation: 1,
            wake_id: wake_id.clone(),
            stream: stream.clone(),
            snapshot: snapshot.clone(),
            deliver_until: Some(5),
            wake_stream: None,
        },
        Event::Woken { generation: 2, wake_id, stream, snapshot: snapshot.clone(), deliver_until: None, wake_stream: Some(9) },
        Event::Delivered { generation: 1, lease_until: 6 },
        Event::DeliveryFailed { generation: 1, attempt: 2, next_try: 7 },
        Event::DeliveryRetried { generation: 1, deliver_until: 8 },
        Event::Claimed { generation: 2, worker: "worker-1".into(), lease_until: 9 },
        Event::Acked { generation: 2, offsets: snapshot.clone(), lease_until: Some(10) },
        Event::Acked { generation: 2, offsets: snapshot, lease_until: None },
        Event::Released { generation: 2 },
        Event::LeaseExpired { generation: 2 },
        Event::Withdrawn { generation: 2 },
    ]
}

#[test]
fn events_are_written_and_read_as_ever() {
    let recorded: Vec<_> =
        every_event().into_iter().map(|event| Recorded::new(1_700_000_000_000, "sub-1".into(), event)).collect();
    let written: Vec<_> = recorded.iter().map(Recorded::encode).collect();
    assert_eq!(written, GOLDEN.lines().collect::<Vec<_>>());
    assert_eq!(Recorded::decode_run(written.join(",").as_bytes()).unwrap(), recorded);
    assert_eq!(Recorded::decode_run(b"").unwrap(), []);
}

#[test]
fn an_event_of_a_newer_server_is_named_as_such() {
    let newer = br#"{"v":1,"at":0,"subscription":"s","event":{"type":"deleted"}},{"v":2,"whatever":true}"#;
    assert!(matches!(Recorded::decode_run(newer), Err(DecodeError::Version(2))));
    let unknown = br#"{"v":1,"at":0,"subscription":"s","event":{"type":"exploded"}}"#;
    assert!(matches!(Recorded::decode_run(unknown), Err(DecodeError::Json(_))));
    let extra = br#"{"v":1,"at":0,"subscription":"s","event":{"type":"released","generation":1,"why":"x"}}"#;
    assert!(matches!(Recorded::decode_run(extra), Err(DecodeError::Json(_))));
}
