//! The platform's API over HTTP: one request, or one tried again until its outcome is known.

use std::sync::Mutex;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use crate::endpoint::{Endpoint, is_loopback};
use crate::output::clean;

mod error;
mod retry;
mod stream;

pub(crate) use error::CallError;
pub(crate) use retry::Backoff;
pub(crate) use stream::{From, Slice, before};

const CONNECT: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// A query may wait five seconds for its position, a command for its place in the log.
const ANSWER: Duration = Duration::from_secs(30);
const POSITION: &str = "x-arbe-position";

pub(crate) struct Client {
    http: reqwest::Client,
    endpoint: Endpoint,
    url: Mutex<Url>,
    /// Of every command of this invocation, of which there is one.
    pub(crate) idempotency_key: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    headers: HeaderMap,
    body: Vec<u8>,
    url: Url,
}

/// What is sent.
struct Call<'a> {
    method: Method,
    path: &'a [&'a str],
    query: &'a [(&'a str, String)],
    body: Option<Vec<u8>>,
    timeout: Duration,
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint, idempotency_key: String) -> reqwest::Result<Self> {
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .tcp_keepalive(KEEP_ALIVE)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("arbe/", env!("CARGO_PKG_VERSION")));
        let builder = if is_loopback(&endpoint.url) { builder.no_proxy() } else { builder };
        let url = Mutex::new(endpoint.url.clone());
        Ok(Self { http: builder.build()?, endpoint, url, idempotency_key })
    }

    /// Tried again while the server is away or busy.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Answer, CallError> {
        self.retry(async || self.get_once(path, query).await).await
    }

    pub(crate) async fn get_once(&self, path: &[&str], query: &[(&str, String)]) -> Result<Answer, CallError> {
        self.send(&Call { method: Method::GET, path, query, body: None, timeout: ANSWER }).await
    }

    /// Tried again under the same key, so that it is done once at most. If all tries end without an answer, that is said.
    pub(crate) async fn command(&self, method: Method, path: &[&str], body: Option<Vec<u8>>) -> Result<Answer, CallError> {
        let call = Call { method, path, query: &[], body, timeout: ANSWER };
        self.retry(async || self.send(&call).await).await
    }

    async fn send(&self, call: &Call<'_>) -> Result<Answer, CallError> {
        let url = self.address(call.path, call.query);
        let mut request =
            self.http.request(call.method.clone(), url.clone()).bearer_auth(&self.endpoint.token).timeout(call.timeout);
        if call.method != Method::GET {
            request = request.header("idempotency-key", &self.idempotency_key);
        }
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let mutates = call.method != Method::GET;
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                let failure = CallError::of_transport(url, error, mutates);
                self.look_for_moved_server(&failure);
                return Err(failure);
            }
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.map_err(|error| CallError::lost(url.clone(), error, mutates))?;
        if status.is_success() {
            return Ok(Answer { headers, body: body.into(), url });
        }
        Err(self.refusal(url, status, &headers, &body, mutates))
    }

    fn address(&self, path: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.url.lock().expect("nothing panics while it holds the lock").clone();
        url.path_segments_mut().expect("a URL with a host has a path").pop_if_empty().push("api").extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query.iter().map(|(key, value)| (key, value.as_str())));
        }
        url
    }

    fn look_for_moved_server(&self, failure: &CallError) {
        if let (CallError::Unreachable { .. }, Some(now)) = (failure, self.endpoint.moved()) {
            *self.url.lock().expect("nothing panics while it holds the lock") = now;
        }
    }

    fn refusal(&self, url: Url, status: StatusCode, headers: &HeaderMap, body: &[u8], mutates: bool) -> CallError {
        let status = status.as_u16();
        let (code, mut message) = match serde_json::from_slice(body) {
            Ok(Refusal { error: Detail { code, message } }) => (clean(&code), clean(&message)),
            Err(_) if matches!(status, 429 | 502..=504) => ("unavailable".into(), format!("{} answered {status}", origin(&url))),
            Err(_) => return CallError::NotOurs { url },
        };
        if matches!(status, 429 | 502..=504) {
            let retry_after =
                headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok()).map(Duration::from_secs);
            // A gateway does not know what became of what it passed on.
            let unsure = mutates && (code == "outcome_unknown" || matches!(status, 502 | 504));
            return CallError::Busy { code, message, retry_after, unsure };
        }
        if status == 401 {
            message = format!("{message}; {} does not accept the token {}", origin(&url), self.endpoint.token_source);
        }
        CallError::Answered { status, code, message }
    }
}

pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[derive(Deserialize)]
struct Refusal {
    error: Detail,
}

#[derive(Deserialize)]
struct Detail {
    code: String,
    message: String,
}

/// A part of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    pub(crate) items: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(crate) next: Option<String>,
}

impl Answer {
    pub(crate) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, CallError> {
        serde_json::from_slice(&self.body).map_err(|_| CallError::NotOurs { url: self.url.clone() })
    }

    /// Where in the log the command is; none if nothing had to be written.
    pub(crate) fn position(&self) -> Option<u64> {
        self.headers.get(POSITION)?.to_str().ok()?.parse().ok()
    }
}
