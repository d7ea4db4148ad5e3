//! JSON web tokens. The algorithm is ours to choose, never the token's.

use events::{AgentId, ThreadId};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jwks::Jwks;
use super::{Auth, Claim, Issuer, Refusal, THREAD_TOKEN_MS};

const OURS: &str = "arbe";
const THREAD_AUDIENCE: &str = "arbe-thread";
/// Clocks of issuers differ from ours.
const LEEWAY_MS: u64 = 30_000;
/// How long after its end a token for a thread can be renewed.
const RENEWABLE_MS: u64 = 24 * 60 * 60 * 1_000;
const TOKEN_MAX: usize = 16 << 10;

pub(super) enum Trust {
    Secret(Vec<u8>),
    Keys(Jwks),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) sub: AgentId,
    exp: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nbf: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iat: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iss: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    aud: Option<Audience>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn holds(&self, name: &str) -> bool {
        match self {
            Self::One(one) => one == name,
            Self::Many(many) => many.iter().any(|one| one == name),
        }
    }
}

impl Claims {
    pub(super) fn for_agent(sub: AgentId, now: u64, expires: u64) -> Self {
        let (iat, exp) = (Some(seconds(now)), seconds(expires));
        Self { sub, exp, nbf: None, iat, iss: Some(OURS.to_owned()), aud: None, thread: None, name: None }
    }

    pub(super) fn for_thread(sub: AgentId, thread: &ThreadId, now: u64, expires: u64) -> Self {
        let aud = Some(Audience::One(THREAD_AUDIENCE.to_owned()));
        Self { aud, thread: Some(thread.clone()), ..Self::for_agent(sub, now, expires) }
    }

    fn is_for(&self, audience: &str) -> bool {
        self.aud.as_ref().is_some_and(|aud| aud.holds(audience))
    }

    fn in_time(&self, now: u64, leeway: u64) -> Result<(), Refusal> {
        if seconds(now) >= self.exp + seconds(leeway) {
            return Err(Refusal::Expired);
        }
        let early = self.nbf.is_some_and(|from| seconds(now) + seconds(leeway) < from);
        if early { Err(Refusal::Invalid) } else { Ok(()) }
    }
}

fn seconds(ms: u64) -> f64 {
    (ms / 1_000) as f64
}

pub(super) fn sign(claims: &Claims, key: &[u8; 32]) -> Option<String> {
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(key)).ok()
}

/// Whether it claims to be ours; nothing is believed yet.
pub(super) fn is_ours(bearer: &str) -> bool {
    #[derive(Deserialize)]
    struct Issued {
        iss: Option<String>,
    }
    bearer.len() <= TOKEN_MAX
        && jsonwebtoken::dangerous::insecure_decode_claims::<Issued>(bearer)
            .is_ok_and(|claims| claims.iss.as_deref() == Some(OURS))
}

/// A token with a thread is good for that thread and nothing else, however it came about.
pub(super) fn ours(bearer: &str, key: &[u8; 32], now: u64) -> Result<Claim, Refusal> {
    ours_until(bearer, key, now, 0)
}

fn ours_until(bearer: &str, key: &[u8; 32], now: u64, after: u64) -> Result<Claim, Refusal> {
    let claims = verify(bearer, Algorithm::HS256, &DecodingKey::from_secret(key))?;
    let claims: Claims = serde_json::from_value(claims).map_err(|_| Refusal::Invalid)?;
    claims.in_time(now, after)?;
    let scoped = claims.is_for(THREAD_AUDIENCE);
    match (claims.thread, scoped) {
        (None, false) => Ok(Claim::Agent(claims.sub)),
        (Some(thread), true) if claims.exp <= seconds(now + THREAD_TOKEN_MS) => Ok(Claim::Thread { agent: claims.sub, thread }),
        (Some(_), true | false) | (None, true) => Err(Refusal::Invalid),
    }
}

impl Auth {
    /// Whose token for which thread it is, if it has expired, but not long ago. Good for a fresh one and for nothing else: a server that was
    /// gone for longer than a token lives must not cut off what went on meanwhile.
    pub(crate) fn lately_expired(&self, bearer: &str, now: u64) -> Option<(AgentId, ThreadId)> {
        if !is_ours(bearer) || ours(bearer, &self.key, now) != Err(Refusal::Expired) {
            return None;
        }
        match ours_until(bearer, &self.key, now, RENEWABLE_MS) {
            Ok(Claim::Thread { agent, thread }) => Some((agent, thread)),
            Ok(Claim::Agent(_) | Claim::Key(_) | Claim::Issued { .. }) | Err(_) => None,
        }
    }
}

pub(super) async fn foreign(bearer: &str, issuer: &Issuer, trust: &Trust, now: u64) -> Result<Claims, Refusal> {
    if bearer.len() > TOKEN_MAX {
        return Err(Refusal::Invalid);
    }
    let claims = match trust {
        Trust::Secret(secret) => verify(bearer, Algorithm::HS256, &DecodingKey::from_secret(secret))?,
        Trust::Keys(keys) => {
            let header = jsonwebtoken::decode_header(bearer).map_err(|_| Refusal::Invalid)?;
            let jwk = keys.find(header.kid.as_deref()).await?.ok_or(Refusal::Invalid)?;
            let key = key_for(&jwk, header.alg)?;
            verify(bearer, header.alg, &key)?
        }
    };
    let claims: Claims = serde_json::from_value(claims).map_err(|_| Refusal::Claims)?;
    claims.in_time(now, LEEWAY_MS)?;
    let named = issuer.name.as_ref().is_none_or(|name| claims.iss.as_ref() == Some(name));
    let meant = issuer.audience.as_ref().is_none_or(|audience| claims.is_for(audience));
    if named && meant { Ok(claims) } else { Err(Refusal::Invalid) }
}

/// A public key must never be taken for a shared secret.
fn key_for(jwk: &Jwk, algorithm: Algorithm) -> Result<DecodingKey, Refusal> {
    if matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) {
        return Err(Refusal::Invalid);
    }
    let stated = jwk.common.key_algorithm.map(|stated| stated.to_string());
    if stated.is_some_and(|stated| stated != format!("{algorithm:?}")) {
        return Err(Refusal::Invalid);
    }
    DecodingKey::from_jwk(jwk).map_err(|_| Refusal::Invalid)
}

/// The signature only: times and names are checked by whoever asks, against the log's clock.
fn verify(bearer: &str, algorithm: Algorithm, key: &DecodingKey) -> Result<Value, Refusal> {
    let mut validation = Validation::new(algorithm);
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let token = jsonwebtoken::decode::<Value>(bearer, key, &validation).map_err(|_| Refusal::Invalid)?;
    Ok(token.claims)
}
