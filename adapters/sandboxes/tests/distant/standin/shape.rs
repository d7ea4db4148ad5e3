//! The shapes that a vendor published, checked to the letter: a field that is missing, unknown or of another type is an error.

use serde_json::Value;

#[derive(Clone, Copy)]
pub enum Kind {
    Text,
    Int,
    Bool,
    Texts,
    TextMap,
    TextMaps,
    One(&'static [Field]),
    Many(&'static [Field]),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A whole number or a text, as for a duration.
    IntOrText,
}

#[derive(Clone, Copy)]
pub struct Field {
    name: &'static str,
    kind: Kind,
    required: bool,
}

pub const fn need(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true }
}

pub const fn may(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false }
}

pub fn check(value: &Value, fields: &[Field]) -> Result<(), String> {
    let object = value.as_object().ok_or_else(|| format!("no object: {value}"))?;
    for name in object.keys() {
        if !fields.iter().any(|field| field.name == name) {
            return Err(format!("unknown field {name:?}"));
        }
    }
    for field in fields {
        match object.get(field.name) {
            None if field.required => return Err(format!("missing field {:?}", field.name)),
            None => {}
            Some(value) if fits(value, field.kind) => {}
            Some(value) => return Err(format!("{:?} is of another type: {value}", field.name)),
        }
    }
    Ok(())
}

fn fits(value: &Value, kind: Kind) -> bool {
    let texts = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    let text_map = |value: &Value| value.as_object().is_some_and(|map| map.values().all(Value::is_string));
    match kind {
        Kind::Text => value.is_string(),
        Kind::Int => value.is_i64() || value.is_u64(),
        Kind::Bool => value.is_boolean(),
        Kind::Texts => texts(value),
        Kind::TextMap => text_map(value),
        Kind::TextMaps => value.as_array().is_some_and(|list| list.iter().all(text_map)),
        Kind::One(fields) => check(value, fields).is_ok(),
        Kind::Many(fields) => value.as_array().is_some_and(|list| list.iter().all(|one| check(one, fields).is_ok())),
        Kind::OneOf(texts) => value.as_str().is_some_and(|text| texts.contains(&text)),
        Kind::IntOrText => value.is_u64() || value.is_string(),
    }
}

/// A query can say a thing twice only where that is published, which `repeated` names.
pub fn check_query(pairs: &[(String, String)], fields: &[Field], repeated: &[&str]) -> Result<(), String> {
    for (at, (name, value)) in pairs.iter().enumerate() {
        let field = fields.iter().find(|field| field.name == name).ok_or_else(|| format!("unknown parameter {name:?}"))?;
        let good = match field.kind {
            Kind::Int => value.parse::<i64>().is_ok(),
            Kind::Bool => value == "true" || value == "false",
            Kind::OneOf(texts) => texts.contains(&value.as_str()),
            Kind::Text | Kind::Texts | Kind::TextMap | Kind::TextMaps | Kind::One(_) | Kind::Many(_) | Kind::IntOrText => true,
        };
        if !good {
            return Err(format!("parameter {name:?} is of another type: {value:?}"));
        }
        if pairs[..at].iter().any(|(other, _)| other == name) && !repeated.contains(&name.as_str()) {
            return Err(format!("parameter {name:?} is there twice"));
        }
    }
    match fields.iter().find(|field| field.required && !pairs.iter().any(|(name, _)| name == field.name)) {
        Some(field) => Err(format!("missing parameter {:?}", field.name)),
        None => Ok(()),
    }
}
