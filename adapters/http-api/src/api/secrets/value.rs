//! A body with a value in it, of which no error says anything.

use axum::extract::{FromRequest, Request};
use commands::Rejection;
use commands::ports::Plain;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use zeroize::Zeroize;

use crate::api::Strict;
use crate::api::docs::{Input, Operation};
use crate::api::error::ApiError;
use crate::api::extract::{app_of, require_json};

/// Bytes of a value.
const MAX: usize = 64 << 10;
/// JSON writes a byte as six characters at worst; the rest is names.
const BODY_MAX: usize = 6 * MAX + (4 << 10);

/// A JSON body. What does not fit is told by its place: an error of the reader would quote it.
#[derive(Debug)]
pub(super) struct Confidential<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Confidential<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = app_of(&parts)?.body(body).await?;
        require_json(&parts.headers)?;
        if bytes.len() > BODY_MAX {
            return Err(Rejection::TooLarge { field: "value", max: MAX }.into());
        }
        let parsed = serde_json::from_slice(&bytes).map(|Strict(body)| Self(body));
        // As far as it is ours alone.
        if let Ok(mut bytes) = bytes.try_into_mut() {
            bytes.as_mut().zeroize();
        }
        parsed.map_err(|error| {
            ApiError::bad_request(format!("the body does not fit at line {} column {}", error.line(), error.column()))
        })
    }
}

impl<T: JsonSchema> Input for Confidential<T> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.body::<T>(true, schemas);
    }
}

pub(super) fn plain<'de, D: Deserializer<'de>>(field: D) -> Result<Plain, D::Error> {
    String::deserialize(field).map(|text| Plain::new(text.into_bytes()))
}

/// It becomes the value of a variable.
pub(super) fn check(value: &Plain) -> Result<(), Rejection> {
    let invalid = |why: &str| Rejection::Invalid { field: "value", why: why.to_owned() };
    match value.expose() {
        [] => Err(invalid("is empty")),
        bytes if bytes.len() > MAX => Err(Rejection::TooLarge { field: "value", max: MAX }),
        bytes if bytes.contains(&0) => Err(invalid("holds a NUL")),
        _ => Ok(()),
    }
}
