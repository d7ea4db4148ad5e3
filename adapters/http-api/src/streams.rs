//! The stream protocol, one file per verb.

use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use event_log::{Change, Command, ReadError, Rejection, Stamp};
use percent_encoding::percent_decode_str;

use crate::app::{App, status};
use crate::errors::Error;

mod append;
mod create;
pub(crate) mod frames;
pub(crate) mod headers;
mod json;
mod live;
mod query;
mod read;

const NAME_MAX: usize = 1_024;
/// Producers count in numbers that JavaScript can hold.
const PRODUCER_MAX: u64 = (1 << 53) - 1;

/// A stream's name is its path, decoded once.
pub(crate) fn name(raw: &str) -> Result<Arc<str>, Error> {
    let decoded = percent_decode_str(raw).decode_utf8().map_err(|_| Error::Bad("the stream path is not UTF-8"))?;
    if decoded.is_empty() {
        return Err(Error::NoRoute);
    }
    if decoded.len() > NAME_MAX {
        return Err(Error::Bad("the stream path is longer than 1024 bytes"));
    }
    if decoded.chars().any(char::is_control) {
        return Err(Error::Bad("the stream path contains a control character"));
    }
    if decoded.split('/').next() == Some("__ds") {
        return Err(Error::NoRoute);
    }
    Ok(decoded.into())
}

/// Nobody without the service secret learns whether there is such a stream, also not by way of a fork.
pub(crate) fn refuse_platform(name: &str, headers: &HeaderMap) -> Result<(), Error> {
    if events::is_platform(name) {
        return Err(ReadError::NotFound.into());
    }
    let source = headers.get_all(headers::FORKED_FROM).iter().filter_map(|value| value.to_str().ok());
    for source in source {
        let source = source.trim().strip_prefix(crate::app::STREAMS).unwrap_or_default();
        if events::is_platform(&percent_decode_str(source).decode_utf8_lossy()) {
            return Err(Rejection::SourceMissing.into());
        }
    }
    Ok(())
}

/// One entry that no command made could stop the fold, and one stream that is gone with it: not even the service secret does that.
pub(crate) fn refuse_platform_writes(name: &str, method: &Method) -> Result<(), Error> {
    let writes = matches!(*method, Method::PUT | Method::POST | Method::DELETE);
    if writes && events::is_platform(name) { Err(Error::Platform) } else { Ok(()) }
}

/// The right of a reader, which may end while it is served.
#[async_trait]
pub(crate) trait Permit: Send + Sync {
    /// Whether the reader may be given what is in the log by now.
    async fn holds(&self) -> bool;
}

/// `None` is good for ever.
pub(crate) type Pass = Option<Arc<dyn Permit>>;

async fn still(pass: &Pass) -> Result<(), Error> {
    match pass {
        Some(permit) if !permit.holds().await => Err(Error::NoLonger),
        Some(_) | None => Ok(()),
    }
}

/// Reading only. The permit is asked after a read and before its result is given out, and again and again while a reader waits.
pub(crate) async fn tail(
    app: Arc<App>,
    name: Arc<str>,
    request: Request<Body>,
    permit: Arc<dyn Permit>,
) -> Result<Response<Body>, Error> {
    let pass = Some(permit);
    match *request.method() {
        Method::GET => read::read(app, name, request, pass).await,
        Method::HEAD => {
            let found = head(&app, &name).await;
            still(&pass).await?;
            found
        }
        _ => Err(Error::Method),
    }
}

pub(crate) async fn dispatch(app: Arc<App>, name: Arc<str>, request: Request<Body>) -> Result<Response<Body>, Error> {
    match *request.method() {
        Method::GET => read::read(app, name, request, None).await,
        Method::POST => append::append(&app, name, request).await,
        Method::PUT => create::create(&app, name, request).await,
        Method::HEAD => head(&app, &name).await,
        Method::DELETE => {
            app.log.submit(Command::one(name, Change::Delete)).await?;
            Ok(status(StatusCode::NO_CONTENT))
        }
        _ => Err(Error::Method),
    }
}

async fn head(app: &App, name: &str) -> Result<Response<Body>, Error> {
    app.log.refreshed().await?;
    let (head, tail) = app.log.head(name)?;
    let mut response = status(StatusCode::OK);
    let out = response.headers_mut();
    out.insert(axum::http::header::CONTENT_TYPE, headers::text(&head.config.content_type));
    out.insert(headers::NEXT_OFFSET, headers::text(&tail.to_string()));
    if let Some(ttl) = head.config.ttl_seconds {
        out.insert(headers::TTL, headers::number(ttl));
    }
    if let Some(at) = head.config.expires_at {
        out.insert(headers::EXPIRES_AT, headers::text(&headers::instant(at)));
    }
    if head.closed {
        out.insert(headers::CLOSED, headers::TRUE);
    }
    out.insert(axum::http::header::CACHE_CONTROL, headers::NO_STORE);
    Ok(response)
}

fn producer(headers: &HeaderMap) -> Result<Option<Stamp>, Error> {
    let id = headers::single(headers, &headers::PRODUCER_ID)?;
    let epoch = headers::single(headers, &headers::PRODUCER_EPOCH)?;
    let seq = headers::single(headers, &headers::PRODUCER_SEQ)?;
    match (id, epoch, seq) {
        (None, None, None) => Ok(None),
        (Some(id), Some(epoch), Some(seq)) if !id.is_empty() && id.len() <= NAME_MAX => {
            let number = |text: &str| {
                let digits = !text.is_empty() && text.len() <= 16 && text.bytes().all(|b| b.is_ascii_digit());
                let value = digits.then(|| text.parse::<u64>().ok()).flatten().filter(|n| *n <= PRODUCER_MAX);
                value.ok_or(Error::Bad("Producer-Epoch and Producer-Seq are whole numbers up to 2^53-1"))
            };
            Ok(Some(Stamp { id: id.into(), epoch: number(epoch)?, seq: number(seq)? }))
        }
        _ => Err(Error::Bad("Producer-Id, Producer-Epoch and Producer-Seq come together, and the id is not empty")),
    }
}

fn asks_to_close(headers: &HeaderMap) -> bool {
    headers.get(headers::CLOSED).and_then(|v| v.to_str().ok()).is_some_and(|v| v.trim().eq_ignore_ascii_case("true"))
}
