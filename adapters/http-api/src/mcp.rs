//! `/mcp`: the door for models. Who asks is found out here, for each request anew; what is asked is answered behind the door.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use queries::library::{self, GetRequest, GetResponse, PondError, SearchRequest, SearchResponse, Stats};

use crate::api::Caller;
use crate::app::App;
use crate::errors::Error;
use crate::pond;
use crate::streams::headers;

pub(crate) const PATH: &str = "/mcp";

/// A protocol for models, over HTTP.
#[async_trait::async_trait]
pub trait Door: Send + Sync + std::fmt::Debug {
    async fn handle(&self, visitor: Visitor, request: Request<Body>) -> Response<Body>;
}

/// Somebody who may read what they may read.
#[derive(Clone, Debug)]
pub struct Visitor(Caller);

impl App {
    pub(crate) async fn mcp(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let mut response = match Caller::known(self.clone(), request.headers()).await {
            Ok(caller) => {
                let door = caller.plane().ok().and_then(|plane| plane.search.as_ref()).and_then(|search| search.door.clone());
                match door {
                    Some(door) => door.handle(Visitor(caller), request).await,
                    None => Error::NoRoute.into_response(),
                }
            }
            Err(error) => error.into_response(),
        };
        headers::on_every(response.headers_mut());
        response
    }
}

impl Visitor {
    pub async fn search(&self, request: SearchRequest) -> Result<SearchResponse, PondError> {
        let house = pond::resolve(&self.0, request.namespace.as_deref())?;
        library::search(pond::finder(&self.0)?.as_ref(), &house, request).await
    }

    pub async fn get(&self, request: GetRequest) -> Result<GetResponse, PondError> {
        let house = pond::resolve(&self.0, request.namespace.as_deref())?;
        library::get(pond::library(&self.0)?.as_ref(), &house, request).await
    }

    pub async fn stats(&self, namespace: Option<&str>) -> Result<Stats, PondError> {
        let house = pond::resolve(&self.0, namespace)?;
        pond::finder(&self.0)?.stats(&house).await
    }
}
