//! With weights that people use. `scripts/models target/models` fetches them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use embedders::{Cached, Embedder, Purpose, load};

use crate::tiny::{assert_near, options};

const QUESTION: &str = "How do I configure retries for S3 requests?";

async fn model(name: &str) -> Option<Arc<dyn Embedder>> {
    let test = std::env::current_exe().unwrap();
    let directory: PathBuf = test.ancestors().nth(3)?.join("models").join(name);
    if !directory.is_dir() {
        println!("skipped: no weights of {name}; scripts/models fetches them");
        return None;
    }
    Some(load(&options(&directory)).await.unwrap())
}

fn one(embedder: &dyn Embedder, text: &str) -> Vec<f32> {
    embedder.embed(&[text], Purpose::Document).unwrap().remove(0).unwrap()
}

fn order(embedder: &dyn Embedder, query: &str, documents: &[&str]) -> Vec<usize> {
    let query = embedder.embed(&[query], Purpose::Query).unwrap().remove(0).unwrap();
    let documents = embedder.embed(documents, Purpose::Document).unwrap();
    let likeness = |document: &Option<Vec<f32>>| document.iter().flatten().zip(&query).map(|(a, b)| a * b).sum::<f32>();
    let mut order: Vec<usize> = (0..documents.len()).collect();
    order.sort_by(|a, b| likeness(&documents[*b]).total_cmp(&likeness(&documents[*a])));
    order
}

fn messages(count: usize) -> Vec<String> {
    let said = "please look at the failing build, fix the retry logic in the uploader, and run the tests again; ";
    (0..count).map(|number| format!("message {number}: {}", said.repeat(1 + number % 8))).collect()
}

fn pace(embedder: &dyn Embedder, count: usize) {
    let messages = messages(count);
    let texts: Vec<&str> = messages.iter().map(String::as_str).collect();
    let started = Instant::now();
    embedder.embed(&texts, Purpose::Document).unwrap();
    println!("{}: {:.0} messages per second", embedder.model(), count as f64 / started.elapsed().as_secs_f64());
}

#[tokio::test]
async fn potion_says_what_model2vec_says() {
    let Some(embedder) = model("potion-base-8M").await else { return };
    assert_eq!(embedder.dimensions(), 256);
    let golden: [(&str, [f32; 8]); 4] = [
        (QUESTION, [0.102044, 0.148977, -0.216936, -0.128544, -0.024044, -0.020589, 0.087919, 0.081855]),
        ("the cat sat on the mat", [-0.078419, -0.054096, -0.074191, -0.10808, -0.022876, -0.012889, -0.013822, 0.082866]),
        ("中文🦀", [0.156278, 0.063759, 0.065731, -0.251395, 0.054379, 0.02526, -0.021008, -0.016891]),
        (
            &"unaffable supercalifragilistic ".repeat(400),
            [0.009763, -0.169859, -0.151427, -0.178728, 0.203802, 0.073289, 0.024414, 0.021736],
        ),
    ];
    for (text, expected) in golden {
        assert_near(&one(&*embedder, text), &expected, 2e-6);
    }
    assert_eq!(embedder.embed(&[""], Purpose::Document).unwrap(), [None]);
    pace(&*embedder, 2_000);
}

#[tokio::test]
async fn mini_lm_says_what_sentence_transformers_says() {
    let Some(embedder) = model("all-MiniLM-L6-v2").await else { return };
    assert_eq!(embedder.dimensions(), 384);
    assert_near(&one(&*embedder, QUESTION), &[-0.1070, -0.0681, -0.0006, -0.0647], 1e-4);
    pace(&*embedder, 24);
}

#[tokio::test]
async fn what_means_alike_is_near() {
    let documents = [
        "set the number of attempts for object storage calls",
        "a cat on a carpet",
        "the compiler refuses two mutable references",
        "bake the bread for forty minutes",
    ];
    for name in ["potion-base-8M", "all-MiniLM-L6-v2"] {
        let Some(embedder) = model(name).await else { continue };
        assert_eq!(order(&*embedder, "retry policy for S3 requests", &documents)[0], 0, "{name}");
        assert_eq!(order(&*embedder, "kitten lying on a rug", &documents)[0], 1, "{name}");
        assert_eq!(order(&*embedder, "oven temperature for a loaf", &documents)[0], 3, "{name}");
    }
}

#[tokio::test]
async fn what_is_near_by_chance_is_told_from_what_means_the_same() {
    for name in ["potion-base-8M", "all-MiniLM-L6-v2"] {
        let Some(embedder) = model(name).await else { continue };
        let directory = tempfile::tempdir().unwrap();
        let chance = Cached::open(embedder.clone(), directory.path()).unwrap().chance().unwrap();
        let near = |one_text: &str, other: &str| -> f32 {
            one(&*embedder, one_text).iter().zip(one(&*embedder, other)).map(|(a, b)| a * b).sum()
        };
        let same = near("how to retry failed requests", "retrying requests that failed");
        let other = near("how to retry failed requests", "bake the bread for forty minutes");
        assert!(other < chance && chance < same, "{name}: {other} {chance} {same}");
    }
}
