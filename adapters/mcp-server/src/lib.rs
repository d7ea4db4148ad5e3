//! Sessions for models: `pond_search` and `pond_get` as tools of an MCP server, `schema://pond` and `stats://pond` as its resources, over
//! stdio and over HTTP. Nothing can be written here.
//!
//! No operation lives here: arguments become the request that every other door makes as well, and the answer becomes text.

use std::fmt::Debug;
use std::sync::Arc;

use queries::library::{GetRequest, GetResponse, PondError, SearchRequest, SearchResponse, Stats};

mod http;
mod input;
mod render;
mod resources;
mod server;
mod stdio;
#[cfg(test)]
mod tests;
mod tools;

pub use http::HttpDoor;
pub use input::{GetInput, Said, SearchInput};
pub use stdio::{StdioError, stdio};

/// What the tools ask: bound to whoever asks and to what that one may see, before it gets here. It cannot tell which transport called.
#[async_trait::async_trait]
pub trait Pond: Send + Sync + Debug {
    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, PondError>;
    async fn get(&self, request: GetRequest) -> Result<GetResponse, PondError>;
    async fn stats(&self, namespace: Option<&str>) -> Result<Stats, PondError>;
}

/// Stands in the extensions of an HTTP request once it is known who asks.
#[derive(Clone, Debug)]
pub struct Asker(pub Arc<dyn Pond>);
