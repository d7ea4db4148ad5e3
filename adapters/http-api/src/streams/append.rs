//! POST: append, close, or both.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use bytes::Bytes;
use event_log::{Append, Change, Command, Expect, Head, Offset, Outcome, Payload, ReadError, Rejection, Stamp, Status};

use super::{asks_to_close, headers, json, producer};
use crate::app::{App, status};
use crate::errors::Error;

pub(super) async fn append(app: &App, name: Arc<str>, request: Request<Body>) -> Result<Response<Body>, Error> {
    let (parts, body) = request.into_parts();
    let stamp = producer(&parts.headers)?;
    let body = app.body(body).await?;
    let (head, tail) = find(app, &name).await?;
    let close = asks_to_close(&parts.headers);
    let close_only = body.is_empty() && close;
    let change = if close_only {
        Change::Close { producer: stamp.clone() }
    } else {
        Change::Append(appending(&parts.headers, &head, body, stamp.clone(), close)?)
    };
    let command = Command {
        id: idempotency_key(&parts.headers)?.map(|key| command_id(&name, &head, key)),
        since: None,
        expect: expectation(&parts.headers, &name, tail)?.into_iter().collect(),
        changes: vec![(name, change)],
    };
    let receipt = app.log.submit(command).await?;
    let outcome = receipt.outcomes.first().ok_or(Error::Bad("nothing was asked"))?;
    Ok(answer(outcome, stamp.is_some() && !close_only))
}

/// The stream as it is here, or as it is elsewhere if this server has not heard of it.
async fn find(app: &App, name: &str) -> Result<(Head, Offset), Error> {
    match app.log.head(name) {
        Ok(found) => Ok(found),
        Err(ReadError::NotFound) if !app.log.is_owner() => {
            app.log.refreshed().await?;
            Ok(app.log.head(name)?)
        }
        Err(error) => Err(error.into()),
    }
}

fn appending(headers: &HeaderMap, head: &Head, body: Bytes, producer: Option<Stamp>, close: bool) -> Result<Append, Error> {
    if body.is_empty() {
        return Err(Error::Bad("an append needs a body"));
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).map(str::trim).filter(|v| !v.is_empty());
    let content_type = content_type.ok_or(Error::Bad("an append needs a Content-Type"))?;
    headers::short(content_type)?;
    let payload = if head.config.is_json() { json::messages(&body) } else { Ok(Payload::bytes(own(&body))) };
    let stream_seq = headers::single(headers, &headers::STREAM_SEQ)?;
    headers::short(stream_seq.unwrap_or_default())?;
    let stream_seq = stream_seq.map(Into::into);
    Ok(Append { content_type: Some(content_type.into()), payload, producer, stream_seq, close })
}

/// A copy of just these bytes: a slice would keep the connection's whole read buffer alive in the cache.
pub(super) fn own(body: &Bytes) -> Bytes {
    Bytes::copy_from_slice(body)
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    match headers::single(headers, &headers::IDEMPOTENCY_KEY)? {
        Some("") => Err(Error::Bad("Idempotency-Key is empty")),
        key => Ok(key),
    }
}

/// A key is meant for this incarnation of this stream; the log's ids are global.
fn command_id(name: &str, head: &Head, key: &str) -> u128 {
    event_log::command_id(&[name, &head.config.generation.to_string(), key])
}

/// `If-Match` with an offset makes an append conditional on the tail.
fn expectation(headers: &HeaderMap, name: &Arc<str>, tail: Offset) -> Result<Option<Expect>, Error> {
    let Some(token) = headers::single(headers, &header::IF_MATCH)? else { return Ok(None) };
    let offset = Offset::parse(token.trim_matches('"')).ok_or(Error::Bad("If-Match takes a stream offset"))?;
    if offset.generation != 0 && offset.generation != tail.generation {
        let (expected, actual) = (Some(offset.position), Some(tail.position));
        return Err(Rejection::Conflict { stream: name.clone(), expected, actual }.into());
    }
    Ok(Some(Expect { stream: name.clone(), tail: Some(offset.position) }))
}

fn answer(outcome: &Outcome, with_producer: bool) -> Response<Body> {
    let fresh = with_producer && outcome.status == Status::Done;
    let mut response = status(if fresh { StatusCode::OK } else { StatusCode::NO_CONTENT });
    let out = response.headers_mut();
    out.insert(headers::NEXT_OFFSET, headers::text(&outcome.tail.to_string()));
    if outcome.closed {
        out.insert(headers::CLOSED, headers::TRUE);
    }
    if let Some(producer) = outcome.producer {
        out.insert(headers::PRODUCER_EPOCH, headers::number(producer.epoch));
        out.insert(headers::PRODUCER_SEQ, headers::number(producer.seq));
    }
    response
}
