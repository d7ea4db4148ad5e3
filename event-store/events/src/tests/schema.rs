use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::golden;
use crate::{KINDS, schema};

fn alternatives() -> Vec<Value> {
    schema().as_value()["oneOf"].as_array().unwrap().clone()
}

fn names(object: &Value) -> BTreeSet<String> {
    object.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn the_schema_has_one_alternative_for_every_kind_and_one_for_transcripts() {
    let alternatives = alternatives();
    assert_eq!(alternatives.len(), KINDS.len() + 1);
    for (kind, v) in KINDS {
        let of_kind = |a: &&Value| a["properties"]["type"]["const"] == *kind && a["properties"]["v"]["const"] == *v;
        assert_eq!(alternatives.iter().filter(of_kind).count(), 1, "{kind}");
    }
    let open: Vec<_> = alternatives.iter().filter(|a| a["properties"]["type"].get("const").is_none()).collect();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0]["properties"]["type"]["pattern"], "^pi\\..");
}

#[test]
fn the_schema_names_the_fields_of_every_fixture_and_no_others() {
    for alternative in alternatives() {
        let Some(kind) = alternative["properties"]["type"]["const"].as_str() else { continue };
        let v = alternative["properties"]["v"]["const"].as_u64().unwrap() as u32;
        let entry: Map<String, Value> = serde_json::from_str(&golden::fixture(kind, v).unwrap()).unwrap();
        for (schema, value) in
            [(&alternative, &Value::Object(entry.clone())), (&alternative["properties"]["payload"], &entry["payload"])]
        {
            assert_eq!(schema["additionalProperties"], false, "{kind}");
            let (allowed, present) = (names(&schema["properties"]), names(value));
            assert!(present.is_subset(&allowed), "{kind}: {present:?} in {allowed:?}");
            let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            assert!(required.iter().all(|name| present.contains(name.as_str().unwrap())), "{kind}: {required:?}");
        }
    }
}

#[test]
fn every_reference_in_the_schema_has_its_definition() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|child| references(child, found));
            }
            Value::Array(array) => array.iter().for_each(|child| references(child, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let schema = schema();
    let mut found = BTreeSet::new();
    references(schema.as_value(), &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(schema.as_value().pointer(pointer).is_some(), "{reference}");
    }
}
