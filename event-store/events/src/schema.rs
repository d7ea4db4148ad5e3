use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::ids::{AgentId, EventId};
use crate::registry;

/// The JSON Schema (2020-12) of an entry, one alternative per kind and version.
#[must_use]
pub fn schema() -> Schema {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let payloads = registry::payload_schemas(&mut generator);
    let known = payloads.into_iter().map(|(kind, v, payload)| {
        entry(&mut generator, kind, &json_schema!({ "const": kind }), &json_schema!({ "const": v }), &payload)
    });
    let mut entries: Vec<Schema> = known.collect();
    let pi = json_schema!({ "type": "string", "pattern": "^pi\\.." });
    let version = generator.subschema_for::<u32>();
    entries.push(entry(&mut generator, "pi.*", &pi, &version, &true.into()));
    let definitions = generator.take_definitions(true);
    json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Entry",
        "oneOf": entries,
        "$defs": definitions,
    })
}

fn entry(generator: &mut SchemaGenerator, title: &str, kind: &Schema, v: &Schema, payload: &Schema) -> Schema {
    json_schema!({
        "title": title,
        "type": "object",
        "properties": {
            "id": generator.subschema_for::<EventId>(),
            "ts": generator.subschema_for::<u64>(),
            "type": kind,
            "v": v,
            "author_agent_id": generator.subschema_for::<Option<AgentId>>(),
            "payload": payload,
        },
        "required": ["id", "ts", "type", "v", "payload"],
        "additionalProperties": false,
    })
}
