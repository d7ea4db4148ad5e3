//! The request bytes each server understands.

use super::http1::Head;

pub(super) const BYTES: &str = "application/octet-stream";
pub(super) const TEXT: &str = "text/plain";
pub(crate) const JSON: &str = "application/json";

const BASIN: &str = "race-basin";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    DurableStreams,
    S2,
}

impl Dialect {
    /// What has to be sent once before any stream can be used.
    pub(super) fn prepare(self) -> Option<Vec<u8>> {
        match self {
            Self::DurableStreams => None,
            Self::S2 => {
                let body =
                    format!(r#"{{"basin":"{BASIN}","config":{{"create_stream_on_append":true,"create_stream_on_read":true}}}}"#);
                Some(request("POST", "/v1/basins", &[("Content-Type", JSON)], body.as_bytes()))
            }
        }
    }

    /// `None` where the first append creates the stream.
    pub(super) fn create(self, stream: &str, content_type: &str) -> Option<Vec<u8>> {
        match self {
            Self::DurableStreams => Some(request("PUT", &path(stream), &[("Content-Type", content_type)], b"")),
            Self::S2 => None,
        }
    }

    pub(super) fn append(self, stream: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
        match self {
            Self::DurableStreams => request("POST", &path(stream), &[("Content-Type", content_type)], body),
            Self::S2 => {
                let text = String::from_utf8_lossy(body);
                let body = format!(r#"{{"records":[{{"body":"{text}"}}]}}"#);
                let headers = [("Content-Type", JSON), ("s2-basin", BASIN)];
                request("POST", &s2_records(stream), &headers, body.as_bytes())
            }
        }
    }

    pub(super) fn first_position(self) -> &'static str {
        match self {
            Self::DurableStreams => "-1",
            Self::S2 => "0",
        }
    }

    /// The position after one appended message.
    pub(super) fn next_position(self, current: &str, head: &Head) -> Option<String> {
        match self {
            Self::DurableStreams => head.next_offset.clone(),
            Self::S2 => current.parse::<u64>().ok().map(|seq| (seq + 1).to_string()),
        }
    }

    pub(super) fn long_poll(self, stream: &str, position: &str) -> Vec<u8> {
        match self {
            Self::DurableStreams => get(&format!("{}?offset={position}&live=long-poll", path(stream))),
            Self::S2 => {
                let target = format!("{}?seq_num={position}&count=1&wait=30", s2_records(stream));
                request("GET", &target, &[("s2-basin", BASIN)], b"")
            }
        }
    }
}

pub(super) fn read(stream: &str, offset: &str) -> Vec<u8> {
    get(&format!("{}?offset={offset}", path(stream)))
}

pub(super) fn follow(stream: &str) -> Vec<u8> {
    let target = format!("{}?offset=now&live=sse", path(stream));
    request("GET", &target, &[("Accept", "text/event-stream")], b"")
}

pub(super) fn get(target: &str) -> Vec<u8> {
    request("GET", target, &[], b"")
}

/// Letters and digits, different for every seed, so that compression gains a server nothing real.
pub(super) fn filler(length: usize, seed: u64) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ALPHABET[(state >> 58) as usize]
    };
    (0..length).map(|_| next()).collect()
}

fn path(stream: &str) -> String {
    format!("/v1/stream/race/{stream}")
}

fn s2_records(stream: &str) -> String {
    format!("/v1/streams/{stream}/records")
}

pub(crate) fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if method != "GET" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
