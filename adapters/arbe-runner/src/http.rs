//! A small client for HTTP/1.1: one server, one connection that is kept, whole bodies.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use events::{StreamName, ThreadId};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

#[cfg(feature = "tls")]
mod tls;

/// More than any page of a stream.
const BODY_MAX: usize = 64 << 20;

/// Where a thread's stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    tls: bool,
    host: String,
    port: u16,
    /// Of the stream, from the root.
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("neither http:// nor https://")]
    Scheme,
    #[error("no host, or a port that is none")]
    Host,
    #[error("this runner was built without tls")]
    NoTls,
}

impl Address {
    /// Given either the stream itself or the server that it is on.
    pub fn of_stream(url: &str, thread: &ThreadId) -> Result<Self, AddressError> {
        let (tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) if cfg!(feature = "tls") => (true, rest),
            (None, Some(_)) => return Err(AddressError::NoTls),
            (None, None) => return Err(AddressError::Scheme),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/');
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| AddressError::Host)?),
            None => (authority, if tls { 443 } else { 80 }),
        };
        let strange = |c: char| c.is_whitespace() || c.is_control() || c == '@';
        if host.is_empty() || url.contains(strange) {
            return Err(AddressError::Host);
        }
        let name = StreamName::Thread(thread.clone()).to_string();
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        let base = path.strip_suffix("/api/stream").unwrap_or(&path);
        let path = if path.ends_with(&name) { path } else { format!("{base}/api/stream/{name}") };
        Ok(Self { tls, host: host.to_owned(), port, path })
    }

    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: Method,
    /// After the stream's own path.
    pub below: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
}

#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// No answer came. What was asked may have been done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(String);

impl NoAnswer {
    pub(crate) fn because(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

type Sender = SendRequest<Full<Bytes>>;

#[derive(Debug)]
pub struct Client {
    address: Address,
    kept: Mutex<Option<Sender>>,
}

impl Client {
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, kept: Mutex::new(None) }
    }

    /// One request at a time; a second waits for the first.
    pub async fn ask(&self, asked: Asked, patience: Duration) -> Result<Reply, NoAnswer> {
        let mut kept = self.kept.lock().await;
        let answered = tokio::time::timeout(patience, async {
            let mut sender = match kept.take().filter(|sender| sender.is_ready()) {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            let reply = self.exchange(&mut sender, asked).await?;
            Ok((reply, sender))
        });
        let (reply, sender) = answered.await.map_err(|_| NoAnswer(format!("no answer within {} s", patience.as_secs())))??;
        *kept = Some(sender);
        Ok(reply)
    }

    async fn exchange(&self, sender: &mut Sender, asked: Asked) -> Result<Reply, NoAnswer> {
        let path = format!("{}{}", self.address.path, asked.below);
        let mut request = Request::builder().method(asked.method).uri(path).header(header::HOST, self.address.authority());
        for (name, value) in asked.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(asked.body)).map_err(NoAnswer::because)?;
        let (parts, body) = sender.send_request(request).await.map_err(NoAnswer::because)?.into_parts();
        let body = Limited::new(body, BODY_MAX).collect().await.map_err(NoAnswer::because)?.to_bytes();
        Ok(Reply { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    async fn connect(&self) -> Result<Sender, NoAnswer> {
        let Address { tls, host, port, .. } = &self.address;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, *port)).await.map_err(|error| NoAnswer(format!("{host}:{port}: {error}")))?;
        stream.set_nodelay(true).map_err(NoAnswer::because)?;
        if *tls {
            #[cfg(feature = "tls")]
            return shaken(tls::wrap(bare, stream).await.map_err(NoAnswer::because)?).await;
        }
        shaken(stream).await
    }
}

async fn shaken(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static) -> Result<Sender, NoAnswer> {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(NoAnswer::because)?;
    // Its end is seen by whoever sends next.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str) -> Result<(bool, String, String), AddressError> {
        let address = Address::of_stream(url, &ThreadId::new("t1").unwrap())?;
        Ok((address.tls, address.authority(), address.path))
    }

    #[test]
    fn an_address_names_the_stream_or_the_server_that_it_is_on() {
        let stream = "/api/stream/arbe-thread-t1";
        for (url, tls, authority, expected) in [
            ("http://127.0.0.1:4437/api/stream/arbe-thread-t1", false, "127.0.0.1:4437", stream),
            ("http://127.0.0.1:4437", false, "127.0.0.1:4437", stream),
            ("http://h/", false, "h:80", stream),
            ("http://[::1]:8/api/stream", false, "[::1]:8", stream),
            ("http://[::1]", false, "[::1]:80", stream),
            ("http://h/functions/v1/stream-proxy", false, "h:80", "/functions/v1/stream-proxy/api/stream/arbe-thread-t1"),
        ] {
            assert_eq!(path(url), Ok((tls, authority.to_owned(), expected.to_owned())), "{url}");
        }
        for (url, error) in [
            ("ws://h", AddressError::Scheme),
            ("http://", AddressError::Host),
            ("http://h:99999", AddressError::Host),
            ("http://u@h", AddressError::Host),
        ] {
            assert_eq!(path(url), Err(error), "{url}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn https_has_its_own_port() {
        assert_eq!(path("https://h").map(|it| (it.0, it.1)), Ok((true, "h:443".to_owned())));
    }
}
