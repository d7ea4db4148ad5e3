use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use embedders::VectorCache;
use half::f16;
use tempfile::TempDir;

const MODEL: &str = "tiny:00000000";
const RECORD: u64 = 16 + 2 * 2 + 8;

fn open(directory: &Path) -> VectorCache {
    VectorCache::open(directory, MODEL, 2).unwrap()
}

fn vector(number: usize) -> [f16; 2] {
    [f16::from_f32(number as f32), f16::from_f32(0.5)]
}

fn put(cache: &VectorCache, texts: &[&str]) {
    let vectors: Vec<_> = (0..).map(vector).take(texts.len()).collect();
    let pairs: Vec<_> = texts.iter().copied().zip(vectors.iter().map(|vector| &vector[..])).collect();
    cache.put(&pairs).unwrap();
}

fn file(directory: &Path) -> PathBuf {
    fs::read_dir(directory).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn what_was_put_is_there_after_opening_again() {
    let directory = TempDir::new().unwrap();
    let cache = open(directory.path());
    assert_eq!(cache.get("a").unwrap(), None);
    put(&cache, &["a", "b", "a"]);
    put(&cache, &["b"]);
    assert_eq!(cache.len().unwrap(), 2);
    let cache = open(directory.path());
    assert_eq!(cache.get("b").unwrap().unwrap(), vector(1));
    assert_eq!(cache.get("c").unwrap(), None);
    assert_eq!(cache.len().unwrap(), 2);
    assert_eq!(fs::metadata(file(directory.path())).unwrap().len(), 2 * RECORD);
}

#[test]
fn models_do_not_see_each_others_vectors() {
    let directory = TempDir::new().unwrap();
    put(&open(directory.path()), &["a"]);
    let other = VectorCache::open(directory.path(), "tiny:11111111", 2).unwrap();
    assert_eq!(other.get("a").unwrap(), None);
    // Both names make one file name; each passes over what the other wrote.
    let alike = VectorCache::open(directory.path(), "tiny_00000000", 2).unwrap();
    assert_eq!((alike.get("a").unwrap(), alike.damaged()), (None, 1));
}

#[test]
fn a_torn_end_is_cut_off_and_the_rest_stays() {
    let directory = TempDir::new().unwrap();
    put(&open(directory.path()), &["a", "b"]);
    let path = file(directory.path());
    OpenOptions::new().write(true).open(&path).unwrap().set_len(2 * RECORD - 3).unwrap();
    let cache = open(directory.path());
    assert_eq!((cache.len().unwrap(), cache.get("b").unwrap()), (1, None));
    put(&cache, &["c", "b"]);
    let cache = open(directory.path());
    assert_eq!((cache.len().unwrap(), cache.damaged()), (3, 0));
    assert_eq!(cache.get("b").unwrap().unwrap(), vector(1));
    assert_eq!(fs::metadata(&path).unwrap().len(), 3 * RECORD);
}

#[test]
fn damaged_records_are_passed_over_and_counted_and_can_be_put_again() {
    let directory = TempDir::new().unwrap();
    let running = open(directory.path());
    put(&running, &["a", "b", "c"]);
    let path = file(directory.path());
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0xff], RECORD + 17).unwrap();
    let cache = open(directory.path());
    assert_eq!((cache.len().unwrap(), cache.damaged()), (2, 1));
    assert_eq!(cache.get("b").unwrap(), None);
    assert_eq!(cache.get("c").unwrap().unwrap(), vector(2));
    // Whoever had indexed it before it was damaged finds out when it is read.
    assert_eq!((running.get("b").unwrap(), running.damaged()), (None, 1));
    put(&running, &["x", "b"]);
    assert_eq!(cache.get("b").unwrap().unwrap(), vector(1));
    assert_eq!(open(directory.path()).len().unwrap(), 4);
}

#[test]
fn two_that_have_it_open_see_and_spare_what_the_other_added() {
    let directory = TempDir::new().unwrap();
    let (one, two) = (open(directory.path()), open(directory.path()));
    put(&one, &["a", "b"]);
    assert_eq!(two.get("b").unwrap().unwrap(), vector(1));
    put(&two, &["b", "c"]);
    put(&one, &["c"]);
    assert_eq!((one.len().unwrap(), two.len().unwrap()), (3, 3));
    assert_eq!(fs::metadata(file(directory.path())).unwrap().len(), 3 * RECORD);
}

#[test]
fn many_writers_at_once_lose_nothing() {
    let directory = TempDir::new().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let cache = open(directory.path());
            scope.spawn(move || {
                for round in 0..50 {
                    let (own, shared) = (format!("{writer} {round}"), format!("all {round}"));
                    put(&cache, &[&own, &shared]);
                }
            });
        }
    });
    let cache = open(directory.path());
    assert_eq!((cache.len().unwrap(), cache.damaged()), (250, 0));
    assert_eq!(fs::metadata(file(directory.path())).unwrap().len(), 250 * RECORD);
}

#[test]
fn a_file_that_was_emptied_is_an_empty_cache() {
    let directory = TempDir::new().unwrap();
    let cache = open(directory.path());
    put(&cache, &["a", "b"]);
    OpenOptions::new().write(true).open(file(directory.path())).unwrap().set_len(0).unwrap();
    assert_eq!(cache.get("a").unwrap(), None);
    put(&cache, &["a"]);
    assert_eq!(cache.get("a").unwrap().unwrap(), vector(0));
    assert_eq!(cache.len().unwrap(), 1);
}

#[test]
fn a_vector_of_another_size_is_refused() {
    let directory = TempDir::new().unwrap();
    let refusal = open(directory.path()).put(&[("a", &[f16::ONE])]).unwrap_err();
    assert_eq!(refusal.to_string(), "a vector of 1 numbers among those of 2");
}
