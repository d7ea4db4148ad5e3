use std::sync::Arc;

use embedders::{Cached, EmbedError, Embedder, Purpose, load};
use half::f16;
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::tiny::{options, write_static};

/// A text is its length; one without letters is nothing.
#[derive(Debug)]
struct Counting {
    model: &'static str,
    quick: bool,
    asked: Mutex<Vec<Vec<String>>>,
    /// Fails on this text.
    fails_on: &'static str,
}

impl Counting {
    fn new(model: &'static str) -> Arc<Self> {
        Arc::new(Self { model, quick: true, asked: Mutex::default(), fails_on: "never" })
    }

    fn slow(model: &'static str) -> Arc<Self> {
        Arc::new(Self { model, quick: false, asked: Mutex::default(), fails_on: "never" })
    }

    fn asked(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.asked.lock())
    }
}

impl Embedder for Counting {
    fn is_quick(&self) -> bool {
        self.quick
    }

    fn model(&self) -> &str {
        self.model
    }

    fn dimensions(&self) -> usize {
        1
    }

    fn embed(&self, texts: &[&str], _: Purpose) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        self.asked.lock().push(texts.iter().map(|text| (*text).to_owned()).collect());
        if texts.contains(&self.fails_on) {
            return Err(EmbedError::Failed { model: self.model.into(), source: "too hard".into() });
        }
        Ok(texts.iter().map(|text| (!text.trim().is_empty()).then(|| vec![text.len() as f32])).collect())
    }
}

fn numbers(numbers: &[f32]) -> Vec<Option<Vec<f16>>> {
    numbers.iter().map(|number| Some(vec![f16::from_f32(*number)])).collect()
}

#[test]
fn a_vector_that_was_cached_is_not_computed_again() {
    let directory = TempDir::new().unwrap();
    let embedder = Counting::new("one:1");
    let cached = Cached::open(embedder.clone(), directory.path()).unwrap();
    assert_eq!(cached.embed_documents(&["ccc", "a", "ccc", "bb"]).unwrap(), numbers(&[3.0, 1.0, 3.0, 2.0]));
    assert_eq!(embedder.asked(), [["a", "bb", "ccc"]]);
    let cached = Cached::open(embedder.clone(), directory.path()).unwrap();
    assert_eq!(cached.embed_documents(&["bb", "dddd", "a"]).unwrap(), numbers(&[2.0, 4.0, 1.0]));
    assert_eq!(embedder.asked(), [["dddd"]]);
}

/// Of 1 to `count` letters.
fn lengths(count: usize) -> Vec<String> {
    (1..=count).map(|length| "x".repeat(length)).collect()
}

fn as_strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

#[test]
fn a_quick_model_makes_a_few_texts_again_sooner_than_all_that_is_kept_is_read() {
    let directory = TempDir::new().unwrap();
    let texts = lengths(1_000);
    let embedder = Counting::new("one:1");
    Cached::open(embedder.clone(), directory.path()).unwrap().embed_documents(&as_strs(&texts)).unwrap();
    let size = || std::fs::metadata(directory.path().join("one_1.v1")).unwrap().len();
    let (before, _) = (size(), embedder.asked());
    let cached = Cached::open(embedder.clone(), directory.path()).unwrap();
    assert_eq!(cached.embed_documents(&["xx", "new", " "]).unwrap(), [numbers(&[2.0, 3.0]), vec![None]].concat());
    assert_eq!((embedder.asked(), size()), (vec![vec!["xx".to_owned(), "new".to_owned(), " ".to_owned()]], before));
    let rounds = (0..20).take_while(|_| {
        cached.embed_documents(&["xx"]).unwrap();
        !embedder.asked().is_empty()
    });
    assert_eq!(rounds.count(), 12, "those of many calls are many");
    cached.embed_documents(&["xx", "another"]).unwrap();
    assert_eq!(embedder.asked(), [["another"]], "what was read once is not passed by");
    assert!(size() > before);
}

#[test]
fn many_texts_and_those_of_a_slow_model_are_looked_up_among_all_that_is_kept() {
    let directory = TempDir::new().unwrap();
    let texts = lengths(1_000);
    let (quick, slow) = (Counting::new("one:1"), Counting::slow("two:2"));
    for embedder in [&quick, &slow] {
        Cached::open(embedder.clone(), directory.path()).unwrap().embed_documents(&as_strs(&texts)).unwrap();
        embedder.asked();
    }
    Cached::open(quick.clone(), directory.path()).unwrap().embed_documents(&as_strs(&texts[..20])).unwrap();
    Cached::open(slow.clone(), directory.path()).unwrap().embed_documents(&["xx"]).unwrap();
    assert_eq!((quick.asked().len(), slow.asked().len()), (0, 0));
}

#[test]
fn what_is_kept_is_told_without_computing_anything() {
    let directory = TempDir::new().unwrap();
    let embedder = Counting::new("one:1");
    Cached::open(embedder.clone(), directory.path()).unwrap().embed_documents(&["a", "ccc", " "]).unwrap();
    embedder.asked();
    let cached = Cached::open(embedder.clone(), directory.path()).unwrap();
    let [ccc, new, blank, a] = cached.kept_documents(&["ccc", "bb", " ", "a"]).unwrap().try_into().unwrap();
    assert_eq!([ccc, a].to_vec(), numbers(&[3.0, 1.0]));
    assert_eq!((new, blank, embedder.asked().len()), (None, None, 0));
}

#[test]
fn a_text_without_words_has_no_vector() {
    let directory = TempDir::new().unwrap();
    let cached = Cached::open(Counting::new("one:1"), directory.path()).unwrap();
    let vectors = cached.embed_documents(&["", "a", " "]).unwrap();
    assert_eq!(vectors.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(cached.embed_query("").unwrap(), None);
    assert_eq!(cached.embed_documents(&[]).unwrap(), []);
}

#[test]
fn another_model_computes_anew_and_going_back_finds_what_was_there() {
    let directory = TempDir::new().unwrap();
    let (one, two) = (Counting::new("one:1"), Counting::new("two:2"));
    for embedder in [&one, &two, &one, &two] {
        Cached::open(embedder.clone(), directory.path()).unwrap().embed_documents(&["a"]).unwrap();
    }
    assert_eq!((one.asked().len(), two.asked().len()), (1, 1));
}

#[test]
fn what_was_computed_before_a_failure_is_kept() {
    let directory = TempDir::new().unwrap();
    let texts = lengths(200);
    let texts = as_strs(&texts);
    let fails_on: &'static str = Box::leak("x".repeat(150).into_boxed_str());
    let failing = Arc::new(Counting { model: "one:1", quick: true, asked: Mutex::default(), fails_on });
    assert!(Cached::open(failing, directory.path()).unwrap().embed_documents(&texts).is_err());
    let embedder = Counting::new("one:1");
    Cached::open(embedder.clone(), directory.path()).unwrap().embed_documents(&texts).unwrap();
    let asked: usize = embedder.asked().iter().map(Vec::len).sum();
    assert_eq!(asked, 72, "two batches of 64 were kept");
}

#[tokio::test]
async fn queries_are_not_kept_and_are_as_near_as_documents() {
    let directory = TempDir::new().unwrap();
    write_static(directory.path());
    let embedder = load(&options(directory.path())).await.unwrap();
    let cached = Cached::open(embedder, &directory.path().join("vectors")).unwrap();
    assert_eq!(cached.dimensions(), 4);
    assert!(cached.model().contains(':'));
    let document = cached.embed_documents(&["warm blue"]).unwrap().remove(0);
    assert_eq!(cached.embed_query("warm blue").unwrap(), document);
    cached.embed_query("cold").unwrap();
    let files = std::fs::read_dir(directory.path().join("vectors")).unwrap();
    let kept: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(kept, 16 + 4 * 2 + 8, "one document");
}
