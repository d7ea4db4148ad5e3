//! What handlers give back: JSON with the position it holds at.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use queries::At;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::docs::{Operation, Output};
use super::error::ApiError;

pub(crate) const POSITION: HeaderName = HeaderName::from_static("x-arbe-position");

/// The shape on the wire.
#[derive(JsonSchema)]
#[schemars(rename = "{T}At")]
struct Positioned<T> {
    #[serde(flatten)]
    _body: T,
    /// Where in the log this holds. A query with it as `min_position` sees at least this.
    #[serde(rename = "position")]
    _position: u64,
}

/// Nothing but the position.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Nothing {}

/// The answer of a command.
#[derive(Debug)]
pub(crate) struct Done<const STATUS: u16, T> {
    pub(crate) position: u64,
    pub(crate) body: T,
}

pub(crate) type Ok200<T> = Result<Done<200, T>, ApiError>;
pub(crate) type Created<T> = Result<Done<201, T>, ApiError>;

/// The answer of a query.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) position: u64,
    pub(crate) body: T,
    /// The tags the client has, as it gave them.
    pub(crate) known: Option<HeaderValue>,
}

pub(crate) type Queried<T> = Result<Answer<T>, ApiError>;

impl<T> Answer<T> {
    pub(crate) fn of(at: At<T>, known: Option<HeaderValue>) -> Self {
        Self { position: at.position, body: at.value, known }
    }
}

/// The object with `position` as its last key, and a tag that does not depend on it: a position moves with every commit of the log.
fn positioned<T: Serialize>(body: &T, position: u64) -> Result<(Vec<u8>, String), ApiError> {
    let mut json = serde_json::to_vec(body).map_err(|error| ApiError::internal(error.to_string()))?;
    let digest = Sha256::digest(&json);
    let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    json.pop();
    let comma = if json.len() > 1 { "," } else { "" };
    json.extend_from_slice(format!("{comma}\"position\":{position}}}").as_bytes());
    Ok((json, format!("W/\"{tag}\"")))
}

fn response(status: StatusCode, position: u64, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(POSITION, HeaderValue::from(position));
    response
}

impl<const STATUS: u16, T: Serialize> IntoResponse for Done<STATUS, T> {
    fn into_response(self) -> Response<Body> {
        let status = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK);
        match positioned(&self.body, self.position) {
            Ok((body, _)) => {
                let mut response = response(status, self.position, body);
                response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
                response
            }
            Err(error) => error.into_response(),
        }
    }
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response<Body> {
        let (body, tag) = match positioned(&self.body, self.position) {
            Ok(made) => made,
            Err(error) => return error.into_response(),
        };
        let known = self.known.as_ref().and_then(|known| known.to_str().ok()).unwrap_or_default();
        let same = known.split(',').map(str::trim).any(|known| known == "*" || known == tag || known == &tag[2..]);
        let mut response = if same {
            let mut response = response(StatusCode::NOT_MODIFIED, self.position, Vec::new());
            response.headers_mut().remove(header::CONTENT_TYPE);
            response
        } else {
            response(StatusCode::OK, self.position, body)
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("authorization"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }
}

fn success<T: JsonSchema>(schemas: &mut SchemaGenerator, headers: Value) -> Value {
    let schema = schemas.subschema_for::<Positioned<T>>();
    json!({ "description": "Done", "headers": headers, "content": { "application/json": { "schema": schema } } })
}

impl<const STATUS: u16, T: JsonSchema> Output for Result<Done<STATUS, T>, ApiError> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        let headers = json!({ "x-arbe-position": { "required": true, "schema": { "type": "integer", "minimum": 0 } } });
        let done = success::<T>(schemas, headers);
        operation.response(StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK), done);
        operation.errors(&[400, 401, 403, 404, 409, 413, 415, 422, 500, 503], schemas);
    }
}

impl<T: JsonSchema> Output for Queried<T> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        let headers = json!({
            "x-arbe-position": { "required": true, "schema": { "type": "integer", "minimum": 0 } },
            "etag": { "required": true, "schema": { "type": "string" } },
        });
        let found = success::<T>(schemas, headers.clone());
        operation.response(StatusCode::OK, found);
        operation.response(StatusCode::NOT_MODIFIED, json!({ "description": "It is what the client has.", "headers": headers }));
        operation.errors(&[400, 401, 403, 404, 500, 503], schemas);
    }
}
