//! The live modes: long-poll and server-sent events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use event_log::{From, Log, Offset, ReadError, Tail, media_type};
use futures::stream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::query::Query;
use super::read::{page_body, page_response};
use super::{Pass, headers, still};
use crate::app::App;
use crate::errors::Error;
use crate::random;

/// Cursors count these steps since the protocol's epoch, 2024-10-09T00:00:00Z.
const CURSOR_STEP_MS: u64 = 20_000;
const CURSOR_EPOCH_MS: u64 = 1_728_432_000_000;
const CURSOR_JITTER_MAX: u64 = 180;

const SSE_LIFE: Duration = Duration::from_secs(60);
const SSE_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Who lost the right to read is sent home within this time, also if nothing comes.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Moves a client past a response that a cache would otherwise repeat to it.
fn cursor(log: &Log, given: Option<u64>) -> u64 {
    let now = log.now_ms().saturating_sub(CURSOR_EPOCH_MS) / CURSOR_STEP_MS;
    match given {
        Some(given) if given >= now => {
            let jitter = 1 + u64::from_le_bytes(random::bytes()) % CURSOR_JITTER_MAX;
            given.saturating_add(jitter)
        }
        _ => now,
    }
}

/// Counts a live reader while it lasts.
struct Open<'a>(&'a AtomicU64);

impl<'a> Open<'a> {
    fn new(gauge: &'a AtomicU64) -> Self {
        gauge.fetch_add(1, Ordering::Relaxed);
        Self(gauge)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) async fn long_poll(app: &App, name: &str, query: &Query, pass: &Pass) -> Result<Response<Body>, Error> {
    let _open = Open::new(&app.metrics.long_polls_open);
    let mut tail = app.log.tail(name);
    let deadline = Instant::now() + app.options.long_poll_timeout;
    let mut closing = app.closing.subscribe();
    let mut from = query.from;
    loop {
        let page = app.log.read(name, from, app.options.page_limit).await?;
        still(pass).await?;
        app.log.touch(name);
        let cursor = headers::number(cursor(&app.log, query.cursor));
        if page.bytes > 0 {
            let mut response = page_response(&page);
            response.headers_mut().insert(headers::CURSOR, cursor);
            response.headers_mut().insert(header::CACHE_CONTROL, headers::NO_STORE);
            *response.body_mut() = page_body(&page);
            return Ok(response);
        }
        from = From::At(page.next);
        if page.closed || !waited(&mut tail, &mut closing, deadline, pass).await? {
            let mut response = page_response(&page);
            *response.status_mut() = StatusCode::NO_CONTENT;
            response.headers_mut().remove(header::CONTENT_TYPE);
            response.headers_mut().insert(headers::CURSOR, cursor);
            response.headers_mut().insert(header::CACHE_CONTROL, headers::NO_STORE);
            return Ok(response);
        }
    }
}

/// Whether the stream may have changed; not if the time is over or the server stops.
async fn woken(tail: &mut Tail, closing: &mut watch::Receiver<bool>, deadline: Instant) -> bool {
    tokio::select! {
        biased;
        () = tail.changed() => true,
        () = tokio::time::sleep_until(deadline) => false,
        _ = closing.wait_for(|closing| *closing) => false,
    }
}

/// The same, asking now and then whether the reader may wait on.
async fn waited(tail: &mut Tail, closing: &mut watch::Receiver<bool>, deadline: Instant, pass: &Pass) -> Result<bool, Error> {
    loop {
        let next = if pass.is_some() { deadline.min(Instant::now() + ASK_AGAIN) } else { deadline };
        if woken(tail, closing, next).await {
            return Ok(true);
        }
        still(pass).await?;
        if next == deadline || *closing.borrow() {
            return Ok(false);
        }
    }
}

struct Sse {
    app: Arc<App>,
    name: Arc<str>,
    tail: Tail,
    from: From,
    cursor: Option<u64>,
    encoding: Encoding,
    /// The first control goes out even if there is nothing to say but where the tail is.
    greeted: bool,
    until: Instant,
    ended: bool,
    closing: watch::Receiver<bool>,
    pass: Pass,
    _open: OwnedOpen,
}

struct OwnedOpen(Arc<App>);

impl Drop for OwnedOpen {
    fn drop(&mut self) {
        self.0.metrics.sse_open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Text,
    Base64,
}

pub(super) fn sse(app: Arc<App>, name: Arc<str>, query: &Query, pass: Pass) -> Result<Response<Body>, Error> {
    let tail = app.log.tail(&name);
    let (head, at) = app.log.head(&name)?;
    app.log.touch(&name);
    let plain = head.config.is_json() || media_type(&head.config.content_type).to_ascii_lowercase().starts_with("text/");
    let encoding = if plain { Encoding::Text } else { Encoding::Base64 };
    // Where `now` is must be settled once, or an append before the first poll would be passed over.
    let from = if query.from == From::Now { From::At(at) } else { query.from };
    app.log.check_offset(&name, from)?;
    app.metrics.sse_open.fetch_add(1, Ordering::Relaxed);
    let open = OwnedOpen(app.clone());
    let (until, closing) = (Instant::now() + SSE_LIFE, app.closing.subscribe());
    let cursor = query.cursor;
    let sse = Sse { app, name, tail, from, cursor, encoding, greeted: false, until, ended: false, closing, pass, _open: open };
    let frames = stream::unfold(sse, |mut sse| async move { sse.frame().await.map(|frame| (Ok::<_, ReadError>(frame), sse)) });
    let mut response = Response::new(Body::from_stream(frames));
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if encoding == Encoding::Base64 {
        out.insert(headers::SSE_ENCODING, HeaderValue::from_static("base64"));
    }
    Ok(response)
}

impl Sse {
    /// The next piece of the response: a batch of data with its control, or a sign of life. `None` ends it.
    async fn frame(&mut self) -> Option<Bytes> {
        while !self.ended {
            let batch = match self.app.frames.next(&self.app, &self.name, self.from, self.encoding).await {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::debug!(stream = %self.name, %error, "a live read ended");
                    return None;
                }
            };
            still(&self.pass).await.ok()?;
            self.app.log.touch(&self.name);
            if batch.data.is_some() || batch.closed || !self.greeted {
                self.greeted = true;
                self.from = From::At(batch.next);
                self.ended = batch.closed;
                return Some(self.write(batch.data.as_ref(), batch.next, batch.up_to_date, batch.closed));
            }
            let alive = (Instant::now() + SSE_KEEP_ALIVE).min(self.until);
            if !waited(&mut self.tail, &mut self.closing, alive, &self.pass).await.ok()? {
                if Instant::now() >= self.until || *self.closing.borrow() {
                    return None;
                }
                return Some(Bytes::from_static(b":\n\n"));
            }
        }
        None
    }

    /// Data and control in one piece, so that a reader never sees one without the other.
    fn write(&self, data: Option<&Bytes>, next: Offset, up_to_date: bool, closed: bool) -> Bytes {
        let mut out = Vec::with_capacity(data.map_or(0, Bytes::len) + 128);
        out.extend_from_slice(data.map_or(&[], |data| data.as_ref()));
        out.extend_from_slice(format!("event: control\ndata:{{\"streamNextOffset\":\"{next}\"").as_bytes());
        if closed {
            out.extend_from_slice(b",\"streamClosed\":true");
        } else {
            out.extend_from_slice(format!(",\"streamCursor\":\"{}\"", cursor(&self.app.log, self.cursor)).as_bytes());
        }
        if up_to_date {
            out.extend_from_slice(b",\"upToDate\":true");
        }
        out.extend_from_slice(b"}\n\n");
        out.into()
    }
}
