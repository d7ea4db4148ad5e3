use crate::value::Path;

/// A value out of a source record. Only the seam makes one.
#[derive(Clone, Debug)]
pub struct Extracted<T> {
    pub(super) value: T,
    /// The hole that it left, if it was taken and not only copied.
    pub(super) from: Option<Hole>,
}

#[derive(Clone, Debug)]
pub(super) struct Hole {
    pub(super) at: Path,
    pub(super) how: How,
}

/// What the source had where the hole is. Persisted by name; never renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The value as it is; several texts with one place are its pieces.
    Plain,
    /// A text that holds JSON.
    Encoded,
    /// What a file holds, as a text.
    Text,
    /// Base64 after a prefix such as `data:image/png;base64,`.
    Prefixed(String),
}

impl<T> Extracted<T> {
    /// To look at, not to keep.
    #[must_use]
    pub fn look(&self) -> &T {
        &self.value
    }
}

impl Extracted<String> {
    /// `adapter-integrity-opaque-ids`: what a path says is read once, here. The name of a file without what follows its first dot
    /// after `prefix`.
    #[must_use]
    pub fn of_stem(file: &std::path::Path, prefix: &str) -> Option<Self> {
        let name = file.file_name()?.to_str()?.strip_prefix(prefix)?;
        let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
        (!stem.is_empty()).then(|| Self { value: stem.to_owned(), from: None })
    }

    /// The name of a directory on the way to a file, counted from the file: 0 is the one it stands in.
    #[must_use]
    pub fn of_directory(file: &std::path::Path, up: usize) -> Option<Self> {
        let name = file.ancestors().nth(up + 1)?.file_name()?.to_str()?;
        Some(Self { value: name.to_owned(), from: None })
    }

    /// A piece of the text, as a value of its own.
    #[must_use]
    pub fn piece(&self, range: std::ops::Range<usize>) -> Option<Self> {
        self.value.get(range).map(|piece| Self { value: piece.to_owned(), from: None })
    }

    /// The number before the one that the text is: sources name the end of a span by what comes after it.
    #[must_use]
    pub fn before(&self) -> Option<Self> {
        let before = self.value.parse::<u64>().ok()?.checked_sub(1)?;
        Some(Self { value: before.to_string(), from: None })
    }

    /// An id made of two, the outer one first.
    #[must_use]
    pub fn within(&self, outer: &Self) -> Self {
        Self { value: format!("{}/{}", outer.value, self.value), from: None }
    }

    /// A moment that a text names in the client's own way, such as in a file's name.
    #[must_use]
    pub fn moment(
        &self,
        read: impl FnOnce(&str) -> Option<events::session::Timestamp>,
    ) -> Option<Extracted<events::session::Timestamp>> {
        read(&self.value).map(|value| Extracted { value, from: None })
    }

    /// Cuts the text at byte offsets, which must rise and stand between characters; the pieces together are the text. Offsets that do
    /// not are passed over.
    #[must_use]
    pub fn split(self, cuts: &[usize]) -> Vec<Self> {
        let mut pieces = Vec::with_capacity(cuts.len() + 1);
        let mut start = 0;
        for cut in cuts.iter().copied().chain([self.value.len()]) {
            if cut > start && self.value.is_char_boundary(cut) {
                pieces.push(Self { value: self.value[start..cut].to_owned(), from: self.from.clone() });
                start = cut;
            }
        }
        if pieces.is_empty() { vec![self] } else { pieces }
    }
}
