//! What a command prints, in pieces that a thread can hold.

use events::OutputStream;

/// Kept of one command.
const KEPT: usize = 1 << 20;
/// In one entry.
const PIECE: usize = 64 << 10;

/// Collects bytes of both streams, and gives texts away in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pending: Vec<(OutputStream, Vec<u8>)>,
    /// The beginning of a character that the next bytes may end.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    taken: usize,
    pub(crate) truncated: bool,
}

impl Output {
    pub(crate) fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.taken);
        self.truncated |= bytes.len() > room;
        let bytes = &bytes[..bytes.len().min(room)];
        self.taken += bytes.len();
        match self.pending.last_mut() {
            Some((last, held)) if *last == stream => held.extend_from_slice(bytes),
            Some(_) | None if !bytes.is_empty() => self.pending.push((stream, bytes.to_vec())),
            Some(_) | None => {}
        }
    }

    /// What has come since. At the end also what is half a character.
    pub(crate) fn take(&mut self, end: bool) -> Vec<(OutputStream, String)> {
        let mut texts = Vec::new();
        for (stream, bytes) in std::mem::take(&mut self.pending) {
            let begun = match stream {
                OutputStream::Stdout => &mut self.stdout,
                OutputStream::Stderr => &mut self.stderr,
            };
            begun.extend_from_slice(&bytes);
            let whole = std::mem::take(begun);
            let (text, rest) = decoded(&whole);
            begun.extend_from_slice(rest);
            texts.extend(pieces(&text).map(|piece| (stream, piece)));
        }
        if end {
            for (stream, rest) in [(OutputStream::Stdout, &mut self.stdout), (OutputStream::Stderr, &mut self.stderr)] {
                let rest = String::from_utf8_lossy(&std::mem::take(rest)).into_owned();
                texts.extend((!rest.is_empty()).then_some((stream, rest)));
            }
        }
        texts
    }
}

/// The text, and the bytes at the end that may be the beginning of a character.
fn decoded(bytes: &[u8]) -> (String, &[u8]) {
    let cut = match bytes.utf8_chunks().last() {
        Some(last) if last.invalid().len() < 4 && !last.invalid().is_empty() && is_begun(last.invalid()) => last.invalid().len(),
        Some(_) | None => 0,
    };
    let (whole, rest) = bytes.split_at(bytes.len() - cut);
    (String::from_utf8_lossy(whole).into_owned(), rest)
}

fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.floor_char_boundary(PIECE);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_comes_in_two_pieces_is_one() {
        let mut output = Output::default();
        let text = "aé🙏".as_bytes();
        for byte in text {
            output.push(OutputStream::Stdout, &[*byte]);
            assert!(output.take(false).iter().all(|(_, text)| !text.contains('\u{fffd}')));
        }
        output.push(OutputStream::Stdout, &text[..2]);
        assert_eq!(output.take(false), [(OutputStream::Stdout, "a".to_owned())]);
        assert_eq!(output.take(true), [(OutputStream::Stdout, "\u{fffd}".to_owned())]);
    }

    #[test]
    fn the_streams_keep_their_order_and_what_is_too_much_is_cut() {
        let mut output = Output::default();
        output.push(OutputStream::Stdout, b"1");
        output.push(OutputStream::Stderr, b"2");
        output.push(OutputStream::Stdout, b"3");
        let order: Vec<_> = output.take(false).into_iter().map(|(_, text)| text).collect();
        assert_eq!(order, ["1", "2", "3"]);
        output.push(OutputStream::Stdout, &vec![b'x'; KEPT + 5]);
        let kept: usize = output.take(true).iter().map(|(_, text)| text.len()).sum();
        assert_eq!((kept, output.truncated), (KEPT - 3, true));
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_such() {
        let mut output = Output::default();
        output.push(OutputStream::Stdout, b"a\xff\xfeb");
        assert_eq!(output.take(false), [(OutputStream::Stdout, "a\u{fffd}\u{fffd}b".to_owned())]);
    }
}
