//! An embedder that computes nothing twice. This is what everything above uses.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use half::f16;

use crate::{EmbedError, Embedder, Purpose, VectorCache};

/// How much is lost, at most, if the process is killed.
const STORED_TOGETHER: usize = 64;

#[derive(Clone, Debug)]
pub struct Cached {
    embedder: Arc<dyn Embedder>,
    cache: Arc<VectorCache>,
}

impl Cached {
    /// `directory` holds a file for each model, so going back to a model finds what it had computed.
    pub fn open(embedder: Arc<dyn Embedder>, directory: &Path) -> Result<Self, EmbedError> {
        let cache = VectorCache::open(directory, embedder.model(), embedder.dimensions())?;
        Ok(Self { embedder, cache: Arc::new(cache) })
    }

    pub fn model(&self) -> &str {
        self.embedder.model()
    }

    pub fn dimensions(&self) -> usize {
        self.embedder.dimensions()
    }

    /// In order; none for a text in which the model knows no word. Blocks, and keeps what it has if it fails halfway.
    pub fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f16>>>, EmbedError> {
        let mut vectors = texts.iter().map(|text| self.cache.get(text)).collect::<Result<Vec<_>, _>>()?;
        let missing = texts.iter().zip(&vectors).filter(|(_, vector)| vector.is_none());
        let mut missing: Vec<&str> = missing.map(|(text, _)| *text).collect();
        // Texts of one length fill a batch without padding.
        missing.sort_unstable_by_key(|text| (text.len(), *text));
        missing.dedup();
        let mut computed = HashMap::new();
        for texts in missing.chunks(STORED_TOGETHER) {
            computed.extend(self.compute(texts)?);
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

    fn compute<'a>(&self, texts: &[&'a str]) -> Result<Vec<(&'a str, Vec<f16>)>, EmbedError> {
        let vectors = self.embedder.embed(texts, Purpose::Document)?;
        let known = texts.iter().zip(&vectors).filter_map(|(text, vector)| Some((*text, short(vector.as_ref()?))));
        let known: Vec<_> = known.collect();
        let stored: Vec<_> = known.iter().map(|(text, vector)| (*text, &vector[..])).collect();
        self.cache.put(&stored)?;
        Ok(known)
    }
}

fn short(vector: &[f32]) -> Vec<f16> {
    vector.iter().copied().map(f16::from_f32).collect()
}
