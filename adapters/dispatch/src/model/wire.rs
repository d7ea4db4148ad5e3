//! One request to a model and the events that answer it. Whoever answers is a stranger: what it says is taken up to a bound, and so is its
//! silence.

use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::Value;

use super::{ModelError, brief};

/// Bytes of what is said instead of an answer.
const ERROR_MAX: usize = 8 << 10;
/// Bytes of one event, and so of each of its lines.
const EVENT_MAX: usize = 1 << 20;
/// Bytes of what an answer says: its text and its calls.
const ANSWER_MAX: usize = 16 << 20;
/// What a call costs besides its words: one without any takes room, too.
const CALL_COST: usize = 64;
const RETRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Silence between two pieces, once the first one came. Before that a model may think.
pub(super) async fn events(
    request: RequestBuilder,
    idle: Duration,
) -> Result<BoxStream<'static, Result<Event, ModelError>>, ModelError> {
    let response = send(request).await?;
    if !response.status().is_success() {
        return Err(refusal(response, idle).await);
    }
    let events = pieces(response, idle).eventsource().map(|event| {
        event.map_err(|error| match error {
            EventStreamError::Transport(error) => error,
            EventStreamError::Utf8(error) => ModelError::Broken(brief(&error.to_string())),
            // The parser's own words repeat all that it was given.
            EventStreamError::Parser(_) => ModelError::Broken("it is no stream of events".to_owned()),
        })
    });
    Ok(events.boxed())
}

/// A server that is busy, or not there for a moment, is asked again.
async fn send(request: RequestBuilder) -> Result<Response, ModelError> {
    let mut pause = FIRST_PAUSE;
    for _ in 0..RETRIES {
        let Some(again) = request.try_clone() else { break };
        let wanted = match again.send().await {
            Ok(response) if !is_passing(response.status()) => return Ok(response),
            Ok(response) => retry_after(response.headers()),
            Err(error) if error.is_connect() => None,
            Err(error) => return Err(unreachable(error)),
        };
        tokio::time::sleep(wanted.unwrap_or(pause).max(pause)).await;
        pause *= 2;
    }
    request.send().await.map_err(unreachable)
}

fn is_passing(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

fn unreachable(error: reqwest::Error) -> ModelError {
    ModelError::Unreachable(brief(&error.without_url().to_string()))
}

/// The beginning of what is said says why.
async fn refusal(mut response: Response, idle: Duration) -> ModelError {
    let (status, mut said) = (response.status(), Vec::new());
    while said.len() < ERROR_MAX {
        let Ok(Ok(Some(piece))) = tokio::time::timeout(idle, response.chunk()).await else { break };
        said.extend_from_slice(&piece[..piece.len().min(ERROR_MAX - said.len())]);
    }
    let told = serde_json::from_slice::<Value>(&said).ok();
    let told = told.and_then(|told| told["error"]["message"].as_str().map(str::to_owned));
    let told = told.unwrap_or_else(|| String::from_utf8_lossy(&said).into_owned());
    ModelError::Refused(format!("{status}: {}", brief(&told)))
}

fn pieces(response: Response, idle: Duration) -> impl Stream<Item = Result<Bytes, ModelError>> {
    let begun = (response, Meter::default(), false);
    stream::try_unfold(begun, move |(mut response, mut meter, begun)| async move {
        let piece = if begun {
            tokio::time::timeout(idle, response.chunk()).await.map_err(|_| ModelError::Silent(idle))?
        } else {
            response.chunk().await
        };
        let piece = piece.map_err(|error| ModelError::Broken(brief(&error.without_url().to_string())))?;
        let Some(piece) = piece else { return Ok(None) };
        meter.pass(&piece)?;
        Ok(Some((piece, (response, meter, true))))
    })
}

/// How much of an event has come. It ends with an empty line.
#[derive(Default)]
struct Meter {
    event: usize,
    in_line: bool,
}

impl Meter {
    fn pass(&mut self, piece: &[u8]) -> Result<(), ModelError> {
        for byte in piece {
            match byte {
                b'\n' if self.in_line => self.in_line = false,
                b'\n' => self.event = 0,
                b'\r' => {}
                _ => self.in_line = true,
            }
            self.event += 1;
            if self.event > EVENT_MAX {
                return Err(ModelError::TooLarge { what: "an event of its stream", max: EVENT_MAX });
            }
        }
        Ok(())
    }
}

/// The room that is left for an answer.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(ANSWER_MAX)
    }
}

impl Room {
    pub(super) fn take(&mut self, text: &str) -> Result<(), ModelError> {
        self.less(text.len())
    }

    pub(super) fn take_call(&mut self, words: &[&str]) -> Result<(), ModelError> {
        self.less(CALL_COST + words.iter().map(|word| word.len()).sum::<usize>())
    }

    fn less(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.0 = self.0.checked_sub(bytes).ok_or(ModelError::TooLarge { what: "its answer", max: ANSWER_MAX })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_events_pass_and_one_that_does_not_end_is_stopped_whatever_its_lines() {
        for line in ["data: x\n\n", "data: x\r\n\r\n", ": still there\n\n"] {
            let mut meter = Meter::default();
            (0..EVENT_MAX).for_each(|_| meter.pass(line.as_bytes()).unwrap());
        }
        for line in ["data: x\n", "data: x\r\n", "x"] {
            let mut meter = Meter::default();
            let passed = (0..=EVENT_MAX).try_for_each(|_| meter.pass(line.as_bytes()));
            assert!(matches!(passed, Err(ModelError::TooLarge { .. })), "{line:?}");
        }
    }
}
