//! The smallest models that have everything a large one has.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use embedders::Options;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::{Value, json};

/// Their numbers are 0 to 5.
pub const WORDS: [&str; 6] = ["[UNK]", "red", "green", "blue", "warm", "cold"];

pub struct Tensor {
    pub name: &'static str,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Tensor {
    pub fn floats(name: &'static str, shape: &[usize], numbers: &[f32]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Self { name, dtype: Dtype::F32, shape: shape.to_vec(), bytes }
    }
}

pub fn weights(tensors: &[Tensor]) -> Vec<u8> {
    let views: HashMap<_, _> = tensors
        .iter()
        .map(|tensor| (tensor.name, TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap()))
        .collect();
    serialize(views, None).unwrap()
}

pub fn tokenizer() -> Value {
    let vocabulary: serde_json::Map<_, _> = WORDS.iter().enumerate().map(|(id, word)| ((*word).into(), json!(id))).collect();
    json!({
        "version": "1.0",
        "truncation": { "max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right" },
        "padding": {
            "strategy": { "Fixed": 3 }, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 1, "pad_type_id": 0, "pad_token": "red",
        },
        "added_tokens": [],
        "normalizer": { "type": "Lowercase" },
        "pre_tokenizer": { "type": "Whitespace" },
        "post_processor": null,
        "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]" },
    })
}

#[rustfmt::skip]
pub fn colours() -> Tensor {
    Tensor::floats("embeddings", &[6, 4], &[
        9.0, 9.0, 9.0, 9.0,
        1.0, 0.0, 0.0, 0.0,
        0.0, 1.0, 0.0, 0.0,
        0.0, 0.0, 1.0, 0.0,
        3.0, 0.0, 0.0, 4.0,
        0.0, 0.0, 3.0, -4.0,
    ])
}

pub fn write(directory: &Path, config: &Value, tensors: &[Tensor]) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("config.json"), config.to_string()).unwrap();
    fs::write(directory.join("tokenizer.json"), tokenizer().to_string()).unwrap();
    fs::write(directory.join("model.safetensors"), weights(tensors)).unwrap();
}

pub fn write_static(directory: &Path) {
    write(directory, &json!({ "model_type": "model2vec", "normalize": true }), &[colours()]);
}

pub fn options(model: &Path) -> Options {
    Options {
        model: model.to_str().unwrap().into(),
        models: model.join("models"),
        hub: "http://127.0.0.1:9".into(),
        query_prefix: String::new(),
        document_prefix: String::new(),
        max_tokens: None,
    }
}

pub fn assert_near(found: &[f32], expected: &[f32], tolerance: f32) {
    assert!(found.len() >= expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }
}
