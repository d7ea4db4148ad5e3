//! With a model: what is found by what it means is of the house, too.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use replay_tests::servers::without_postgres;
use serde_json::{Value, json};

use crate::{OURS, Owner, Reply, Site, THEIRS, Told, filters, text};

/// In which a tusked one is a walrus, and a contraption a zibberquax.
const MEANINGS: [(&str, [f32; 3]); 6] = [
    ("walrus", [1.0, 0.1, 0.0]),
    ("tusked", [1.0, 0.1, 0.0]),
    ("zibberquax", [0.0, 1.0, 0.1]),
    ("saffronvault", [0.0, 0.9, 0.2]),
    ("contraption", [0.0, 1.0, 0.1]),
    ("furnace", [0.0, 0.0, 1.0]),
];

/// Of the model2vec family.
fn write_model(directory: &Path) -> Result<()> {
    let words = std::iter::once(("[UNK]", [0.0; 3])).chain(MEANINGS);
    let vocabulary: serde_json::Map<_, _> =
        words.clone().enumerate().map(|(id, (word, _))| (word.to_owned(), json!(id))).collect();
    let numbers: Vec<u8> = words.flat_map(|(_, vector)| vector).flat_map(f32::to_le_bytes).collect();
    let (shape, offsets) = ([MEANINGS.len() + 1, 3], [0, numbers.len()]);
    let head = json!({ "embeddings": { "dtype": "F32", "shape": shape, "data_offsets": offsets } }).to_string();
    let weights = [&(head.len() as u64).to_le_bytes()[..], head.as_bytes(), &numbers].concat();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": { "type": "Lowercase" },
        "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]" },
    });
    std::fs::write(directory.join("config.json"), r#"{"model_type":"model2vec","normalize":true}"#)?;
    std::fs::write(directory.join("tokenizer.json"), tokenizer.to_string())?;
    std::fs::write(directory.join("model.safetensors"), weights)?;
    Ok(())
}

/// Whatever a stranger is told of what only the other house means.
fn finds_nothing(stranger: &Owner, told: &Told, asked: &str) -> Result<()> {
    let reply = stranger.search(&json!({ "query": asked }))?;
    let answer = reply.json()?;
    assert_eq!((&answer["mode"], &answer["sessions"]), (&json!("hybrid"), &json!([])), "{asked}: {answer}");
    let unsaid = asked.split(' ').next_back().context("a word")?;
    assert_eq!(last_hint(&answer)?, format!("nobody says {unsaid:?}"), "{asked}: {answer}");
    is_not_told(&reply, told)?;
    let (found, refused) = stranger.call("pond_search", &json!({ "query": asked }))?;
    assert!(!refused && found.starts_with("No message fits."), "{asked}: {found}");
    is_not_told(&Reply { status: 200, text: found }, told)
}

/// Before it stands what keeps the answer from being whole, if the machine is busy.
fn last_hint(answer: &Value) -> Result<String> {
    text(answer["hints"].as_array().and_then(|hints| hints.last()).context("a hint")?)
}

fn is_not_told(reply: &Reply, told: &Told) -> Result<()> {
    let names = [told.session, told.project, told.client, told.message];
    let leak = names.into_iter().chain(said(told)).find(|secret| reply.text.contains(secret));
    ensure!(leak.is_none(), "{leak:?} is told: {reply:?}");
    Ok(())
}

fn said(told: &Told) -> [&'static str; 3] {
    [told.asked, told.answered, told.entry]
}

/// It is found by its owner, who reads it; a stranger does not.
fn finds_and_reads(owner: &Owner, stranger: &Owner, told: &Told, asked: &str) -> Result<()> {
    let answer = owner.search(&json!({ "query": asked }))?.json()?;
    assert_eq!(answer["mode"], "hybrid", "{answer}");
    let sessions = answer["sessions"].as_array().context("sessions")?;
    assert!(sessions.iter().any(|session| session["session_id"] == told.session), "{asked}: {answer}");
    for session in sessions {
        for hit in session["matches"].as_array().context("matches")? {
            let wanted = json!({ "session_id": session["session_id"], "message_id": hit["message_id"] });
            let read = owner.read(&wanted)?;
            assert_eq!((read.status, read.json()?["target"]["text"].as_str()), (200, hit["text"].as_str()), "{wanted}");
            let refused = stranger.read(&wanted)?;
            assert!(refused.status == 404 && !said(told).iter().any(|said| refused.text.contains(said)), "{refused:?}");
        }
    }
    let (found, refused) = owner.call("pond_search", &json!({ "query": asked }))?;
    assert!(!refused && found.contains("by words and meaning") && found.contains(told.session), "{found}");
    Ok(())
}

fn explain(site: &Site, model: &str, house: &str, asked: &str) -> Result<Value> {
    let args = ["--embed-model", model, "--json", "search", "--explain", "--house", house, "--", asked];
    let done = site.server.beside(&args)?;
    ensure!(done.status.success(), "{done:?}");
    Ok(serde_json::from_slice(&done.stdout)?)
}

#[test]
fn what_is_meant_is_found_in_its_own_house_and_nowhere_else() -> Result<()> {
    if without_postgres() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    write_model(directory.path())?;
    let model = directory.path().to_str().context("a path")?;
    let mut site = Site::start(&["--embed-model", model])?;
    let (ours, theirs) = (&site.ours, &site.theirs);
    for (owner, stranger, told, asked) in [(ours, theirs, &OURS, "the tusked"), (theirs, ours, &THEIRS, "the contraption")] {
        finds_and_reads(owner, stranger, told, asked)?;
        finds_nothing(stranger, told, asked)?;
        for filter in filters(told) {
            assert_eq!(owner.found(&filter)?, [told.session], "{filter}");
            assert_eq!(stranger.found(&filter)?, Vec::<String>::new(), "{filter}");
        }
    }
    let slip = json!({ "query": "the zibberquas" });
    let hint = |owner: &Owner| last_hint(&owner.search(&slip)?.json()?);
    assert_eq!(hint(theirs)?, r#"nobody says "zibberquas"; there is zibberquax"#);
    assert_eq!(hint(ours)?, r#"nobody says "zibberquas""#);
    let houses = [(ours.house.clone(), &THEIRS, "the contraption"), (theirs.house.clone(), &OURS, "the tusked")];
    site.is_well()?;
    site.server.stop()?;
    for (n, (house, other, asked)) in houses.iter().enumerate() {
        let nothing = explain(&site, model, house, asked)?;
        assert_eq!((&nothing["mode"], &nothing["sessions"]), (&json!("hybrid"), &json!([])), "{nothing}");
        is_not_told(&Reply { status: 200, text: nothing.to_string() }, other)?;
        let explained = explain(&site, model, house, houses[1 - n].2)?;
        let of_vectors =
            explained["sessions"].as_array().context("sessions")?.iter().all(|session| session["vector"].is_number());
        assert!(explained["vector_plan"].is_string() && explained["sessions"][0].is_object() && of_vectors, "{explained}");
        is_not_told(&Reply { status: 200, text: explained.to_string() }, other)?;
    }
    Ok(())
}
