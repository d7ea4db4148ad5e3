//! GET: catch-up, and the way into the live modes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use bytes::{BufMut, Bytes, BytesMut};
use event_log::{From, Page};
use hyper::body::{Frame, SizeHint};

use super::headers;
use super::live;
use super::query::{Live, parse};
use super::{Pass, still};
use crate::app::{App, status};
use crate::errors::Error;

pub(super) async fn read(app: Arc<App>, name: Arc<str>, request: Request<Body>, pass: Pass) -> Result<Response<Body>, Error> {
    let query = parse(request.uri().query().unwrap_or_default())?;
    app.log.refreshed().await?;
    match query.live {
        None => catch_up(&app, &name, query.from, request.headers(), &pass).await,
        Some(Live::LongPoll) => live::long_poll(&app, &name, &query, &pass).await,
        Some(Live::Sse) => live::sse(app, name, &query, pass),
    }
}

async fn catch_up(app: &App, name: &str, from: From, asked: &HeaderMap, pass: &Pass) -> Result<Response<Body>, Error> {
    let page = app.log.read(name, from, app.options.page_limit).await?;
    still(pass).await?;
    app.log.touch(name);
    let mut response = page_response(&page);
    let out = response.headers_mut();
    if from == From::Now {
        out.insert(header::CACHE_CONTROL, headers::NO_STORE);
    } else {
        let tag = etag(&page);
        out.insert(header::ETAG, headers::text(&tag));
        out.insert(header::CACHE_CONTROL, caching(&page, from, app.options.secret.is_some()));
        if matches(asked, &tag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(header::CONTENT_TYPE);
            return Ok(response);
        }
    }
    *response.body_mut() = page_body(&page);
    Ok(response)
}

/// Unique per incarnation and range, and changed by closing.
fn etag(page: &Page) -> String {
    let closed = if page.closed { ":c" } else { "" };
    format!("\"{}:{}:{}{closed}\"", page.generation, page.start.position, page.next.position)
}

/// A full page that starts at a real offset is the same for ever; all else is asked for again.
fn caching(page: &Page, from: From, guarded: bool) -> HeaderValue {
    let pinned = matches!(from, From::At(offset) if offset.generation != 0);
    HeaderValue::from_static(match (pinned && !page.up_to_date, guarded) {
        (true, false) => "public, max-age=31536000, immutable",
        (true, true) => "private, max-age=31536000, immutable",
        (false, false) => "public, max-age=0, must-revalidate",
        (false, true) => "private, max-age=0, must-revalidate",
    })
}

fn matches(asked: &HeaderMap, tag: &str) -> bool {
    let tags = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','));
    tags.map(str::trim).any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}

pub(super) fn page_response(page: &Page) -> Response<Body> {
    let mut response = status(StatusCode::OK);
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, headers::text(&page.content_type));
    out.insert(headers::NEXT_OFFSET, headers::text(&page.next.to_string()));
    if page.up_to_date {
        out.insert(headers::UP_TO_DATE, headers::TRUE);
    }
    if page.closed {
        out.insert(headers::CLOSED, headers::TRUE);
    }
    response
}

/// Chunks of this size are sent from where they are; smaller ones are worth a copy into one piece.
const SEND_IN_PLACE: usize = 8 << 10;

pub(super) fn page_body(page: &Page) -> Body {
    if page.chunks.len() > 1 && page.bytes / page.chunks.len() >= SEND_IN_PLACE {
        Body::new(Pieces::new(page))
    } else {
        Body::from(body(page))
    }
}

/// The page as a client sees it: bytes as they are, messages as one array.
pub(super) fn body(page: &Page) -> Bytes {
    if let ([only], false) = (page.chunks.as_slice(), page.json) {
        return only.clone();
    }
    let mut out = BytesMut::with_capacity(page.bytes + 2);
    framed(page).for_each(|piece| out.put_slice(&piece));
    out.freeze()
}

fn framed(page: &Page) -> impl Iterator<Item = Bytes> + '_ {
    let json = |text: &'static [u8]| page.json.then(|| Bytes::from_static(text)).into_iter();
    let chunks = page.chunks.iter().enumerate().flat_map(move |(index, chunk)| {
        let comma = (page.json && index > 0).then(|| Bytes::from_static(b","));
        comma.into_iter().chain([chunk.clone()])
    });
    json(b"[").chain(chunks).chain(json(b"]"))
}

/// A body in pieces that are never joined.
struct Pieces {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl Pieces {
    fn new(page: &Page) -> Self {
        let pieces: VecDeque<Bytes> = framed(page).collect();
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, left }
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
