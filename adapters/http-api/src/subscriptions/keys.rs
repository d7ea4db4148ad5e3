//! The key that signs webhooks and callback tokens.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Signer, SigningKey};
use event_log::{Change, Command, Create, Expect, From, Log, Payload, ReadError, Rejection, SubmitError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::decide::WakeRef;
use crate::random;

const STREAM: &str = "__ds/keys";
const VERSION: u32 = 1;
const PAGE: usize = 1 << 20;

/// Persisted. The private key is in the log, as the peer secret is beside it: who can read the store can read everything anyway.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyCreated {
    v: u32,
    at: u64,
    seed: String,
}

/// All keys there ever were; the last one signs.
pub(super) struct Keys {
    earlier: Vec<SigningKey>,
    current: SigningKey,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("kid", &self.kid()).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    #[error("the signing keys cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error("no signing key could be written: {0}")]
    Write(SubmitError),
    #[error("a signing key cannot be understood")]
    Malformed,
}

impl Keys {
    pub(super) async fn load_or_create(log: &Log) -> Result<Self, KeysError> {
        log.refresh().await;
        if let Some(keys) = Self::load(log).await? {
            return Ok(keys);
        }
        let seed = URL_SAFE_NO_PAD.encode(random::bytes::<32>());
        let created = KeyCreated { v: VERSION, at: log.now_ms(), seed };
        let text = serde_json::to_string(&created).expect("a key has only string keys");
        let create = Create {
            content_type: Some("application/json".into()),
            payload: Some(Ok(Payload::messages([text.as_str()]))),
            ..Create::default()
        };
        let command = Command {
            expect: vec![Expect { stream: STREAM.into(), tail: None }],
            ..Command::one(STREAM, Change::Create(create))
        };
        match log.submit(command).await {
            // Another server was first, or we were and did not hear of it.
            Ok(_) | Err(SubmitError::Rejected(Rejection::Conflict { .. }) | SubmitError::Unknown(_)) => {}
            Err(error) => return Err(KeysError::Write(error)),
        }
        log.refresh().await;
        Self::load(log).await?.ok_or(KeysError::Read(ReadError::NotFound))
    }

    async fn load(log: &Log) -> Result<Option<Self>, KeysError> {
        let page = match log.read(STREAM, From::Start, PAGE).await {
            Ok(page) => page,
            Err(ReadError::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut earlier = Vec::new();
        for chunk in &page.chunks {
            let array = [b"[", &chunk[..], b"]"].concat();
            let created: Vec<KeyCreated> = serde_json::from_slice(&array).map_err(|_| KeysError::Malformed)?;
            for created in created {
                let seed = URL_SAFE_NO_PAD.decode(&created.seed).ok().and_then(|seed| seed.try_into().ok());
                let seed = seed.filter(|_| created.v == VERSION).ok_or(KeysError::Malformed)?;
                earlier.push(SigningKey::from_bytes(&seed));
            }
        }
        Ok(earlier.pop().map(|current| Self { earlier, current }))
    }

    pub(super) fn kid(&self) -> String {
        kid(&self.current)
    }

    /// The `Webhook-Signature` of a body sent at `seconds`.
    pub(super) fn signature(&self, seconds: u64, body: &str) -> String {
        let signature = self.sign(&format!("{seconds}.{body}"));
        format!("t={seconds},kid={},ed25519={signature}", self.kid())
    }

    /// Lets its bearer act on one wake. The fence ends it, so it carries no time; any server can make it again for a retry.
    pub(super) fn token(&self, subscription: &str, wake: &WakeRef) -> String {
        format!("{}.{}.{}", wake.generation, wake.id, self.sign(&statement(subscription, wake)))
    }

    pub(super) fn verify(&self, subscription: &str, token: &str) -> Option<WakeRef> {
        let (generation, rest) = token.split_once('.')?;
        let (id, signature) = rest.split_once('.')?;
        let wake = WakeRef { generation: generation.parse().ok()?, id: Arc::from(id) };
        let signature = Signature::from_slice(&URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let statement = statement(subscription, &wake);
        let signed = |key: &SigningKey| key.verifying_key().verify_strict(statement.as_bytes(), &signature).is_ok();
        (signed(&self.current) || self.earlier.iter().any(signed)).then_some(wake)
    }

    pub(super) fn jwks(&self) -> Value {
        let jwk = |key: &SigningKey| {
            let x = URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes());
            json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid(key), "use": "sig", "alg": "EdDSA", "x": x })
        };
        let keys: Vec<Value> = std::iter::once(&self.current).chain(&self.earlier).map(jwk).collect();
        json!({ "keys": keys })
    }

    fn sign(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.current.sign(text.as_bytes()).to_bytes())
    }
}

/// Begins with a letter, and what a webhook signature is made over with a digit: neither passes for the other.
fn statement(subscription: &str, wake: &WakeRef) -> String {
    format!("callback\n{}\n{}\n{subscription}", wake.generation, wake.id)
}

fn kid(key: &SigningKey) -> String {
    format!("ds_{}", URL_SAFE_NO_PAD.encode(&key.verifying_key().as_bytes()[..18]))
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Verifier, VerifyingKey};

    use super::*;

    fn keys(current: u8, earlier: &[u8]) -> Keys {
        let key = |seed: u8| SigningKey::from_bytes(&[seed; 32]);
        Keys { earlier: earlier.iter().map(|seed| key(*seed)).collect(), current: key(current) }
    }

    fn wake(generation: u64) -> WakeRef {
        WakeRef { generation, id: "w_1".into() }
    }

    #[test]
    fn a_token_is_good_for_its_subscription_and_wake_only() {
        let token = keys(1, &[]).token("sub", &wake(3));
        assert_eq!(keys(1, &[]).verify("sub", &token), Some(wake(3)));
        assert_eq!(keys(1, &[]).verify("other", &token), None);
        assert_eq!(keys(1, &[]).verify("sub", &token.replacen('3', "4", 1)), None);
        assert_eq!(keys(2, &[]).verify("sub", &token), None);
        for token in ["", "3", "3.w_1", "3.w_1.", "x.w_1.AAAA"] {
            assert_eq!(keys(1, &[]).verify("sub", token), None, "{token:?}");
        }
    }

    #[test]
    fn tokens_of_earlier_keys_stay_good_and_all_keys_are_published() {
        let token = keys(1, &[]).token("sub", &wake(3));
        let rotated = keys(2, &[1]);
        assert_eq!(rotated.verify("sub", &token), Some(wake(3)));
        assert_eq!(rotated.jwks()["keys"].as_array().unwrap().len(), 2);
        assert_eq!(rotated.jwks()["keys"][0]["kid"], rotated.kid());
    }

    #[test]
    fn a_signature_can_be_checked_with_the_published_key() {
        let keys = keys(1, &[]);
        let header = keys.signature(1_700_000_000, "{}");
        let (head, signature) = header.split_once(",ed25519=").unwrap();
        assert_eq!(head, format!("t=1700000000,kid={}", keys.kid()));
        let x = URL_SAFE_NO_PAD.decode(keys.jwks()["keys"][0]["x"].as_str().unwrap()).unwrap();
        let public = VerifyingKey::from_bytes(&x.try_into().unwrap()).unwrap();
        let signature = Signature::from_slice(&URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        public.verify(b"1700000000.{}", &signature).unwrap();
    }
}
