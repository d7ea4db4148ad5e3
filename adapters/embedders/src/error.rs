use std::error::Error;
use std::path::PathBuf;

use crate::CacheError;

#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    #[error("{model} is neither a directory nor the id of a model on the hub (owner/name)")]
    NoSuchModel { model: String },
    #[error("{directory} has no {file}: a model is config.json, tokenizer.json and model.safetensors", directory = .directory.display())]
    MissingFile { directory: PathBuf, file: &'static str },
    #[error("{path} cannot be read or written", path = .path.display())]
    Inaccessible {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{directory} holds a model of type {found}; model2vec and bert are supported", directory = .directory.display())]
    UnknownFamily { directory: PathBuf, found: String },
    #[error("the model in {directory} cannot be used: {reason}", directory = .directory.display())]
    Unusable { directory: PathBuf, reason: String },
    #[error("{url} could not be fetched; where there is no network, name the directory of a model instead")]
    Unreachable {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("the hub answered {status} to {url}")]
    Refused { url: String, status: u16 },
    #[error("what the hub sent for {url} is not the file: {reason}")]
    Corrupt { url: String, reason: String },
    #[error("the model {model} failed on a text")]
    Failed {
        model: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    #[error(transparent)]
    Cache(#[from] CacheError),
}
