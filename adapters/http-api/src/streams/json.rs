//! JSON bodies as messages: exact text, flattened by one level.

use std::fmt;

use bytes::Bytes;
use event_log::{BadBody, Joiner, Payload};
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// One message per element of an array, or the value itself.
pub(crate) fn messages(body: &Bytes) -> Result<Payload, BadBody> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    let mut joiner = Joiner::default();
    if first == Some(&b'[') {
        let mut input = serde_json::Deserializer::from_slice(body);
        let split = input.deserialize_seq(Elements(&mut joiner)).and_then(|()| input.end());
        split.map_err(|_| BadBody::InvalidJson)?;
    } else {
        let value: &RawValue = serde_json::from_slice(body).map_err(|_| BadBody::InvalidJson)?;
        joiner.push(value.get());
    }
    joiner.finish().ok_or(BadBody::EmptyArray)
}

/// Joins elements as they are met: a list of them all could take many times the body.
struct Elements<'a>(&'a mut Joiner);

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<&RawValue>()? {
            self.0.push(element.get());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event_log::Body;

    use super::*;

    fn text(body: &'static str) -> Result<(String, u64), BadBody> {
        let payload = messages(&Bytes::from_static(body.as_bytes()))?;
        let Body::Inline(data) = &payload.body else { panic!("inline") };
        Ok((String::from_utf8(data.to_vec()).unwrap(), payload.units()))
    }

    #[test]
    fn an_array_is_flattened_by_one_level() {
        assert_eq!(text("[1, [2,3] ,{\"a\":[4]}]"), Ok(("1,[2,3],{\"a\":[4]}".into(), 3)));
        assert_eq!(text(" [[[1,2]]] "), Ok(("[[1,2]]".into(), 1)));
    }

    #[test]
    fn numbers_and_spacing_keep_their_text() {
        let value = r#"{"n": 12345678901234567890.10,  "e":1E400, "u":"\u00e9"}"#;
        assert_eq!(text(value), Ok((value.into(), 1)));
    }

    #[test]
    fn what_is_not_one_json_value_is_refused() {
        for body in ["", "{", "{} {}", "[1,]", "nope", "[1] x", "\"\u{1}\"", "01"] {
            assert_eq!(text(body), Err(BadBody::InvalidJson), "{body:?}");
        }
        assert_eq!(text("[ ]"), Err(BadBody::EmptyArray));
    }
}
