use super::{Difference, check, compare};
use crate::artifact::{Artifact, Body};
use crate::lineage::Lineage;
use crate::registry::{Codec, Parse, find};
use crate::restore::{Place, RestoreError, Serialize};
use crate::seam::Out;
use crate::source::Bundle;
use crate::value::{Reader, Value};

fn codec(origin: &str) -> &'static Codec {
    find(origin).unwrap()
}

fn artifact(path: &str, body: Body) -> Artifact {
    Artifact { path: path.to_owned(), body }
}

fn lines(text: &str) -> Body {
    Body::Lines(text.lines().map(|line| Reader::only(line).unwrap()).collect())
}

fn json(text: &str) -> Body {
    Body::Json(Reader::only(text).unwrap())
}

fn rows(rows: &[(&str, &str)]) -> Body {
    Body::Rows(rows.iter().map(|(table, row)| ((*table).to_owned(), Reader::only(row).unwrap())).collect())
}

fn what(one: Body, two: Body) -> String {
    let differences = compare(&[artifact("f", one)], &[artifact("f", two)]);
    differences.into_iter().map(|it| it.what).collect::<Vec<_>>().join("; ")
}

#[test]
fn every_difference_is_named_where_it_is() {
    assert_eq!(what(lines("{\"a\":1,\"b\":[1,2.50]}"), lines("{ \"b\": [1,25e-1], \"a\":1.0 }")), "");
    assert_eq!(what(lines("1\n{\"a\":[1,{\"b\":2}]}"), lines("1\n{\"a\":[1,{\"b\":3}]}")), "record 2: /a/1/b is 3, was 2");
    assert_eq!(what(lines("{\"a\":1}"), lines("{}")), "record 1: /a is missing");
    assert_eq!(what(lines("{}"), lines("{\"a\":1}")), "record 1:  has more keys");
    assert_eq!(what(lines("[1]"), lines("[1,2]")), "record 1:  is [1,2], was [1]");
    assert_eq!(what(lines("1\n2"), lines("1")), "has 1 records, not 2");
    assert_eq!(what(json("{\"a\":1}"), json("{\"a\":2}")), "/a is 2, was 1");
    assert_eq!(what(json("1"), json("1.0")), "");
    assert_eq!(what(Body::Text("a".into()), Body::Text("b".into())), "has another text");
    assert_eq!(what(Body::Text("1".into()), json("1")), "has another form");
    assert_eq!(what(rows(&[("t", "{\"a\":1}")]), rows(&[("t", "{\"a\":2}")])), "t row 1: /a is 2, was 1");
    assert_eq!(what(rows(&[("t", "1")]), rows(&[("u", "1")])), "t row 1:  is 1, was 1");
    assert_eq!(what(rows(&[("t", "1"), ("t", "2")]), rows(&[("t", "1")])), "has 1 rows, not 2");
    let (one, two) = ([artifact("a", lines("1"))], [artifact("b", lines("1"))]);
    let said: Vec<_> = compare(&one, &two).into_iter().map(|Difference { file, what }| format!("{file} {what}")).collect();
    assert_eq!(said, ["a is not restored", "b was not there"]);
}

const HEADER: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/srv/demo"}"#;

/// pi, but for one thing that it gets wrong.
struct Wrong(fn(Vec<Artifact>) -> Result<Vec<Artifact>, RestoreError>);

impl Parse for Wrong {
    fn discover(&self, root: &std::path::Path) -> std::io::Result<Vec<Bundle>> {
        codec("pi").parse.discover(root)
    }

    fn parse(&self, bundle: &Bundle, out: &mut Out<'_>) {
        codec("pi").parse.parse(bundle, out);
    }

    fn originals(&self, bundle: &Bundle) -> Vec<Artifact> {
        codec("pi").parse.originals(bundle)
    }
}

impl Serialize for Wrong {
    fn native(&self, lineage: &Lineage) -> Result<Vec<Artifact>, RestoreError> {
        self.0(codec("pi").serialize.native(lineage)?)
    }

    fn foreign(&self, _: &Lineage, _: &Place, _: &mut crate::artifact::Report) -> Result<Vec<Artifact>, RestoreError> {
        Ok(Vec::new())
    }

    fn session_id(&self, session: &events::session::Session) -> String {
        session.id.to_string()
    }

    fn resume_command(&self, _: &crate::artifact::Restored, _: &std::path::Path) -> String {
        String::new()
    }
}

fn checked(wrong: &'static Wrong) -> Vec<String> {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("1_s1.jsonl"), HEADER).unwrap();
    let codec = Codec { origin: "pi", homes: &[], holds: &[], parse: wrong, serialize: wrong };
    let scratch = tempfile::tempdir().unwrap();
    let differences = check(&codec, &codec.parse.discover(files.path()).unwrap()[0], scratch.path()).unwrap();
    differences.into_iter().map(|it| it.what).collect()
}

#[test]
fn a_codec_that_loses_something_is_caught() {
    assert!(checked(&Wrong(Ok)).is_empty());
    assert_eq!(checked(&Wrong(|_| Ok(Vec::new()))), ["is not restored"]);
    let cut: fn(Vec<Artifact>) -> _ = |mut artifacts| {
        artifacts[0].body = Body::Lines(vec![Reader::only(&HEADER.replace("/srv/demo", "/elsewhere")).unwrap()]);
        Ok(artifacts)
    };
    let said = ["record 1: /cwd is \"/elsewhere\", was \"/srv/demo\"", "the restored files parse to something else"];
    assert_eq!(checked(Box::leak(Box::new(Wrong(cut)))), said);
    let rows: fn(Vec<Artifact>) -> _ = |mut artifacts| {
        artifacts[0].body = Body::Rows(vec![("t".to_owned(), Value::object([("a", Value::Null)]))]);
        Ok(artifacts)
    };
    assert_eq!(checked(Box::leak(Box::new(Wrong(rows)))), ["has another form", said[1]]);
    let refuse: fn(Vec<Artifact>) -> _ = |_| Err(RestoreError::BlobNotLoaded { message: "m".into(), part: "p".into() });
    assert_eq!(checked(Box::leak(Box::new(Wrong(refuse)))), ["the data of part p in message m is a blob that was not loaded"]);
}

#[test]
fn nothing_of_a_client_is_written_but_sessions() {
    for (origin, path) in [
        ("pi", "settings.json"),
        ("pi", "extensions/evil.ts"),
        ("claude-code", "settings.json"),
        ("claude-code", "CLAUDE.md"),
        ("codex", "config.toml"),
        ("opencode", "auth.json"),
    ] {
        assert!(!codec(origin).may_write(path), "{origin}: {path}");
    }
    for (origin, path) in [
        ("pi", "sessions/--srv--/a.jsonl"),
        ("claude-code", "projects/-srv/a.jsonl"),
        ("codex", "sessions/2026/01/01/rollout.jsonl"),
        ("opencode", "opencode.db"),
        ("opencode", "storage/session/info/a.json"),
    ] {
        assert!(codec(origin).may_write(path), "{origin}: {path}");
    }
}
