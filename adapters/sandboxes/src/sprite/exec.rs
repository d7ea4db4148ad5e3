//! Commands in a sprite, over a socket. The first byte of a message says which stream the rest belongs to.
//!
//! Only words that hold no secret stand in the address; a script comes by the standard input or lies in the sprite already.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use commands::ports::{MachineError, OutputSink};
use events::dispatch::OutputStream;
use reqwest::Url;

use super::Inner;
use crate::remote::http::{Came, LARGEST_ANSWER, Socket};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const EXIT: u8 = 3;
const STDIN_END: u8 = 4;

const PIECE: usize = 64 << 10;

/// What becomes of a command whose caller is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterDisconnect {
    Ends,
    GoesOn,
}

impl AfterDisconnect {
    fn limit(self) -> &'static str {
        match self {
            Self::Ends => "1s",
            // Zero is for ever.
            Self::GoesOn => "0",
        }
    }
}

/// A message of a command that runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Output(OutputStream, Bytes),
    Exit(i32),
    Other,
}

pub(super) fn frame(mut message: Bytes) -> Frame {
    if message.is_empty() {
        return Frame::Other;
    }
    let payload = message.split_off(1);
    match message[0] {
        STDOUT => Frame::Output(OutputStream::Stdout, payload),
        STDERR => Frame::Output(OutputStream::Stderr, payload),
        EXIT => Frame::Exit(payload.first().copied().map_or(0, i32::from)),
        _ => Frame::Other,
    }
}

fn stdin(piece: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(piece.len() + 1);
    message.put_u8(STDIN);
    message.extend_from_slice(piece);
    message.freeze()
}

pub(super) struct Running(Socket);

impl Running {
    pub(super) async fn next(&mut self) -> Result<Frame, MachineError> {
        match self.0.next().await? {
            Came::Binary(message) => Ok(frame(message)),
            Came::Text(_) => Ok(Frame::Other),
            Came::End => Err(MachineError::Unknown("the connection ended before the command".to_owned())),
        }
    }

    /// To its end.
    pub(super) async fn wait(mut self, output: OutputSink<'_>) -> Result<i32, MachineError> {
        loop {
            match self.next().await? {
                Frame::Output(stream, bytes) => output(stream, &bytes),
                Frame::Exit(code) => {
                    self.0.close().await;
                    return Ok(code);
                }
                Frame::Other => {}
            }
        }
    }

    /// The same, with all of its standard output. One that prints more than any answer of a provider is left.
    async fn printed(mut self) -> Result<(i32, Vec<u8>), MachineError> {
        let mut printed = Vec::new();
        loop {
            match self.next().await? {
                Frame::Output(OutputStream::Stdout, bytes) if printed.len() + bytes.len() > LARGEST_ANSWER => {
                    self.0.close().await;
                    return Err(MachineError::Refused(format!("it is larger than {LARGEST_ANSWER} bytes")));
                }
                Frame::Output(OutputStream::Stdout, bytes) => printed.extend_from_slice(&bytes),
                Frame::Output(OutputStream::Stderr, _) | Frame::Other => {}
                Frame::Exit(code) => {
                    self.0.close().await;
                    return Ok((code, printed));
                }
            }
        }
    }

    pub(super) async fn leave(self) {
        self.0.close().await;
    }
}

impl Inner {
    pub(super) async fn exec(
        &self,
        sprite: &str,
        words: &[&str],
        input: Option<&[u8]>,
        after: AfterDisconnect,
    ) -> Result<Running, MachineError> {
        let url = self.exec_url(sprite, words, input.is_some(), after);
        let mut socket = self.http.socket(url).await?;
        if let Some(input) = input {
            for piece in input.chunks(PIECE) {
                socket.send(stdin(piece)).await?;
            }
            socket.send(Bytes::from_static(&[STDIN_END])).await?;
        }
        Ok(Running(socket))
    }

    /// Bounded, with everything that it printed on its standard output.
    pub(super) async fn exec_short(
        &self,
        sprite: &str,
        words: &[&str],
        input: Option<&[u8]>,
        patience: Duration,
    ) -> Result<(i32, Vec<u8>), MachineError> {
        let running = async { self.exec(sprite, words, input, AfterDisconnect::Ends).await?.printed().await };
        let late = |_| MachineError::Unknown("no answer in time".to_owned());
        tokio::time::timeout(patience, running).await.map_err(late)?
    }

    fn exec_url(&self, sprite: &str, words: &[&str], has_input: bool, after: AfterDisconnect) -> Url {
        let mut url = self.url(&["sprites", sprite, "exec"]);
        let mut query = url.query_pairs_mut();
        for word in words {
            query.append_pair("cmd", word);
        }
        if has_input {
            query.append_pair("stdin", "true");
        }
        query.append_pair("max_run_after_disconnect", after.limit());
        drop(query);
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_by_its_first_byte() {
        assert_eq!(frame(Bytes::from_static(b"\x01hi")), Frame::Output(OutputStream::Stdout, Bytes::from_static(b"hi")));
        assert_eq!(frame(Bytes::from_static(b"\x02no")), Frame::Output(OutputStream::Stderr, Bytes::from_static(b"no")));
        assert_eq!(frame(Bytes::from_static(b"\x03\x89")), Frame::Exit(137));
        assert_eq!(frame(Bytes::from_static(b"\x03")), Frame::Exit(0));
        assert_eq!(frame(Bytes::from_static(b"\x09?")), Frame::Other);
        assert_eq!(frame(Bytes::new()), Frame::Other);
        assert_eq!(stdin(b"ab"), Bytes::from_static(b"\x00ab"));
    }
}
