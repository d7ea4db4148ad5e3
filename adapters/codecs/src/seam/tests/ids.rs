use super::*;

fn ids(lineage: &Lineage) -> Vec<&str> {
    lineage.messages.iter().map(|it| it.id.as_str()).collect()
}

fn carried(records: &[&str]) -> Lineage {
    session_of(|out, to| {
        for text in records {
            let record = record(text);
            let id = record.copy(["id"]);
            out.carry(to, record, Head { id, ..Head::default() });
        }
    })
}

/// `adapter-integrity-dedup`: no two messages of a session share an id, not even one that looks like a number of ours.
#[test]
fn an_id_that_comes_again_gets_a_number() {
    let texts = [r#"{"id":"a"}"#, r#"{"id":"a"}"#, r#"{"id":"a~2"}"#, r#"{"id":"a~4"}"#, r#"{"id":"a"}"#, r#"{"id":"a"}"#];
    assert_eq!(ids(&carried(&texts)), ["a", "a~2", "a~2~2", "a~4", "a~3", "a~5"]);
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(512));
    let twice = carried(&[&long, &long]);
    assert_eq!((ids(&twice)[0].len(), ids(&twice)[1].len()), (512, 64));
}

/// `lance-deterministic-pk`: made of the record where it has none, the same every time, however it is written.
#[test]
fn a_record_without_an_id_gets_one_that_is_its_own() {
    let one = carried(&[r#"{"a":1,"b":"x"}"#, r#"{ "a":1, "b":"\u0078" }"#, r#"{"a":2}"#, r#"{"id":"\n","a":2}"#]);
    let got = ids(&one);
    assert_eq!((got[0].len(), got[1].to_owned()), (24, format!("{}~2", got[0])));
    assert!(got[2] != got[0] && got[3] != got[2]);
    assert_eq!(got[0], "3ae1df3be87788aca8ce6fdc", "persisted: the same for ever");
}

/// `adapter-integrity-additive-sync`: a codec that learns to take more out of a record finds it again under the id it had.
#[test]
fn an_id_does_not_depend_on_what_was_taken_out() {
    let text = r#"{"t":"words","j":{"x":1},"e":"{\"y\" : 2}","u":"data:image/png;base64,AA=="}"#;
    let carried = carried(&[text]);
    let takes: [fn(&mut Record, &mut Parts<AssistantBody>); 5] = [
        |record, parts| _ = parts.text(record.text(["t"]).unwrap(), SAID),
        |record, parts| {
            record.text(["t"]).unwrap().split(&[2, 3]).into_iter().for_each(|it| _ = parts.text(it, Provenance::Injected))
        },
        |record, parts| {
            _ = parts.tool_call(
                record.copy(["t"]).unwrap(),
                record.copy(["t"]).unwrap(),
                record.json(["j"]).unwrap(),
                false,
                SAID,
            )
        },
        |record, parts| _ = parts.tool_result(record.copy(["t"]).unwrap(), None, record.encoded(["e"]).unwrap(), false, SAID),
        |record, parts| {
            let (data, media_type) = record.data(["u"]).unwrap();
            parts.file(media_type, None, data, SAID);
        },
    ];
    for take in takes {
        let taken = session_of(|out, to| {
            let (mut record, mut parts) = (record(text), Parts::default());
            take(&mut record, &mut parts);
            out.assistant(to, record, Head::default(), parts);
        });
        assert_eq!(ids(&taken), ids(&carried));
    }
    let said = session_of(|out, to| {
        let mut record = record(text);
        let words = record.text(["t"]).unwrap();
        out.system(to, record, Head::default(), words);
    });
    assert_eq!(ids(&said), ids(&carried));
}

#[test]
fn no_two_parts_of_a_message_share_an_id() {
    let lineage = session_of(|out, to| {
        let record = record(r#"{"ids":["a","a~2","a","1",""],"long":"x"}"#);
        let mut parts = Parts::<UserBody>::default();
        for index in 0..5 {
            let id = record.copy(Path::from(["ids"]).to(index)).unwrap();
            parts.text(id.clone(), SAID).named(&id);
        }
        parts.text(record.copy(["long"]).unwrap(), SAID);
        out.user(to, record, Head::default(), parts);
    });
    let parts = lineage.messages[0].parts();
    let got: Vec<_> = parts.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(got, ["a", "a~2", "a~3", "1", "4", "5"]);
}
