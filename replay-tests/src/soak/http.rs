//! One request per connection, because a connection that breaks is the case we are here for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

const PATIENCE: Duration = Duration::from_secs(15);

pub struct Response {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

pub fn request(url: &str, method: &str, path: &str, headers: &[(&str, String)], body: &[u8]) -> Result<Response> {
    let host = url.strip_prefix("http://").context("a plain HTTP URL")?;
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (key, value) in headers {
        request.push_str(&format!("{key}: {value}\r\n"));
    }
    request.push_str("\r\n");
    let mut bytes = request.into_bytes();
    bytes.extend_from_slice(body);
    stream.write_all(&bytes)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parse(&answer)
}

fn parse(answer: &[u8]) -> Result<Response> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").context("the answer was cut off")?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).context("a status line")?.parse()?;
    let mut response = Response { status, head, body: answer[end + 4..].to_vec() };
    if response.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        response.body = unchunk(&response.body)?;
    } else if let Some(length) = response.header("content-length") {
        let length: usize = length.parse()?;
        anyhow::ensure!(response.body.len() == length, "the answer was cut off");
    }
    Ok(response)
}

fn unchunk(mut body: &[u8]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n").context("the answer was cut off")?;
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end])?.trim(), 16)?;
        if length == 0 {
            return Ok(whole);
        }
        let chunk = body.get(end + 2..end + 2 + length).context("the answer was cut off")?;
        whole.extend_from_slice(chunk);
        body = body.get(end + 4 + length..).context("the answer was cut off")?;
    }
}
