use std::fs;
use std::sync::Arc;

use embedders::{EmbedError, Embedder, Options, Purpose, load};
use half::f16;
use safetensors::tensor::Dtype;
use serde_json::json;
use tempfile::TempDir;

use crate::tiny::{Tensor, assert_near, colours, options, write, write_static};

async fn tiny() -> (TempDir, Arc<dyn Embedder>) {
    let directory = TempDir::new().unwrap();
    write_static(directory.path());
    let embedder = load(&options(directory.path())).await.unwrap();
    (directory, embedder)
}

fn one(embedder: &dyn Embedder, text: &str) -> Option<Vec<f32>> {
    embedder.embed(&[text], Purpose::Document).unwrap().remove(0)
}

async fn refused(options: &Options) -> EmbedError {
    load(options).await.unwrap_err()
}

#[tokio::test]
async fn a_text_is_the_mean_of_its_words_at_length_one() {
    let (_directory, embedder) = tiny().await;
    assert_eq!(embedder.dimensions(), 4);
    assert_eq!(one(&*embedder, "Red").unwrap(), [1.0, 0.0, 0.0, 0.0]);
    assert_near(&one(&*embedder, "red GREEN").unwrap(), &[0.5_f32.sqrt(), 0.5_f32.sqrt(), 0.0, 0.0], 1e-6);
    assert_near(&one(&*embedder, "warm").unwrap(), &[0.6, 0.0, 0.0, 0.8], 1e-6);
}

#[tokio::test]
async fn words_that_the_model_does_not_know_count_for_nothing() {
    let (_directory, embedder) = tiny().await;
    assert_eq!(one(&*embedder, "mauve red mauve"), one(&*embedder, "red"));
    let vectors = embedder.embed(&["mauve", "", " \n", "red"], Purpose::Document).unwrap();
    assert_eq!(vectors.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, false, true]);
}

#[tokio::test]
async fn what_is_beyond_the_longest_text_does_not_count() {
    let directory = TempDir::new().unwrap();
    write_static(directory.path());
    let embedder = load(&Options { max_tokens: Some(2), ..options(directory.path()) }).await.unwrap();
    assert_eq!(one(&*embedder, "red red blue"), one(&*embedder, "red"));
    let endless = "red ".repeat(1 << 20);
    assert_eq!(one(&*embedder, &endless), one(&*embedder, "red"));
}

#[tokio::test]
async fn prefixes_are_put_before_what_they_are_for() {
    let directory = TempDir::new().unwrap();
    write_static(directory.path());
    let plain = load(&options(directory.path())).await.unwrap();
    let prefixes = Options { query_prefix: "green ".into(), document_prefix: "blue ".into(), ..options(directory.path()) };
    let embedder = load(&prefixes).await.unwrap();
    assert_eq!(embedder.embed(&["red", ""], Purpose::Query).unwrap(), [one(&*plain, "green red"), None]);
    assert_eq!(embedder.embed(&["red", ""], Purpose::Document).unwrap(), [one(&*plain, "blue red"), None]);
}

#[tokio::test]
async fn a_model_is_called_by_its_directory_and_by_all_that_decides_its_vectors() {
    let parent = TempDir::new().unwrap();
    let path = parent.path().join("owner--colours");
    write_static(&path);
    let name = async |options: Options| load(&options).await.unwrap().model().to_owned();
    let first = name(options(&path)).await;
    assert!(first.starts_with("colours:") && first.len() == "colours:".len() + 8, "{first}");
    assert_eq!(name(options(&path)).await, first);
    assert_eq!(name(Options { query_prefix: "q: ".into(), ..options(&path) }).await, first);
    assert_ne!(name(Options { document_prefix: "d: ".into(), ..options(&path) }).await, first);
    assert_ne!(name(Options { max_tokens: Some(7), ..options(&path) }).await, first);
    let mut other = colours();
    other.bytes[16] ^= 1;
    write(&path, &json!({ "model_type": "model2vec" }), &[other]);
    assert_ne!(name(options(&path)).await, first);
}

#[tokio::test]
async fn models_of_fewer_bits_say_nearly_the_same() {
    let directory = TempDir::new().unwrap();
    let numbers = |scale: f32| colours().bytes.as_chunks().0.iter().map(move |four| f32::from_le_bytes(*four) * scale).collect();
    let halves: Vec<f32> = numbers(1.0);
    let halves = halves.iter().flat_map(|number| f16::from_f32(*number).to_le_bytes()).collect();
    let bytes: Vec<f32> = numbers(10.0);
    let bytes = bytes.iter().flat_map(|number| (*number as i8).to_le_bytes()).collect();
    for (dtype, bytes) in [(Dtype::F16, halves), (Dtype::I8, bytes)] {
        // No model_type: the tensor's name tells.
        write(directory.path(), &json!({}), &[Tensor { dtype, bytes, ..colours() }]);
        let embedder = load(&options(directory.path())).await.unwrap();
        assert_near(&one(&*embedder, "warm").unwrap(), &[0.6, 0.0, 0.0, 0.8], 1e-6);
    }
}

#[tokio::test]
async fn words_may_share_rows_and_weigh_differently() {
    let directory = TempDir::new().unwrap();
    let rows = Tensor::floats("embeddings", &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
    let weights = Tensor::floats("weights", &[6], &[1.0, 3.0, 4.0, 1.0, 1.0, 1.0]);
    let mapping = |rows: [i64; 6]| Tensor {
        name: "mapping",
        dtype: Dtype::I64,
        shape: vec![6],
        bytes: rows.iter().flat_map(|row| row.to_le_bytes()).collect(),
    };
    write(directory.path(), &json!({ "model_type": "model2vec" }), &[rows, weights, mapping([0, 0, 1, 1, 1, 1])]);
    let embedder = load(&options(directory.path())).await.unwrap();
    assert_near(&one(&*embedder, "red green").unwrap(), &[0.6, 0.8], 1e-6);

    let rows = Tensor::floats("embeddings", &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
    write(directory.path(), &json!({ "model_type": "model2vec" }), &[rows, mapping([0, 0, 1, 2, 1, 1])]);
    assert!(refused(&options(directory.path())).await.to_string().contains("mapping names a row that is not there"));
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_with_its_reason() {
    let parent = TempDir::new().unwrap();
    let path = parent.path().join("model");
    let reason = async || refused(&options(&path)).await.to_string();

    assert!(reason().await.ends_with("is neither a directory nor the id of a model on the hub (owner/name)"));
    fs::create_dir(&path).unwrap();
    assert!(reason().await.contains("has no config.json"));

    write(&path, &json!({ "model_type": "t5" }), &[Tensor::floats("shared", &[1, 1], &[1.0])]);
    assert!(reason().await.contains("holds a model of type t5; model2vec and bert are supported"));

    write(&path, &json!({ "model_type": "model2vec" }), &[Tensor::floats("embeddings", &[5, 2], &[1.0; 10])]);
    assert!(reason().await.contains("token \"cold\" has the number 5 and no vector"));

    write(&path, &json!({ "model_type": "model2vec" }), &[Tensor::floats("embeddings", &[12], &[1.0; 12])]);
    assert!(reason().await.contains("embeddings has the shape [12]"));

    write_static(&path);
    let weights = fs::read(path.join("model.safetensors")).unwrap();
    fs::write(path.join("model.safetensors"), &weights[..weights.len() - 1]).unwrap();
    assert!(reason().await.contains("model.safetensors"));

    write_static(&path);
    fs::write(path.join("tokenizer.json"), "{}").unwrap();
    assert!(reason().await.contains("tokenizer.json"));
}
