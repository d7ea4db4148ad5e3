use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use events::{AgentId, ThreadId, Uuid};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::*;

mod keys;

const NOW: u64 = 1_800_000_000_000;
const KEY: [u8; 32] = [7; 32];
const SECRET: &str = "the issuer's secret, long enough";

fn agent() -> AgentId {
    AgentId(Uuid::from_u128(42))
}

fn thread() -> ThreadId {
    ThreadId::new("t1").unwrap()
}

fn auth() -> Auth {
    let issuer = Issuer {
        verify: Verify::Secret(SECRET.into()),
        name: Some("https://issuer".into()),
        audience: Some("authenticated".into()),
    };
    Auth::new(Options { key: KEY, issuer: Some(issuer) })
}

fn signed(algorithm: Algorithm, key: &[u8], claims: &Value) -> String {
    jsonwebtoken::encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(key)).unwrap()
}

fn issued(change: impl FnOnce(&mut Value)) -> String {
    let mut claims =
        json!({ "sub": agent().to_string(), "exp": NOW / 1_000 + 60, "iss": "https://issuer", "aud": ["authenticated"] });
    change(&mut claims);
    signed(Algorithm::HS256, SECRET.as_bytes(), &claims)
}

fn unsigned(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", part(&json!({ "alg": "none", "typ": "JWT" })), part(claims))
}

#[tokio::test]
async fn a_key_is_known_by_its_hash() {
    let key = new_key();
    assert_eq!(key.len(), KEY_PREFIX.len() + 43);
    assert_eq!(auth().read(&key, NOW).await, Ok(Claim::Key(hash_of(&key).unwrap())));
    let abc = hash_of("abc").unwrap();
    assert_eq!(abc.as_str(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn a_repeated_request_gets_the_same_key_and_another_a_new_one() {
    let auth = auth();
    assert_eq!(auth.new_key(Some(&["a", "b"])), auth.new_key(Some(&["a", "b"])));
    assert_ne!(auth.new_key(Some(&["a", "b"])), auth.new_key(Some(&["ab", ""])));
    assert_ne!(auth.new_key(None), auth.new_key(None));
}

#[tokio::test]
async fn our_own_token_names_an_agent_until_it_expires() {
    let token = agent_token(&KEY, agent(), NOW, 10_000).unwrap();
    assert_eq!(auth().read(&token, NOW).await, Ok(Claim::Agent(agent())));
    assert_eq!(auth().read(&token, NOW + 10_000).await, Err(Refusal::Expired));
    let other = agent_token(&[8; 32], agent(), NOW, 10_000).unwrap();
    assert_eq!(auth().read(&other, NOW).await, Err(Refusal::Invalid));
}

#[tokio::test]
async fn a_thread_token_is_for_its_thread_and_two_hours() {
    let (token, expires) = auth().thread_token(agent(), &thread(), NOW).unwrap();
    assert_eq!(expires, NOW + THREAD_TOKEN_MS);
    assert_eq!(auth().read(&token, NOW).await, Ok(Claim::Thread { agent: agent(), thread: thread() }));
    assert_eq!(auth().read(&token, expires).await, Err(Refusal::Expired));
}

#[test]
fn an_expired_thread_token_can_be_renewed_for_a_day_and_no_other_can() {
    let (auth, day) = (auth(), 24 * 60 * 60 * 1_000);
    let (token, expires) = auth.thread_token(agent(), &thread(), NOW).unwrap();
    let known = Some((agent(), thread()));
    for (when, expected) in [(NOW, None), (expires, known.clone()), (expires + day - 1_000, known), (expires + day, None)] {
        assert_eq!(auth.lately_expired(&token, when), expected, "{when}");
    }
    let forged = token::sign(&Claims::for_thread(agent(), &thread(), NOW, expires), &[8; 32]).unwrap();
    let whole = agent_token(&KEY, agent(), NOW, THREAD_TOKEN_MS).unwrap();
    for other in [forged, whole, issued(|_| {}), new_key()] {
        assert_eq!(auth.lately_expired(&other, expires), None);
    }
}

#[tokio::test]
async fn a_thread_token_that_lives_longer_or_lost_its_thread_is_worth_nothing() {
    let claims = |exp: u64, aud: Value, thread: Value| json!({ "sub": agent().to_string(), "iss": "arbe", "exp": NOW / 1_000 + exp, "aud": aud, "thread": thread });
    for (exp, aud, thread) in [
        (7_201, json!("arbe-thread"), json!("t1")),
        (60, json!("arbe-thread"), Value::Null),
        (60, Value::Null, json!("t1")),
        (60, json!("arbe-thread"), json!("../t1")),
    ] {
        let token = signed(Algorithm::HS256, &KEY, &claims(exp, aud, thread));
        assert_eq!(auth().read(&token, NOW).await, Err(Refusal::Invalid));
    }
}

#[tokio::test]
async fn the_issuer_is_believed_within_its_name_audience_and_time() {
    let expected = Claim::Issued { agent: agent(), name: None };
    assert_eq!(auth().read(&issued(|_| {}), NOW).await, Ok(expected));
    for wrong in [
        issued(|claims| claims["iss"] = json!("https://other")),
        issued(|claims| claims["aud"] = json!("anon")),
        issued(|claims| claims["nbf"] = json!(NOW / 1_000 + 600)),
    ] {
        assert_eq!(auth().read(&wrong, NOW).await, Err(Refusal::Invalid));
    }
    for misfit in [issued(|claims| claims["sub"] = json!("auth0|7")), issued(|claims| claims["exp"] = Value::Null)] {
        assert_eq!(auth().read(&misfit, NOW).await, Err(Refusal::Claims));
    }
    assert_eq!(auth().read(&issued(|_| {}), NOW + 91_000).await, Err(Refusal::Expired));
}

#[tokio::test]
async fn the_token_does_not_choose_its_algorithm() {
    let claims = json!({ "sub": agent().to_string(), "exp": NOW / 1_000 + 60, "iss": "https://issuer", "aud": "authenticated" });
    let ours = json!({ "sub": agent().to_string(), "exp": NOW / 1_000 + 60, "iss": "arbe" });
    for token in [
        unsigned(&claims),
        unsigned(&ours),
        signed(Algorithm::HS512, SECRET.as_bytes(), &claims),
        signed(Algorithm::HS384, &KEY, &ours),
        signed(Algorithm::HS256, b"another secret", &claims),
        // The issuer cannot speak in our name, nor we in the issuer's.
        signed(Algorithm::HS256, SECRET.as_bytes(), &ours),
        signed(Algorithm::HS256, &KEY, &claims),
        "a.b.c".to_owned(),
        "x".repeat(100_000),
    ] {
        assert_eq!(auth().read(&token, NOW).await, Err(Refusal::Invalid), "{:.80}", token);
    }
}

#[tokio::test]
async fn without_an_issuer_only_our_own_tokens_are_good() {
    let auth = Auth::new(Options { key: KEY, issuer: None });
    assert_eq!(auth.read(&issued(|_| {}), NOW).await, Err(Refusal::Invalid));
}

#[tokio::test]
async fn keys_that_cannot_be_fetched_are_not_a_wrong_token() {
    let verify = Verify::Jwks("http://127.0.0.1:1/keys".into());
    let auth = Auth::new(Options { key: KEY, issuer: Some(Issuer { verify, name: None, audience: None }) });
    assert!(matches!(auth.read(&issued(|_| {}), NOW).await, Err(Refusal::Unavailable(_))));
}

#[test]
fn secrets_are_not_printed() {
    let options =
        Options { key: KEY, issuer: Some(Issuer { verify: Verify::Secret(SECRET.into()), name: None, audience: None }) };
    let printed = format!("{options:?} {:?}", Auth::new(options.clone()));
    assert!(!printed.contains(SECRET) && !printed.contains("7, 7"), "{printed}");
}
