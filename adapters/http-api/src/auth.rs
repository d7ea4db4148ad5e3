//! Who asks: API keys, tokens of our own, and tokens of a configured issuer. No other file looks at a credential.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use events::{AgentId, KeyHash, ThreadId};
use sha2::{Digest, Sha256};

mod jwks;
#[cfg(test)]
mod tests;
mod token;

use jwks::Jwks;
use token::{Claims, Trust};

use crate::random;

/// How long a token for one thread is good.
pub const THREAD_TOKEN_MS: u64 = 2 * 60 * 60 * 1_000;
/// API keys begin with it, so that leaked ones are found.
pub const KEY_PREFIX: &str = "arbe_";

#[derive(Clone)]
pub struct Options {
    /// Signs the tokens of this server; servers of one log share it.
    pub key: [u8; 32],
    pub issuer: Option<Issuer>,
}

impl Options {
    /// For whoever starts work on a thread: a token that is good for nothing else.
    #[must_use]
    pub fn thread_token(&self, agent: AgentId, thread: &ThreadId, now: u64) -> Option<String> {
        token::sign(&Claims::for_thread(agent, thread, now, now + THREAD_TOKEN_MS), &self.key)
    }
}

/// Somebody else whose tokens are good here: `sub` is the agent's id.
#[derive(Clone)]
pub struct Issuer {
    pub verify: Verify,
    /// What `iss` must be.
    pub name: Option<String>,
    /// What `aud` must be or hold.
    pub audience: Option<String>,
}

#[derive(Clone)]
pub enum Verify {
    /// HS256.
    Secret(String),
    /// The address or the file of a key set, for the asymmetric algorithms.
    Jwks(String),
}

/// Secrets stay out of what is printed.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("name", &self.name).field("audience", &self.audience).finish_non_exhaustive()
    }
}

impl fmt::Debug for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::Jwks(_) => "Jwks",
        })
    }
}

/// What a credential says, before anybody looked whether such an agent exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The hash of an API key.
    Key(KeyHash),
    Agent(AgentId),
    /// Good for one thread only.
    Thread {
        agent: AgentId,
        thread: ThreadId,
    },
    /// The issuer vouches for it, so it may be new here.
    Issued {
        agent: AgentId,
        name: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the Authorization header must carry a bearer token")]
    Missing,
    #[error("the token is not valid here")]
    Invalid,
    #[error("the token has expired")]
    Expired,
    /// Its issuer has signed it.
    #[error("the token's claims do not fit: `sub` is the id of the agent, a UUID, and `exp` a time")]
    Claims,
    #[error("the issuer's keys cannot be fetched: {0}")]
    Unavailable(String),
}

pub(crate) struct Auth {
    key: [u8; 32],
    issuer: Option<(Issuer, Trust)>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").finish_non_exhaustive()
    }
}

impl Auth {
    pub(crate) fn new(options: Options) -> Self {
        let trust = |issuer: &Issuer| match &issuer.verify {
            Verify::Secret(secret) => Trust::Secret(secret.clone().into_bytes()),
            Verify::Jwks(url) => Trust::Keys(Jwks::new(url)),
        };
        let issuer = options.issuer.map(|issuer| {
            let trust = trust(&issuer);
            (issuer, trust)
        });
        Self { key: options.key, issuer }
    }

    /// Reads the credential. `now` is unix milliseconds.
    pub(crate) async fn read(&self, bearer: &str, now: u64) -> Result<Claim, Refusal> {
        if bearer.starts_with(KEY_PREFIX) {
            return hash_of(bearer).map(Claim::Key).ok_or(Refusal::Invalid);
        }
        if token::is_ours(bearer) {
            return token::ours(bearer, &self.key, now);
        }
        let (issuer, trust) = self.issuer.as_ref().ok_or(Refusal::Invalid)?;
        let claims = token::foreign(bearer, issuer, trust, now).await?;
        Ok(Claim::Issued { agent: claims.sub, name: claims.name })
    }

    pub(crate) fn thread_token(&self, agent: AgentId, thread: &ThreadId, now: u64) -> Option<(String, u64)> {
        let expires = now + THREAD_TOKEN_MS;
        let token = token::sign(&Claims::for_thread(agent, thread, now, expires), &self.key)?;
        Some((token, expires))
    }

    /// A new API key: drawn at random, or for a request that may be repeated, made of what only this server and the request know.
    pub(crate) fn new_key(&self, request: Option<&[&str]>) -> String {
        let bytes: [u8; 32] = match request {
            Some(parts) => {
                let mut hasher = Sha256::new_with_prefix(b"arbe api key v1");
                hasher.update(self.key);
                for part in parts {
                    hasher.update((part.len() as u64).to_le_bytes());
                    hasher.update(part);
                }
                // Twice, so that the state after the first cannot be extended.
                Sha256::digest(hasher.finalize()).into()
            }
            None => return new_key(),
        };
        key_of(bytes)
    }
}

fn key_of(bytes: [u8; 32]) -> String {
    format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// A new API key.
#[must_use]
pub fn new_key() -> String {
    key_of(random::bytes())
}

/// A token by which an agent is known for a while; for tools on the server's own machine.
#[must_use]
pub fn agent_token(key: &[u8; 32], agent: AgentId, now_ms: u64, life_ms: u64) -> Option<String> {
    token::sign(&Claims::for_agent(agent, now_ms, now_ms + life_ms), key)
}

/// What the log keeps of an API key.
#[must_use]
pub fn hash_of(key: &str) -> Option<KeyHash> {
    let hex: String = Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    KeyHash::new(&hex).ok()
}
