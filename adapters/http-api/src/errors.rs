//! The one place that maps errors to status and code.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use event_log::{BadBody, FetchError, ReadError, Rejection, SubmitError};
use serde_json::json;

use crate::streams::headers::{self as names, number, text};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Bad(&'static str),
    #[error("the Authorization header must carry the service secret as a bearer token")]
    Unauthorized,
    #[error("streams of the platform are written by its commands only; use /api")]
    Platform,
    #[error("there is nothing at this path")]
    NoRoute,
    #[error("this method is not one of a stream's")]
    Method,
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body could not be read")]
    BrokenBody,
    #[error("the body took too long to arrive")]
    SlowBody,
    /// While a reader was served.
    #[error("the right to read this has ended")]
    NoLonger,
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<FetchError> for Error {
    fn from(error: FetchError) -> Self {
        Self::Read(error.into())
    }
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        Self::Submit(rejection.into())
    }
}

impl Error {
    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Bad(_) => (StatusCode::BAD_REQUEST, "BAD_REQUEST"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED"),
            Self::Platform => (StatusCode::FORBIDDEN, "PLATFORM_STREAM"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
            Self::SlowBody => (StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT"),
            Self::BrokenBody => (StatusCode::BAD_REQUEST, "BROKEN_BODY"),
            Self::NoLonger => (StatusCode::FORBIDDEN, "FORBIDDEN"),
            Self::Submit(SubmitError::Rejected(rejection)) => refused(rejection),
            Self::Submit(SubmitError::NotWritten(_) | SubmitError::NotOwner) => (StatusCode::SERVICE_UNAVAILABLE, "NOT_WRITTEN"),
            Self::Submit(SubmitError::Unknown(_)) => (StatusCode::SERVICE_UNAVAILABLE, "OUTCOME_UNKNOWN"),
            Self::Submit(SubmitError::Overloaded) => (StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED"),
            Self::Read(ReadError::NotFound) => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Self::Read(ReadError::Gone) => (StatusCode::GONE, "GONE"),
            Self::Read(ReadError::StaleOffset) => (StatusCode::GONE, "STALE_OFFSET"),
            Self::Read(ReadError::ForeignOffset) => (StatusCode::BAD_REQUEST, "FOREIGN_OFFSET"),
            Self::Read(ReadError::Fetch(FetchError::Unavailable(_))) => (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE"),
            Self::Read(ReadError::Fetch(FetchError::Damaged(_) | FetchError::Fatal(_))) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "DAMAGED")
            }
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let (status, code) = self.status();
        if status.is_server_error() {
            tracing::error!(code, error = %self, "request failed");
        }
        let body = json!({ "error": { "code": code, "message": self.to_string() } }).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Self::Submit(SubmitError::Rejected(rejection)) = &self {
            for (name, value) in details(rejection) {
                headers.insert(name, value);
            }
        }
        response
    }
}

fn refused(rejection: &Rejection) -> (StatusCode, &'static str) {
    match rejection {
        Rejection::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        Rejection::Gone => (StatusCode::GONE, "GONE"),
        Rejection::Retired => (StatusCode::CONFLICT, "PATH_RETIRED"),
        Rejection::ConfigDiffers => (StatusCode::CONFLICT, "CONFIG_DIFFERS"),
        Rejection::Closed { .. } => (StatusCode::CONFLICT, "STREAM_CLOSED"),
        Rejection::ContentType => (StatusCode::CONFLICT, "CONTENT_TYPE_MISMATCH"),
        Rejection::StaleEpoch { .. } => (StatusCode::FORBIDDEN, "STALE_EPOCH"),
        Rejection::EpochStart => (StatusCode::BAD_REQUEST, "EPOCH_START"),
        Rejection::ProducerGap { .. } => (StatusCode::CONFLICT, "PRODUCER_GAP"),
        Rejection::StreamSeq => (StatusCode::CONFLICT, "STREAM_SEQ"),
        Rejection::BadBody(BadBody::InvalidJson) => (StatusCode::BAD_REQUEST, "INVALID_JSON"),
        Rejection::BadBody(BadBody::EmptyArray) => (StatusCode::BAD_REQUEST, "EMPTY_ARRAY"),
        Rejection::SourceMissing => (StatusCode::NOT_FOUND, "FORK_SOURCE_NOT_FOUND"),
        Rejection::SourceGone => (StatusCode::CONFLICT, "FORK_SOURCE_GONE"),
        Rejection::ForkOffset => (StatusCode::BAD_REQUEST, "FORK_OFFSET"),
        Rejection::ForkContentType => (StatusCode::CONFLICT, "FORK_CONTENT_TYPE"),
        Rejection::Conflict { .. } => (StatusCode::PRECONDITION_FAILED, "POSITION_CONFLICT"),
        Rejection::Repeated { .. } => (StatusCode::BAD_REQUEST, "STREAM_REPEATED"),
        Rejection::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
    }
}

/// What a producer needs to recover.
fn details(rejection: &Rejection) -> Vec<(HeaderName, HeaderValue)> {
    match rejection {
        Rejection::Closed { tail } => {
            vec![(names::CLOSED, HeaderValue::from_static("true")), (names::NEXT_OFFSET, text(&tail.to_string()))]
        }
        Rejection::StaleEpoch { current } => vec![(names::PRODUCER_EPOCH, number(*current))],
        Rejection::ProducerGap { expected, received } => {
            vec![(names::PRODUCER_EXPECTED, number(*expected)), (names::PRODUCER_RECEIVED, number(*received))]
        }
        Rejection::NotFound
        | Rejection::Gone
        | Rejection::Retired
        | Rejection::ConfigDiffers
        | Rejection::ContentType
        | Rejection::EpochStart
        | Rejection::StreamSeq
        | Rejection::BadBody(_)
        | Rejection::SourceMissing
        | Rejection::SourceGone
        | Rejection::ForkOffset
        | Rejection::ForkContentType
        | Rejection::Conflict { .. }
        | Rejection::Repeated { .. }
        | Rejection::TooLarge(_) => Vec::new(),
    }
}
