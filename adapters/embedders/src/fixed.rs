//! Static embeddings, the family of model2vec: a vector for every token, and a text is their mean.

use std::fmt;

use safetensors::SafeTensors;
use serde::Deserialize;
use tokenizers::Tokenizer;

use crate::files::{CONFIG, Files, ROWS};
use crate::tensors::{Rows, floats, integers};
use crate::tokens::{Prefixes, head, unit, words};
use crate::{EmbedError, Embedder, Options, Purpose};

/// Where the model does not say how much of a text it takes.
const MAX_TOKENS: usize = 512;
/// Encodings are many times the size of their texts.
const TOGETHER: usize = 128;

pub(crate) struct StaticEmbedder {
    model: String,
    tokenizer: Tokenizer,
    unknown: Option<u32>,
    table: Table,
    prefixes: Prefixes,
    max_tokens: usize,
    max_characters: usize,
}

#[derive(Deserialize)]
struct Config {
    max_length: Option<usize>,
}

impl StaticEmbedder {
    pub(crate) fn load(mut files: Files, options: &Options) -> Result<Self, EmbedError> {
        let most = files.json::<Config>(CONFIG, &files.config)?.max_length.unwrap_or(MAX_TOKENS);
        let max_tokens = options.max_tokens.map_or(most, |tokens| tokens.min(most));
        let settings = ["static 1", &options.document_prefix, &max_tokens.to_string()];
        // Who asks one question waits for both.
        let (words, model) = std::thread::scope(|scope| {
            let words = scope.spawn(|| words(&files));
            let model = files.identity(&settings);
            (words.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), model)
        });
        let words = words?;
        let vocabulary = words.tokenizer.get_vocab(true);
        files.tensors()?;
        let weights = std::mem::take(&mut files.weights);
        let table = Table::read(weights).map_err(|reason| files.unusable(reason))?;
        if let Some((token, id)) = vocabulary.iter().find(|(_, id)| !table.has(**id)) {
            return Err(files.unusable(format_args!("token {token:?} has the number {id} and no vector")));
        }
        Ok(Self {
            model,
            tokenizer: words.tokenizer,
            unknown: words.unknown,
            table,
            prefixes: Prefixes::of(options),
            max_tokens,
            max_characters: max_tokens.saturating_mul(median_length(vocabulary.keys())),
        })
    }
}

impl Embedder for StaticEmbedder {
    fn is_quick(&self) -> bool {
        true
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn dimensions(&self) -> usize {
        self.table.rows.dimensions
    }

    fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(TOGETHER) {
            let texts: Vec<_> = texts.iter().map(|text| self.prefixes.put_before(text, purpose)).collect();
            let heads: Vec<&str> = texts.iter().map(|text| head(text, self.max_characters)).collect();
            let encodings = self
                .tokenizer
                .encode_batch_fast(heads, false)
                .map_err(|source| EmbedError::Failed { model: self.model.clone(), source })?;
            vectors.extend(encodings.iter().map(|encoding| {
                let ids = encoding.get_ids().iter().take(self.max_tokens).filter(|id| Some(**id) != self.unknown);
                unit(self.table.sum(ids))
            }));
        }
        Ok(vectors)
    }
}

impl fmt::Debug for StaticEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticEmbedder").field("model", &self.model).finish_non_exhaustive()
    }
}

struct Table {
    rows: Rows,
    /// Of tokens.
    weights: Option<Vec<f32>>,
    /// From tokens to rows, in models where alike tokens share one.
    mapping: Option<Vec<usize>>,
}

impl Table {
    fn read(file: Vec<u8>) -> Result<Self, String> {
        let (weights, mapping) = {
            let tensors = SafeTensors::deserialize(&file).map_err(|error| error.to_string())?;
            let weights = tensors.tensor("weights").ok().map(|tensor| floats(&tensor)).transpose()?;
            (weights, tensors.tensor("mapping").ok().map(|tensor| integers(&tensor)).transpose()?)
        };
        let rows = Rows::read(file, ROWS)?;
        let row = |number: i64| usize::try_from(number).ok().filter(|row| *row < rows.count);
        let mapping = mapping
            .map(|numbers| numbers.into_iter().map(row).collect::<Option<_>>().ok_or("mapping names a row that is not there"))
            .transpose()?;
        Ok(Self { rows, weights, mapping })
    }

    fn has(&self, token: u32) -> bool {
        let token = token as usize;
        let rows = self.mapping.as_ref().map_or(self.rows.count, Vec::len);
        token < rows && self.weights.as_ref().is_none_or(|weights| token < weights.len())
    }

    /// The mean, but for its length. What model2vec calls weights does not divide it either.
    fn sum<'a>(&self, tokens: impl Iterator<Item = &'a u32>) -> Vec<f32> {
        let mut sum = vec![0.0; self.rows.dimensions];
        for token in tokens.map(|token| *token as usize) {
            let row = self.mapping.as_ref().map_or(token, |mapping| mapping[token]);
            let weight = self.weights.as_ref().map_or(1.0, |weights| weights[token]);
            self.rows.add(row, weight, &mut sum);
        }
        sum
    }
}

/// Of tokens, in characters. model2vec cuts texts by it before it looks for tokens, so that the longest text costs no
/// more than the longest that counts.
fn median_length<'a>(tokens: impl Iterator<Item = &'a String>) -> usize {
    let mut lengths: Vec<usize> = tokens.map(|token| token.chars().count()).collect();
    lengths.sort_unstable();
    let middle = lengths.len() / 2;
    let upper = lengths.get(middle).copied().unwrap_or(1);
    let lower = if lengths.len().is_multiple_of(2) { middle.checked_sub(1).map_or(upper, |at| lengths[at]) } else { upper };
    ((lower + upper) / 2).max(1)
}
