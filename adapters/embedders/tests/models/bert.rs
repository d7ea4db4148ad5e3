use std::fs;
use std::path::Path;

use embedders::{Embedder, Options, Purpose, load};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tiny::{Tensor, assert_near, options, write};

const WIDTH: usize = 8;
const POSITIONS: usize = 16;

fn config() -> Value {
    json!({
        "model_type": "bert", "vocab_size": 6, "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    })
}

/// Numbers without meaning, but always the same.
fn tensor(name: &'static str, shape: &[usize]) -> Tensor {
    let mut state = name.bytes().fold(7_u32, |state, byte| state.wrapping_mul(31).wrapping_add(byte.into()));
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| next()).collect();
    Tensor::floats(name, shape, &numbers)
}

fn write_bert(directory: &Path, config: &Value) {
    let w = WIDTH;
    let tensors = [
        tensor("embeddings.word_embeddings.weight", &[6, w]),
        tensor("embeddings.position_embeddings.weight", &[POSITIONS, w]),
        tensor("embeddings.token_type_embeddings.weight", &[2, w]),
        tensor("embeddings.LayerNorm.weight", &[w]),
        tensor("embeddings.LayerNorm.bias", &[w]),
        tensor("encoder.layer.0.attention.self.query.weight", &[w, w]),
        tensor("encoder.layer.0.attention.self.query.bias", &[w]),
        tensor("encoder.layer.0.attention.self.key.weight", &[w, w]),
        tensor("encoder.layer.0.attention.self.key.bias", &[w]),
        tensor("encoder.layer.0.attention.self.value.weight", &[w, w]),
        tensor("encoder.layer.0.attention.self.value.bias", &[w]),
        tensor("encoder.layer.0.attention.output.dense.weight", &[w, w]),
        tensor("encoder.layer.0.attention.output.dense.bias", &[w]),
        tensor("encoder.layer.0.attention.output.LayerNorm.weight", &[w]),
        tensor("encoder.layer.0.attention.output.LayerNorm.bias", &[w]),
        tensor("encoder.layer.0.intermediate.dense.weight", &[2 * w, w]),
        tensor("encoder.layer.0.intermediate.dense.bias", &[2 * w]),
        tensor("encoder.layer.0.output.dense.weight", &[w, 2 * w]),
        tensor("encoder.layer.0.output.dense.bias", &[w]),
        tensor("encoder.layer.0.output.LayerNorm.weight", &[w]),
        tensor("encoder.layer.0.output.LayerNorm.bias", &[w]),
    ];
    write(directory, config, &tensors);
}

fn one(embedder: &dyn Embedder, text: &str) -> Vec<f32> {
    embedder.embed(&[text], Purpose::Document).unwrap().remove(0).unwrap()
}

#[tokio::test]
async fn a_text_is_the_same_alone_and_among_longer_ones() {
    let directory = TempDir::new().unwrap();
    write_bert(directory.path(), &config());
    let embedder = load(&options(directory.path())).await.unwrap();
    assert_eq!(embedder.dimensions(), WIDTH);
    let texts: Vec<String> = (1..=20)
        .map(|count| ["red", "cold", "green"].iter().cycle().take(count % 7 + 1).copied().collect::<Vec<_>>().join(" "))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = embedder.embed(&texts, Purpose::Document).unwrap();
    for (text, vector) in texts.iter().zip(together) {
        let vector = vector.unwrap();
        assert_near(&vector, &one(&*embedder, text), 1e-5);
        assert_near(&[vector.iter().map(|number| number * number).sum()], &[1.0], 1e-5);
    }
}

#[tokio::test]
async fn a_text_of_unknown_words_has_no_vector() {
    let directory = TempDir::new().unwrap();
    write_bert(directory.path(), &config());
    let embedder = load(&options(directory.path())).await.unwrap();
    let vectors = embedder.embed(&["", "mauve", "red", " "], Purpose::Document).unwrap();
    assert_eq!(vectors.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true, false]);
}

#[tokio::test]
async fn a_text_is_cut_where_the_model_ends() {
    let directory = TempDir::new().unwrap();
    write_bert(directory.path(), &config());
    let embedder = load(&Options { max_tokens: Some(1000), ..options(directory.path()) }).await.unwrap();
    let text = "red ".repeat(POSITIONS);
    assert_eq!(one(&*embedder, &format!("{text} blue")), one(&*embedder, &text));
    assert_ne!(one(&*embedder, &format!("{} blue", "red ".repeat(3))), one(&*embedder, &text));
    fs::write(directory.path().join("sentence_bert_config.json"), r#"{ "max_seq_length": 3 }"#).unwrap();
    let embedder = load(&options(directory.path())).await.unwrap();
    assert_eq!(one(&*embedder, "red red red blue"), one(&*embedder, "red red red"));
}

#[tokio::test]
async fn how_tokens_become_one_vector_is_told_by_the_model() {
    let directory = TempDir::new().unwrap();
    write_bert(directory.path(), &config());
    let mean = load(&options(directory.path())).await.unwrap();
    let pooling = directory.path().join("1_Pooling/config.json");
    fs::create_dir(pooling.parent().unwrap()).unwrap();
    fs::write(&pooling, r#"{ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false }"#).unwrap();
    let first = load(&options(directory.path())).await.unwrap();
    assert_ne!(one(&*mean, "red cold"), one(&*first, "red cold"));
    assert_near(&one(&*mean, "red"), &one(&*first, "red"), 1e-6);
    assert_ne!(mean.model(), first.model());
    fs::write(&pooling, r#"{ "pooling_mode_max_tokens": true }"#).unwrap();
    let refusal = load(&options(directory.path())).await.unwrap_err();
    assert!(refusal.to_string().contains("only the mean and the first token are supported"));
}

#[tokio::test]
async fn weights_that_are_not_those_of_the_config_are_refused() {
    let directory = TempDir::new().unwrap();
    for (key, value) in
        [("num_attention_heads", 0), ("num_attention_heads", 3), ("hidden_size", 16), ("num_hidden_layers", 2), ("vocab_size", 5)]
    {
        let mut config = config();
        config[key] = value.into();
        write_bert(directory.path(), &config);
        let refusal = load(&options(directory.path())).await.unwrap_err();
        assert!(refusal.to_string().contains("cannot be used"), "{refusal}");
    }
}
