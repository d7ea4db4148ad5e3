//! opencode's own sessions back into the form they had.

use std::collections::{BTreeMap, HashMap};

use crate::artifact::{Artifact, Body};
use crate::lineage::Lineage;
use crate::restore::{Placed, RestoreError, records};
use crate::value::{Path, Value};

pub(super) fn native(lineage: &Lineage) -> Result<Vec<Artifact>, RestoreError> {
    let mut artifacts = Vec::new();
    let mut databases: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
    for (file, placed) in records(lineage)? {
        match file.split_once('#') {
            Some((database, table)) => {
                let rows = databases.entry(database.to_owned()).or_default();
                let values = latest(placed, row_key)
                    .into_iter()
                    .flat_map(|value| if matches!(value, Value::Array(_)) { value.items().to_vec() } else { vec![value] });
                rows.extend(values.map(|value| (table.to_owned(), value)));
            }
            None if placed.iter().any(|it| is_export(&it.value)) => artifacts.push(export(file, placed)),
            None => {
                let last = latest(placed, |_| String::new()).pop();
                artifacts.extend(last.map(|value| Artifact { path: file, body: Body::Json(value) }));
            }
        }
    }
    artifacts.extend(databases.into_iter().map(|(path, rows)| Artifact { path, body: Body::Rows(rows) }));
    Ok(artifacts)
}

/// One record for every key: the last, but no state of what became a message.
fn latest(placed: Vec<Placed>, key: fn(&Placed) -> String) -> Vec<Value> {
    let mut kept: Vec<Placed> = Vec::with_capacity(placed.len());
    let mut at: HashMap<String, usize> = HashMap::new();
    for one in placed {
        match at.get(&key(&one)) {
            Some(at) if one.state && !kept[*at].state => {}
            Some(at) => kept[*at] = one,
            None => {
                at.insert(key(&one), kept.len());
                kept.push(one);
            }
        }
    }
    kept.into_iter().map(|it| it.value).collect()
}

/// Tables kept as one state for each owner are told apart by it.
fn row_key(Placed { value, .. }: &Placed) -> String {
    let row = value.items().first().unwrap_or(value);
    let keys: &[&str] = if matches!(value, Value::Array(_)) { &["session_id", "project_id", "id"] } else { &["id"] };
    keys.iter().find_map(|key| row.get(key)).map(Value::to_string).unwrap_or_default()
}

pub(super) fn is_export(value: &Value) -> bool {
    value.get("info").is_some() && matches!(value.get("messages"), Some(Value::Array(_)))
}

fn export(path: String, placed: Vec<Placed>) -> Artifact {
    let (envelopes, messages): (Vec<_>, Vec<_>) = placed.into_iter().partition(|it| it.n == 0);
    let message_key = |it: &Placed| format!("{} {:?}", it.n, it.value.at(&Path::from(["info", "id"])));
    let mut whole = latest(envelopes, |_| String::new()).pop().unwrap_or(Value::Null);
    if let Some(hole) = whole.at_mut(&Path::from(["messages"])) {
        *hole = Value::from(latest(messages, message_key));
    }
    Artifact { path, body: Body::Json(whole) }
}
