//! PUT: create a stream or a fork, or make sure it is there.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use bytes::Bytes;
use event_log::{
    Change, Command, Create, DEFAULT_CONTENT_TYPE, ForkFrom, Offset, Payload, ReadError, Rejection, Status, media_type,
};

use super::{append::own, asks_to_close, headers, json};
use crate::app::{App, STREAMS, status};
use crate::errors::Error;

pub(super) async fn create(app: &App, name: Arc<str>, request: Request<Body>) -> Result<Response<Body>, Error> {
    let (parts, body) = request.into_parts();
    let (ttl_seconds, expires_at) = lifetime(&parts.headers)?;
    headers::short(parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default())?;
    let body = app.body(body).await?;
    let fork = fork(app, &parts.headers).await?;
    let content_type = content_type(&parts.headers).or_else(|| fork.is_none().then(|| DEFAULT_CONTENT_TYPE.into()));
    let payload = first_payload(app, &body, content_type.as_deref(), fork.as_ref());
    let closed = asks_to_close(&parts.headers);
    let create = Create { content_type, ttl_seconds, expires_at, closed, fork, payload };
    let receipt = app.log.submit(Command::one(name.clone(), Change::Create(create))).await?;
    let outcome = receipt.outcomes.first().ok_or(Error::Bad("nothing was asked"))?;

    let created = outcome.status == Status::Done;
    let mut response = status(if created { StatusCode::CREATED } else { StatusCode::OK });
    let out = response.headers_mut();
    let stored = app.log.with_stream(&name, |stream| stream.head.config.content_type.clone());
    out.insert(header::CONTENT_TYPE, headers::text(stored.as_deref().unwrap_or(DEFAULT_CONTENT_TYPE)));
    out.insert(headers::NEXT_OFFSET, headers::text(&outcome.tail.to_string()));
    if created {
        let path = parts.uri.path();
        out.insert(header::LOCATION, headers::text(&format!("{}{path}", app.base_url(&parts.headers))));
    }
    if outcome.closed {
        out.insert(headers::CLOSED, headers::TRUE);
    }
    Ok(response)
}

/// A missing, empty or unreadable content type is the default.
fn content_type(headers: &HeaderMap) -> Option<Arc<str>> {
    let given = headers.get(header::CONTENT_TYPE)?.to_str().ok()?.trim();
    let (kind, subtype) = media_type(given).split_once('/')?;
    (!kind.is_empty() && !subtype.is_empty()).then(|| given.into())
}

fn lifetime(headers: &HeaderMap) -> Result<(Option<u64>, Option<u64>), Error> {
    let ttl = headers::single(headers, &headers::TTL)?;
    let expires = headers::single(headers, &headers::EXPIRES_AT)?;
    if ttl.is_some() && expires.is_some() {
        return Err(Error::Bad("Stream-TTL and Stream-Expires-At exclude each other"));
    }
    let ttl = ttl.map(|text| plain_number(text).ok_or(Error::Bad("Stream-TTL is a whole number of seconds"))).transpose()?;
    let instant = |text: &str| -> Result<u64, Error> {
        let at: jiff::Timestamp = text.parse().map_err(|_| Error::Bad("Stream-Expires-At is an RFC 3339 time"))?;
        Ok(u64::try_from(at.as_millisecond()).unwrap_or(0))
    };
    Ok((ttl, expires.map(instant).transpose()?))
}

/// `0`, or digits that do not start with one.
fn plain_number(text: &str) -> Option<u64> {
    let plain = text == "0" || (!text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
    plain.then(|| text.parse().ok()).flatten()
}

fn first_payload(
    app: &App,
    body: &Bytes,
    content_type: Option<&str>,
    fork: Option<&ForkFrom>,
) -> Option<Result<Payload, event_log::BadBody>> {
    if body.is_empty() {
        return None;
    }
    let inherited = || fork.and_then(|fork| app.log.with_stream(&fork.source, |s| s.head.config.content_type.clone()));
    let json = match content_type {
        Some(own) => media_type(own).eq_ignore_ascii_case("application/json"),
        None => inherited().is_some_and(|source| media_type(&source).eq_ignore_ascii_case("application/json")),
    };
    if !json {
        return Some(Ok(Payload::bytes(own(body))));
    }
    match json::messages(body) {
        Err(event_log::BadBody::EmptyArray) => None,
        result => Some(result),
    }
}

async fn fork(app: &App, headers: &HeaderMap) -> Result<Option<ForkFrom>, Error> {
    let from = headers::single(headers, &headers::FORKED_FROM)?;
    let at = headers::single(headers, &headers::FORK_OFFSET)?;
    let sub = headers::single(headers, &headers::FORK_SUB_OFFSET)?;
    let Some(from) = from else {
        if at.is_some() || sub.is_some() {
            return Err(Error::Bad("Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From"));
        }
        return Ok(None);
    };
    let raw = from.strip_prefix(STREAMS).ok_or(Error::Bad("Stream-Forked-From is the path of a stream, /v1/stream/…"))?;
    let source = super::name(raw)?;
    let at = at.map(|token| Offset::parse(token).ok_or(Error::Bad("Stream-Fork-Offset is not an offset"))).transpose()?;
    let sub = sub.map(|text| plain_number(text).ok_or(Error::Bad("Stream-Fork-Sub-Offset is a whole number"))).transpose()?;
    let sub = sub.unwrap_or(0);
    app.log.refreshed().await?;
    let prefix = if sub == 0 { None } else { Some(prefix(app, &source, at, sub).await?) };
    Ok(Some(ForkFrom { source, at, sub, prefix }))
}

/// The first `sub` units of the append that begins at the anchor, which become the fork's own.
async fn prefix(app: &App, source: &Arc<str>, at: Option<Offset>, sub: u64) -> Result<(u64, Payload), Error> {
    let (head, tail) = app.log.head(source).map_err(|error| match error {
        ReadError::NotFound => Error::from(Rejection::SourceMissing),
        ReadError::Gone => Error::from(Rejection::SourceGone),
        ReadError::StaleOffset | ReadError::ForeignOffset | ReadError::Fetch(_) => error.into(),
    })?;
    let anchor = at.unwrap_or(tail).position;
    let found = app.log.append_at(source, anchor).await?;
    let (appended, available) = found.filter(|(_, available)| sub <= *available).ok_or(Rejection::ForkOffset)?;
    debug_assert!(available >= sub);
    let data = app.log.payload(&appended).await?;
    let payload = match &appended.payload.cuts {
        None => Payload::bytes(own(&data.slice(..sub as usize))),
        Some(_) => {
            let texts = (0..sub).map(|i| std::str::from_utf8(&data[appended.payload.span(i, i + 1)]).unwrap_or_default());
            Payload::messages(texts)
        }
    };
    Ok((head.config.generation, payload))
}
