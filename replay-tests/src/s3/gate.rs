use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use parking_lot::Mutex;
use s3s::dto::StreamingBlob;
use s3s::service::S3Service;
use s3s::{Body, HttpRequest, HttpResponse};

use super::api;
use super::faults::{Counts, Fate, Faults};

/// Stands between the network and the honest server: counts, delays and spoils requests.
pub(super) struct Gate {
    pub(super) s3: S3Service,
    pub(super) faults: Mutex<Faults>,
    pub(super) counts: Mutex<Counts>,
    pub(super) attempts: Mutex<BTreeMap<String, u64>>,
}

enum Operation {
    Put,
    Get,
    Head,
    List,
    Delete,
    Other,
}

impl Gate {
    /// An error closes the connection without an answer.
    pub(super) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Result<HttpResponse> {
        let operation = operation(&request);
        self.count(&operation);
        match operation {
            Operation::Put => {
                let (head, body) = request.into_parts();
                let body = api::collect(Some(StreamingBlob::from(Body::from(body)))).await?;
                let request = Request::from_parts(head, Body::from(body));
                // A task of its own, because the real S3 also carries out what it has received
                // when the client gives up waiting.
                tokio::spawn(self.put(request)).await.context("a PUT was cut short")?
            }
            Operation::Get | Operation::Head | Operation::List => {
                let latency = self.faults.lock().get_latency;
                sleep(latency).await;
                self.forward(request.map(Body::from)).await
            }
            Operation::Delete | Operation::Other => self.forward(request.map(Body::from)).await,
        }
    }

    async fn put(self: Arc<Self>, request: HttpRequest) -> Result<HttpResponse> {
        let (fate, latency) = self.roll(request.uri().path());
        sleep(latency).await;
        match fate {
            Fate::Honest => self.forward(request).await,
            Fate::Conflict => Ok(refusal(StatusCode::CONFLICT, "ConditionalRequestConflict")),
            Fate::Unavailable => Ok(unavailable()),
            Fate::LostReply => {
                self.forward(request).await?;
                Ok(unavailable())
            }
            Fate::Dropped => {
                self.forward(request).await?;
                bail!("the connection is dropped on purpose")
            }
        }
    }

    fn roll(&self, path: &str) -> (Fate, Duration) {
        let attempt = {
            let mut attempts = self.attempts.lock();
            let attempt = attempts.entry(path.to_owned()).or_default();
            *attempt += 1;
            *attempt
        };
        let mut faults = self.faults.lock();
        let fate = faults.fate(path, attempt);
        self.counts.lock().add(fate);
        (fate, faults.put_latency)
    }

    fn count(&self, operation: &Operation) {
        let mut counts = self.counts.lock();
        match operation {
            Operation::Put => counts.puts += 1,
            Operation::Get => counts.gets += 1,
            Operation::Head => counts.heads += 1,
            Operation::List => counts.lists += 1,
            Operation::Delete => counts.deletes += 1,
            Operation::Other => {}
        }
    }

    async fn forward(&self, request: HttpRequest) -> Result<HttpResponse> {
        let answer = self.s3.call(request).await;
        answer.map_err(|error| anyhow::Error::from_boxed(error.into()))
    }
}

fn operation<B>(request: &Request<B>) -> Operation {
    let path = request.uri().path().trim_start_matches('/');
    let names_an_object = path.split_once('/').is_some_and(|(_, key)| !key.is_empty());
    let query = request.uri().query().unwrap_or_default();
    match (request.method(), names_an_object) {
        (&Method::PUT, true) => Operation::Put,
        (&Method::GET, true) => Operation::Get,
        (&Method::HEAD, true) => Operation::Head,
        (&Method::GET, false) if query.contains("list-type=2") => Operation::List,
        (&Method::DELETE, true) if !query.contains("uploadId=") => Operation::Delete,
        (&Method::POST, false) if query.contains("delete") => Operation::Delete,
        _ => Operation::Other,
    }
}

fn unavailable() -> HttpResponse {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "SlowDown")
}

fn refusal(status: StatusCode, code: &str) -> HttpResponse {
    let xml = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code></Error>");
    let mut response = HttpResponse::new(Body::from(xml));
    *response.status_mut() = status;
    response
}

async fn sleep(latency: Duration) {
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
}
