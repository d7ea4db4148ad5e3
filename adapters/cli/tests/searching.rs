//! Search as people and models use it, over sessions that lie in this repository.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

struct Home(tempfile::TempDir);

impl Home {
    /// The sessions of all clients.
    fn synced() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for client in ["claude-code", "codex", "opencode", "pi"] {
            let from = fixtures().join("sessions").join(client);
            let done = home.run(&["sync", "--client", client, "--from", from.to_str().unwrap()]);
            assert!(done.status.success(), "{client}: {}", String::from_utf8_lossy(&done.stderr));
        }
        home
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arbe"));
        command.arg("--data-dir").arg(self.0.path()).args(args).env_remove("ARBE_EMBED_MODEL");
        let model = self.0.path().join("model");
        command.envs(model.exists().then(|| ("ARBE_EMBED_MODEL", model)));
        command
    }

    /// From now on there is a model, and everything has vectors.
    fn embed(&self, meanings: &[(&str, [f32; 3])]) {
        write_model(&self.0.path().join("model"), meanings);
        let done = self.run(&["sync", "--only", "embed"]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let done = self.run(&[&["--json"], args].concat());
        let text = String::from_utf8(done.stdout).unwrap();
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    fn found(&self, query: &str) -> Vec<String> {
        let found = self.json(&["search", "--limit", "20", "--", query]);
        let id = |session: &Value| format!("{} {}", session["session_id"].as_str().unwrap(), session["score"]);
        found["sessions"].as_array().unwrap().iter().map(id).collect()
    }
}

/// A model of the model2vec family that knows these words.
fn write_model(directory: &Path, meanings: &[(&str, [f32; 3])]) {
    let words = std::iter::once(("[UNK]", [0.0; 3])).chain(meanings.iter().copied());
    let vocabulary: serde_json::Map<_, _> =
        words.clone().enumerate().map(|(id, (word, _))| (word.to_owned(), json!(id))).collect();
    let numbers: Vec<u8> = words.flat_map(|(_, vector)| vector).flat_map(f32::to_le_bytes).collect();
    let shape = [meanings.len() + 1, 3];
    let head = json!({ "embeddings": { "dtype": "F32", "shape": shape, "data_offsets": [0, numbers.len()] } }).to_string();
    let weights = [&(head.len() as u64).to_le_bytes()[..], head.as_bytes(), &numbers].concat();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": { "type": "Lowercase" },
        "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]" },
    });
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join("config.json"), json!({ "model_type": "model2vec", "normalize": true }).to_string()).unwrap();
    std::fs::write(directory.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(directory.join("model.safetensors"), weights).unwrap();
}

/// In which `the flipped polarity` means `turned sign`, to be entrusted is to be delegated, and a salutation is a hello. Of what was never
/// talked about it knows words, too: they are as near as chance has it.
const MEANINGS: [(&str, [f32; 3]); 16] = [
    ("lighthouse", [0.1, 0.1, -1.0]),
    ("irrigation", [0.1, 0.1, -1.0]),
    ("bakery", [0.1, 0.1, -1.0]),
    ("greenhouse", [0.1, 0.1, -1.0]),
    ("ferry", [0.1, 0.1, -1.0]),
    ("fahrkartenautomat", [0.1, 0.1, -1.0]),
    ("turned", [1.0, 0.1, 0.0]),
    ("sign", [0.8, 0.0, 0.2]),
    ("flipped", [1.0, 0.1, 0.0]),
    ("polarity", [0.8, 0.0, 0.2]),
    ("picture", [0.0, 1.0, 0.0]),
    ("kestrel", [0.9, 0.1, 0.1]),
    ("delegate", [0.0, 0.0, 1.0]),
    ("entrusted", [0.0, 0.0, 1.0]),
    ("hello", [0.0, -1.0, 0.0]),
    ("salutation", [0.0, -1.0, 0.0]),
];

fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(fixtures().join("search/known-items.tsv")).unwrap();
    text.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap().to_owned()).collect()
}

fn known_items() -> String {
    fixtures().join("search/known-items.tsv").to_str().unwrap().to_owned()
}

/// Strata of our own items, of which one is `absent`.
const STRATA: usize = 9;

/// Every item is found first, those in other words by meaning alone, and what is absent is not found.
fn assert_perfect(stratum: &Value) {
    let name = (stratum["arm"].as_str().unwrap(), stratum["stratum"].as_str().unwrap());
    let (key, value) = match name {
        (_, "absent") => ("false_hits", 0.0),
        ("keyword", "paraphrase") => ("success_at_10", 0.0),
        _ => ("success_at_1", 1.0),
    };
    assert_eq!(stratum[key], value, "{stratum}");
    let ends = &stratum["intervals"][key];
    assert!(ends[0].as_f64().unwrap() <= value && value <= ends[1].as_f64().unwrap(), "{stratum}");
}

#[test]
fn known_items_are_found_first_and_what_was_never_said_is_not_found() {
    let home = Home::synced();
    let scores = home.json(&["eval", &known_items()]);
    let strata = scores["strata"].as_array().unwrap();
    assert_eq!(strata.len(), STRATA, "{scores}");
    for stratum in strata {
        assert_eq!(stratum["arm"], "keyword", "{stratum}");
        assert_perfect(stratum);
    }
    let nothing = home.run(&["search", "renderGlacierTiles"]);
    assert_eq!(nothing.status.code(), Some(3));
    assert!(nothing.stdout.is_empty());
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nobody says \"renderglaciertiles\""));
}

#[test]
fn an_evaluation_tells_the_mean_over_strata_and_how_long_answers_took() {
    let home = Home::synced();
    let scores = home.json(&["eval", &known_items()]);
    let mean = &scores["means"][0];
    assert_eq!((&mean["arm"], &mean["stratum"]), (&json!("keyword"), &json!("mean")));
    let (value, ends) = (mean["success_at_1"].as_f64().unwrap(), &mean["intervals"]["success_at_1"]);
    assert!(ends[0].as_f64().unwrap() < value && value < ends[1].as_f64().unwrap(), "{mean}");
    let answerable = scores["strata"].as_array().unwrap().iter().filter(|stratum| stratum["stratum"] != "absent");
    assert_eq!(mean["items"], answerable.map(|stratum| stratum["items"].as_u64().unwrap()).sum::<u64>());
    let latency = scores["latency"].as_array().unwrap();
    let told: Vec<_> = latency.iter().map(|it| (it["what"].as_str().unwrap(), it["samples"].as_u64().unwrap())).collect();
    let all = queries().len() as u64;
    assert!(matches!(told[..], [("cold", 1..=20), ("first", first), ("again", again)] if [first, again] == [all; 2]), "{told:?}");
    let table = String::from_utf8(home.run(&["eval", &known_items()]).stdout).unwrap();
    assert!(table.lines().nth(STRATA + 1).is_some_and(|line| line.starts_with("keyword  mean ")), "{table}");
}

#[test]
fn an_item_that_expects_what_is_not_there_is_named_and_left_out() {
    let home = Home::synced();
    let file = home.0.path().join("items.tsv");
    let there = "k1\tkeyword\tturned the sign around\tcodex:0199e4a5-5b78-78f2-b041-6b876f71fdab\n";
    let elsewhere = "k2\tkeyword\tturned the sign\tcodex:0199e4a5-5b78-78f2-b041-6b876f71fdab#nowhere pi:nobody\n";
    let write = |items: &[&str]| std::fs::write(&file, format!("id\tstratum\tquery\tgold\n{}", items.concat())).unwrap();
    write(&[there, elsewhere]);
    let scores = home.json(&["eval", file.to_str().unwrap()]);
    assert_eq!(scores["strata"][0]["items"], 1, "{scores}");
    let expected = ["message nowhere of 0199e4a5-5b78-78f2-b041-6b876f71fdab", "session nobody"];
    let lost = json!([{ "id": "k2", "stratum": "keyword", "expected": expected, "counted": false }]);
    assert_eq!(scores["not_there"], lost);
    write(&[elsewhere]);
    let done = home.run(&["eval", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!((done.status.code(), done.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("k2 (keyword) expects what is not there") && said.contains("these 1 items"), "{said}");
}

#[test]
fn a_rebuilt_index_finds_the_same_in_the_same_order() {
    let home = Home::synced();
    let before: Vec<_> = queries().iter().map(|query| home.found(query)).collect();
    assert!(before.iter().any(|found| found.len() > 3), "{before:?}");
    for args in [&["rebuild", "entries", "sessions"][..], &["verify", "entries", "sessions"]] {
        let done = home.run(args);
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let after: Vec<_> = queries().iter().map(|query| home.found(query)).collect();
    assert_eq!(before, after);
}

#[test]
fn what_is_said_in_other_words_is_found_by_meaning_and_a_name_that_nobody_said_is_not() {
    let home = Home::synced();
    let asked = "the flipped polarity";
    assert!(home.found(asked).is_empty(), "by words alone");
    home.embed(&MEANINGS);
    let found = home.json(&["search", "--limit", "20", "--", asked]);
    assert_eq!(found["mode"], "hybrid");
    assert_eq!(found["sessions"][0]["session_id"], "0199e4a5-5b78-78f2-b041-6b876f71fdab", "{found}");
    assert!(found["sessions"][0]["matches"][0]["text"].as_str().unwrap().contains("I turned the sign around"), "{found}");
    assert!(home.found("flipped polarity").is_empty(), "nobody says a word of it");
    assert!(home.found("Kestrel polarity").is_empty(), "what is near it is not what was named");
    let scores = home.json(&["eval", &known_items()]);
    let strata = scores["strata"].as_array().unwrap();
    assert_eq!(strata.len(), 3 * STRATA, "each arm and both together: {scores}");
    strata.iter().filter(|stratum| stratum["arm"] == "hybrid").for_each(assert_perfect);
    let before: Vec<_> = queries().iter().map(String::as_str).chain([asked]).map(|query| home.found(query)).collect();
    let rebuilt = home.run(&["rebuild", "entries", "sessions"]);
    assert!(rebuilt.status.success(), "{}", String::from_utf8_lossy(&rebuilt.stderr));
    let after: Vec<_> = queries().iter().map(String::as_str).chain([asked]).map(|query| home.found(query)).collect();
    assert_eq!(before, after, "both indexes made anew find the same");
}

#[test]
fn bad_input_is_named_and_explaining_tells_what_was_done() {
    let home = Home::synced();
    for (args, told) in [
        (&["search", "--limit", "51", "word"][..], "limit is between 1 and 50"),
        (&["search", "--min-score", "2", "word"], "min_score is between 0 and 1"),
        (
            &["search", "--client", "nope", "word"],
            "there is no client \"nope\"; known are arbe, claude-code, codex, opencode, pi",
        ),
        (&["search", "--since", "2026-02-01", "--until", "2026-01-01", "word"], "since is not before until"),
    ] {
        let done = home.run(args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(told), "{args:?}: {:?} {said}", done.status);
    }
    let explained = home.json(&["search", "--explain", "--client", "codex", "Hilbert"]);
    let plan = explained["keyword_plan"].as_str().unwrap();
    assert!(plan.contains("before ranking") && plan.contains("codex"), "{plan}");
    assert!(explained["sessions"][0]["keyword"].is_number(), "{explained}");
}

#[test]
fn a_model_searches_over_stdio() {
    let home = Home::synced();
    let mut server = home.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let hello = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let search = json!({ "name": "pond_search", "arguments": { "query": "turned the sign around" } });
    let mut input = server.stdin.take().unwrap();
    for line in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": search }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": { "uri": "stats://pond" } }),
    ] {
        writeln!(input, "{line}").unwrap();
    }
    drop(input);
    let output = server.wait_with_output().unwrap();
    let answers: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer =
        |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("no answer {id}: {answers:?}"));
    let found = answer(2)["result"]["content"][0]["text"].as_str().unwrap();
    assert!(found.contains("0199e4a5-5b78-78f2-b041-6b876f71fdab") && found.contains("I turned the sign around"), "{found}");
    let stats = answer(3)["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(stats.contains("\"searchable_messages\""), "{stats}");
}
