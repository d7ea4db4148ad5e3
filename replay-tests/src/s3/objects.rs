use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::Mutex;

#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) body: Bytes,
    pub(super) etag: String,
    pub(super) modified: SystemTime,
}

#[derive(Debug)]
pub(super) enum Condition {
    None,
    Absent,
    Matches(String),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoBucket,
    NoObject,
    ConditionFailed,
}

pub(super) struct Query {
    pub(super) prefix: String,
    pub(super) delimiter: Option<String>,
    pub(super) after: Option<String>,
    pub(super) limit: usize,
}

#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) objects: Vec<(String, Object)>,
    pub(super) common_prefixes: Vec<String>,
    /// The last key or common prefix of this page, if more follow.
    pub(super) next: Option<String>,
}

type Bucket = BTreeMap<String, Object>;

#[derive(Default)]
struct State {
    buckets: BTreeMap<String, Bucket>,
    writes: u64,
}

#[derive(Default)]
pub(super) struct Objects(Mutex<State>);

impl Objects {
    pub(super) fn create_bucket(&self, name: &str) {
        self.0.lock().buckets.entry(name.to_owned()).or_default();
    }

    pub(super) fn has_bucket(&self, name: &str) -> bool {
        self.0.lock().buckets.contains_key(name)
    }

    /// The condition is judged and the object stored under one lock: of any number of concurrent
    /// writers of an absent key, one wins.
    pub(super) fn put(&self, bucket: &str, key: &str, body: Bytes, condition: Condition) -> Result<String, Refusal> {
        let mut state = self.0.lock();
        state.writes += 1;
        let etag = format!("{:016x}", state.writes);
        let objects = state.buckets.get_mut(bucket).ok_or(Refusal::NoBucket)?;
        match (condition, objects.get(key)) {
            (Condition::None, _) | (Condition::Absent, None) => {}
            (Condition::Absent, Some(_)) => return Err(Refusal::ConditionFailed),
            (Condition::Matches(_), None) => return Err(Refusal::NoObject),
            (Condition::Matches(wanted), Some(object)) if wanted == object.etag => {}
            (Condition::Matches(_), Some(_)) => return Err(Refusal::ConditionFailed),
        }
        let object = Object { body, etag: etag.clone(), modified: SystemTime::now() };
        objects.insert(key.to_owned(), object);
        Ok(etag)
    }

    pub(super) fn get(&self, bucket: &str, key: &str) -> Result<Object, Refusal> {
        let state = self.0.lock();
        let objects = state.buckets.get(bucket).ok_or(Refusal::NoBucket)?;
        objects.get(key).cloned().ok_or(Refusal::NoObject)
    }

    pub(super) fn delete(&self, bucket: &str, key: &str) -> Result<(), Refusal> {
        let mut state = self.0.lock();
        state.buckets.get_mut(bucket).ok_or(Refusal::NoBucket)?.remove(key);
        Ok(())
    }

    pub(super) fn list(&self, bucket: &str, query: &Query) -> Result<Page, Refusal> {
        let state = self.0.lock();
        Ok(page(state.buckets.get(bucket).ok_or(Refusal::NoBucket)?, query))
    }
}

fn page(objects: &Bucket, query: &Query) -> Page {
    let after = query.after.as_deref().unwrap_or_default();
    let start = match query.prefix.as_str() {
        prefix if prefix > after => Bound::Included(prefix),
        _ => Bound::Excluded(after),
    };
    let mut page = Page::default();
    let mut last = after;
    let mut count = 0;
    for (key, object) in objects.range::<str, _>((start, Bound::Unbounded)) {
        let Some(rest) = key.strip_prefix(&query.prefix) else {
            break;
        };
        let rolled_up = query.delimiter.as_deref().and_then(|delimiter| {
            let end = rest.find(delimiter)? + delimiter.len();
            Some(&key[..query.prefix.len() + end])
        });
        let entry = rolled_up.unwrap_or(key);
        if rolled_up.is_some() && entry == last {
            continue;
        }
        if count == query.limit {
            page.next = Some(last.to_owned());
            break;
        }
        match rolled_up {
            Some(prefix) => page.common_prefixes.push(prefix.to_owned()),
            None => page.objects.push((key.clone(), object.clone())),
        }
        last = entry;
        count += 1;
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket_with(keys: &[&str]) -> Objects {
        let objects = Objects::default();
        objects.create_bucket("b");
        for key in keys {
            objects.put("b", key, Bytes::new(), Condition::None).unwrap();
        }
        objects
    }

    fn pages(objects: &Objects, prefix: &str, delimiter: Option<&str>, limit: usize) -> Vec<Vec<String>> {
        let mut query = Query { prefix: prefix.into(), delimiter: delimiter.map(Into::into), after: None, limit };
        let mut pages = Vec::new();
        loop {
            let page = objects.list("b", &query).unwrap();
            pages.push(page.objects.into_iter().map(|(key, _)| key).chain(page.common_prefixes).collect());
            match page.next {
                Some(next) => query.after = Some(next),
                None => return pages,
            }
        }
    }

    #[test]
    fn a_list_is_sorted_and_goes_on_where_the_last_page_ended() {
        let objects = bucket_with(&["a", "p/3", "p/1", "p/2", "q"]);
        assert_eq!(pages(&objects, "p/", None, 2), [vec!["p/1", "p/2"], vec!["p/3"]]);
        assert_eq!(pages(&objects, "p/", None, 3), [vec!["p/1", "p/2", "p/3"]]);
    }

    #[test]
    fn a_common_prefix_comes_once_even_across_pages() {
        let objects = bucket_with(&["p/a/1", "p/a/2", "p/b/1", "p/c"]);
        assert_eq!(pages(&objects, "p/", Some("/"), 1), [vec!["p/a/"], vec!["p/b/"], vec!["p/c"]]);
    }

    #[test]
    fn a_match_condition_holds_only_for_the_latest_write() {
        let objects = bucket_with(&["k"]);
        let first = objects.get("b", "k").unwrap().etag;
        let second = objects.put("b", "k", Bytes::new(), Condition::Matches(first.clone())).unwrap();
        assert_ne!(first, second);
        let stale = objects.put("b", "k", Bytes::new(), Condition::Matches(first));
        assert_eq!(stale, Err(Refusal::ConditionFailed));
        let absent = objects.put("b", "none", Bytes::new(), Condition::Matches(second));
        assert_eq!(absent, Err(Refusal::NoObject));
    }
}
