//! Values of secrets, taken out of what a command prints.

use std::collections::BTreeMap;

use commands::ports::Plain;
use zeroize::Zeroizing;

/// Shorter ones are in every text.
const SHORTEST: usize = 4;
/// The same of a line of one: a key is often shown in part.
const SHORTEST_LINE: usize = 8;

/// Passes bytes on, with `[NAME]` for each value. What may be the beginning of one is kept back until more is known.
pub(crate) struct Redactor {
    secrets: Vec<(String, Plain)>,
    kept: Zeroizing<Vec<u8>>,
}

enum Found {
    Whole(usize, usize),
    Begun,
    Nothing,
}

impl Redactor {
    pub(crate) fn new(secrets: &BTreeMap<String, Plain>) -> Self {
        let named =
            |(name, value): (&String, &Plain)| parts(value).into_iter().map(|part| (name.clone(), part)).collect::<Vec<_>>();
        let mut secrets: Vec<_> = secrets.iter().flat_map(named).collect();
        // One that begins with another is looked for first.
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.expose().len()));
        Self { secrets, kept: Zeroizing::new(Vec::new()) }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], pass: &mut dyn FnMut(&[u8])) {
        if self.secrets.is_empty() {
            return some(bytes, pass);
        }
        self.search(bytes, false, pass);
    }

    pub(crate) fn finish(&mut self, pass: &mut dyn FnMut(&[u8])) {
        self.search(&[], true, pass);
    }

    fn search(&mut self, bytes: &[u8], last: bool, pass: &mut dyn FnMut(&[u8])) {
        let mut all = std::mem::take(&mut self.kept);
        all.extend_from_slice(bytes);
        let (mut from, mut at) = (0, 0);
        while at < all.len() {
            match self.look(&all[at..], last) {
                Found::Whole(index, length) => {
                    some(&all[from..at], pass);
                    pass(format!("[{}]", self.secrets[index].0).as_bytes());
                    at += length;
                    from = at;
                }
                Found::Begun => break,
                Found::Nothing => at += 1,
            }
        }
        some(&all[from..at], pass);
        self.kept = Zeroizing::new(all[at..].to_vec());
    }

    fn look(&self, rest: &[u8], last: bool) -> Found {
        let begun = self.secrets.iter().any(|(_, value)| value.expose().len() > rest.len() && value.expose().starts_with(rest));
        if begun && !last {
            return Found::Begun;
        }
        let whole = self.secrets.iter().position(|(_, value)| rest.starts_with(value.expose()));
        whole.map_or(Found::Nothing, |index| Found::Whole(index, self.secrets[index].1.expose().len()))
    }
}

/// The value, and each of its lines that says something. `arbe-runner` takes a value apart in the same way.
fn parts(value: &Plain) -> Vec<Plain> {
    let whole = value.expose();
    let lines = whole.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let telling = |line: &&[u8]| *line != whole && line.len() >= SHORTEST_LINE && !line.starts_with(b"-----");
    let lines = lines.filter(telling).map(|line| Plain::new(line.to_vec()));
    std::iter::once(value.clone()).filter(|_| whole.len() >= SHORTEST).chain(lines).collect()
}

fn some(bytes: &[u8], pass: &mut dyn FnMut(&[u8])) {
    if !bytes.is_empty() {
        pass(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(chunks: &[&str]) -> String {
        let secrets = [("KEY", "s3cret-value"), ("LONG", "s3cret-value-and-more"), ("SHORT", "ab")];
        let secrets = secrets.map(|(name, value)| (name.to_owned(), Plain::new(value.into()))).into();
        let mut redactor = Redactor::new(&secrets);
        let mut out = Vec::new();
        for chunk in chunks {
            redactor.push(chunk.as_bytes(), &mut |bytes| out.extend_from_slice(bytes));
        }
        redactor.finish(&mut |bytes| out.extend_from_slice(bytes));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_value_is_replaced_by_its_name() {
        assert_eq!(redacted(&["x s3cret-value y s3cret-value"]), "x [KEY] y [KEY]");
        assert_eq!(redacted(&["s3cret-value-and-more."]), "[LONG].");
        assert_eq!(redacted(&["ab s3cret"]), "ab s3cret");
    }

    #[test]
    fn a_line_of_a_value_is_replaced_too_but_not_what_every_key_begins_with() {
        let key = "-----BEGIN PRIVATE KEY-----\r\nMIIEvQIBADANBgkq\r\nhkiG9w0BAQEF\r\nshort\r\n-----END PRIVATE KEY-----\r\n";
        let secrets = [("PEM".to_owned(), Plain::new(key.into()))].into();
        let redacted = |text: &str| {
            let (mut redactor, mut out) = (Redactor::new(&secrets), Vec::new());
            text.as_bytes().chunks(3).for_each(|chunk| redactor.push(chunk, &mut |bytes| out.extend_from_slice(bytes)));
            redactor.finish(&mut |bytes| out.extend_from_slice(bytes));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(redacted(&format!("whole {key}.")), "whole [PEM].");
        let unix = key.replace('\r', "");
        let shown = "-----BEGIN PRIVATE KEY-----\n[PEM]\n[PEM]\nshort\n-----END PRIVATE KEY-----\n";
        assert_eq!(redacted(&unix), shown);
        assert_eq!(redacted("> hkiG9w0BAQEF <"), "> [PEM] <");
    }

    #[test]
    fn a_value_in_pieces_is_replaced_too() {
        let text = "one s3cret-value two s3cret-value-and-more s3s3cret-values3cre";
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        assert_eq!(redacted(&pieces), "one [KEY] two [LONG] s3[KEY]s3cre");
        assert_eq!(redacted(&[text]), redacted(&pieces));
    }
}
