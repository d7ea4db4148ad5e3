//! Tokens of somebody else: who is let in, as whom, and what happens when the issuer changes its keys or is away.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer, SigningKey};
use events::{AgentId, Uuid};
use http_api::auth::{Issuer, Verify};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::town::{Setup, Town};

const SECRET: &str = "the issuer's secret, long enough";

fn issuer(verify: Verify) -> Setup {
    let issuer = Issuer { verify, name: Some("https://issuer".into()), audience: Some("authenticated".into()) };
    Setup { issuer: Some(issuer), ..Setup::default() }
}

fn claims(town: &Town, agent: AgentId) -> Value {
    let exp = town.log.now_ms() / 1_000 + 600;
    json!({ "sub": agent, "exp": exp, "iss": "https://issuer", "aud": "authenticated", "name": "Grace", "role": "authenticated" })
}

fn hs(algorithm: Algorithm, secret: &str, claims: &Value) -> String {
    jsonwebtoken::encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_the_issuer_vouches_for_is_registered_at_first_contact() {
    let Some(town) = Town::with(issuer(Verify::Secret(SECRET.into()))).await else { return };
    let grace = AgentId(Uuid::from_u128(77));
    let token = hs(Algorithm::HS256, SECRET, &claims(&town, grace));
    let many = (0..8).map(|_| town.send(&token, "GET", "/api/me", None, &[]));
    for me in futures::future::join_all(many).await {
        assert_eq!(me.status, 200, "{me:?}");
        let me = me.json();
        let expected = json!([grace, "human", "Grace", []]);
        assert_eq!(json!([me["agent_id"], me["kind"], me["name"], me["houses"]]), expected);
    }
    let registered = town.log.read("arbe-agents", event_log::From::Start, 1 << 20).await.unwrap();
    let registered = registered.chunks.iter().filter(|chunk| String::from_utf8_lossy(chunk).contains("Grace")).count();
    assert_eq!(registered, 1);

    let house = town.send(&token, "POST", "/api/houses", Some(r#"{"name":"mine"}"#), &[]).await;
    assert_eq!(house.status, 201, "{house:?}");
    let renamed = {
        let mut claims = claims(&town, grace);
        claims["name"] = json!("Somebody Else");
        claims
    };
    let again = town.send(&hs(Algorithm::HS256, SECRET, &renamed), "GET", "/api/me", None, &[]).await.json();
    assert_eq!((&again["name"], again["houses"].as_array().unwrap().len()), (&json!("Grace"), 1));
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_as_it_must_be_lets_nobody_in() {
    let Some(town) = Town::with(issuer(Verify::Secret(SECRET.into()))).await else { return };
    let nobody = AgentId(Uuid::from_u128(78));
    let changed = |field: &str, value: Value| {
        let mut claims = claims(&town, nobody);
        claims[field] = value;
        hs(Algorithm::HS256, SECRET, &claims)
    };
    let good = claims(&town, nobody);
    let past = town.log.now_ms() / 1_000 - 60;
    let before = town.log.position();
    for (token, why) in [
        (changed("exp", json!(past)), "expired"),
        (changed("aud", json!("anon")), "not valid here"),
        (changed("aud", Value::Null), "not valid here"),
        (changed("iss", json!("https://other")), "not valid here"),
        (changed("sub", json!("auth0|7")), "`sub` is the id of the agent, a UUID"),
        (changed("sub", Value::Null), "`sub` is the id of the agent, a UUID"),
        (hs(Algorithm::HS384, SECRET, &good), "not valid here"),
        (hs(Algorithm::HS256, "another secret", &good), "not valid here"),
        (format!("{}.{}.", part(&json!({ "alg": "none" })), part(&good)), "not valid here"),
        (format!("{}.{}.AAAA", part(&json!({ "alg": "RS256" })), part(&good)), "not valid here"),
    ] {
        let refused = town.send(&token, "GET", "/api/me", None, &[]).await;
        assert_eq!(refused.code(), (401, "unauthenticated".into()), "{why}");
        assert!(refused.text.contains(why), "{why}: {}", refused.text);
    }
    assert_eq!(town.log.position(), before, "nobody was registered");
    town.end().await;
}

/// An issuer's key set at an address that can be changed and be away.
struct Keys {
    url: String,
    set: Arc<Mutex<Option<String>>>,
}

impl Keys {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let set: Arc<Mutex<Option<String>>> = Arc::default();
        let serves = set.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4_096]).await;
                let set = serves.lock().unwrap().clone();
                let Some(set) = set else { continue };
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", set.len());
                let _ = stream.write_all(format!("{head}{set}").as_bytes()).await;
            }
        });
        Self { url, set }
    }

    fn serve(&self, keys: &[(&str, &SigningKey)]) {
        let key = |(kid, key): &(&str, &SigningKey)| {
            let x = URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes());
            json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": kid, "x": x })
        };
        *self.set.lock().unwrap() = Some(json!({ "keys": keys.iter().map(key).collect::<Vec<_>>() }).to_string());
    }

    fn go_away(&self) {
        *self.set.lock().unwrap() = None;
    }
}

fn signed(key: &SigningKey, kid: &str, claims: &Value) -> String {
    let text = format!("{}.{}", part(&json!({ "alg": "EdDSA", "typ": "JWT", "kid": kid })), part(claims));
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(key.sign(text.as_bytes()).to_bytes()))
}

/// Keys are not asked for more often than every five seconds.
async fn within_a_while(town: &Town, token: &str, status: u16) {
    for _ in 0..80 {
        if town.send(token, "GET", "/api/me", None, &[]).await.status == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no {status} within eight seconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_may_be_away_and_may_change_its_keys() {
    let keys = Keys::start().await;
    let Some(town) = Town::with(issuer(Verify::Jwks(keys.url.clone()))).await else { return };
    let (old, new) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
    let claims = claims(&town, AgentId(Uuid::from_u128(79)));
    let (with_old, with_new) = (signed(&old, "k1", &claims), signed(&new, "k2", &claims));

    let away = town.send(&with_old, "GET", "/api/me", None, &[]).await;
    assert_eq!((away.code(), away.header("retry-after")), ((503, "unavailable".into()), "1"));
    assert!(away.text.contains("issuer's keys"), "{away:?}");
    keys.serve(&[("k1", &old)]);
    within_a_while(&town, &with_old, 200).await;
    for forged in [signed(&new, "k1", &claims), with_new.clone()] {
        assert_eq!(town.send(&forged, "GET", "/api/me", None, &[]).await.status, 401);
    }
    keys.go_away();
    assert_eq!(town.send(&with_old, "GET", "/api/me", None, &[]).await.status, 200, "what is known stays known");
    keys.serve(&[("k2", &new)]);
    within_a_while(&town, &with_new, 200).await;
    assert_eq!(town.send(&with_old, "GET", "/api/me", None, &[]).await.status, 401, "the old key was withdrawn");
    town.end().await;
}
