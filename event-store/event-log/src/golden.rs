//! Every stored format, as it was first written. The files are never regenerated: a reader of today must read them for ever.

use bytes::Bytes;

use crate::command::{Outcome, Receipt, Status};
use crate::offset::Offset;
use crate::record::{Appended, Body, Created, Fork, Op, Payload, Record, Stamp};
use crate::slot::{Header, Kind};
use crate::state::{PackRef, State};
use crate::{checkpoint, pack, slot};

fn record(stream: &str, command: Option<u128>, op: Op) -> Record {
    Record { stream: stream.into(), time: 1_700_000_000_000, command, op }
}

fn created(generation: u64, content_type: &str, ttl_seconds: Option<u64>, fork: Option<Fork>) -> Op {
    let expires_at = ttl_seconds.is_none().then_some(1_900_000_000_000);
    Op::Created(Created { generation, content_type: content_type.into(), ttl_seconds, expires_at, fork })
}

fn appended(generation: u64, first: u64, payload: Payload) -> Appended {
    Appended { generation, first, payload, producer: None, stream_seq: None, close: false }
}

fn records() -> Vec<Record> {
    let stamp = Stamp { id: "producer".into(), epoch: 3, seq: 0 };
    let messages = Payload::messages(["{\"a\":1}", "\"zwei\""]);
    let blob = Payload { body: Body::Blob { sha256: [9; 32], len: 70_000 }, cuts: None };
    let fork = Fork { source: "json".into(), at: 2, sub: 0 };
    vec![
        record("json", Some(77), created(1, "application/json", Some(60), None)),
        record("json", Some(77), Op::Appended(Appended { producer: Some(stamp.clone()), ..appended(1, 0, messages) })),
        record("bytes", None, created(3, "application/octet-stream", None, None)),
        record("bytes", None, Op::Appended(Appended { stream_seq: Some("a1".into()), ..appended(3, 0, blob) })),
        record("fork", None, created(5, "application/json", Some(60), Some(fork))),
        record("json", None, Op::Closed { producer: Some(Stamp { seq: 1, ..stamp }) }),
        record("fork", None, Op::Renewed),
        record("bytes", None, Op::Deleted { expired: true }),
    ]
}

fn header() -> Header {
    Header {
        kind: Kind::Data,
        cluster: 7,
        shard: 0,
        n: 1,
        epoch: 1,
        writer: 5,
        nonce: 6,
        prev: [4; 32],
        before: 0,
        durable: 1,
        time: 1_700_000_000_000,
        url: "http://127.0.0.1:4437".into(),
    }
}

pub(crate) fn state() -> State {
    let mut state = State::default();
    state.apply(1, &records()).expect("the records follow from each other");
    state.chain.next = 2;
    state.skips.insert(0);
    let index =
        [pack::Entry { stream: "json".into(), generation: 1, blocks: vec![pack::Block { start: 0, offset: 0, len: 99 }] }];
    state.install_pack(PackRef { from: 0, to: 2, bytes: 200 }, &index);
    state
}

fn fixture(name: &str) -> Bytes {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into()
}

#[test]
fn a_slot_of_format_1_is_read_and_written_as_ever() {
    let stored = fixture("slot-v1.bin");
    let slot = slot::decode(&stored).unwrap();
    assert_eq!((slot.header, slot.records), (header(), records()));
    assert_eq!(slot::encode(&header(), &records()), stored);
}

#[test]
fn a_pack_of_format_1_is_read_as_ever() {
    let appends: Vec<Record> = records().into_iter().filter(|r| matches!(r.op, Op::Appended(_))).collect();
    assert_eq!(pack::decode(&fixture("pack-v1.bin")).unwrap(), [appends[1].clone(), appends[0].clone()]);
}

#[test]
fn a_checkpoint_of_format_1_is_read_as_ever() {
    let read = checkpoint::decode(7, &fixture("checkpoint-v1.bin")).unwrap();
    let expected = state();
    assert_eq!((&read.chain, &read.packs, &read.skips), (&expected.chain, &expected.packs, &expected.skips));
    assert_eq!(read.streams.len(), expected.streams.len());
    for (name, stream) in &expected.streams {
        let found = read.stream(name).unwrap();
        assert_eq!((&found.head, &found.producers, &found.extents), (&stream.head, &stream.producers, &stream.extents), "{name}");
    }
    let tail = Offset { generation: 1, position: 2 };
    let producer = read.commands.get(77).unwrap().outcomes[0].producer;
    let outcome = Outcome { stream: "json".into(), status: Status::Done, tail, closed: false, producer };
    assert_eq!(read.commands.get(77), Some(&Receipt { position: 2, outcomes: vec![outcome] }));
}
