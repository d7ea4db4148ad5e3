//! An issuer with a key set.

use std::sync::atomic::{AtomicU32, Ordering};

use ed25519_dalek::{Signer, SigningKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Serves one Ed25519 key of the id `k1` and counts who asks.
async fn issuer(key: &SigningKey) -> (String, &'static AtomicU32) {
    let set = set(key);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let asked: &'static AtomicU32 = Box::leak(Box::default());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            asked.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 4_096]).await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", set.len());
            let _ = stream.write_all(format!("{head}{set}").as_bytes()).await;
        }
    });
    (url, asked)
}

fn set(key: &SigningKey) -> String {
    let x = URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes());
    let ours = json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": "k1", "x": x });
    json!({ "keys": [{ "kty": "AKP", "alg": "ML-DSA-44", "kid": "k0", "pub": "AA" }, ours] }).to_string()
}

fn signed_by(key: &SigningKey, kid: &str) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({ "sub": agent().to_string(), "exp": NOW / 1_000 + 60 });
    let text = format!("{}.{}", part(&json!({ "alg": "EdDSA", "typ": "JWT", "kid": kid })), part(&claims));
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(key.sign(text.as_bytes()).to_bytes()))
}

#[tokio::test]
async fn a_key_set_is_fetched_once_and_its_keys_are_not_secrets() {
    let (key, other) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
    let (url, asked) = issuer(&key).await;
    let auth = Auth::new(Options { key: KEY, issuer: Some(Issuer { verify: Verify::Jwks(url), name: None, audience: None }) });
    for _ in 0..2 {
        assert_eq!(auth.read(&signed_by(&key, "k1"), NOW).await, Ok(Claim::Issued { agent: agent(), name: None }));
    }
    let claims = json!({ "sub": agent().to_string(), "exp": NOW / 1_000 + 60 });
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("k1".into());
    let public = EncodingKey::from_secret(key.verifying_key().as_bytes());
    let confused = jsonwebtoken::encode(&header, &claims, &public).unwrap();
    for token in [signed_by(&other, "k1"), signed_by(&key, "k2"), signed_by(&key, "k3"), confused] {
        assert_eq!(auth.read(&token, NOW).await, Err(Refusal::Invalid));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_key_set_may_be_a_file() {
    let key = SigningKey::from_bytes(&[1; 32]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), set(&key)).unwrap();
    let verify = |path: String| Issuer { verify: Verify::Jwks(path), name: None, audience: None };
    let auth = Auth::new(Options { key: KEY, issuer: Some(verify(file.path().display().to_string())) });
    assert!(matches!(auth.read(&signed_by(&key, "k1"), NOW).await, Ok(Claim::Issued { .. })));
    let auth = Auth::new(Options { key: KEY, issuer: Some(verify("/no/such.json".into())) });
    let Err(Refusal::Unavailable(why)) = auth.read(&signed_by(&key, "k1"), NOW).await else { panic!("it was read") };
    assert!(why.starts_with("/no/such.json: No such file"), "{why}");
}
