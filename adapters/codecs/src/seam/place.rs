//! What is stored of where a value stood. Persisted by name; never renamed.

use std::collections::BTreeMap;

use events::Json;
use events::session::Options;
use serde::ser::{Serialize, Serializer};

use super::extracted::{Hole, How};

/// The fields of one namespace, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(&'static str, Json)>);

impl Fields {
    pub(super) fn put(&mut self, key: &'static str, value: &(impl Serialize + ?Sized)) {
        self.push(key, Json::of(value).expect("it is data"));
    }

    pub(super) fn push(&mut self, key: &'static str, value: Json) {
        self.0.push((key, value));
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Read back by `restore`.
    pub(super) fn hole(&mut self, hole: Option<Hole>) {
        let Some(Hole { at, how }) = hole else { return };
        self.put("at", &at.to_string());
        match how {
            How::Plain => {}
            How::Encoded => self.put("as", "encoded"),
            How::Text => self.put("as", "text"),
            How::Prefixed(prefix) => self.put("prefix", &prefix),
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// Options of facts for `options.<namespace>.<key>`, and of where the source had it.
pub(super) fn options(facts: Vec<super::out::Fact>, source: Fields) -> Options {
    let mut bag: BTreeMap<&str, Fields> = BTreeMap::new();
    for (namespace, key, fact) in facts {
        bag.entry(namespace).or_default().push(key, fact.value);
    }
    if !source.0.is_empty() {
        bag.entry("source").or_default().extend(source);
    }
    bag.into_iter().map(|(namespace, fields)| (namespace.to_owned(), Json::of(&fields).expect("it is data"))).collect()
}
