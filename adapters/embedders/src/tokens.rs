//! What the families have in common before their weights come in.

use std::borrow::Cow;

use serde::Deserialize;
use tokenizers::Tokenizer;

use crate::files::{Files, TOKENIZER};
use crate::{EmbedError, Options, Purpose};

pub(crate) struct Words {
    pub(crate) tokenizer: Tokenizer,
    /// Stands for every word that the model does not know.
    pub(crate) unknown: Option<u32>,
}

/// How the file pads and cuts off is how its maker happened to save it.
pub(crate) fn words(files: &Files) -> Result<Words, EmbedError> {
    let unusable = |error| files.unusable(format_args!("{TOKENIZER}: {error}"));
    let mut tokenizer = Tokenizer::from_bytes(&files.tokenizer).map_err(unusable)?;
    tokenizer.with_padding(None).with_truncation(None).map_err(unusable)?;
    let unknown = unknown(files, &tokenizer)?;
    Ok(Words { tokenizer, unknown })
}

fn unknown(files: &Files, tokenizer: &Tokenizer) -> Result<Option<u32>, EmbedError> {
    #[derive(Deserialize)]
    struct File {
        model: Model,
    }
    #[derive(Deserialize)]
    struct Model {
        unk_token: Option<String>,
        unk_id: Option<u32>,
    }
    let model = files.json::<File>(TOKENIZER, &files.tokenizer)?.model;
    Ok(model.unk_token.and_then(|token| tokenizer.token_to_id(&token)).or(model.unk_id))
}

#[derive(Clone)]
pub(crate) struct Prefixes {
    query: String,
    document: String,
}

impl Prefixes {
    pub(crate) fn of(options: &Options) -> Self {
        Self { query: options.query_prefix.clone(), document: options.document_prefix.clone() }
    }

    pub(crate) fn put_before<'a>(&self, text: &'a str, purpose: Purpose) -> Cow<'a, str> {
        let prefix = match purpose {
            Purpose::Query => &self.query,
            Purpose::Document => &self.document,
        };
        // A prefix alone means nothing.
        if prefix.is_empty() || text.trim().is_empty() { text.into() } else { format!("{prefix}{text}").into() }
    }
}

pub(crate) fn head(text: &str, characters: usize) -> &str {
    match text.char_indices().nth(characters) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// None if there is no direction.
pub(crate) fn unit(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if !length.is_finite() || length <= 0.0 {
        return None;
    }
    vector.iter_mut().for_each(|number| *number /= length);
    Some(vector)
}
