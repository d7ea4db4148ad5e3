//! An embedder that computes nothing twice, unless that is quicker than to find it. This is what everything above uses.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use half::f16;

use crate::{EmbedError, Embedder, Purpose, VectorCache};

/// How much is lost, at most, if the process is killed.
const STORED_TOGETHER: usize = 64;
/// Kept vectors that are read in the time in which a quick model makes one.
const READ_MEANWHILE: u64 = 64;
/// The share of the way from having nothing in common to being the same that two texts of one trade have gone.
const KINSHIP: f32 = 0.27;
/// They have nothing to do with each other, so what a model makes of them shows how near it puts any two texts.
const UNRELATED: [&str; 12] = [
    "The cat slept on the warm roof all afternoon.",
    "Set the retry limit of the HTTP client to five.",
    "My grandmother bakes bread on Sundays.",
    "The database migration failed because a column was missing.",
    "Rain is expected in the mountains tomorrow.",
    "Rename the function and update its callers.",
    "He plays the violin in a small orchestra.",
    "The build is slow since the last dependency update.",
    "Tickets for the museum are sold at the entrance.",
    "Show a spinner while the page is loading.",
    "The ship left the harbour at dawn.",
    "Write a test for the parser of dates.",
];

#[derive(Clone, Debug)]
pub struct Cached {
    embedder: Arc<dyn Embedder>,
    cache: Arc<VectorCache>,
    /// Texts that were embedded since without a look at what is kept.
    passed_by: Arc<AtomicU64>,
    /// Of the texts above: whoever only asks does not read all that was ever embedded.
    unrelated: Arc<VectorCache>,
    chance: Arc<OnceLock<f32>>,
}

impl Cached {
    /// `directory` holds a file for each model, and a small one for its scale, so going back to a model finds what it had computed.
    pub fn open(embedder: Arc<dyn Embedder>, directory: &Path) -> Result<Self, EmbedError> {
        let open = |name: &str| VectorCache::open(directory, name, embedder.dimensions()).map(Arc::new);
        let (cache, unrelated) = (open(embedder.model())?, open(&format!("{}.unrelated", embedder.model()))?);
        Ok(Self { embedder, cache, passed_by: Arc::default(), unrelated, chance: Arc::default() })
    }

    pub fn model(&self) -> &str {
        self.embedder.model()
    }

    pub fn dimensions(&self) -> usize {
        self.embedder.dimensions()
    }

    /// In order; none for a text in which the model knows no word. Blocks, and keeps what it has if it fails halfway.
    pub fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f16>>>, EmbedError> {
        if !self.are_sooner_made(texts.len() as u64)? {
            return self.embed(&self.cache, texts);
        }
        // Nobody knows whether they are kept, so they are not kept again.
        let vectors = self.embedder.embed(texts, Purpose::Document)?;
        Ok(vectors.into_iter().map(|vector| vector.map(|vector| short(&vector))).collect())
    }

    /// Whether a quick model has made a few texts before all that is kept is read. Those of many calls are many, too.
    fn are_sooner_made(&self, texts: u64) -> Result<bool, EmbedError> {
        if !self.embedder.is_quick() {
            return Ok(false);
        }
        let passed_by = self.passed_by.load(Ordering::Relaxed).saturating_add(texts);
        let sooner = passed_by.saturating_mul(READ_MEANWHILE) < self.cache.unread()?;
        self.passed_by.store(if sooner { passed_by } else { 0 }, Ordering::Relaxed);
        Ok(sooner)
    }

    /// In order; none for a text that was not embedded yet, or has no word that the model knows. Computes nothing.
    pub fn kept_documents(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f16>>>, EmbedError> {
        Ok(texts.iter().map(|text| self.cache.get(text)).collect::<Result<_, _>>()?)
    }

    fn embed(&self, cache: &VectorCache, texts: &[&str]) -> Result<Vec<Option<Vec<f16>>>, EmbedError> {
        let mut vectors = texts.iter().map(|text| cache.get(text)).collect::<Result<Vec<_>, _>>()?;
        let missing = texts.iter().zip(&vectors).filter(|(_, vector)| vector.is_none());
        let mut missing: Vec<&str> = missing.map(|(text, _)| *text).collect();
        // Texts of one length fill a batch without padding.
        missing.sort_unstable_by_key(|text| (text.len(), *text));
        missing.dedup();
        let mut computed = HashMap::new();
        for texts in missing.chunks(STORED_TOGETHER) {
            computed.extend(self.compute(cache, texts)?);
        }
        for (text, vector) in texts.iter().zip(&mut vectors) {
            if vector.is_none() {
                *vector = computed.get(text).cloned();
            }
        }
        Ok(vectors)
    }

    /// Queries come once: they are not kept.
    pub fn embed_query(&self, text: &str) -> Result<Option<Vec<f16>>, EmbedError> {
        let vectors = self.embedder.embed(&[text], Purpose::Query)?;
        Ok(vectors.into_iter().flatten().next().map(|vector| short(&vector)))
    }

    /// The cosine that two texts of one trade reach without saying the same.
    pub fn chance(&self) -> Result<f32, EmbedError> {
        if let Some(known) = self.chance.get() {
            return Ok(*known);
        }
        let vectors: Vec<Vec<f16>> = self.embed(&self.unrelated, &UNRELATED)?.into_iter().flatten().collect();
        let (mut sum, mut pairs) = (0.0, 0.0_f32);
        for (at, one) in vectors.iter().enumerate() {
            for two in &vectors[..at] {
                sum += one.iter().zip(two).map(|(a, b)| a.to_f32() * b.to_f32()).sum::<f32>();
                pairs += 1.0;
            }
        }
        let unrelated = sum / pairs.max(1.0);
        Ok(*self.chance.get_or_init(|| unrelated + (1.0 - unrelated) * KINSHIP))
    }

    fn compute<'a>(&self, cache: &VectorCache, texts: &[&'a str]) -> Result<Vec<(&'a str, Vec<f16>)>, EmbedError> {
        let vectors = self.embedder.embed(texts, Purpose::Document)?;
        let known = texts.iter().zip(&vectors).filter_map(|(text, vector)| Some((*text, short(vector.as_ref()?))));
        let known: Vec<_> = known.collect();
        let stored: Vec<_> = known.iter().map(|(text, vector)| (*text, &vector[..])).collect();
        cache.put(&stored)?;
        Ok(known)
    }
}

fn short(vector: &[f32]) -> Vec<f16> {
    vector.iter().copied().map(f16::from_f32).collect()
}
