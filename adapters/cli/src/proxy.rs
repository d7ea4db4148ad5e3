//! `arbe stream-proxy`: passes requests for streams on as they are. It checks nothing and holds no secret.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode, header};
use axum::routing::get;
use futures::stream;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use url::Url;

use crate::args::StreamProxy;
use crate::output;

const STREAMS: &str = "/api/stream";
/// Of one connection, not of an answer: those may stay open.
const CONNECT: Duration = Duration::from_secs(10);
/// What is about one connection and not about the request.
const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

struct Proxy {
    client: reqwest::Client,
    upstream: Url,
    body_limit: usize,
}

pub(crate) async fn run(args: StreamProxy) -> anyhow::Result<ExitCode> {
    let upstream = upstream(&args.upstream)?;
    let listener = TcpListener::bind(&args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).connect_timeout(CONNECT).build()?;
    output::print(format!("stream-proxy on http://{} to {upstream}\n", listener.local_addr()?))?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let proxy = Arc::new(Proxy { client, upstream, body_limit: args.body_limit_mib << 20 });
    let router = Router::new().route("/healthz", get(|| async { "ok\n" })).fallback(forward).with_state(proxy);
    // Tails would hold the door open for ever, so what is under way is cut.
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served?,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Up to and with the path for streams, without a slash at the end.
fn upstream(given: &str) -> anyhow::Result<Url> {
    let fits = |url: &Url| matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.username().is_empty();
    let Some(mut url) = Url::parse(given).ok().filter(fits) else {
        bail!(output::Usage(format!("--upstream {given:?} is not a URL such as https://arbe.example.org")));
    };
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&if path.ends_with(STREAMS) { path } else { format!("{path}{STREAMS}") });
    Ok(url)
}

async fn forward(State(proxy): State<Arc<Proxy>>, request: Request) -> Response<Body> {
    match pass_on(&proxy, request).await {
        Ok(response) => response,
        Err((status, why)) => told(status, &why),
    }
}

fn told(status: StatusCode, why: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{why}\n")));
    *response.status_mut() = status;
    response
}

async fn pass_on(proxy: &Proxy, request: Request) -> Result<Response<Body>, (StatusCode, String)> {
    let (parts, body) = request.into_parts();
    let target = target(&proxy.upstream, parts.uri.path(), parts.uri.query());
    let target = target.ok_or((StatusCode::NOT_FOUND, "only streams of threads are passed on".to_owned()))?;
    let body = to_bytes(body, proxy.body_limit).await.map_err(|error| (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?;
    let mut headers = parts.headers;
    strip(&mut headers);
    headers.remove(header::HOST);
    headers.remove(header::CONTENT_LENGTH);
    let sent = proxy.client.request(parts.method, target).headers(headers).body(body).send().await;
    // Whether it arrived is not known; every request that changes something carries a key, and may be sent again.
    let answer = sent.map_err(|error| (StatusCode::BAD_GATEWAY, format!("the server cannot be reached: {}", cause(&error))))?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    strip(response.headers_mut());
    let pieces = stream::try_unfold(answer, |mut answer| async move {
        let piece = answer.chunk().await.map_err(io::Error::other)?;
        Ok::<_, io::Error>(piece.map(|piece| (piece, answer)))
    });
    *response.body_mut() = Body::from_stream(pieces);
    Ok(response)
}

/// Without the address, which may be an inner one.
fn cause(error: &reqwest::Error) -> &'static str {
    match (error.is_connect(), error.is_timeout()) {
        (true, _) => "no connection",
        (false, true) => "no answer in time",
        (false, false) => "the connection broke",
    }
}

fn target(upstream: &Url, path: &str, query: Option<&str>) -> Option<Url> {
    let name = path.strip_prefix(STREAMS).unwrap_or(path).strip_prefix('/')?;
    let steps_out = name.split('/').any(|part| part.is_empty() || matches!(part, "." | ".."));
    if !name.starts_with("arbe-thread-") || steps_out || name.contains('%') {
        return None;
    }
    let mut url = upstream.clone();
    url.set_path(&format!("{}/{name}", upstream.path()));
    url.set_query(query);
    Some(url)
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Option<String> {
        target(&upstream("https://arbe.example/x").unwrap(), path, Some("offset=-1")).map(|url| url.to_string())
    }

    #[test]
    fn streams_of_threads_go_to_the_server_and_nothing_else_does() {
        let to = "https://arbe.example/x/api/stream/arbe-thread-t1";
        assert_eq!(at("/api/stream/arbe-thread-t1"), Some(format!("{to}?offset=-1")));
        assert_eq!(at("/arbe-thread-t1/runs/r1/finish"), Some(format!("{to}/runs/r1/finish?offset=-1")));
        for path in [
            "/",
            "/api/me",
            "/api/stream/arbe-house-h1",
            "/arbe-thread-t1/../me",
            "/arbe-thread-t1/%2e%2e/me",
            "//arbe-thread-t1",
        ] {
            assert_eq!(at(path), None, "{path}");
        }
    }

    #[test]
    fn an_upstream_is_the_server_or_its_path_for_streams() {
        for given in ["http://h:1", "http://h:1/", "http://h:1/api/stream", "http://h:1/api/stream/"] {
            assert_eq!(upstream(given).unwrap().as_str(), "http://h:1/api/stream");
        }
        for given in ["h:1", "ftp://h", "http://user@h", ""] {
            assert!(upstream(given).is_err(), "{given}");
        }
    }
}
