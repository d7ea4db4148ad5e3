//! Text to vectors, behind one seam: a local model today and a remote one later look the same to everything above.
//!
//! Nothing is loaded until [`load`] is called, and nothing is fetched if the model is a directory.

mod bert;
mod cache;
mod cached;
mod error;
mod files;
mod fixed;
mod hub;
mod tensors;
mod tokens;

use std::path::PathBuf;
use std::sync::Arc;

pub use cache::{CacheError, VectorCache};
pub use cached::Cached;
pub use error::EmbedError;

use files::{Family, Files};

/// Some models want to be told which of the two a text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Document,
    Query,
}

/// Blocks while it computes: from async code it is called where blocking is allowed.
pub trait Embedder: Send + Sync + std::fmt::Debug {
    /// Names the model and all that decides its vectors of documents: `potion-base-8M:1a2b3c4d`, the last part being
    /// a digest of weights, tokenizer, pooling, prefix and length. Stored beside every vector.
    fn model(&self) -> &str;

    fn dimensions(&self) -> usize;

    /// Whether it takes no longer than writing the text down would.
    fn is_quick(&self) -> bool;

    /// One vector of length 1 per text, in order; none for a text in which the model knows no word.
    /// What is longer than the model takes is cut off.
    fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Option<Vec<f32>>>, EmbedError>;
}

#[derive(Clone, Debug)]
pub struct Options {
    /// A directory, or the id of a model on the hub: `minishlab/potion-base-8M`.
    pub model: String,
    /// Where models from the hub are kept.
    pub models: PathBuf,
    /// The address of the hub, without a slash at its end.
    pub hub: String,
    pub query_prefix: String,
    pub document_prefix: String,
    /// Less than the model takes, to be faster. Never more.
    pub max_tokens: Option<usize>,
}

/// The family is told by the files. A model that was fetched once is not looked for on the hub again.
pub async fn load(options: &Options) -> Result<Arc<dyn Embedder>, EmbedError> {
    let directory = hub::directory(options).await?;
    let options = options.clone();
    let loading = tokio::task::spawn_blocking(move || read(directory, &options));
    loading.await.expect("loading does not panic and is never aborted")
}

fn read(directory: PathBuf, options: &Options) -> Result<Arc<dyn Embedder>, EmbedError> {
    let files = Files::read(directory)?;
    let embedder: Arc<dyn Embedder> = match files.family()? {
        Family::Static => Arc::new(fixed::StaticEmbedder::load(files, options)?),
        Family::Bert => Arc::new(bert::BertEmbedder::load(files, options)?),
    };
    tracing::info!(model = embedder.model(), dimensions = embedder.dimensions(), "embedding model loaded");
    Ok(embedder)
}
