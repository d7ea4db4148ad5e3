//! BERT-type models, computed here and on the CPU.

use std::fmt;

use candle_core::{Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config, DTYPE};
use serde::Deserialize;
use tokenizers::{PostProcessor, Tokenizer, TruncationParams};

use crate::files::{CONFIG, Files, POOLING, SENTENCES, TOKENIZER, WEIGHTS};
use crate::tokens::{Prefixes, Words, head, unit, words};
use crate::{EmbedError, Embedder, Options, Purpose};

/// Small batches of texts of one length are faster on a CPU than large ones.
const BATCH_ROWS: usize = 8;
const BATCH_TOKENS: usize = 2_048;
/// Longer words than any text has on average: what is beyond is not even looked at.
const CHARACTERS_PER_TOKEN: usize = 32;

pub(crate) struct BertEmbedder {
    name: String,
    tokenizer: Tokenizer,
    unknown: Option<u32>,
    model: BertModel,
    pooling: Pooling,
    dimensions: usize,
    prefixes: Prefixes,
    max_tokens: usize,
}

#[derive(Clone, Copy, Debug)]
enum Pooling {
    Mean,
    FirstToken,
}

struct Encoded {
    place: usize,
    ids: Vec<u32>,
}

impl BertEmbedder {
    pub(crate) fn load(mut files: Files, options: &Options) -> Result<Self, EmbedError> {
        let config: Config = files.json(CONFIG, &files.config)?;
        if config.num_attention_heads == 0 || !config.hidden_size.is_multiple_of(config.num_attention_heads) {
            return Err(files.unusable(format_args!("{CONFIG}: the heads do not share hidden_size evenly")));
        }
        let pooling = pooling(&files)?;
        let max_tokens = max_tokens(&files, &config, options)?;
        let words = words_up_to(max_tokens, &files, &config)?;
        let shape =
            format!("{} heads, {:?}, {}, {pooling:?}", config.num_attention_heads, config.hidden_act, config.layer_norm_eps);
        let name = files.identity(&["bert 1", &options.document_prefix, &max_tokens.to_string(), &shape]);
        files.tensors()?;
        let weights = std::mem::take(&mut files.weights);
        let model = VarBuilder::from_buffered_safetensors(weights, DTYPE, &Device::Cpu)
            .and_then(|weights| BertModel::load(weights, &config))
            .map_err(|error| files.unusable(format_args!("{WEIGHTS}: {error}")))?;
        Ok(Self {
            name,
            tokenizer: words.tokenizer,
            unknown: words.unknown,
            model,
            pooling,
            dimensions: config.hidden_size,
            prefixes: Prefixes::of(options),
            max_tokens,
        })
    }

    /// Without texts in which no word is known.
    fn encode(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Encoded>, EmbedError> {
        let texts: Vec<_> = texts.iter().map(|text| self.prefixes.put_before(text, purpose)).collect();
        let most = self.max_tokens.saturating_mul(CHARACTERS_PER_TOKEN);
        let heads: Vec<&str> = texts.iter().map(|text| head(text, most)).collect();
        let encodings = self.tokenizer.encode_batch_fast(heads, true).map_err(|source| self.failed(source))?;
        let encoded = encodings.into_iter().enumerate().filter_map(|(place, encoding)| {
            let ids = encoding.get_ids();
            let mut words = ids.iter().zip(encoding.get_special_tokens_mask()).filter(|(_, special)| **special == 0);
            let known = words.any(|(id, _)| Some(*id) != self.unknown);
            known.then(|| Encoded { place, ids: ids.to_vec() })
        });
        Ok(encoded.collect())
    }

    fn compute(&self, batch: &[Encoded]) -> candle_core::Result<Vec<Vec<f32>>> {
        let longest = batch.iter().map(|text| text.ids.len()).max().unwrap_or_default();
        let shape = (batch.len(), longest);
        let mut ids = vec![0_u32; batch.len() * longest];
        let mut mask = vec![0_u32; batch.len() * longest];
        for (row, text) in batch.iter().enumerate() {
            let start = row * longest;
            ids[start..][..text.ids.len()].copy_from_slice(&text.ids);
            mask[start..][..text.ids.len()].fill(1);
        }
        let ids = Tensor::from_vec(ids, shape, &Device::Cpu)?;
        let mask = Tensor::from_vec(mask, shape, &Device::Cpu)?;
        let states = self.model.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
        let pooled = match self.pooling {
            Pooling::FirstToken => states.narrow(1, 0, 1)?.squeeze(1)?,
            // A sum, which is the mean but for its length.
            Pooling::Mean => states.broadcast_mul(&mask.to_dtype(DTYPE)?.unsqueeze(2)?)?.sum(1)?,
        };
        pooled.to_vec2()
    }

    fn failed(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> EmbedError {
        EmbedError::Failed { model: self.name.clone(), source: source.into() }
    }
}

impl Embedder for BertEmbedder {
    fn is_quick(&self) -> bool {
        false
    }

    fn model(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let mut encoded = self.encode(texts, purpose)?;
        encoded.sort_by_key(|text| text.ids.len());
        let mut vectors = vec![None; texts.len()];
        let mut rest = &encoded[..];
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(rows(rest));
            let computed = self.compute(batch).map_err(|error| self.failed(error))?;
            for (text, vector) in batch.iter().zip(computed) {
                vectors[text.place] = unit(vector);
            }
            rest = after;
        }
        Ok(vectors)
    }
}

impl fmt::Debug for BertEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BertEmbedder").field("model", &self.name).finish_non_exhaustive()
    }
}

/// How many of the texts, which come by length, are computed together.
fn rows(texts: &[Encoded]) -> usize {
    let fits = |(row, text): &(usize, &Encoded)| *row < BATCH_ROWS && (row + 1) * text.ids.len() <= BATCH_TOKENS;
    texts.iter().enumerate().take_while(fits).count().max(1)
}

fn words_up_to(max_tokens: usize, files: &Files, config: &Config) -> Result<Words, EmbedError> {
    let mut words = words(files)?;
    let marks = words.tokenizer.get_post_processor().map_or(0, |marks| marks.added_tokens(false));
    if max_tokens <= marks {
        return Err(files.unusable(format_args!("{max_tokens} tokens are no room for a text")));
    }
    if let Some((token, id)) = words.tokenizer.get_vocab(true).iter().find(|(_, id)| **id as usize >= config.vocab_size) {
        return Err(files.unusable(format_args!("token {token:?} has the number {id} and no vector")));
    }
    let truncation = TruncationParams { max_length: max_tokens, ..TruncationParams::default() };
    words.tokenizer.with_truncation(Some(truncation)).map_err(|error| files.unusable(format_args!("{TOKENIZER}: {error}")))?;
    Ok(words)
}

fn pooling(files: &Files) -> Result<Pooling, EmbedError> {
    #[derive(Deserialize)]
    struct Modes {
        #[serde(default)]
        pooling_mode_cls_token: bool,
        #[serde(default)]
        pooling_mode_mean_tokens: bool,
    }
    match files.optional::<Modes>(POOLING)? {
        None | Some(Modes { pooling_mode_mean_tokens: true, pooling_mode_cls_token: false }) => Ok(Pooling::Mean),
        Some(Modes { pooling_mode_cls_token: true, pooling_mode_mean_tokens: false }) => Ok(Pooling::FirstToken),
        Some(_) => Err(files.unusable(format_args!("{POOLING}: only the mean and the first token are supported"))),
    }
}

fn max_tokens(files: &Files, config: &Config, options: &Options) -> Result<usize, EmbedError> {
    #[derive(Deserialize)]
    struct Sentences {
        max_seq_length: Option<usize>,
    }
    let trained = files.optional::<Sentences>(SENTENCES)?.and_then(|sentences| sentences.max_seq_length);
    let bounds = [Some(config.max_position_embeddings), trained, options.max_tokens];
    Ok(bounds.into_iter().flatten().min().unwrap_or(config.max_position_embeddings))
}
