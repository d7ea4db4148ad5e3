//! Request bodies, within their bounds.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::address;
use super::decide::WakeRef;
use super::event::{Config, Delivery};
use super::glob::Pattern;
use super::mark::Mark;
use super::reply::Error;
use super::state::is_reserved;

const BODY_MAX: usize = 1 << 20;
const PATH_MAX: usize = 1_024;
const STREAMS_MAX: usize = 1_000;
const ACKS_MAX: usize = 10_000;
const DESCRIPTION_MAX: usize = 1_024;
const WORKER_MAX: usize = 256;
const LEASE_MS: std::ops::RangeInclusive<u64> = 1_000..=600_000;
const LEASE_DEFAULT_MS: u64 = 30_000;

#[derive(Deserialize)]
struct Create {
    r#type: Kind,
    pattern: Option<String>,
    streams: Option<Vec<String>>,
    webhook: Option<Webhook>,
    wake_stream: Option<String>,
    lease_ttl_ms: Option<u64>,
    description: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Webhook,
    PullWake,
}

#[derive(Deserialize)]
struct Webhook {
    url: String,
}

#[derive(Deserialize)]
struct Link {
    streams: Vec<String>,
}

#[derive(Deserialize)]
struct Claim {
    worker: String,
}

/// Of an ack, a callback or a release.
#[derive(Deserialize)]
pub(super) struct Report {
    wake_id: Option<Arc<str>>,
    generation: Option<u64>,
    acks: Option<Vec<Ack>>,
    done: Option<bool>,
}

#[derive(Deserialize)]
struct Ack {
    #[serde(alias = "path")]
    stream: String,
    offset: String,
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    if body.len() > BODY_MAX {
        return Err(Error::TooLarge { limit: BODY_MAX });
    }
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| Error::Invalid(error.to_string()))
}

fn invalid(what: impl Into<String>) -> Error {
    Error::Invalid(what.into())
}

pub(super) fn create(body: &[u8]) -> Result<Config, Error> {
    let create: Create = parse(body)?;
    let delivery = match create.r#type {
        Kind::Webhook => {
            let url = create.webhook.ok_or_else(|| invalid("webhook subscriptions require webhook.url"))?.url;
            address::check(&url)?;
            Delivery::Webhook { url: url.into() }
        }
        Kind::PullWake => {
            let wake_stream = create.wake_stream.ok_or_else(|| invalid("pull-wake subscriptions require wake_stream"))?;
            Delivery::PullWake { wake_stream: path(&wake_stream)? }
        }
    };
    let pattern = create.pattern.filter(|pattern| !pattern.is_empty()).map(|text| pattern(&text)).transpose()?;
    let streams = paths(&create.streams.unwrap_or_default())?;
    if pattern.is_none() && streams.is_empty() {
        return Err(invalid("at least one of pattern and streams is required"));
    }
    if let Delivery::PullWake { wake_stream } = &delivery
        && streams.contains(wake_stream)
    {
        return Err(invalid("a subscription cannot watch its own wake_stream"));
    }
    let lease_ttl_ms = create.lease_ttl_ms.unwrap_or(LEASE_DEFAULT_MS);
    if !LEASE_MS.contains(&lease_ttl_ms) {
        return Err(invalid("lease_ttl_ms must be an integer from 1000 to 600000"));
    }
    if create.description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_MAX) {
        return Err(invalid("description is longer than 1024 bytes"));
    }
    Ok(Config { delivery, pattern, streams, lease_ttl_ms, description: create.description.map(Into::into) })
}

pub(super) fn link(body: &[u8]) -> Result<Vec<Arc<str>>, Error> {
    let link: Link = parse(body)?;
    Ok(paths(&link.streams)?.into_iter().collect())
}

pub(super) fn claim(body: &[u8]) -> Result<Arc<str>, Error> {
    let Claim { worker } = parse(body)?;
    if worker.is_empty() || worker.len() > WORKER_MAX {
        return Err(invalid("worker must be a string of 1 to 256 bytes"));
    }
    Ok(worker.into())
}

pub(super) fn report(body: &[u8]) -> Result<Report, Error> {
    let report: Report = parse(body)?;
    if report.acks.as_ref().is_some_and(|acks| acks.len() > ACKS_MAX) {
        return Err(invalid("at most 10000 acks at a time"));
    }
    Ok(report)
}

impl Report {
    pub(super) fn is_about(&self, wake: &WakeRef) -> bool {
        self.generation == Some(wake.generation) && self.wake_id.as_ref() == Some(&wake.id)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done == Some(true)
    }

    pub(super) fn acks(&self) -> Result<Vec<(Arc<str>, Mark)>, Error> {
        let ack = |ack: &Ack| Some((normal(&ack.stream).into(), Mark::parse(&ack.offset)?));
        let acks: Option<Vec<_>> = self.acks.iter().flatten().map(ack).collect();
        acks.ok_or(Error::Refused(super::decide::Refusal::Offset("an ack's offset is not an offset")))
    }
}

fn normal(path: &str) -> &str {
    path.trim_matches('/')
}

/// A stream as these interfaces name it: relative to `/v1/stream/`, not encoded.
pub(super) fn path(text: &str) -> Result<Arc<str>, Error> {
    let path = normal(text);
    let sound = !path.is_empty() && path.len() <= PATH_MAX && !path.chars().any(char::is_control);
    if !sound || is_reserved(path) {
        return Err(invalid("a stream is named by its path of 1 to 1024 bytes, outside __ds"));
    }
    Ok(path.into())
}

fn paths(texts: &[String]) -> Result<BTreeSet<Arc<str>>, Error> {
    if texts.len() > STREAMS_MAX {
        return Err(invalid("at most 1000 streams at a time"));
    }
    texts.iter().map(|text| path(text)).collect()
}

fn pattern(text: &str) -> Result<Pattern, Error> {
    let text = normal(text);
    if text.len() > PATH_MAX {
        return Err(invalid("pattern is longer than 1024 bytes"));
    }
    Pattern::try_from(text.to_owned()).map_err(|error| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> String {
        match create(body.as_bytes()) {
            Err(error) => error.to_string(),
            Ok(config) => panic!("{config:?}"),
        }
    }

    #[test]
    fn paths_and_patterns_are_normalised() {
        let body = br#"{"type":"pull-wake","pattern":"/events/*/","streams":["/b/","a","b"],"wake_stream":"/w/"}"#;
        let config = create(body).unwrap();
        assert_eq!(config.pattern.unwrap().text(), "events/*");
        assert_eq!(config.streams, ["a".into(), "b".into()].into());
        assert_eq!(config.delivery, Delivery::PullWake { wake_stream: "w".into() });
        assert_eq!(config.lease_ttl_ms, 30_000);
    }

    #[test]
    fn what_is_missing_or_out_of_bounds_is_refused() {
        let webhook = r#""type":"webhook","pattern":"*","webhook":{"url":"https://w.example/"}"#;
        assert!(create(format!("{{{webhook}}}").as_bytes()).is_ok());
        for rest in [r#""lease_ttl_ms":999"#, r#""lease_ttl_ms":600001"#, r#""lease_ttl_ms":1000.5"#, r#""lease_ttl_ms":"1000""#]
        {
            refused(&format!("{{{webhook},{rest}}}"));
        }
        refused(&format!(r#"{{{webhook},"description":"{}"}}"#, "x".repeat(1_025)));
        for body in [
            "",
            "[]",
            "{",
            r#"{"type":"push","pattern":"*"}"#,
            r#"{"type":"webhook","pattern":"*"}"#,
            r#"{"type":"pull-wake","pattern":"*"}"#,
            r#"{"type":"pull-wake","wake_stream":"w"}"#,
            r#"{"type":"pull-wake","wake_stream":"w","streams":[]}"#,
            r#"{"type":"pull-wake","wake_stream":"w","streams":["w"]}"#,
            r#"{"type":"pull-wake","wake_stream":"w","streams":[1]}"#,
            r#"{"type":"pull-wake","wake_stream":"__ds/keys","pattern":"*"}"#,
            r#"{"type":"pull-wake","wake_stream":"w","streams":["__ds/subscriptions"]}"#,
        ] {
            refused(body);
        }
    }

    #[test]
    fn an_unsafe_url_has_an_error_of_its_own() {
        let body = br#"{"type":"webhook","pattern":"*","webhook":{"url":"http://10.0.0.1/hook"}}"#;
        assert!(matches!(create(body), Err(Error::Url(_))));
    }
}
