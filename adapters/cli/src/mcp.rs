//! Models at the door: `arbe mcp` over stdio, `/mcp` over HTTP.

use std::process::ExitCode;
use std::sync::Arc;

use events::HouseId;
use http_api::Visitor;
use mcp_server::{Asker, Pond};
use queries::library::{self, Code, Finder, GetRequest, GetResponse, PondError, SearchRequest, SearchResponse, Stats};

use crate::args::Mcp;
use crate::config::Config;
use crate::datasets::Shelf;
use crate::library::{Library, stages};
use crate::output;
use crate::seeker::Seeker;

/// The door of a server.
#[derive(Debug, Default)]
pub(crate) struct HttpDoor(mcp_server::HttpDoor);

#[async_trait::async_trait]
impl http_api::Door for HttpDoor {
    async fn handle(
        &self,
        visitor: Visitor,
        mut request: axum::http::Request<axum::body::Body>,
    ) -> axum::http::Response<axum::body::Body> {
        request.extensions_mut().insert(Asker(Arc::new(Guest(visitor))));
        self.0.handle(request).await
    }
}

/// Whoever asks over HTTP.
#[derive(Debug)]
struct Guest(Visitor);

#[async_trait::async_trait]
impl Pond for Guest {
    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, PondError> {
        self.0.search(request).await
    }

    async fn get(&self, request: GetRequest) -> Result<GetResponse, PondError> {
        self.0.get(request).await
    }

    async fn stats(&self, namespace: Option<&str>) -> Result<Stats, PondError> {
        self.0.stats(namespace).await
    }
}

/// Whoever may read the files reads one house of them.
#[derive(Debug)]
struct Local {
    library: Library,
    seeker: Seeker,
    shelf: Shelf,
}

impl Local {
    /// `wire-namespace-resolution`: here there is the one house that was opened.
    fn resolve(&self, namespace: Option<&str>) -> Result<&HouseId, PondError> {
        let house = &self.library.house;
        match namespace {
            None => Ok(house),
            Some(name) if name == house.as_str() => Ok(house),
            Some(_) => Err(PondError::new(Code::NamespaceUnknown, "there is no such namespace")),
        }
    }

    /// What was recorded since the last question is found, too.
    async fn bring_up(&self) {
        self.library.log.refresh().await;
        let index = stages::follow_index(&self.library, &self.seeker.index).await;
        let datasets = stages::follow(&self.library, &self.seeker.datasets).await;
        if let Err(error) = index.and(datasets) {
            tracing::warn!(%error, "what was recorded last may not be found");
        }
    }
}

#[async_trait::async_trait]
impl Pond for Local {
    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, PondError> {
        let house = self.resolve(request.namespace.as_deref())?;
        self.bring_up().await;
        library::search(&self.seeker, house, request).await
    }

    async fn get(&self, request: GetRequest) -> Result<GetResponse, PondError> {
        let house = self.resolve(request.namespace.as_deref())?;
        self.bring_up().await;
        library::get(&self.shelf, house, request).await
    }

    async fn stats(&self, namespace: Option<&str>) -> Result<Stats, PondError> {
        let house = self.resolve(namespace)?;
        self.bring_up().await;
        self.seeker.stats(house).await
    }
}

/// `arbe mcp`: until its input ends.
pub(crate) async fn stdio(args: Mcp, config: &Config) -> anyhow::Result<ExitCode> {
    let library = Library::open(config, args.house.as_deref()).await?;
    let (seeker, late) = crate::library::seeker(&library, config).await?;
    if let Some(why) = late {
        output::note(format_args!("the index is behind the log: {why:#}"));
    }
    let shelf = Shelf::new(seeker.datasets.clone(), &library.log, None);
    let local = Arc::new(Local { library, seeker, shelf });
    mcp_server::stdio(local.clone()).await?;
    if let Some(local) = Arc::into_inner(local) {
        local.library.close().await;
    }
    Ok(ExitCode::SUCCESS)
}
