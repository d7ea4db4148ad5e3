use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use events::Json;
use events::session::{Data, MessageId, Timestamp};

use super::bound::{Cut, VALUE_MAX, bound, bound_text, sentinel};
use super::extracted::{Extracted, Hole, How};
use super::place::Fields;
use crate::fault::Location;
use crate::value::{Path, Reader, Value};

/// One record of a source, from which values are taken. What is left goes into the options of whatever it became.
#[derive(Clone, Debug)]
pub struct Record {
    value: Value,
    /// The text of the value, while it is known and nothing was taken.
    text: Option<Json>,
    digest: Option<String>,
    named: bool,
    /// The longest that was taken out of it and not kept whole.
    cut: Cut,
    pub(super) file: Arc<str>,
    pub(super) line: u64,
    pub(super) n: u64,
}

impl Record {
    /// `n` is its place among the records of its file, `line` is where a reader finds it, from one on.
    #[must_use]
    pub fn new(value: Value, file: Arc<str>, line: u64, n: u64) -> Self {
        Self { value, text: None, digest: None, named: false, cut: 0, file, line, n }
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

    /// Copies the id that the source has for the record, if it can be one. It is asked for before anything is taken: a record without
    /// one is known by its digest, which is then made of the record as it was.
    pub fn id(&mut self, path: impl Into<Path>) -> Option<Extracted<String>> {
        let id = self.copy(path).filter(|id| MessageId::new(&id.value).is_ok());
        self.named |= id.is_some();
        id
    }

    /// `lance-deterministic-pk`, `adapter-integrity-additive-sync`: an id made of the source's record alone, so that it stays when a codec
    /// learns to take more out of it.
    pub fn digest(&mut self) -> Extracted<String> {
        let digest = self.digest.get_or_insert_with(|| {
            let text = self.text.get_or_insert_with(|| self.value.to_json());
            blake3::hash(text.get().as_bytes()).to_hex()[..24].to_owned()
        });
        Extracted { value: digest.clone(), from: None }
    }

    fn take(&mut self, path: &Path) -> Option<Value> {
        if !self.named {
            self.digest();
        }
        self.text = None;
        self.value.at_mut(path).map(|place| std::mem::replace(place, Value::Null))
    }

    /// Takes a text.
    pub fn text(&mut self, path: impl Into<Path>) -> Option<Extracted<String>> {
        let at = path.into();
        self.value.at(&at)?.as_str()?;
        let Value::String(mut value) = self.take(&at)? else { return None };
        self.cut = self.cut.max(bound_text(&mut value));
        Some(Extracted { value, from: Some(Hole { at, how: How::Plain }) })
    }

    /// Takes a value of any shape.
    pub fn json(&mut self, path: impl Into<Path>) -> Option<Extracted<Json>> {
        let at = path.into();
        let mut value = self.take(&at)?;
        self.cut = self.cut.max(bound(&mut value));
        Some(Extracted { value: value.to_json(), from: Some(Hole { at, how: How::Plain }) })
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

    /// Takes what a file holds where the source has it as a text.
    pub fn text_data(&mut self, path: impl Into<Path>) -> Option<Extracted<Data>> {
        let at = path.into();
        self.value.at(&at)?.as_str()?;
        let Value::String(text) = self.take(&at)? else { return None };
        Some(Extracted { value: Data::Inline(STANDARD.encode(text)), from: Some(Hole { at, how: How::Text }) })
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
        Some(Extracted { value: value.to_json(), from: None })
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

    /// Where it stood, and what is left of it. Persisted by name; never renamed.
    pub(super) fn place(self) -> (Fields, Cut) {
        let mut fields = Fields::default();
        fields.put("file", &*self.file);
        fields.put("n", &self.n);
        let (remainder, cut) = self.remainder();
        fields.push("record", remainder);
        (fields, cut)
    }

    /// What is left, within bounds.
    pub(super) fn remainder(mut self) -> (Json, Cut) {
        if let Some(untouched) = self.text.take().filter(|text| text.get().len() <= VALUE_MAX) {
            return (untouched, self.cut);
        }
        let cut = bound(&mut self.value).max(self.cut);
        (self.value.to_json(), cut)
    }
}
