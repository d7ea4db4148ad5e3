//! Replies, and the one place that maps what went wrong here to status and code.

use axum::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde_json::{Value, json};

use super::address::UrlRejected;
use super::decide::Refusal;
use super::desk::Failure;
use super::keys::KeysError;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Refused(Refusal),
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Url(#[from] UrlRejected),
    #[error("there is nothing at this path")]
    NoRoute,
    #[error("this method is not one of this path's")]
    Method { allowed: &'static str },
    #[error("the Authorization header must carry the token of this wake")]
    Token,
    #[error("the subscription has no pending work")]
    NothingPending,
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("{0}")]
    Unavailable(String),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => Self::Refused(refusal),
            Failure::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<KeysError> for Error {
    fn from(error: KeysError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl Error {
    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Refused(refusal) => refused(refusal),
            Self::Invalid(_) => (StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
            Self::Url(_) => (StatusCode::BAD_REQUEST, "WEBHOOK_URL_REJECTED"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Self::Method { .. } => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
            Self::Token => (StatusCode::UNAUTHORIZED, "TOKEN_INVALID"),
            Self::NothingPending => (StatusCode::CONFLICT, "NO_PENDING_WORK"),
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        }
    }

    pub(super) fn into_response(self) -> Response<Bytes> {
        let (status, code) = self.status();
        if status.is_server_error() {
            tracing::error!(code, error = %self, "subscription request failed");
        }
        let mut error = json!({ "code": code, "message": self.to_string() });
        if let Self::Refused(Refusal::AlreadyClaimed { holder, generation }) = &self {
            error["current_holder"] = json!(holder);
            error["generation"] = json!(generation);
        }
        let mut response = json(status, &json!({ "error": error }));
        let headers = response.headers_mut();
        match self {
            Self::Method { allowed } => drop(headers.insert(header::ALLOW, HeaderValue::from_static(allowed))),
            Self::Token => drop(headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            Self::Unavailable(_) => drop(headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"))),
            Self::Refused(_) | Self::Invalid(_) | Self::Url(_) | Self::NoRoute | Self::NothingPending | Self::TooLarge { .. } => {
            }
        }
        response
    }
}

fn refused(refusal: &Refusal) -> (StatusCode, &'static str) {
    match refusal {
        Refusal::NotFound => (StatusCode::NOT_FOUND, "SUBSCRIPTION_NOT_FOUND"),
        Refusal::Exists => (StatusCode::CONFLICT, "SUBSCRIPTION_ALREADY_EXISTS"),
        Refusal::Limit(_) => (StatusCode::FORBIDDEN, "LIMIT_EXCEEDED"),
        Refusal::NotPullWake => (StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
        Refusal::AlreadyClaimed { .. } => (StatusCode::CONFLICT, "ALREADY_CLAIMED"),
        Refusal::Fenced => (StatusCode::CONFLICT, "FENCED"),
        Refusal::Offset(_) => (StatusCode::CONFLICT, "INVALID_OFFSET"),
    }
}

pub(super) fn json(status: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(super) fn nothing() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(super) fn jwks(keys: &Value) -> Response<Bytes> {
    let mut response = json(StatusCode::OK, keys);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    response
}
