//! A reader of a stream of JSON values, bounded in depth.

use memchr::memchr2;

use super::{Value, special};

/// Deeper than any client writes, and far from the end of the stack.
const DEPTH: u32 = 256;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Malformed {
    pub what: &'static str,
    pub at: usize,
}

/// Reads one value after the other.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The only value of a text.
    pub fn only(text: &'a str) -> Result<Value, Malformed> {
        let mut reader = Self::new(text);
        let value = reader.read()?.ok_or(Malformed { what: "nothing", at: 0 })?;
        reader.space();
        if reader.at == text.len() { Ok(value) } else { Err(reader.malformed("something after the value")) }
    }

    /// `None` at the end.
    pub fn read(&mut self) -> Result<Option<Value>, Malformed> {
        self.space();
        if self.at == self.text.len() {
            return Ok(None);
        }
        self.value(DEPTH).map(Some)
    }

    fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { what, at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: u32) -> Result<Value, Malformed> {
        match self.peek() {
            Some(b'{') => self.object(depth.checked_sub(1).ok_or_else(|| self.malformed("nested too deep"))?),
            Some(b'[') => self.array(depth.checked_sub(1).ok_or_else(|| self.malformed("nested too deep"))?),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) => Err(self.malformed("not a value")),
            None => Err(self.malformed("cut off")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Malformed> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.malformed("not a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn object(&mut self, depth: u32) -> Result<Value, Malformed> {
        self.at += 1;
        let mut fields = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(fields));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.malformed("no key"));
            }
            let Value::String(key) = self.string()? else { return Err(self.malformed("a key that is not Unicode")) };
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.malformed("no colon"));
            }
            self.at += 1;
            self.space();
            fields.push((key, self.value(depth)?));
            if self.ends(b'}')? {
                return Ok(Value::Object(fields));
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<Value, Malformed> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth)?);
            if self.ends(b']')? {
                return Ok(Value::Array(items));
            }
        }
    }

    fn ends(&mut self, end: u8) -> Result<bool, Malformed> {
        self.space();
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(true)
            }
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => Err(self.malformed("neither a comma nor an end")),
            None => Err(self.malformed("cut off")),
        }
    }

    fn number(&mut self) -> Result<Value, Malformed> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.malformed("not a number")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Value::Number(self.text[start..self.at].into()))
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.malformed("not a number")) }
    }

    fn string(&mut self) -> Result<Value, Malformed> {
        self.at += 1;
        let start = self.at;
        let mut text = String::new();
        let mut copied = start;
        let mut broken = false;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let stop = special(rest).ok_or_else(|| self.malformed("cut off"))?;
            if rest[stop] < 0x20 {
                let ends = memchr2(b'"', b'\\', rest).is_some();
                self.at += stop;
                return Err(self.malformed(if ends { "a control character in a text" } else { "cut off" }));
            }
            self.at += stop;
            text.push_str(&self.text[copied..self.at]);
            if rest[stop] == b'"' {
                let raw = &self.text[start..self.at];
                self.at += 1;
                return Ok(if broken { Value::Broken(raw.into()) } else { Value::String(text) });
            }
            match self.escape()? {
                Some(char) => text.push(char),
                None => broken = true,
            }
            copied = self.at;
        }
    }

    /// `None`: half of a pair.
    fn escape(&mut self) -> Result<Option<char>, Malformed> {
        let escaped = self.text.as_bytes().get(self.at + 1).copied().ok_or_else(|| self.malformed("cut off"))?;
        let char = match escaped {
            b'"' | b'\\' | b'/' => char::from(escaped),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(self.malformed("an unknown escape")),
        };
        self.at += 2;
        Ok(Some(char))
    }

    fn unicode(&mut self) -> Result<Option<char>, Malformed> {
        let first = self.hex(self.at)?;
        self.at += 6;
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(char::from_u32(first));
        }
        if !self.text[self.at..].starts_with("\\u") {
            return Ok(None);
        }
        let second = self.hex(self.at)?;
        if !(0xdc00..0xe000).contains(&second) {
            return Ok(None);
        }
        self.at += 6;
        Ok(char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)))
    }

    fn hex(&self, at: usize) -> Result<u32, Malformed> {
        let digits = self.text.get(at + 2..at + 6).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(|| self.malformed("an unknown escape"))?;
        u32::from_str_radix(digits, 16).map_err(|_| self.malformed("an unknown escape"))
    }
}
