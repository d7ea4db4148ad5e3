//! Accepting connections, and letting them go.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::app::App;
use crate::errors::Error;

const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests under way get this long to finish after the server is asked to stop.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    listener: TcpListener,
    app: Arc<App>,
    only: &'static str,
}

impl Server {
    #[must_use]
    pub fn new(listener: TcpListener, address: SocketAddr, app: Arc<App>) -> Self {
        Self { address, listener, app, only: "/" }
    }

    /// For machines: what a token for one thread opens, and no other path.
    #[must_use]
    pub fn for_machines(self) -> Self {
        Self { only: "/api/stream/", ..self }
    }
}

/// Serves until `stop` becomes true.
pub async fn serve(server: Server, mut stop: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = server.listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, _)) => connection(&server, stream, &graceful),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    server.app.closing.send_replace(true);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
}

fn connection(server: &Server, stream: TcpStream, graceful: &GracefulShutdown) {
    let _ = stream.set_nodelay(true);
    let (app, only) = (server.app.clone(), server.only);
    let service = service_fn(move |request: Request<Incoming>| {
        let app = app.clone();
        async move {
            if !request.uri().path().starts_with(only) {
                return Ok::<_, Infallible>(Error::NoRoute.into_response());
            }
            Ok(app.handle(request.map(Body::new)).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection ended early");
        }
    });
}
