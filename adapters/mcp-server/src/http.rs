use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::Asker;
use crate::server::Server;

/// Bytes of one request. The longest question takes far less.
const LARGEST_BODY: usize = 1 << 20;

/// Streamable HTTP for requests whose asker is known. Each request stands for itself: there is no MCP session that somebody else could
/// go on with, and every answer is one JSON body.
#[derive(Clone, Debug)]
pub struct HttpDoor {
    config: StreamableHttpServerConfig,
}

impl Default for HttpDoor {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpDoor {
    #[must_use]
    pub fn new() -> Self {
        // By default only loopback names pass as `Host`, against web pages that point their own name at a server that trusts whoever
        // reaches it. This one trusts nobody without a bearer token, which no browser sends by itself, and it is reached by names that
        // it does not know. For the same reason any `Origin` passes.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(LARGEST_BODY);
        Self { config }
    }

    /// Answers 401 where no [`Asker`] was put into the extensions, whatever is asked.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let Some(Asker(pond)) = request.extensions().get::<Asker>().cloned() else {
            return nobody();
        };
        // A service for each request: its pond cannot be mistaken for that of another one.
        let server = Server::new(pond);
        let service =
            StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), self.config.clone());
        service.handle(request).await.map(Body::new)
    }
}

fn nobody() -> Response<Body> {
    let mut response = Response::new(Body::from("a bearer token says who asks"));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    response
}
