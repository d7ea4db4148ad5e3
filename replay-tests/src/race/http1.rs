//! A client that costs little: prepared request bytes out, a minimal parser in.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAX_HEADERS: usize = 48;
pub(crate) const SMALL: usize = 8 * 1024;
pub(super) const LARGE: usize = 256 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub status: u16,
    pub next_offset: Option<String>,
    pub up_to_date: bool,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

pub(crate) struct Connection {
    socket: TcpStream,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr, capacity: usize) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, buffer: vec![0; capacity].into(), start: 0, end: 0 })
    }

    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.socket.write_all(request).await
    }

    /// One exchange whose body is dropped.
    pub(super) async fn call(&mut self, request: &[u8]) -> io::Result<Head> {
        self.send(request).await?;
        let head = self.head().await?;
        self.body(&head, |_| ()).await?;
        Ok(head)
    }

    pub(crate) async fn head(&mut self) -> io::Result<Head> {
        loop {
            if let Some((head, length)) = parse_head(self.unread())? {
                self.consume(length);
                return Ok(head);
            }
            self.fill().await?;
        }
    }

    pub(crate) async fn body(&mut self, head: &Head, mut sink: impl FnMut(&[u8])) -> io::Result<()> {
        match head.framing {
            Framing::Length(length) => self.exactly(length, &mut sink).await,
            Framing::Chunked => self.chunks(&mut sink).await,
        }
    }

    pub(super) fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(super) fn consume(&mut self, length: usize) {
        self.start += length;
    }

    pub(super) async fn fill(&mut self) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            return Err(invalid("a head or chunk line does not fit the buffer"));
        }
        let read = self.socket.read(&mut self.buffer[self.end..]).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.end += read;
        Ok(())
    }

    async fn exactly(&mut self, length: usize, sink: &mut impl FnMut(&[u8])) -> io::Result<()> {
        let mut missing = length;
        while missing > 0 {
            if self.unread().is_empty() {
                self.fill().await?;
            }
            let taken = self.unread().len().min(missing);
            sink(&self.unread()[..taken]);
            self.consume(taken);
            missing -= taken;
        }
        Ok(())
    }

    async fn chunks(&mut self, sink: &mut impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            let length = self.chunk_length().await?;
            self.exactly(length, sink).await?;
            self.exactly(2, &mut |_| ()).await?;
            if length == 0 {
                return Ok(());
            }
        }
    }

    async fn chunk_length(&mut self) -> io::Result<usize> {
        loop {
            match httparse::parse_chunk_size(self.unread()) {
                Ok(httparse::Status::Complete((line, length))) => {
                    self.consume(line);
                    return usize::try_from(length).map_err(|_| invalid("chunk too long"));
                }
                Ok(httparse::Status::Partial) => self.fill().await?,
                Err(_) => return Err(invalid("malformed chunk length")),
            }
        }
    }
}

fn parse_head(bytes: &[u8]) -> io::Result<Option<(Head, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|_| invalid("malformed response head"))?;
    let httparse::Status::Complete(length) = parsed else {
        return Ok(None);
    };
    let mut head =
        Head { status: response.code.unwrap_or_default(), next_offset: None, up_to_date: false, framing: Framing::Length(0) };
    for header in response.headers.iter() {
        let text = || String::from_utf8_lossy(header.value);
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = text().trim().parse().map_err(|_| invalid("malformed length"))?;
            head.framing = Framing::Length(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            head.framing = Framing::Chunked;
        } else if header.name.eq_ignore_ascii_case("stream-next-offset") {
            head.next_offset = Some(text().into_owned());
        } else if header.name.eq_ignore_ascii_case("stream-up-to-date") {
            head.up_to_date = header.value.eq_ignore_ascii_case(b"true");
        }
    }
    Ok(Some((head, length)))
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn answered(answer: &'static [u8]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            for piece in answer.chunks(7) {
                socket.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        Connection::open(address, 256).await.unwrap()
    }

    #[tokio::test]
    async fn a_body_of_known_length_ends_where_the_next_head_starts() {
        let mut connection = answered(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nStream-Next-Offset: 0_5\r\n\r\nhello\
              HTTP/1.1 204 No Content\r\nstream-up-to-date: true\r\n\r\n",
        )
        .await;
        let mut seen = Vec::new();
        let first = connection.head().await.unwrap();
        connection.body(&first, |bytes| seen.extend_from_slice(bytes)).await.unwrap();
        assert_eq!(seen, b"hello");
        assert_eq!(first.next_offset.as_deref(), Some("0_5"));
        let second = connection.call(b"").await.unwrap();
        assert_eq!((second.status, second.up_to_date), (204, true));
    }

    #[tokio::test]
    async fn chunks_are_joined_without_their_framing() {
        let mut connection =
            answered(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n").await;
        let mut seen = Vec::new();
        let head = connection.head().await.unwrap();
        connection.body(&head, |bytes| seen.extend_from_slice(bytes)).await.unwrap();
        assert_eq!(seen, b"hello world");
    }
}
