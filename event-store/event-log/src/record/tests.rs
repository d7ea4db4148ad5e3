use proptest::prelude::*;

use super::*;

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..64).prop_map(|b| Payload::bytes(b.into())),
        proptest::collection::vec("[a-z\"{}]{1,9}", 1..6).prop_map(|m| Payload::messages(m.iter().map(String::as_str))),
        (any::<[u8; 32]>(), any::<u32>()).prop_map(|(sha256, len)| Payload { body: Body::Blob { sha256, len }, cuts: None }),
    ]
}

fn stamp() -> impl Strategy<Value = Stamp> {
    (".{1,8}", any::<u64>(), any::<u64>()).prop_map(|(id, epoch, seq)| Stamp { id: id.into(), epoch, seq })
}

fn op() -> impl Strategy<Value = Op> {
    let fork = (".{0,12}", any::<u64>(), any::<u64>()).prop_map(|(source, at, sub)| Fork { source: source.into(), at, sub });
    let lifetime = || proptest::option::of(any::<u64>());
    prop_oneof![
        (any::<u64>(), ".{0,20}", lifetime(), lifetime(), proptest::option::of(fork)).prop_map(
            |(generation, content_type, ttl_seconds, expires_at, fork)| Op::Created(Created {
                generation,
                content_type: content_type.into(),
                ttl_seconds,
                expires_at,
                fork
            })
        ),
        (any::<[u64; 2]>(), payload(), proptest::option::of(stamp()), proptest::option::of(".{0,5}"), any::<bool>()).prop_map(
            |([generation, first], payload, producer, seq, close)| Op::Appended(Appended {
                generation,
                first,
                payload,
                producer,
                stream_seq: seq.map(Into::into),
                close
            })
        ),
        proptest::option::of(stamp()).prop_map(|producer| Op::Closed { producer }),
        any::<bool>().prop_map(|expired| Op::Deleted { expired }),
        Just(Op::Renewed),
    ]
}

pub(crate) fn record() -> impl Strategy<Value = Record> {
    (".{0,30}", any::<u64>(), proptest::option::of(any::<u128>()), op()).prop_map(|(stream, time, command, op)| Record {
        stream: stream.into(),
        time,
        command,
        op,
    })
}

proptest! {
    #[test]
    fn every_record_decodes_to_itself(record in record()) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let mut input = Reader::new(bytes.into());
        prop_assert_eq!(Record::decode(&mut input).unwrap(), record);
        prop_assert_eq!(input.remaining(), 0);
    }

    #[test]
    fn a_cut_record_is_an_error_and_never_a_panic(record in record(), keep in 0.0..1.0f64) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes.truncate((bytes.len() as f64 * keep) as usize);
        prop_assert!(Record::decode(&mut Reader::new(bytes.into())).is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Record::decode(&mut Reader::new(bytes.into()));
    }
}

#[test]
fn a_run_of_messages_is_one_slice_of_the_joined_text() {
    let payload = Payload::messages(["1", "\"a,b\"", "{}"]);
    let Body::Inline(text) = &payload.body else { panic!("inline") };
    assert_eq!(&text[payload.span(0, 3)], b"1,\"a,b\",{}");
    assert_eq!(&text[payload.span(1, 2)], b"\"a,b\"");
    assert_eq!(&text[payload.span(1, 3)], b"\"a,b\",{}");
    assert_eq!(&text[payload.span(2, 2)], b"");
}
