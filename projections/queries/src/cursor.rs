//! Pages and the places between them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Serialize;

/// How many items a page holds at most: 1 to 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(u16);

impl Limit {
    pub const MAX: u16 = 200;

    #[must_use]
    pub fn new(items: u16) -> Option<Self> {
        (1..=Self::MAX).contains(&items).then_some(Self(items))
    }

    #[must_use]
    pub fn get(self) -> usize {
        usize::from(self.0)
    }

    /// One more than asked for tells whether there are more.
    pub(crate) fn probe(self) -> i64 {
        i64::from(self.0) + 1
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(50)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Give it back as `cursor` for the next page. Null on the last one.
    pub next: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is not one this server gave out for this list")]
pub struct BadCursor;

/// A place in a list that is ordered by `key`, then `id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: i64,
    pub(crate) id: String,
}

impl Place {
    pub(crate) fn parse(list: &str, cursor: &str) -> Result<Self, BadCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| BadCursor)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| BadCursor)?;
        let mut parts = text.splitn(3, ':');
        let (Some(of), Some(key), Some(id)) = (parts.next(), parts.next(), parts.next()) else { return Err(BadCursor) };
        let key = key.parse().map_err(|_| BadCursor)?;
        let fits = of == list && !id.is_empty() && id.len() <= 64 && !id.contains('\0');
        let place = Self { key, id: id.to_owned() };
        // Only the one spelling that is given out.
        if fits && place.cursor(list) == cursor { Ok(place) } else { Err(BadCursor) }
    }

    pub(crate) fn cursor(&self, list: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{list}:{}:{}", self.key, self.id))
    }
}

/// Cuts off the probe.
pub(crate) fn page<T>(list: &str, limit: Limit, rows: Vec<(Place, T)>) -> Page<T> {
    let more = rows.len() > limit.get();
    let next = more.then(|| rows.get(limit.get() - 1)).flatten().map(|(place, _)| place.cursor(list));
    Page { items: rows.into_iter().take(limit.get()).map(|(_, item)| item).collect(), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_its_list_and_place() {
        let place = Place { key: -5, id: "a:b".into() };
        assert_eq!(Place::parse("threads", &place.cursor("threads")), Ok(place.clone()));
        assert_eq!(Place::parse("sandboxes", &place.cursor("threads")), Err(BadCursor));
    }

    #[test]
    fn what_was_never_given_out_is_refused() {
        let forged = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for cursor in
            ["", "x", "=", "ä", &forged("threads:1"), &forged("threads:x:a"), &forged("threads:+1:a"), &forged("threads:1:")]
        {
            assert_eq!(Place::parse("threads", cursor), Err(BadCursor), "{cursor}");
        }
    }

    #[test]
    fn a_page_has_a_next_only_if_there_is_more() {
        let rows = |n: i64| (0..n).map(|key| (Place { key, id: "a".into() }, key)).collect::<Vec<_>>();
        let two = Limit::new(2).unwrap();
        assert_eq!(page("l", two, rows(2)), Page { items: vec![0, 1], next: None });
        let cut = page("l", two, rows(3));
        assert_eq!((cut.items, cut.next), (vec![0, 1], Some(Place { key: 1, id: "a".into() }.cursor("l"))));
    }
}
