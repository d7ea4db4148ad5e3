//! JSON as clients write it, kept so that nothing of a value is lost: numbers as their text, keys in their order and as often as they
//! come, texts that are not Unicode as they stand.

use std::fmt;

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{Malformed, Reader};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    /// As it is written.
    Number(Box<str>),
    String(String),
    /// The raw inside of a text with a lone surrogate, which no `String` can hold.
    Broken(Box<str>),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

/// A step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The way to a value inside a record; as a JSON pointer when stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<Step>);

impl Path {
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn to(&self, step: impl Into<Step>) -> Self {
        let mut steps = self.0.clone();
        steps.push(step.into());
        Self(steps)
    }

    /// Digits name a place in an array where there is one, and a key otherwise.
    #[must_use]
    pub fn parse(pointer: &str, inside: &Value) -> Option<Self> {
        let mut path = Self::root();
        let mut at = Some(inside);
        for token in pointer.split('/').skip(1) {
            let key = token.replace("~1", "/").replace("~0", "~");
            let step = match at {
                Some(Value::Array(_)) => Step::Index(key.parse().ok()?),
                Some(_) | None => Step::Key(key),
            };
            at = at.and_then(|at| at.step(&step));
            path.0.push(step);
        }
        (pointer.is_empty() || pointer.starts_with('/')).then_some(path)
    }
}

impl<const N: usize> From<[&str; N]> for Path {
    fn from(keys: [&str; N]) -> Self {
        Self(keys.into_iter().map(Step::from).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                Step::Key(key) => write!(f, "/{}", key.replace('~', "~0").replace('/', "~1"))?,
                Step::Index(index) => write!(f, "/{index}")?,
            }
        }
        Ok(())
    }
}

impl Value {
    fn step(&self, step: &Step) -> Option<&Self> {
        match (self, step) {
            (Self::Object(fields), Step::Key(key)) => fields.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            (Self::Array(items), Step::Index(index)) => items.get(*index),
            _ => None,
        }
    }

    fn step_mut(&mut self, step: &Step) -> Option<&mut Self> {
        match (self, step) {
            (Self::Object(fields), Step::Key(key)) => fields.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value),
            (Self::Array(items), Step::Index(index)) => items.get_mut(*index),
            _ => None,
        }
    }

    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&Self> {
        path.0.iter().try_fold(self, Self::step)
    }

    pub fn at_mut(&mut self, path: &Path) -> Option<&mut Self> {
        path.0.iter().try_fold(self, Self::step_mut)
    }

    /// The first field of this name.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.fields().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(is) = self { Some(*is) } else { None }
    }

    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        let Self::Number(text) = self else { return None };
        text.parse().ok().or_else(|| {
            let float: f64 = text.parse().ok()?;
            (float.abs() < 9e15).then_some(float as i64)
        })
    }

    #[must_use]
    pub fn items(&self) -> &[Self] {
        if let Self::Array(items) = self { items } else { &[] }
    }

    #[must_use]
    pub fn fields(&self) -> &[(String, Self)] {
        if let Self::Object(fields) = self { fields } else { &[] }
    }

    #[must_use]
    pub fn object<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Adds a field to an object.
    pub fn push(&mut self, key: &str, value: Self) {
        if let Self::Object(fields) = self {
            fields.push((key.to_owned(), value));
        }
    }

    #[must_use]
    pub fn number(number: impl fmt::Display) -> Self {
        Self::Number(number.to_string().into())
    }

    /// The same value, however it is written: the order of keys and the form of numbers are not data.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(one), Self::Number(two)) => one == two || same_number(one, two),
            (Self::Array(one), Self::Array(two)) => one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.same(two)),
            (Self::Object(one), Self::Object(two)) => same_fields(one, two),
            _ => self == other,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Bool(is)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::Array(items)
    }
}

/// The first byte that cannot stand in a text as it is: a quote, a backslash or a control character. Eight at a time; a borrow can
/// only mark bytes above the first, which is the one that counts.
fn special(bytes: &[u8]) -> Option<usize> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let below = |word: u64, byte: u8| word.wrapping_sub(EACH * u64::from(byte)) & !word & HIGH;
    let is = |word: u64, byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = below(word, 0x20) | is(word, b'"') | is(word, b'\\');
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\'))?;
    Some(words.len() * 8 + at)
}

fn same_fields(one: &[(String, Value)], two: &[(String, Value)]) -> bool {
    fn sorted(fields: &[(String, Value)]) -> Vec<&(String, Value)> {
        let mut fields: Vec<_> = fields.iter().collect();
        fields.sort_by(|one, two| one.0.cmp(&two.0));
        fields
    }
    one.len() == two.len() && sorted(one).iter().zip(sorted(two)).all(|(one, two)| one.0 == two.0 && one.1.same(&two.1))
}

/// Decimal digits and exponent, so that no precision of ours decides: `1e2`, `100` and `100.0` are one number.
fn same_number(one: &str, two: &str) -> bool {
    fn normal(text: &str) -> Option<(bool, String, i64)> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            return Some((negative, String::new(), 0));
        }
        let exponent = exponent.parse::<i64>().ok()? - i64::try_from(fraction.len()).ok()?;
        Some((negative, kept.to_owned(), exponent.checked_add(i64::try_from(digits.len() - kept.len()).ok()?)?))
    }
    normal(one).is_some_and(|one| normal(two).is_some_and(|two| one == two))
}
