//! A command's output as it comes over a socket: each piece begins with three bytes that say which stream it belongs to.

use events::dispatch::OutputStream;

const MARK: usize = 3;

/// Marks can be cut anywhere between two messages.
#[derive(Debug, Default)]
pub(super) struct Demultiplexer {
    stream: Option<OutputStream>,
    held: Vec<u8>,
    /// How much of each stream was given out.
    pub(super) stdout: usize,
    pub(super) stderr: usize,
}

impl Demultiplexer {
    pub(super) fn push(&mut self, bytes: &[u8], output: &mut (dyn FnMut(OutputStream, &[u8]) + Send)) {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let (mut from, mut at) = (0, 0);
        while at + MARK <= held.len() {
            match mark(&held[at..at + MARK]) {
                Some(stream) => {
                    self.give(&held[from..at], output);
                    self.stream = Some(stream);
                    at += MARK;
                    from = at;
                }
                None => at += 1,
            }
        }
        // The last two bytes may be the beginning of a mark.
        let safe = held.len() - held[from..].iter().rev().take(MARK - 1).take_while(|byte| matches!(byte, 1 | 2)).count();
        self.give(&held[from..safe], output);
        self.held = held[safe..].to_vec();
    }

    pub(super) fn finish(&mut self, output: &mut (dyn FnMut(OutputStream, &[u8]) + Send)) {
        let held = std::mem::take(&mut self.held);
        self.give(&held, output);
    }

    fn give(&mut self, bytes: &[u8], output: &mut (dyn FnMut(OutputStream, &[u8]) + Send)) {
        if bytes.is_empty() {
            return;
        }
        let stream = self.stream.unwrap_or(OutputStream::Stdout);
        match stream {
            OutputStream::Stdout => self.stdout += bytes.len(),
            OutputStream::Stderr => self.stderr += bytes.len(),
        }
        output(stream, bytes);
    }
}

fn mark(bytes: &[u8]) -> Option<OutputStream> {
    match bytes {
        [1, 1, 1] => Some(OutputStream::Stdout),
        [2, 2, 2] => Some(OutputStream::Stderr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_apart_wherever_the_messages_are_cut() {
        let sent = b"\x01\x01\x01out \x02\x02\x02err\x01\x01\x01\x01more\x02";
        for size in 1..sent.len() {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut demultiplexer = Demultiplexer::default();
            let mut sort = |stream, bytes: &[u8]| match stream {
                OutputStream::Stdout => out.extend_from_slice(bytes),
                OutputStream::Stderr => err.extend_from_slice(bytes),
            };
            for piece in sent.chunks(size) {
                demultiplexer.push(piece, &mut sort);
            }
            demultiplexer.finish(&mut sort);
            assert_eq!((out.as_slice(), err.as_slice()), (&b"out \x01more\x02"[..], &b"err"[..]), "in pieces of {size}");
        }
    }
}
