//! Does a client's session survive? Parse, restore natively, compare value by value, parse the result again.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use events::session::{Message, Session, SessionId, Timestamp};

use crate::artifact::{Artifact, Body};
use crate::fault::{Fault, Location, What};
use crate::lineage::Lineage;
use crate::opencode::rows;
use crate::registry::Codec;
use crate::seam::{Out, Parsed, Sink};
use crate::source::{Bundle, metadata, name};
use crate::value::Value;

#[cfg(test)]
mod tests;

/// What came out of one bundle.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Each with its messages, in the order of the source.
    pub sessions: Vec<(Session, Vec<Message>)>,
    pub faults: Vec<Fault>,
}

pub fn parse(codec: &Codec, bundle: &Bundle) -> io::Result<Contents> {
    let mut contents = Contents::default();
    let sessions = &mut contents.sessions;
    let mut sink = |parsed| {
        match parsed {
            Parsed::Session(session) => sessions.push((session, Vec::new())),
            Parsed::Message(id, message) => {
                let open = sessions.iter_mut().rev().find(|(session, _)| session.id == id);
                open.expect("a session comes before its messages").1.push(message);
            }
        }
        Ok(())
    };
    contents.faults = read(codec, bundle, &mut sink)?;
    Ok(contents)
}

/// Hands out what a bundle holds. The error is the sink's; what is wrong with the source is in the faults.
pub fn read<'a>(codec: &Codec, bundle: &Bundle, sink: &'a mut Sink<'a>) -> io::Result<Vec<Fault>> {
    let modified = match modified(bundle) {
        Ok(modified) => modified,
        Err(error) => {
            let location = Location { file: name(bundle.main()), line: None };
            return Ok(vec![Fault { adapter: codec.origin, location, what: What::Unreadable(error.to_string()) }]);
        }
    };
    let mut out = Out::new(codec.origin, modified, sink);
    codec.parse.parse(bundle, &mut out);
    out.finish()
}

/// When the source was last written, for what carries no moment of its own.
fn modified(bundle: &Bundle) -> io::Result<Timestamp> {
    let modified = metadata(&bundle.root.join(bundle.main()))?.modified()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).map_err(io::Error::other)?;
    let micros = i64::try_from(since.as_micros()).map_err(io::Error::other)?;
    Timestamp::from_micros(micros).map_err(io::Error::other)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub file: String,
    pub what: String,
}

/// Compares a source with its native restoration. `scratch` is an empty directory for the second parse.
pub fn check(codec: &Codec, bundle: &Bundle, scratch: &Path) -> io::Result<Vec<Difference>> {
    Ok(examine(codec, bundle, scratch)?.0)
}

/// The same, with what is wrong in the source.
pub fn examine(codec: &Codec, bundle: &Bundle, scratch: &Path) -> io::Result<(Vec<Difference>, Vec<Fault>)> {
    let first = parse(codec, bundle)?;
    let differences = differences(codec, bundle, scratch, &first)?;
    Ok((differences, first.faults))
}

fn differences(codec: &Codec, bundle: &Bundle, scratch: &Path, first: &Contents) -> io::Result<Vec<Difference>> {
    let main = bundle.main().to_string_lossy().into_owned();
    let different = |what: String| vec![Difference { file: main.clone(), what }];
    let mut restored = Vec::new();
    for lineage in lineages(first.sessions.clone()) {
        match codec.serialize.native(&lineage) {
            Ok(artifacts) => restored.extend(artifacts),
            Err(error) => return Ok(different(error.to_string())),
        }
    }
    let restored = merged(restored);
    // What was not read cannot come back.
    let unread = first.faults.iter().filter(|fault| matches!(fault.what, What::Unreadable(_) | What::LineTooLong { .. }));
    let unread = unread.map(|fault| Difference { file: fault.location.to_string(), what: fault.what.to_string() });
    let mut differences: Vec<_> = unread.collect();
    differences.extend(compare(&merged(codec.parse.originals(bundle)), &restored));
    for artifact in &restored {
        let path = scratch.join(&artifact.path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        match &artifact.body {
            Body::Rows(rows) => drop(rows::write(&path, rows, rows::Fresh::Bare).map_err(io::Error::other)?),
            body @ (Body::Lines(_) | Body::Json(_) | Body::Text(_) | Body::Bytes(_)) => {
                std::fs::write(&path, body.to_bytes().unwrap_or_default())?;
            }
        }
    }
    let again = Bundle { root: scratch.to_owned(), files: bundle.files.clone() };
    if modified(&again).is_ok() {
        let second = parse(codec, &again)?;
        let created = first.sessions.iter().zip(&second.sessions).all(|(one, two)| one.0.created_at == two.0.created_at);
        if created && first.sessions != second.sessions {
            differences.extend(different("the restored files parse to something else".to_owned()));
        }
    }
    Ok(differences)
}

/// The rows of one database are one artifact, in an order of their own; a row or file of several sessions is there once.
fn merged(artifacts: Vec<Artifact>) -> Vec<Artifact> {
    let mut merged: Vec<Artifact> = Vec::with_capacity(artifacts.len());
    let mut known: HashMap<String, usize> = HashMap::new();
    for artifact in artifacts {
        match (known.get(&artifact.path).map(|at| &mut merged[*at].body), artifact.body) {
            (Some(Body::Rows(rows)), Body::Rows(more)) => rows.extend(more),
            (Some(had), body) if *had == body => {}
            (Some(_) | None, body) => {
                known.insert(artifact.path.clone(), merged.len());
                merged.push(Artifact { path: artifact.path, body });
            }
        }
    }
    for artifact in &mut merged {
        if let Body::Rows(rows) = &mut artifact.body {
            rows.sort_by_cached_key(|(table, row)| (table.clone(), row.to_string()));
            rows.dedup();
        }
    }
    merged
}

/// Groups what came out of one bundle: those without a parent there, each with its children. One level deep: who hangs on a child
/// stands alone.
#[must_use]
pub fn lineages(sessions: Vec<(Session, Vec<Message>)>) -> Vec<Lineage> {
    let parents: HashMap<SessionId, Option<SessionId>> =
        sessions.iter().map(|(session, _)| (session.id.clone(), session.parent_session_id.clone())).collect();
    let parent = |of: &SessionId| parents.get(of)?.clone().filter(|it| parents.contains_key(it));
    let (mut roots, mut children) = (Vec::new(), BTreeMap::<SessionId, Vec<_>>::new());
    for (session, messages) in sessions {
        match parent(&session.id).filter(|it| parent(it).is_none()) {
            Some(parent) => children.entry(parent).or_default().push((session, messages)),
            None => roots.push((session, messages)),
        }
    }
    let lineage = |(session, messages): (Session, _)| {
        let children = children.remove(&session.id).unwrap_or_default();
        Lineage { session, messages, children, bases: Vec::new() }
    };
    roots.into_iter().map(lineage).collect()
}

fn compare(originals: &[Artifact], restored: &[Artifact]) -> Vec<Difference> {
    let by_path = |artifacts: &'_ [Artifact]| -> HashMap<String, usize> {
        artifacts.iter().enumerate().map(|(at, artifact)| (artifact.path.clone(), at)).collect()
    };
    let (known, made) = (by_path(originals), by_path(restored));
    let mut differences = Vec::new();
    for original in originals {
        let found = made.get(&original.path).map(|at| &restored[*at]);
        let what = match found.map(|found| (&original.body, &found.body)) {
            None => Some("is not restored".to_owned()),
            Some((Body::Lines(one), Body::Lines(two))) => lines(one, two),
            Some((Body::Json(one), Body::Json(two))) => (!one.same(two)).then(|| first_difference(one, two, "")),
            Some((Body::Text(one), Body::Text(two))) => (one != two).then(|| "has another text".to_owned()),
            Some((Body::Rows(one), Body::Rows(two))) => different_rows(one, two),
            Some((Body::Bytes(one), Body::Bytes(two))) => (one != two).then(|| "has other bytes".to_owned()),
            Some((Body::Lines(_) | Body::Json(_) | Body::Text(_) | Body::Bytes(_) | Body::Rows(_), _)) => {
                Some("has another form".to_owned())
            }
        };
        differences.extend(what.map(|what| Difference { file: original.path.clone(), what }));
    }
    for extra in restored.iter().filter(|artifact| !known.contains_key(&artifact.path)) {
        differences.push(Difference { file: extra.path.clone(), what: "was not there".to_owned() });
    }
    differences
}

fn lines(one: &[Value], two: &[Value]) -> Option<String> {
    let differing = one.iter().zip(two).position(|(one, two)| !one.same(two));
    match differing {
        Some(at) => Some(format!("record {}: {}", at + 1, first_difference(&one[at], &two[at], ""))),
        None => (one.len() != two.len()).then(|| format!("has {} records, not {}", two.len(), one.len())),
    }
}

fn different_rows(one: &[(String, Value)], two: &[(String, Value)]) -> Option<String> {
    let at = one.iter().zip(two).position(|(one, two)| one.0 != two.0 || !one.1.same(&two.1));
    match at {
        Some(at) => Some(format!("{} row {}: {}", one[at].0, at + 1, first_difference(&one[at].1, &two[at].1, ""))),
        None => (one.len() != two.len()).then(|| format!("has {} rows, not {}", two.len(), one.len())),
    }
}

/// Where two values part, in words.
fn first_difference(one: &Value, two: &Value, at: &str) -> String {
    match (one, two) {
        (Value::Object(fields), Value::Object(others)) => {
            for (key, value) in fields {
                match others.iter().find(|(other, _)| other == key) {
                    Some((_, other)) if value.same(other) => {}
                    Some((_, other)) => return first_difference(value, other, &format!("{at}/{key}")),
                    None => return format!("{at}/{key} is missing"),
                }
            }
            format!("{at} has more keys")
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let differing = items.iter().zip(others).position(|(one, two)| !one.same(two)).unwrap_or_default();
            first_difference(&items[differing], &others[differing], &format!("{at}/{differing}"))
        }
        _ => {
            let short = |value: &Value| value.to_string().chars().take(120).collect::<String>();
            format!("{at} is {}, was {}", short(two), short(one))
        }
    }
}
