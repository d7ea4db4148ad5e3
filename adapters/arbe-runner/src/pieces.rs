//! Live pieces of what a model says. A value of a secret that begins in one and ends in another is left out of both: what may be the
//! beginning of one is kept back until more is known.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::redact::{INSTEAD, quoted};

const KIND: &str = "pi.chunk";
/// What a tool is given comes as JSON, bit by bit.
const TOOL_CALL: &str = "tool_call";

#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    payload: Piece,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Piece {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_id: Option<Value>,
    of: Value,
    n: i64,
    part: String,
    index: i64,
    delta: String,
}

enum Found {
    Whole(usize),
    Begun,
    Nothing,
}

/// The pieces of one harness, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The longest first, as `quoted` ones are.
    plain: Vec<String>,
    /// The same, and as they stand in JSON.
    quoted: Vec<String>,
    /// The last that came, with what is kept back of it.
    last: Option<Piece>,
    /// How many more were told than came.
    more: i64,
}

impl Pieces {
    pub(crate) fn new(secrets: &[String]) -> Self {
        let mut both: Vec<String> = secrets.iter().flat_map(|secret| [Some(secret.clone()), quoted(secret)]).flatten().collect();
        both.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        both.dedup();
        Self { plain: secrets.to_vec(), quoted: both, last: None, more: 0 }
    }

    /// What of a request can be told now. `None`: nothing yet. What is no piece is left as it is.
    pub(crate) fn pass(&mut self, body: Bytes) -> Option<Bytes> {
        let Ok(entries) = serde_json::from_slice::<Vec<Entry>>(&body) else { return Some(body) };
        if entries.iter().any(|entry| entry.kind != KIND) {
            return Some(body);
        }
        let told: Vec<Entry> = entries.into_iter().flat_map(|entry| self.next(entry.payload)).collect();
        if told.is_empty() { None } else { serde_json::to_vec(&told).ok().map(Bytes::from) }
    }

    fn next(&mut self, mut piece: Piece) -> Vec<Entry> {
        let came = piece.n;
        // After one that was lost nobody knows what was begun. Of a message that is over the rest is in its entry.
        let before = self.last.take().filter(|before| before.of == piece.of && before.n + 1 == came);
        let mut told = Vec::new();
        match before {
            Some(before) if before.part == piece.part && before.index == piece.index => piece.delta.insert_str(0, &before.delta),
            Some(mut before) if !before.delta.is_empty() => {
                before.delta = self.split(&before, true).0;
                before.n = came + self.more;
                self.more += 1;
                told.push(before);
            }
            Some(_) | None => {}
        }
        let (clean, kept) = self.split(&piece, false);
        if clean.is_empty() {
            self.more -= 1;
        } else {
            told.push(Piece { delta: clean, n: came + self.more, ..piece.clone() });
        }
        self.last = Some(Piece { delta: kept, ..piece });
        told.into_iter().map(|payload| Entry { kind: KIND.to_owned(), payload }).collect()
    }

    /// What can be told of it, and what may be the beginning of a secret, unless nothing comes after it.
    fn split(&self, piece: &Piece, ended: bool) -> (String, String) {
        let secrets = if piece.part == TOOL_CALL { &self.quoted } else { &self.plain };
        let (mut rest, mut clean) = (piece.delta.as_str(), String::new());
        while let Some(first) = rest.chars().next() {
            match look(secrets, rest, ended) {
                Found::Whole(length) => {
                    clean.push_str(INSTEAD);
                    rest = &rest[length..];
                }
                Found::Begun => break,
                Found::Nothing => {
                    clean.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        (clean, rest.to_owned())
    }
}

fn look(secrets: &[String], rest: &str, ended: bool) -> Found {
    if !ended && secrets.iter().any(|secret| secret.len() > rest.len() && secret.starts_with(rest)) {
        return Found::Begun;
    }
    let whole = secrets.iter().find(|secret| rest.starts_with(secret.as_str()));
    whole.map_or(Found::Nothing, |secret| Found::Whole(secret.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::redact;

    fn secrets(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    fn piece(n: i64, part: &str, delta: &str) -> Value {
        json!({ "type": "pi.chunk", "payload": { "run_id": "r1", "of": 7, "n": n, "part": part, "index": 0, "delta": delta } })
    }

    /// The payloads that are told, each piece coming in a request of its own.
    fn told(values: &[&str], entries: &[Value]) -> Vec<Value> {
        let mut pieces = Pieces::new(&secrets(values));
        let bodies = entries.iter().filter_map(|entry| pieces.pass(json!([entry]).to_string().into()));
        let told = bodies.flat_map(|body| serde_json::from_slice::<Vec<Value>>(&body).unwrap());
        told.map(|entry| entry["payload"].clone()).collect()
    }

    fn joined(told: &[Value]) -> String {
        assert!(told.iter().enumerate().all(|(n, piece)| piece["n"] == json!(n)), "numbered one by one: {told:?}");
        told.iter().map(|piece| piece["delta"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_value_that_is_cut_anywhere_is_left_out_and_the_rest_is_told_whole() {
        let values = ["s3cret-välue-and-more", "s3cret-välue"];
        let text = "one s3cret-välue two s3cret-välue-and-more s3s3cret-välue, s3cre; it is s3cret-välue-an.";
        let letters: Vec<char> = text.chars().collect();
        for size in 1..letters.len() {
            let cut: Vec<String> = letters.chunks(size).map(|letters| letters.iter().collect()).collect();
            let cut: Vec<_> = cut.iter().enumerate().map(|(n, delta)| piece(n as i64, "text", delta)).collect();
            assert_eq!(joined(&told(&values, &cut)), redact::text(&secrets(&values), text), "pieces of {size}");
        }
    }

    #[test]
    fn what_looked_like_a_value_is_told_when_its_part_has_ended() {
        let told =
            told(&["hunter22", "hunt"], &[piece(0, "thinking", "the hunter"), piece(1, "text", "hu"), piece(2, "text", "m")]);
        let shown: Vec<_> =
            told.iter().map(|piece| (piece["part"].as_str().unwrap(), piece["delta"].as_str().unwrap())).collect();
        assert_eq!(shown, [("thinking", "the "), ("thinking", "[…]er"), ("text", "hum")]);
        assert_eq!(joined(&told), "the […]erhum");
    }

    #[test]
    fn what_a_tool_is_given_holds_a_value_as_json_has_it() {
        let given = json!({ "command": "echo 'pass\"word\n1'" }).to_string();
        let cut: Vec<_> = given.split_inclusive('\\').enumerate().map(|(n, it)| piece(n as i64, "tool_call", it)).collect();
        assert!(cut.len() > 2, "{cut:?}");
        assert_eq!(joined(&told(&["pass\"word\n1"], &cut)), json!({ "command": "echo '[…]'" }).to_string());
    }

    #[test]
    fn of_a_value_whose_end_was_lost_or_never_came_the_beginning_is_not_told() {
        let lost = [piece(0, "text", "a hunter2"), piece(2, "text", " b")];
        assert_eq!(told(&["hunter22"], &lost).iter().map(|it| it["delta"].clone()).collect::<Vec<_>>(), ["a ", " b"]);
        let mut other = piece(1, "text", "c");
        other["payload"]["of"] = json!(8);
        assert_eq!(joined(&told(&["hunter22"], &[piece(0, "text", "a hunter2"), other])), "a c");
    }

    #[test]
    fn what_is_no_piece_is_passed_on_as_it_is() {
        let mut pieces = Pieces::new(&secrets(&["hunter22"]));
        for body in
            ["[ {\"type\":\"pi.entry\",\"payload\":1.50} ]", "{\"type\":\"pi.chunk\"}", "[{]", "[{\"type\":\"pi.chunk\"}]"]
        {
            assert_eq!(pieces.pass(body.into()), Some(body.into()));
        }
    }
}
