//! A model as it lies in a directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::EmbedError;

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const POOLING: &str = "1_Pooling/config.json";
pub(crate) const SENTENCES: &str = "sentence_bert_config.json";

/// The tensor that static models are made of.
pub(crate) const ROWS: &str = "embeddings";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Static,
    Bert,
}

pub(crate) struct Files {
    pub(crate) directory: PathBuf,
    pub(crate) config: Vec<u8>,
    pub(crate) tokenizer: Vec<u8>,
    pub(crate) weights: Vec<u8>,
}

impl Files {
    pub(crate) fn read(directory: PathBuf) -> Result<Self, EmbedError> {
        Ok(Self {
            config: required(&directory, CONFIG)?,
            tokenizer: required(&directory, TOKENIZER)?,
            weights: required(&directory, WEIGHTS)?,
            directory,
        })
    }

    pub(crate) fn family(&self) -> Result<Family, EmbedError> {
        #[derive(Deserialize)]
        struct Config {
            model_type: Option<String>,
        }
        let found = self.json::<Config>(CONFIG, &self.config)?.model_type;
        match found.as_deref() {
            Some("model2vec") => Ok(Family::Static),
            Some("bert") => Ok(Family::Bert),
            // The first models of the family did not say so.
            _ if self.tensors()?.tensor(ROWS).is_ok() => Ok(Family::Static),
            found => {
                Err(EmbedError::UnknownFamily { directory: self.directory.clone(), found: found.unwrap_or("unknown").to_owned() })
            }
        }
    }

    pub(crate) fn tensors(&self) -> Result<SafeTensors<'_>, EmbedError> {
        SafeTensors::deserialize(&self.weights).map_err(|error| self.unusable(format_args!("{WEIGHTS}: {error}")))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, file: &str, bytes: &[u8]) -> Result<T, EmbedError> {
        serde_json::from_slice(bytes).map_err(|error| self.unusable(format_args!("{file}: {error}")))
    }

    /// For files that say what else would be assumed.
    pub(crate) fn optional<T: DeserializeOwned>(&self, file: &'static str) -> Result<Option<T>, EmbedError> {
        match required(&self.directory, file) {
            Ok(bytes) => self.json(file, &bytes).map(Some),
            Err(EmbedError::MissingFile { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn unusable(&self, reason: impl std::fmt::Display) -> EmbedError {
        EmbedError::Unusable { directory: self.directory.clone(), reason: reason.to_string() }
    }

    /// `settings` is what is not in the weights and still decides the vectors of documents. Part of stored rows and of
    /// the names of caches: with a change here all vectors are computed again.
    pub(crate) fn identity(&self, settings: &[&str]) -> String {
        let mut digest = blake3::Hasher::new();
        let parts = [&self.weights[..], &self.tokenizer[..]].into_iter().chain(settings.iter().map(|part| part.as_bytes()));
        for part in parts {
            digest.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let digest = digest.finalize().to_hex();
        format!("{}:{}", self.name(), &digest[..8])
    }

    /// What was fetched lies in `owner--name`; the same model is called the same from wherever it came.
    fn name(&self) -> String {
        let directory = self.directory.canonicalize().unwrap_or_else(|_| self.directory.clone());
        let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.rsplit("--").next().unwrap_or_default().to_owned()
    }
}

fn required(directory: &Path, file: &'static str) -> Result<Vec<u8>, EmbedError> {
    let path = directory.join(file);
    std::fs::read(&path).map_err(|source| {
        if source.kind() == ErrorKind::NotFound {
            EmbedError::MissingFile { directory: directory.to_owned(), file }
        } else {
            EmbedError::Inaccessible { path, source }
        }
    })
}
