use crate::support::{canonical, codec};
use codecs::artifact::{Body, Report};
use codecs::lineage::Lineage;
use codecs::restore::{Place, RestoreError, records, restore};

const SESSION: &str =
    r#"{"id":"s","source_agent":"pi","created_at":"2026-01-01T00:00:00Z","project":"p","options":{"source":{"file":"f"}}}"#;

fn lineage(message: &str) -> Lineage {
    let (session, messages) = canonical(&format!("{SESSION}\n{message}"));
    Lineage { session, messages, children: Vec::new(), bases: Vec::new() }
}

fn system(options: &str) -> Lineage {
    lineage(&format!(r#"{{"id":"m","role":"system","timestamp":"2026-01-01T00:00:00Z","content":"x","options":{options}}}"#))
}

fn user(part: &str, source: &str) -> Lineage {
    lineage(&format!(
        r#"{{"id":"m","role":"user","timestamp":"2026-01-01T00:00:00Z","content":[{{"id":"p","provenance":"injected",{part}}}],"options":{{"source":{source}}}}}"#
    ))
}

/// `adapter-native-restore-lossless`: what did not come through a codec is refused, not guessed.
#[test]
fn a_message_that_does_not_say_what_its_record_was_is_refused() {
    let text = r#""type":"text","text":"x","options":{"source":{"at":"/t"}}"#;
    let own = r#""type":"text","text":"x","options":{"source":{"at":"/t","record":{}}}"#;
    let cases = [
        (system("{}"), "options.source is missing"),
        (system(r#"{"source":{"n":0}}"#), "options.source.record is missing"),
        (system(r#"{"source":{"n":0,"at":"/t","record":{}}}"#), "the place of its text"),
        (system(r#"{"source":{"n":0,"at":"t","record":{"t":null}}}"#), "the place of its text"),
        (user(text, r#"{"n":0,"record":{}}"#), "the place of a part"),
        (user(own, r#"{"n":0,"record":{}}"#), "the place of a part"),
        (
            user(r#""type":"text","text":"x","options":{"source":{"at":"/t/x"}}"#, r#"{"n":0,"record":{"t":[null]}}"#),
            "the place of a part",
        ),
    ];
    for (lineage, expected) in cases {
        let Err(RestoreError::NoRecord { session, message, why }) = records(&lineage) else { panic!("{expected}") };
        assert_eq!((session.as_str(), message.as_str(), why), ("s", "m", expected));
    }
}

#[test]
fn a_blob_is_loaded_by_whoever_restores() {
    let blob = r#""type":"file","media_type":"a/b","url":"pond://blob/00","options":{"source":{"at":"/t"}}"#;
    let error = records(&user(blob, r#"{"n":0,"record":{"t":null}}"#)).unwrap_err();
    assert_eq!(error, RestoreError::BlobNotLoaded { message: "m".into(), part: "p".into() });
}

#[test]
fn a_part_that_left_no_hole_leaves_the_record_alone() {
    for options in ["{}", r#"{"source":{}}"#, r#"{"source":7}"#] {
        let lineage = user(&format!(r#""type":"text","text":"x","options":{options}"#), r#"{"record":{"t":1}}"#);
        let files = records(&lineage).unwrap();
        assert_eq!((files["f"][0].n, files["f"][0].value.to_string().as_str()), (0, r#"{"t":1}"#));
    }
}

#[test]
fn origin_alone_decides_whether_a_restoration_is_native() {
    let place = Place { directory: "/d".to_owned() };
    let mut lineage = system(r#"{"source":{"n":0,"at":"/t","record":{"t":null}}}"#);
    let native = restore(codec("pi"), &lineage, &place).unwrap();
    assert!(native.native && native.report == Report::default());
    assert!(matches!(&native.artifacts[0].body, Body::Lines(lines) if lines[0].to_string() == r#"{"t":"x"}"#));
    lineage.session.source_agent = "another".to_owned();
    let foreign = restore(codec("pi"), &lineage, &place).unwrap();
    assert!(!foreign.native && foreign.report.dropped["system"] == 1);
    lineage.session.source_agent = "arbe".to_owned();
    assert!(!restore(codec("pi"), &lineage, &place).unwrap().native);
}
