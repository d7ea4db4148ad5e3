use std::path::Path;

use codecs::artifact::Body;
use codecs::check::{Contents, check, lineages, parse};
use codecs::source::Bundle;

use crate::support::{fixtures, golden, golden_of, shared_fixtures};

use super::{codec, contents, header, home, home_with, line, rollouts, said, told};

/// The number of files that are equal; panics with the first that is not.
fn round_trip(bundles: &[Bundle]) -> usize {
    for bundle in bundles {
        let scratch = tempfile::tempdir().unwrap();
        let differences = check(codec(), bundle, scratch.path()).unwrap();
        assert_eq!(differences, [], "{}", bundle.main().display());
    }
    bundles.len()
}

fn restored(contents: &Contents) -> Vec<(String, String)> {
    let restored = lineages(contents.sessions.clone()).into_iter();
    let restored = restored.flat_map(|lineage| codec().serialize.native(&lineage).unwrap());
    restored.map(|artifact| (artifact.path, artifact.body.to_text().unwrap())).collect()
}

/// `adapter-native-restore-lossless`, `model-lossless-projection`
#[test]
fn sessions_of_every_generation_come_back_as_they_were() {
    assert_eq!(round_trip(&rollouts(&fixtures("codex"))), 10);
}

/// `adapter-native-restore-lossless`, `model-lossless-projection`
#[test]
fn sessions_found_in_the_wild_come_back_as_they_were() {
    let Some(root) = shared_fixtures("codex") else { return };
    let files = round_trip(&rollouts(&root));
    eprintln!("codex: {files} files equal");
    assert!(files > 0);
}

/// A fork names the end of what it shares with its parent in bytes, so the bytes are to be the client's own.
#[test]
fn a_restored_rollout_has_the_bytes_that_the_client_wrote() {
    for bundle in rollouts(&fixtures("codex")) {
        let written = std::fs::read_to_string(bundle.root.join(bundle.main())).unwrap();
        let back = restored(&parse(codec(), &bundle).unwrap()).remove(0).1;
        assert_eq!(back.replace('\n', ""), written.replace('\n', ""), "{}", bundle.main().display());
    }
}

/// `lance-deterministic-pk`, `adapter-integrity-additive-sync`
#[test]
fn a_session_that_grew_keeps_the_messages_it_had() {
    for bundle in rollouts(&fixtures("codex")) {
        let whole = parse(codec(), &bundle).unwrap();
        let text = std::fs::read_to_string(bundle.root.join(bundle.main())).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let half = home_with(&bundle.main().to_string_lossy(), lines[..lines.len().div_ceil(2)].join("\n"));
        let before = parse(codec(), &half.bundle).unwrap();
        assert_eq!(before.sessions[0].0, whole.sessions[0].0);
        assert_eq!(before.sessions[0].1[..], whole.sessions[0].1[..before.sessions[0].1.len()]);
    }
}

#[test]
fn the_canonical_form_is_the_reviewed_one() {
    for bundle in rollouts(&fixtures("codex")) {
        golden(&golden_of(&bundle.root.join(bundle.main())), &parse(codec(), &bundle).unwrap());
    }
}

/// `model-lossless-projection`
#[test]
fn what_no_version_writes_yet_survives() {
    let text = header()
        + &line("from_next_year", r#"{"type":"message","deep":[{"a":1e400,"a":2}]}"#)
        + &line("response_item", r#"{"type":"from_next_year","id":"x","content":[{"type":"input_text","text":"?"}]}"#)
        + "{\"neither\":\"type nor payload\"}\n[1,2]\n\"text\"\nnull\n"
        + &line("response_item", r#"{"type":"function_call","name":7,"arguments":{},"call_id":null}"#)
        + &line("response_item", r#"{"type":"message","role":"user","content":null,"more":0.10}"#)
        + &line("response_item", r#"{"type":"message","role":"user","content":"a bare text"}"#)
        + &line("response_item", r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"\ud800"}]}"#);
    let home = home(&text);
    assert_eq!(round_trip(std::slice::from_ref(&home.bundle)), 1);
    let parsed = contents(&text);
    assert_eq!(parsed.faults, []);
    assert_eq!(told(&parsed.sessions[0].1), ["user a bare text"]);
    assert_eq!(parsed.sessions[0].1.len(), 11, "every record is a message or carried");
}

#[test]
fn a_packed_rollout_is_read_and_comes_back_plain() {
    let text = header() + &said("hello");
    let file = "archived_sessions/rollout-2025-10-14T22-34-00-0199e4a5-5b78-78f2-b041-6b876f71fdab.jsonl.zst";
    let packed = home_with(file, zstd::encode_all(text.as_bytes(), 0).unwrap());
    assert_eq!(round_trip(std::slice::from_ref(&packed.bundle)), 1);
    let (packed, plain) = (parse(codec(), &packed.bundle).unwrap(), contents(&text));
    assert_eq!(packed.sessions[0].1, plain.sessions[0].1, "packing does not change what is said");
    let back = restored(&packed);
    assert_eq!(back, [(file.trim_end_matches(".zst").to_owned(), text)]);
}

#[test]
fn a_rollout_that_is_being_packed_is_read_once() {
    let home = home(header());
    let plain = home.directory.path().join(home.bundle.main());
    std::fs::write(plain.with_extension("jsonl.zst"), zstd::encode_all(&b"{}"[..], 0).unwrap()).unwrap();
    std::fs::write(home.directory.path().join("history.jsonl"), "{}").unwrap();
    assert_eq!(codec().parse.discover(home.directory.path()).unwrap(), [home.bundle]);
}

#[test]
fn a_single_file_and_a_directory_that_is_no_home_are_taken_too() {
    let home = home_with("copies/one.jsonl", header());
    assert_eq!(home.bundle.main(), Path::new("copies/one.jsonl"));
    let file = home.directory.path().join("copies/one.jsonl");
    let found = codec().parse.discover(&file).unwrap();
    assert_eq!((found.len(), found[0].main()), (1, Path::new("one.jsonl")));
    let originals = codec().parse.originals(&found[0]);
    assert!(matches!(&originals[0].body, Body::Lines(lines) if lines.len() == 1));
}
