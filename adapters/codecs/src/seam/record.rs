use std::sync::Arc;

use events::Json;
use events::session::{Data, Timestamp};

use super::bound::{VALUE_MAX, bound, sentinel};
use super::extracted::{Extracted, Hole, How};
use crate::fault::Location;
use crate::value::{Path, Reader, Value};

/// One record of a source, from which values are taken. What is left goes into the options of whatever it became.
#[derive(Clone, Debug)]
pub struct Record {
    value: Value,
    pub(super) file: Arc<str>,
    pub(super) line: u64,
    pub(super) n: u64,
}

impl Record {
    /// `n` is its place among the records of its file, `line` is where a reader finds it, from one on.
    #[must_use]
    pub fn new(value: Value, file: Arc<str>, line: u64, n: u64) -> Self {
        Self { value, file, line, n }
    }

    /// To decide by, not to keep.
    #[must_use]
    pub fn look(&self) -> &Value {
        &self.value
    }

    #[must_use]
    pub fn location(&self) -> Location {
        Location { file: self.file.clone(), line: Some(self.line) }
    }

    #[must_use]
    pub fn str(&self, path: impl Into<Path>) -> Option<&str> {
        self.value.at(&path.into()).and_then(Value::as_str)
    }

    fn take(&mut self, path: &Path) -> Option<Value> {
        self.value.at_mut(path).map(|place| std::mem::replace(place, Value::Null))
    }

    /// Takes a text.
    pub fn text(&mut self, path: impl Into<Path>) -> Option<Extracted<String>> {
        let at = path.into();
        self.value.at(&at)?.as_str()?;
        let Value::String(mut value) = self.take(&at)? else { return None };
        if value.len() > VALUE_MAX {
            value = sentinel(value.len());
        }
        Some(Extracted { value, from: Some(Hole { at, how: How::Plain }) })
    }

    /// Takes a value of any shape.
    pub fn json(&mut self, path: impl Into<Path>) -> Option<Extracted<Json>> {
        let at = path.into();
        let mut value = self.take(&at)?;
        bound(&mut value);
        Some(Extracted { value: json(&value), from: Some(Hole { at, how: How::Plain }) })
    }

    /// Takes a text that holds JSON, as the JSON; a text that does not, as a text.
    pub fn encoded(&mut self, path: impl Into<Path>) -> Option<Extracted<Json>> {
        let at = path.into();
        let text = self.value.at(&at)?.as_str()?;
        let exact = text.len() <= VALUE_MAX && Reader::only(text).is_ok();
        let inner = exact.then(|| Json::parse(text).ok()).flatten().filter(|inner| inner.get() == text);
        let Some(value) = inner else { return self.json(at) };
        self.take(&at)?;
        Some(Extracted { value, from: Some(Hole { at, how: How::Encoded }) })
    }

    /// Takes what a file holds: base64, a `data:` URL (then with its media type), or another URL. Blobs are not bounded.
    pub fn data(&mut self, path: impl Into<Path>) -> Option<(Extracted<Data>, Option<Extracted<String>>)> {
        let at = path.into();
        self.value.at(&at)?.as_str()?;
        let Value::String(text) = self.take(&at)? else { return None };
        let Some((prefix, data)) = text.split_once(";base64,").filter(|(prefix, _)| prefix.starts_with("data:")) else {
            let url = text.contains("://") || text.starts_with("data:");
            let value = if url { Data::Url(text) } else { Data::Inline(text) };
            return Some((Extracted { value, from: Some(Hole { at, how: How::Plain }) }, None));
        };
        let media_type = prefix.trim_start_matches("data:").split(';').next().unwrap_or_default().to_owned();
        let media_type = (!media_type.is_empty()).then_some(Extracted { value: media_type, from: None });
        let how = How::Prefixed(format!("{prefix};base64,"));
        Some((Extracted { value: Data::Inline(data.to_owned()), from: Some(Hole { at, how }) }, media_type))
    }

    /// Copies a text; a number or truth value as its text.
    #[must_use]
    pub fn copy(&self, path: impl Into<Path>) -> Option<Extracted<String>> {
        let value = match self.value.at(&path.into())? {
            Value::String(text) if text.len() > VALUE_MAX => sentinel(text.len()),
            Value::String(text) => text.clone(),
            Value::Number(text) => text.to_string(),
            Value::Bool(is) => is.to_string(),
            Value::Null | Value::Broken(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        Some(Extracted { value, from: None })
    }

    #[must_use]
    pub fn copy_json(&self, path: impl Into<Path>) -> Option<Extracted<Json>> {
        let mut value = self.value.at(&path.into())?.clone();
        bound(&mut value);
        Some(Extracted { value: json(&value), from: None })
    }

    /// A moment: RFC 3339, or a number of milliseconds since 1970.
    #[must_use]
    pub fn time(&self, path: impl Into<Path>) -> Option<Extracted<Timestamp>> {
        let value = match self.value.at(&path.into())? {
            Value::String(text) => text.parse().ok()?,
            number @ Value::Number(_) => Timestamp::from_millis(number.as_i64()?).ok()?,
            Value::Null | Value::Bool(_) | Value::Broken(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        Some(Extracted { value, from: None })
    }

    /// What is left, within bounds.
    pub(super) fn remainder(mut self) -> Value {
        bound(&mut self.value);
        self.value
    }
}

pub(super) fn json(value: &Value) -> Json {
    Json::parse(&value.to_string()).expect("what the reader takes is JSON")
}
