//! The one door through which values leave: for dispatchers that run elsewhere, behind a secret of its own. It is not described.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Response, header};
use axum::response::IntoResponse;
use commands::CommandError;
use commands::ports::VaultError;
use commands::secrets::{ResolveError, Resolved, Scope};
use events::{EnvironmentId, HouseId};
use serde::{Deserialize, Serialize};

use super::value::Confidential;
use crate::api::error::ApiError;
use crate::api::extract::{app_of, bearer, plane_of};
use crate::api::{Plane, Secrets};
use crate::app::same;
use crate::auth::Refusal;
use crate::metrics::Template;

pub(in crate::api) const RESOLVE: &str = "/api/secrets/resolve";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    house_id: HouseId,
    /// What this binds. Without it and without names, everything that the house has.
    #[serde(default)]
    environment_id: Option<EnvironmentId>,
    #[serde(default)]
    names: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Values<'a> {
    values: BTreeMap<&'a str, &'a str>,
    missing_optional: &'a [String],
    stripped: &'a [String],
}

/// For every method: nobody learns of the door where it is not configured, and no token of an agent opens it.
pub(in crate::api) async fn resolve(request: Request) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let app = app_of(&parts)?;
    let plane = plane_of(&app)?;
    let secrets = admitted(plane, &parts)?;
    if parts.method != Method::POST {
        return Ok(only_post());
    }
    let ask = Request::from_parts(parts, body);
    let Confidential(ask) = Confidential::from_request(ask, &()).await?;
    let Ask { house_id, environment_id, names } = ask;
    let scope = match (environment_id, names) {
        (Some(environment), None) => Scope::Environment(environment),
        (None, Some(names)) => Scope::Names(names),
        (None, None) => Scope::House,
        (Some(_), Some(_)) => return Err(ApiError::bad_request("name an environment or names, not both")),
    };
    let resolved = commands::secrets::resolve(&*secrets.vault, &plane.commands, &house_id, &scope).await.map_err(refused)?;
    answer(&resolved)
}

fn admitted<'a>(plane: &'a Plane, parts: &Parts) -> Result<&'a Secrets, ApiError> {
    let secrets = plane.secrets.as_ref().ok_or_else(ApiError::no_route)?;
    let token = secrets.resolve_token.as_ref().ok_or_else(ApiError::no_route)?;
    let given = bearer(&parts.headers)?;
    if same(given.as_bytes(), token.as_bytes()) { Ok(secrets) } else { Err(Refusal::Invalid.into()) }
}

fn only_post() -> Response<Body> {
    let mut response = ApiError::method().into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

fn answer(resolved: &Resolved) -> Result<Response<Body>, ApiError> {
    let mut values = BTreeMap::new();
    for (name, value) in &resolved.values {
        let text = std::str::from_utf8(value.expose()).map_err(|_| ApiError::internal(format!("{name} is no text")))?;
        values.insert(name.as_str(), text);
    }
    let body = Values { values, missing_optional: &resolved.missing_optional, stripped: &resolved.stripped };
    let body = serde_json::to_vec(&body).map_err(|_| ApiError::internal("the answer cannot be written"))?;
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.extensions_mut().insert(Template(RESOLVE));
    Ok(response)
}

/// What the vault's store said names objects and addresses: it is for the log.
fn refused(error: ResolveError) -> ApiError {
    let message = error.to_string();
    match error {
        ResolveError::NotFound(what) => ApiError::not_found(what),
        ResolveError::Missing(_) | ResolveError::Value { source: VaultError::Gone, .. } => ApiError::secret_missing(message),
        ResolveError::Value { name, source: VaultError::Sealed(_) | VaultError::Refused(_) } => {
            tracing::warn!(error = %message, "a value cannot be opened");
            ApiError::internal(format!("the value of {name} cannot be opened; see the server's log"))
        }
        ResolveError::Value { name, source: VaultError::Unavailable(_) } => {
            tracing::warn!(error = %message, "a value cannot be read");
            ApiError::unavailable(format!("the value of {name} cannot be read at the moment"))
        }
        ResolveError::Stopped(stopped) => CommandError::from(stopped).into(),
    }
}
