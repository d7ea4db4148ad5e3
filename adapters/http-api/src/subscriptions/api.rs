//! The requests, one function each.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::Subscriptions;
use super::decide::{Answer, Command, Refusal, WakeRef};
use super::event::Delivery;
use super::reply::{self, Error};
use super::request;
use super::routes::{self, Action, Route};
use super::sight::{Linkage, linkages};
use super::state::Subscription;
use super::watch::Nudge;

type Reply = Result<Response<Bytes>, Error>;

/// How long a claim waits for what it might have missed.
const NUDGE_PATIENCE: Duration = Duration::from_secs(2);

impl Subscriptions {
    pub(super) async fn answer(&self, method: &Method, path: &str, headers: &HeaderMap, body: &[u8], base_url: &str) -> Reply {
        let route = routes::parse(path).ok_or(Error::NoRoute)?;
        match (route, method) {
            (Route::Jwks, &Method::GET | &Method::HEAD) => Ok(reply::jwks(&self.shared.keys().await?.jwks())),
            (Route::Jwks, _) => Err(Error::Method { allowed: "GET, HEAD" }),
            (Route::Subscription(id), &Method::PUT) => self.create(id, body, base_url).await,
            (Route::Subscription(id), &Method::GET | &Method::HEAD) => {
                self.see_all().await?;
                Ok(reply::json(StatusCode::OK, &self.describe(&id, base_url).await?))
            }
            (Route::Subscription(id), &Method::DELETE) => self.ask_plainly(id, Command::Delete).await,
            (Route::Subscription(_), _) => Err(Error::Method { allowed: "GET, HEAD, PUT, DELETE" }),
            (Route::Streams(id), &Method::POST) => self.ask_plainly(id, Command::Link { paths: request::link(body)? }).await,
            (Route::Stream(id, path), &Method::DELETE) => {
                self.ask_plainly(id, Command::Unlink { path: request::path(&path)? }).await
            }
            (Route::Stream(..), _) => Err(Error::Method { allowed: "DELETE" }),
            (Route::Action(id, action), &Method::POST) => self.act(id, action, headers, body).await,
            (Route::Streams(_) | Route::Action(..), _) => Err(Error::Method { allowed: "POST" }),
        }
    }

    async fn act(&self, id: Arc<str>, action: Action, headers: &HeaderMap, body: &[u8]) -> Reply {
        match action {
            Action::Claim => self.claim(id, body).await,
            Action::Callback | Action::Ack => self.ack(id, action, headers, body).await,
            Action::Release => {
                let (wake, _) = self.authorize(&id, action, headers, body).await?;
                self.ask_plainly(id, Command::Release { wake }).await
            }
        }
    }

    async fn ask_plainly(&self, id: Arc<str>, command: Command) -> Reply {
        self.desk.ask(id, command).await?;
        Ok(reply::nothing())
    }

    /// Until everything that was acknowledged anywhere can be seen here.
    async fn see_all(&self) -> Result<(), Error> {
        self.shared.log.refresh().await;
        self.shared.journal.catch_up().await.map_err(|error| Error::Unavailable(error.to_string()))
    }

    async fn create(&self, id: Arc<str>, body: &[u8], base_url: &str) -> Reply {
        let config = request::create(body)?;
        // Whoever is told of the key must find it.
        self.shared.keys().await?;
        let created = self.desk.ask(id.clone(), Command::Create { config, base_url: base_url.into() }).await?;
        let status = if created == Answer::Created { StatusCode::CREATED } else { StatusCode::OK };
        Ok(reply::json(status, &self.describe(&id, base_url).await?))
    }

    async fn describe(&self, id: &str, base_url: &str) -> Result<Value, Error> {
        let kid = self.shared.keys().await?.kid();
        let described = self.shared.journal.with(|state| {
            let subscription = state.get(id)?;
            Some(description(subscription, &linkages(subscription, &self.shared.log), &kid, base_url))
        });
        described.ok_or(Error::Refused(Refusal::NotFound))
    }

    async fn claim(&self, id: Arc<str>, body: &[u8]) -> Reply {
        let worker = request::claim(body)?;
        let claim = Command::Claim { worker };
        let mut answer = self.desk.ask(id.clone(), claim.clone()).await?;
        if answer == Answer::NothingPending {
            self.nudge(&id).await;
            answer = self.desk.ask(id.clone(), claim).await?;
        }
        let Answer::Claimed(wake) = answer else { return Err(Error::NothingPending) };
        let token = self.shared.keys().await?.token(&id, &wake);
        let claimed = self.shared.journal.with(|state| {
            let subscription = state.get(&id)?;
            Some((linkages(subscription, &self.shared.log), subscription.config.lease_ttl_ms))
        });
        let (streams, lease_ttl_ms) = claimed.ok_or(Error::Refused(Refusal::NotFound))?;
        let WakeRef { generation, id: wake_id } = wake;
        let body = json!({
            "wake_id": wake_id,
            "generation": generation,
            "token": token,
            "streams": streams,
            "lease_ttl_ms": lease_ttl_ms,
        });
        Ok(reply::json(StatusCode::OK, &body))
    }

    /// A stream may have come to be that nobody has linked yet.
    async fn nudge(&self, id: &Arc<str>) {
        let (done, acted) = oneshot::channel();
        if self.nudges.send(Nudge { id: id.clone(), done }).await.is_ok() {
            let _ = tokio::time::timeout(NUDGE_PATIENCE, acted).await;
        }
    }

    async fn ack(&self, id: Arc<str>, action: Action, headers: &HeaderMap, body: &[u8]) -> Reply {
        let (wake, report) = self.authorize(&id, action, headers, body).await?;
        let acks = Command::Ack { wake, acks: report.acks()?, done: report.is_done() };
        let answer = self.desk.ask(id, acks).await?;
        let next_wake = answer == Answer::Acked { next_wake: true };
        Ok(reply::json(StatusCode::OK, &json!({ "ok": true, "next_wake": next_wake })))
    }

    /// The wake that the token and the report agree on. Whether it is still the current one is for the decision.
    async fn authorize(
        &self,
        id: &str,
        action: Action,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(WakeRef, request::Report), Error> {
        self.see_all().await?;
        let pull_wake = self.shared.journal.with(|state| state.get(id).map(|found| found.wake_stream().is_some()));
        if !pull_wake.ok_or(Refusal::NotFound)? && action != Action::Callback {
            return Err(Refusal::NotPullWake.into());
        }
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = authorization.and_then(|value| value.strip_prefix("Bearer ")).ok_or(Error::Token)?;
        let wake = self.shared.keys().await?.verify(id, token.trim()).ok_or(Error::Token)?;
        let report = request::report(body)?;
        if report.is_about(&wake) { Ok((wake, report)) } else { Err(Refusal::Fenced.into()) }
    }
}

fn description(subscription: &Subscription, linkages: &[Linkage], kid: &str, base_url: &str) -> Value {
    let link =
        |linkage: &Linkage| json!({ "path": linkage.path, "link_type": linkage.link_type, "acked_offset": linkage.acked_offset });
    let created_at = i64::try_from(subscription.created_at).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let mut described = json!({
        "id": subscription.id,
        "subscription_id": subscription.id,
        "streams": linkages.iter().map(link).collect::<Vec<_>>(),
        "lease_ttl_ms": subscription.config.lease_ttl_ms,
        "created_at": created_at.map(|at| format!("{at:.3}")),
        "status": if subscription.failures > 0 { "failed" } else { "active" },
    });
    match &subscription.config.delivery {
        Delivery::Webhook { url } => {
            let jwks_url = format!("{base_url}/v1/stream/__ds/jwks.json");
            described["type"] = json!("webhook");
            described["webhook"] = json!({ "url": url, "signing": { "alg": "ed25519", "kid": kid, "jwks_url": jwks_url } });
        }
        Delivery::PullWake { wake_stream } => {
            described["type"] = json!("pull-wake");
            described["wake_stream"] = json!(wake_stream);
        }
    }
    if let Some(pattern) = &subscription.config.pattern {
        described["pattern"] = json!(pattern.text());
    }
    if let Some(text) = &subscription.config.description {
        described["description"] = json!(text);
    }
    described
}
