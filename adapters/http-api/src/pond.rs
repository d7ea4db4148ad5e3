//! Sessions over HTTP: `POST /v1/search`, `POST /v1/get`, `POST /v1/ingest`, and the JSON Schema of them. Bodies are read and answers written here; what is
//! asked is done by `queries::library` and `commands::sessions`.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use events::session::SessionId;
use events::{HouseId, ThreadId};
use queries::library::{self, Code, Finder, GetRequest, GetResponse, Library, PondError, SearchRequest, SearchResponse};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::api::{Caller, Operation, Routes, Strict};
use crate::app::App;
use crate::errors::Error;
use crate::streams::headers;

mod ingest;

pub(crate) const SEARCH: &str = "/v1/search";
pub(crate) const GET: &str = "/v1/get";
pub(crate) const INGEST: &str = "/v1/ingest";
pub(crate) const SCHEMA: &str = "/v1/schema.json";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-pond-request-id");

#[derive(serde::Deserialize)]
struct Versioned {
    protocol_version: u32,
}

/// The one shape of errors.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PondError")]
struct ErrorBody {
    error: Told,
}

/// What is said of who asks comes from the platform, in its words.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum AboutCaller {
    Unauthenticated,
    Forbidden,
    Unavailable,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum AnyCode {
    Own(Code),
    Caller(AboutCaller),
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PondErrorTold")]
struct Told {
    #[schemars(with = "AnyCode")]
    code: Code,
    message: String,
    details: serde_json::Map<String, serde_json::Value>,
}

fn failed(error: &PondError) -> Response<Body> {
    let told = Told { code: error.code, message: error.message.clone(), details: serde_json::Map::new() };
    let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(status, &ErrorBody { error: told });
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn answer<T: Serialize>(status: StatusCode, body: &T) -> Response<Body> {
    let text =
        serde_json::to_string(body).unwrap_or_else(|error| json!({ "error": { "message": error.to_string() } }).to_string());
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl App {
    pub(crate) async fn pond(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let id = request_id();
        let browser = request.headers().contains_key(header::ORIGIN);
        let mut response = self.clone().pond_answer(request).await;
        if response.status().is_server_error() {
            tracing::warn!(request = id, status = response.status().as_u16(), "a request of the library failed");
        }
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        headers::on_every(response.headers_mut());
        if browser {
            headers::for_browsers(response.headers_mut());
            response.headers_mut().append(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-pond-request-id"));
        }
        response
    }

    async fn pond_answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let allowed = if path == SCHEMA { Method::GET } else { Method::POST };
        if method == Method::OPTIONS {
            let mut response = crate::app::status(StatusCode::NO_CONTENT);
            headers::preflight(response.headers_mut());
            return response;
        }
        if method != allowed {
            let mut response = answer(
                StatusCode::METHOD_NOT_ALLOWED,
                &json!({ "error": {
                    "code": Code::ValidationFailed, "message": format!("this path takes {allowed}"), "details": {},
                }}),
            );
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(if path == SCHEMA { "GET" } else { "POST" }));
            return response;
        }
        if path == SCHEMA {
            return answer(StatusCode::OK, &schema());
        }
        let (parts, body) = request.into_parts();
        let caller = match Caller::known(self.clone(), &parts.headers).await {
            Ok(caller) => caller,
            Err(error) => {
                let told = json!({ "error": { "code": error.code, "message": error.message, "details": {} } });
                let mut response = error.into_response();
                *response.body_mut() = Body::from(told.to_string());
                return response;
            }
        };
        let done = match path.as_str() {
            SEARCH => self.pond_search(&caller, &parts.headers, body).await.map(|found| answer(StatusCode::OK, &found)),
            GET => self.pond_get(&caller, &parts.headers, body).await.map(|got| answer(StatusCode::OK, &got)),
            _ => self.pond_ingest(&caller, &parts.headers, body).await.map(|done| answer(StatusCode::OK, &done)),
        };
        done.unwrap_or_else(|error| failed(&error))
    }

    async fn pond_search(&self, caller: &Caller, headers: &HeaderMap, body: Body) -> Result<SearchResponse, PondError> {
        let request: SearchRequest = self.pond_body(headers, body).await?;
        let house = resolve(caller, request.namespace.as_deref())?;
        library::search(finder(caller)?.as_ref(), &house, request).await
    }

    async fn pond_get(&self, caller: &Caller, headers: &HeaderMap, body: Body) -> Result<GetResponse, PondError> {
        let request: GetRequest = self.pond_body(headers, body).await?;
        let house = resolve(caller, request.namespace.as_deref())?;
        library::get(library(caller)?.as_ref(), &house, request).await
    }

    async fn pond_ingest(&self, caller: &Caller, headers: &HeaderMap, body: Body) -> Result<ingest::Ingested, PondError> {
        let request: ingest::Ingest = self.pond_body(headers, body).await?;
        let house = resolve(caller, request.namespace.as_deref())?;
        let plane = plane(caller)?;
        let is_thread = |id: &SessionId| {
            let id = ThreadId::new(id.as_str());
            id.is_ok_and(|id| plane.commands.with_world(|world| world.thread(&id).is_some()))
        };
        ingest::ingest(&plane.sessions, &house, request.events, is_thread).await
    }

    async fn pond_body<T: DeserializeOwned>(&self, headers: &HeaderMap, body: Body) -> Result<T, PondError> {
        let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !event_log::media_type(given).eq_ignore_ascii_case("application/json") {
            return Err(PondError::invalid("the body must be application/json"));
        }
        let bytes = self.body(body).await.map_err(|error| match error {
            Error::TooLarge { .. } | Error::BrokenBody | Error::SlowBody => PondError::invalid(error.to_string()),
            Error::Bad(_)
            | Error::Unauthorized
            | Error::Platform
            | Error::NoRoute
            | Error::Method
            | Error::NoLonger
            | Error::Submit(_)
            | Error::Read(_) => PondError::new(Code::StorageUnavailable, error.to_string()),
        })?;
        // A newer protocol may have other fields; that it is newer is what its client has to hear.
        if let Ok(Versioned { protocol_version }) = serde_json::from_slice(&bytes) {
            PondError::version(protocol_version)?;
        }
        let parsed = serde_json::from_slice(&bytes).map(|Strict(body)| body);
        parsed.map_err(|error| PondError::invalid(format!("the body does not fit: {error}")))
    }
}

fn plane(caller: &Caller) -> Result<&crate::api::Plane, PondError> {
    caller.plane().map_err(|error| PondError::new(Code::StorageUnavailable, error.message))
}

pub(crate) fn library(caller: &Caller) -> Result<Arc<dyn Library>, PondError> {
    let library = plane(caller)?.library.clone();
    library.ok_or_else(|| PondError::new(Code::StorageUnavailable, "this server keeps no sessions"))
}

pub(crate) fn finder(caller: &Caller) -> Result<Arc<dyn Finder>, PondError> {
    let finder = plane(caller)?.search.as_ref().map(|search| search.messages.clone());
    finder.ok_or_else(|| PondError::new(Code::StorageUnavailable, "this server keeps no index"))
}

/// `wire-namespace-resolution`: a namespace is a house of the caller's, and nothing else decides that.
pub(crate) fn resolve(caller: &Caller, namespace: Option<&str>) -> Result<HouseId, PondError> {
    let unknown = || PondError::new(Code::NamespaceUnknown, "there is no such namespace");
    plane(caller)?.commands.with_world(|world| {
        let mut houses = world.houses_of(caller.agent);
        match namespace {
            Some(name) => houses.find(|house| house.as_str() == name).cloned().ok_or_else(unknown),
            None => match (houses.next(), houses.next()) {
                (Some(only), None) => Ok(only.clone()),
                (Some(_), Some(_)) => Err(PondError::invalid("you are in several houses: name one as the namespace")),
                (None, _) => Err(unknown()),
            },
        }
    })
}

fn request_id() -> String {
    format!("{:032x}", u128::from_be_bytes(crate::random::bytes()))
}

/// The same for the document of all doors.
pub(crate) fn describe(routes: Routes) -> Routes {
    routes
        .describe(&Method::POST, SEARCH, "pond_search", "Find sessions by what is said in them", |operation, schemas| {
            door::<SearchRequest, SearchResponse>(operation, schemas);
        })
        .describe(
            &Method::POST,
            GET,
            "pond_get",
            "Read a session, or a message and what stands around it",
            |operation, schemas| {
                door::<GetRequest, GetResponse>(operation, schemas);
            },
        )
        .describe(&Method::POST, INGEST, "pond_ingest", "Record sessions, messages and parts", |operation, schemas| {
            door::<ingest::Ingest, ingest::Ingested>(operation, schemas);
        })
}

fn door<Q: JsonSchema, A: JsonSchema>(operation: &mut Operation, schemas: &mut SchemaGenerator) {
    let headers = json!({ "x-pond-request-id": { "required": true, "schema": { "type": "string" } } });
    operation.body::<Q>(true, schemas);
    let content = json!({ "application/json": { "schema": schemas.subschema_for::<A>() } });
    operation.response(StatusCode::OK, json!({ "description": "Done", "headers": headers, "content": content }));
    let mut statuses: Vec<u16> = Code::ALL.iter().map(|code| code.http_status()).chain([401]).collect();
    statuses.sort_unstable();
    statuses.dedup();
    operation.errors_as::<ErrorBody>(&statuses, &headers, schemas);
}

/// The exact shapes, as the types have them.
fn schema() -> serde_json::Value {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let shapes = json!({
        "search_request": generator.subschema_for::<SearchRequest>(),
        "search_response": generator.subschema_for::<SearchResponse>(),
        "get_request": generator.subschema_for::<GetRequest>(),
        "get_response": generator.subschema_for::<GetResponse>(),
        "ingest_request": generator.subschema_for::<ingest::Ingest>(),
        "ingest_response": generator.subschema_for::<ingest::Ingested>(),
        "error": generator.subschema_for::<ErrorBody>(),
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sessions, protocol version 1",
        "properties": shapes,
        "$defs": generator.take_definitions(true),
    })
}
