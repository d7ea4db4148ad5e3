//! POST: append, close, or both.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use bytes::Bytes;
use event_log::{Append, Change, Command, Expect, Head, Offset, Outcome, Payload, ReadError, Stamp, Status};

use super::{asks_to_close, headers, json, producer};
use crate::app::{App, status};
use crate::errors::Error;

pub(super) async fn append(app: &App, name: Arc<str>, request: Request<Body>) -> Result<Response<Body>, Error> {
    let (parts, body) = request.into_parts();
    let stamp = producer(&parts.headers)?;
    let body = app.body(&parts.headers, body).await?;
    let head = find(app, &name).await?;
    let close = asks_to_close(&parts.headers);
    let close_only = body.is_empty() && close;
    let change = if close_only {
        Change::Close { producer: stamp.clone() }
    } else {
        Change::Append(appending(&parts.headers, &head, body, stamp.clone(), close)?)
    };
    let command = Command {
        id: headers::single(&parts.headers, &headers::IDEMPOTENCY_KEY)?.map(|key| command_id(&name, key)),
        expect: expectation(&parts.headers, &name)?.into_iter().collect(),
        changes: vec![(name, change)],
    };
    let receipt = app.log.submit(command).await?;
    let outcome = receipt.outcomes.first().ok_or(Error::Bad("nothing was asked"))?;
    Ok(answer(outcome, stamp.is_some() && !close_only))
}

/// The stream as it is here, or as it is elsewhere if this server has not heard of it.
async fn find(app: &App, name: &str) -> Result<Head, Error> {
    match app.log.head(name) {
        Ok((head, _)) => Ok(head),
        Err(ReadError::NotFound) if !app.log.is_owner() => {
            app.log.refresh().await;
            Ok(app.log.head(name)?.0)
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
    let payload = if head.config.is_json() { json::messages(&body) } else { Ok(Payload::bytes(own(&body))) };
    let stream_seq = headers::single(headers, &headers::STREAM_SEQ)?.map(Into::into);
    Ok(Append { content_type: Some(content_type.into()), payload, producer, stream_seq, close })
}

/// A copy of just these bytes: a slice would keep the connection's whole read buffer alive in the cache.
pub(super) fn own(body: &Bytes) -> Bytes {
    Bytes::copy_from_slice(body)
}

/// A key is meant per stream; the log's ids are global.
fn command_id(name: &str, key: &str) -> u128 {
    event_log::command_id(&[name, key])
}

/// `If-Match` with an offset makes an append conditional on the tail.
fn expectation(headers: &HeaderMap, name: &Arc<str>) -> Result<Option<Expect>, Error> {
    let Some(token) = headers::single(headers, &header::IF_MATCH)? else { return Ok(None) };
    let offset = Offset::parse(token.trim_matches('"')).ok_or(Error::Bad("If-Match takes a stream offset"))?;
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
