//! Brings wakes to webhooks.

use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::Shared;
use super::address::{self, PublicOnly};
use super::decide::{Command, WakeRef};
use super::desk::{Delivery, Desk};
use super::event;
use super::keys::Keys;
use super::mark::Mark;
use super::sight::linkages;
use super::state::{Stage, Subscription, Wake};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Deliveries under way at once, and how long one waits for its turn before it counts as failed.
const AT_ONCE: usize = 256;
const PATIENCE: Duration = Duration::from_secs(5);
const REPLY_MAX: usize = 64 << 10;
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What a webhook is sent.
struct Letter {
    url: Arc<str>,
    body: String,
    wake: WakeRef,
}

#[derive(Debug, thiserror::Error)]
enum Undelivered {
    #[error(transparent)]
    Url(#[from] address::UrlRejected),
    #[error(transparent)]
    Request(#[from] reqwest::Error),
    #[error("answered {0}")]
    Status(reqwest::StatusCode),
    #[error("too many deliveries are under way")]
    Busy,
}

pub(super) async fn run(shared: Arc<Shared>, desk: Desk, mut deliveries: mpsc::UnboundedReceiver<Delivery>) {
    let courier = Arc::new(Courier { shared, desk, room: Semaphore::new(AT_ONCE), client: tokio::sync::OnceCell::new() });
    let mut rounds = JoinSet::new();
    loop {
        tokio::select! {
            delivery = deliveries.recv() => match delivery {
                Some(delivery) => drop(rounds.spawn(courier.clone().deliver(delivery))),
                None => return,
            },
            Some(_) = rounds.join_next() => {}
        }
    }
}

struct Courier {
    shared: Arc<Shared>,
    desk: Desk,
    room: Semaphore,
    client: tokio::sync::OnceCell<reqwest::Client>,
}

impl Courier {
    async fn deliver(self: Arc<Self>, delivery: Delivery) {
        let keys = match self.shared.keys().await {
            Ok(keys) => keys,
            Err(error) => return tracing::warn!(%error, "a webhook waits for its signing key"),
        };
        let letter = self
            .shared
            .journal
            .with(|state| state.get(&delivery.id).and_then(|subscription| self.compose(subscription, delivery.generation, keys)));
        let Some(Letter { url, body, wake }) = letter else { return };
        let command = match self.post(&url, body, keys).await {
            Ok(done) => Command::Delivered { wake, done },
            Err(error) => {
                tracing::info!(subscription = %delivery.id, %error, "a webhook was not delivered");
                Command::DeliveryFailed { wake }
            }
        };
        // If this is lost, the delivery runs out and is made again.
        if let Err(error) = self.desk.ask(delivery.id.clone(), command).await {
            tracing::debug!(subscription = %delivery.id, %error, "the outcome of a webhook was not recorded");
        }
    }

    fn compose(&self, subscription: &Subscription, generation: u64, keys: &Keys) -> Option<Letter> {
        let event::Delivery::Webhook { url } = &subscription.config.delivery else { return None };
        let delivering = |wake: &&Wake| matches!(wake.stage, Stage::Delivering { .. });
        let current = subscription.wake.as_ref().filter(delivering).filter(|_| subscription.generation == generation)?;
        let mut streams = linkages(subscription, &self.shared.log);
        for stream in &mut streams {
            // What is acknowledged by `done` is what is told here.
            if let Some(tail) = current.snapshot.get(&stream.path) {
                (stream.tail_offset, stream.has_pending) = (*tail, tail.position() > Mark::position(stream.acked_offset));
            }
        }
        let wake = WakeRef { generation, id: current.id.clone() };
        let body = json!({
            "subscription_id": subscription.id,
            "wake_id": wake.id,
            "generation": generation,
            "streams": streams,
            "callback_url": callback_url(&subscription.base_url, &subscription.id),
            "callback_token": keys.token(&subscription.id, &wake),
        });
        Some(Letter { url: url.clone(), body: body.to_string(), wake })
    }

    /// Whether the receiver says that it is done.
    async fn post(&self, url: &str, body: String, keys: &Keys) -> Result<bool, Undelivered> {
        let turn = tokio::time::timeout(PATIENCE, self.room.acquire()).await;
        let _turn = turn.ok().and_then(Result::ok).ok_or(Undelivered::Busy)?;
        let url = address::check(url)?;
        let client = self.client.get_or_try_init(|| async { client() }).await?;
        let signature = keys.signature(self.shared.log.now_ms() / 1_000, &body);
        let request = client.post(url).header(CONTENT_TYPE, "application/json").header("webhook-signature", signature).body(body);
        let mut response = request.send().await?;
        if !response.status().is_success() {
            return Err(Undelivered::Status(response.status()));
        }
        let mut reply = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if reply.len() + chunk.len() > REPLY_MAX {
                return Ok(false);
            }
            reply.extend_from_slice(&chunk);
        }
        Ok(serde_json::from_slice::<Reply>(&reply).is_ok_and(|reply| reply.done == Some(true)))
    }
}

#[derive(Deserialize)]
struct Reply {
    done: Option<bool>,
}

/// Goes where it is sent and nowhere else: no proxy and no redirect, or the check of the address would be of another one.
fn client() -> Result<reqwest::Client, reqwest::Error> {
    let builder = reqwest::Client::builder().redirect(Policy::none()).no_proxy().timeout(TIMEOUT).pool_max_idle_per_host(1);
    builder.dns_resolver(Arc::new(PublicOnly)).build()
}

fn callback_url(base_url: &str, id: &str) -> String {
    format!("{base_url}/v1/stream/__ds/subscriptions/{}/callback", utf8_percent_encode(id, COMPONENT))
}
