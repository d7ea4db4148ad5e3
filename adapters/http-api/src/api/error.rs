//! The one error shape of `/api`, with a closed set of codes.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use commands::ports::HandsError;
use commands::{CommandError, Rejection};
use event_log::{FetchError, ReadError, SubmitError};
use queries::QueryError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::auth::Refusal;
use crate::errors::Error as StreamError;

/// Besides those of rejections.
const CODES: &[&str] = &[
    "unauthenticated",
    "wrong_thread",
    "bad_request",
    "method_not_allowed",
    "conflict",
    "idempotency_key_reused",
    "payload_too_large",
    "secret_missing",
    "not_there_yet",
    "outcome_unknown",
    "not_begun",
    "unavailable",
    "internal",
];

#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: Cow<'static, str>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn media_type() -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_request", "the body must be application/json")
    }

    /// The same words as a command's rejection, so that no door says more than another.
    pub(crate) fn not_found(what: &'static str) -> Self {
        Rejection::NotFound { what }.into()
    }

    pub(crate) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path")
    }

    pub(crate) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path has other methods; see the Allow header")
    }

    pub(crate) fn forbidden(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(crate) fn wrong_thread() -> Self {
        Self::new(StatusCode::FORBIDDEN, "wrong_thread", "the token is for another thread")
    }

    /// What is required is not there; the message names it.
    pub(crate) fn secret_missing(message: String) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "secret_missing", message)
    }

    pub(crate) fn not_there_yet(asked: u64, position: u64) -> Self {
        let message = format!("still at position {position}, before {asked}");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_there_yet", message)
    }

    /// Work that could not begin, with its cause; the thread says the same.
    fn not_begun(class: &str, message: String) -> Self {
        let code = commands::CODES.iter().chain(CODES).find(|code| **code == class).copied();
        match (code, class) {
            (Some(code), _) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message),
            (None, "sandbox_unreachable") => Self::unavailable(message),
            (None, _) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not_begun", format!("{class}: {message}")),
        }
    }

    pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    pub(crate) fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response<Body> {
        if self.status.is_server_error() {
            tracing::warn!(code = self.code, error = %self.message, "request failed");
        }
        let body = json!({ "error": { "code": self.code, "message": self.message } }).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::Missing | Refusal::Invalid | Refusal::Expired | Refusal::Claims => {
                Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
            }
            Refusal::Unavailable(_) => Self::unavailable(message),
        }
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        Self::new(status_of(&rejection), rejection.code(), rejection.to_string())
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        let message = error.to_string();
        match error {
            CommandError::Rejected(rejection) => rejection.into(),
            CommandError::IdempotencyKeyReused => Self::new(StatusCode::CONFLICT, "idempotency_key_reused", message),
            CommandError::Conflict => Self::new(StatusCode::CONFLICT, "conflict", message),
            CommandError::Unavailable(_) => Self::unavailable(message),
            // Why may name what is in a house of others; the log of the server says it.
            CommandError::Stopped(_) => Self::unavailable("nothing was written: commands have stopped; see the server's log"),
            CommandError::Unknown(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "outcome_unknown", message),
        }
    }
}

impl From<HandsError> for ApiError {
    fn from(error: HandsError) -> Self {
        match error {
            HandsError::Refused(error) => error.into(),
            HandsError::NotBegun { error_class, message } => Self::not_begun(&error_class, message),
        }
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::BadCursor(error) => Self::bad_request(error.to_string()),
            QueryError::NotReady => Self::unavailable(error.to_string()),
            QueryError::Unavailable(source) => {
                tracing::error!(error = %source, "a query failed");
                Self::unavailable("the rows cannot be read at the moment")
            }
        }
    }
}

/// For the doors to a thread's stream, which are part of `/api` and speak its codes.
impl From<StreamError> for ApiError {
    fn from(error: StreamError) -> Self {
        let message = error.to_string();
        match error {
            StreamError::Bad(_) | StreamError::BrokenBody | StreamError::SlowBody => Self::bad_request(message),
            StreamError::TooLarge { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message),
            StreamError::Method => Self::method(),
            StreamError::Unauthorized | StreamError::Platform | StreamError::NoRoute => Self::no_route(),
            StreamError::NoLonger => Self::not_found("thread"),
            StreamError::Read(error) => error.into(),
            StreamError::Submit(SubmitError::Rejected(_)) => Self::new(StatusCode::CONFLICT, "conflict", message),
            StreamError::Submit(SubmitError::Unknown(_)) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "outcome_unknown", message)
            }
            StreamError::Submit(SubmitError::NotWritten(_) | SubmitError::Overloaded | SubmitError::NotOwner) => {
                Self::unavailable(message)
            }
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        let message = error.to_string();
        match error {
            ReadError::NotFound | ReadError::Gone => Self::not_found("thread"),
            ReadError::StaleOffset | ReadError::ForeignOffset => Self::bad_request(message),
            ReadError::Fetch(FetchError::Unavailable(_)) => Self::unavailable(message),
            ReadError::Fetch(FetchError::Damaged(_) | FetchError::Fatal(_)) => Self::internal(message),
        }
    }
}

fn status_of(rejection: &Rejection) -> StatusCode {
    use Rejection as R;
    match rejection {
        R::NotFound { .. } => StatusCode::NOT_FOUND,
        R::Forbidden | R::AuthorMismatch | R::KindNotAllowed => StatusCode::FORBIDDEN,
        R::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        R::IdTaken
        | R::KeyTaken
        | R::AlreadyMember
        | R::LastOwner
        | R::MemberDrivesThreads
        | R::NameTaken
        | R::EnvironmentInUse
        | R::SandboxDead
        | R::SandboxNotDead
        | R::HasSandbox
        | R::NothingToResume
        | R::SandboxStatus { .. }
        | R::ThreadClosed
        | R::WrongStatus { .. }
        | R::WrongRun
        | R::NothingInProgress => StatusCode::CONFLICT,
        R::Invalid { .. }
        | R::AgentNotFound
        | R::HumanHasNoRuntime
        | R::BotNeedsRuntime
        | R::BotCannotOwn
        | R::NotAMember
        | R::TooManyTags
        | R::TwoParents
        | R::ParentNotFound
        | R::ParentInOtherHouse
        | R::TooDeep
        | R::DriverNotABot
        | R::EnvironmentNotFound
        | R::NoEnvironment
        | R::SandboxNotFound
        | R::UnknownKind => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// What every error looks like.
pub(crate) struct ErrorBody;

impl JsonSchema for ErrorBody {
    fn schema_name() -> Cow<'static, str> {
        "Error".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut codes: Vec<_> = commands::CODES.iter().chain(CODES).copied().collect();
        codes.sort_unstable();
        codes.dedup();
        json_schema!({
            "type": "object",
            "required": ["error"],
            "additionalProperties": false,
            "properties": {
                "error": {
                    "type": "object",
                    "required": ["code", "message"],
                    "additionalProperties": false,
                    "properties": {
                        "code": { "type": "string", "enum": codes },
                        "message": { "type": "string" }
                    }
                }
            }
        })
    }
}
