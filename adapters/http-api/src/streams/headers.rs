//! Header names, values and the headers on every response.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::errors::Error;

pub(crate) const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
pub(crate) const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
pub(crate) const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
pub(crate) const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
pub(crate) const TTL: HeaderName = HeaderName::from_static("stream-ttl");
pub(crate) const EXPIRES_AT: HeaderName = HeaderName::from_static("stream-expires-at");
pub(crate) const STREAM_SEQ: HeaderName = HeaderName::from_static("stream-seq");
pub(crate) const SSE_ENCODING: HeaderName = HeaderName::from_static("stream-sse-data-encoding");
pub(crate) const FORKED_FROM: HeaderName = HeaderName::from_static("stream-forked-from");
pub(crate) const FORK_OFFSET: HeaderName = HeaderName::from_static("stream-fork-offset");
pub(crate) const FORK_SUB_OFFSET: HeaderName = HeaderName::from_static("stream-fork-sub-offset");
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const PRODUCER_ID: HeaderName = HeaderName::from_static("producer-id");
pub(crate) const PRODUCER_EPOCH: HeaderName = HeaderName::from_static("producer-epoch");
pub(crate) const PRODUCER_SEQ: HeaderName = HeaderName::from_static("producer-seq");
pub(crate) const PRODUCER_EXPECTED: HeaderName = HeaderName::from_static("producer-expected-seq");
pub(crate) const PRODUCER_RECEIVED: HeaderName = HeaderName::from_static("producer-received-seq");

pub(crate) const TRUE: HeaderValue = HeaderValue::from_static("true");
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

const ALLOWED: &str = "content-type, authorization, if-none-match, if-match, idempotency-key, stream-seq, stream-ttl, \
    stream-expires-at, stream-closed, producer-id, producer-epoch, producer-seq, stream-forked-from, stream-fork-offset, \
    stream-fork-sub-offset";
const EXPOSED: &str = "stream-next-offset, stream-cursor, stream-up-to-date, stream-closed, stream-ttl, stream-expires-at, \
    stream-sse-data-encoding, producer-epoch, producer-seq, producer-expected-seq, producer-received-seq, etag, location, \
    content-type, content-encoding, vary";

pub(crate) fn on_every(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "cross-origin"),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// For pages of other origins: what they may read of a response.
pub(crate) fn for_browsers(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
}

/// And what they may ask.
pub(crate) fn preflight(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE, HEAD, OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// For text that came in as a header or that we made of printable characters.
pub(crate) fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(""))
}

pub(crate) fn number(value: u64) -> HeaderValue {
    HeaderValue::from(value)
}

pub(crate) fn instant(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| unix_ms.to_string(), |at| at.to_string())
}

const VALUE_MAX: usize = 1_024;

/// Values that are stored are not long.
pub(crate) fn short(value: &str) -> Result<(), Error> {
    if value.len() <= VALUE_MAX { Ok(()) } else { Err(Error::Bad("a header that is kept is longer than 1024 bytes")) }
}

/// A header that may be given once.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Error> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::Bad("a header is given twice"));
    }
    value.to_str().map(|value| Some(value.trim())).map_err(|_| Error::Bad("a header is not plain text"))
}
