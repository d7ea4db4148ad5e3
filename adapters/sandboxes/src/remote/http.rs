//! Requests to a provider, and what may be concluded when one fails.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use commands::ports::{MachineError, Plain};
use futures::{SinkExt, StreamExt};
use reqwest::header::{AUTHORIZATION, CONNECTION, HeaderValue, UPGRADE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Upgraded, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

const LONGEST_EXPLANATION: usize = 300;
pub(crate) const LARGEST_ANSWER: usize = 32 << 20;

/// Whether a request changes something, so that a lost answer leaves a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Asks,
    Changes,
}

#[derive(Debug)]
pub(crate) struct Failure {
    /// None if no answer came.
    pub(crate) status: Option<StatusCode>,
    pub(crate) error: MachineError,
}

impl From<Failure> for MachineError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl Failure {
    pub(crate) fn is(&self, status: StatusCode) -> bool {
        self.status == Some(status)
    }

    fn without_answer(error: reqwest::Error, effect: Effect) -> Self {
        let nothing_done = error.is_connect() || effect == Effect::Asks;
        let why = because(&error.without_url());
        let error = if nothing_done { MachineError::Unavailable(why) } else { MachineError::Unknown(why) };
        Self { status: None, error }
    }

    fn answered(status: StatusCode, body: &[u8], effect: Effect) -> Self {
        let explained = serde_json::from_slice::<Value>(body).ok().filter(Value::is_object);
        let said = explained.as_ref().and_then(explanation).unwrap_or_default();
        let why = format!("{} {said}", status.as_u16()).trim_end().to_owned();
        let error = match status.as_u16() {
            // A wrong address and a proxy in between say 404 too, but not in the provider's own form.
            404 | 410 if explained.is_some() => MachineError::Gone(why),
            404 | 410 => MachineError::Unavailable(format!("{why}, and not from the provider")),
            429 => MachineError::Unavailable(why),
            408 | 500.. if effect == Effect::Changes => MachineError::Unknown(why),
            408 | 500.. => MachineError::Unavailable(why),
            _ => MachineError::Refused(why),
        };
        Self { status: Some(status), error }
    }

    /// The provider does not find by its name what it may still list.
    pub(crate) fn doubtful(why: &str, doubt: &str) -> Self {
        Self { status: None, error: MachineError::Unavailable(format!("{why}, but {doubt}")) }
    }

    pub(crate) fn misunderstood(what: &str, effect: Effect) -> Self {
        let why = format!("the provider's answer is not understood: {what}");
        let error = if effect == Effect::Changes { MachineError::Unknown(why) } else { MachineError::Unavailable(why) };
        Self { status: None, error }
    }
}

fn explanation(answer: &Value) -> Option<String> {
    let text = ["message", "error"].iter().find_map(|key| answer.get(key)?.as_str())?;
    Some(text.chars().take(LONGEST_EXPLANATION).collect())
}

fn because(error: &dyn std::error::Error) -> String {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        why = format!("{why}: {cause}");
        source = cause.source();
    }
    why.chars().take(LONGEST_EXPLANATION).collect()
}

/// Further down, each part by itself, whatever is in it.
pub(crate) fn join(base: &Url, parts: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(parts);
    }
    url
}

pub(crate) fn with(mut url: Url, query: &[(&str, &str)]) -> Url {
    url.query_pairs_mut().extend_pairs(query);
    url
}

/// A provider's door, with the token that opens it.
pub(crate) struct Http {
    client: Client,
    /// A socket begins as a request of HTTP/1.1.
    sockets: Client,
    token: HeaderValue,
    patience: Duration,
}

impl Http {
    pub(crate) fn new(token: &Plain, patience: Duration) -> Result<Self, MachineError> {
        let unusable = |why: &str| MachineError::Refused(format!("the provider cannot be asked: {why}"));
        let bearer = [b"Bearer ", token.expose()].concat();
        let mut token = HeaderValue::from_bytes(&bearer).map_err(|_| unusable("its token is no header"))?;
        token.set_sensitive(true);
        let client = |builder: reqwest::ClientBuilder| {
            // The token is for this address and no other.
            builder.connect_timeout(patience).redirect(Policy::none()).build().map_err(|error| unusable(&error.to_string()))
        };
        Ok(Self { client: client(Client::builder())?, sockets: client(Client::builder().http1_only())?, token, patience })
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url).header(AUTHORIZATION, self.token.clone()).timeout(self.patience)
    }

    pub(crate) async fn send(&self, request: RequestBuilder, effect: Effect) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| Failure::without_answer(error, effect))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = self.body(response, LARGEST_ANSWER, effect).await.unwrap_or_default();
        Err(Failure::answered(status, &body, effect))
    }

    pub(crate) async fn json<T: DeserializeOwned>(&self, request: RequestBuilder, effect: Effect) -> Result<T, Failure> {
        let response = self.send(request, effect).await?;
        let body = self.body(response, LARGEST_ANSWER, effect).await?;
        serde_json::from_slice(&body).map_err(|error| Failure::misunderstood(&error.to_string(), effect))
    }

    pub(crate) async fn body(&self, mut response: Response, largest: usize, effect: Effect) -> Result<Bytes, Failure> {
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Failure::without_answer(error, effect))? {
            if body.len() + chunk.len() > largest {
                let error = MachineError::Refused(format!("it is larger than {largest} bytes"));
                return Err(Failure { status: None, error });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    pub(crate) async fn socket(&self, url: Url) -> Result<Socket, Failure> {
        let key = generate_key();
        let request = self.sockets.get(url).header(AUTHORIZATION, self.token.clone());
        let request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "websocket");
        let request = request.header("Sec-WebSocket-Version", "13").header("Sec-WebSocket-Key", &key);
        let opening = async {
            let response = request.send().await.map_err(|error| Failure::without_answer(error, Effect::Changes))?;
            let status = response.status();
            if status != StatusCode::SWITCHING_PROTOCOLS {
                let body = self.body(response, LARGEST_ANSWER, Effect::Changes).await.unwrap_or_default();
                return Err(Failure::answered(status, &body, Effect::Changes));
            }
            let accepted = response.headers().get("Sec-WebSocket-Accept").map(HeaderValue::as_bytes);
            if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
                return Err(Failure::misunderstood("it is no socket", Effect::Changes));
            }
            response.upgrade().await.map_err(|error| Failure::without_answer(error, Effect::Changes))
        };
        let slow = |_| Failure { status: None, error: MachineError::Unknown("no answer in time".to_owned()) };
        let upgraded = tokio::time::timeout(self.patience, opening).await.map_err(slow)??;
        Ok(Socket(WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await))
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Http(…)")
    }
}

/// What came over a socket.
pub(crate) enum Came {
    Binary(Bytes),
    Text(String),
    End,
}

pub(crate) struct Socket(WebSocketStream<Upgraded>);

impl Socket {
    pub(crate) async fn next(&mut self) -> Result<Came, MachineError> {
        loop {
            let lost = |why: String| MachineError::Unknown(format!("the connection broke: {why}"));
            match self.0.next().await {
                Some(Ok(Message::Close(Some(frame)))) if frame.code != CloseCode::Normal => {
                    return Err(lost(format!("{} {}", frame.code, frame.reason)));
                }
                None | Some(Ok(Message::Close(_))) => return Ok(Came::End),
                Some(Ok(Message::Binary(bytes))) => return Ok(Came::Binary(bytes)),
                Some(Ok(Message::Text(text))) => return Ok(Came::Text(text.as_str().to_owned())),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) => return Err(lost(error.to_string())),
            }
        }
    }

    pub(crate) async fn send(&mut self, bytes: Bytes) -> Result<(), MachineError> {
        let lost = |error: &dyn std::fmt::Display| MachineError::Unknown(format!("the connection broke: {error}"));
        self.0.send(Message::Binary(bytes)).await.map_err(|error| lost(&error))
    }

    pub(crate) async fn close(mut self) {
        if let Err(error) = self.0.close(None).await {
            tracing::debug!(%error, "a socket was closed already");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: u16, body: &str, effect: Effect) -> MachineError {
        Failure::answered(StatusCode::from_u16(status).unwrap(), body.as_bytes(), effect).error
    }

    #[test]
    fn only_the_provider_itself_can_say_that_a_machine_is_gone() {
        assert!(matches!(said(404, r#"{"message":"not found"}"#, Effect::Asks), MachineError::Gone(_)));
        assert!(matches!(said(404, "<html>nothing here</html>", Effect::Asks), MachineError::Unavailable(_)));
        assert!(matches!(said(404, "", Effect::Changes), MachineError::Unavailable(_)));
    }

    #[test]
    fn a_failure_of_the_provider_leaves_a_doubt_only_where_something_may_have_changed() {
        assert!(matches!(said(500, "{}", Effect::Asks), MachineError::Unavailable(_)));
        assert!(matches!(said(502, "", Effect::Changes), MachineError::Unknown(_)));
        assert!(matches!(said(429, "{}", Effect::Changes), MachineError::Unavailable(_)));
        assert!(matches!(said(403, "{}", Effect::Changes), MachineError::Refused(_)));
    }
}
