use serde_json::Value;

use super::Api;

fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    document["paths"]
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(_, item)| item.as_object().into_iter().flatten())
        .map(|(_, it)| it)
}

#[test]
fn every_answer_is_described_with_its_position() {
    let document: Value = serde_json::from_slice(&Api::new().document).unwrap();
    let unplaced = [
        "create_thread_token",
        "renew_thread_token",
        "read_thread_stream",
        "head_thread_stream",
        "read_stream",
        "head_stream",
        "pond_search",
        "pond_get",
        "pond_ingest",
    ];
    for operation in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        if unplaced.contains(&id) {
            continue;
        }
        let (_, done) = operation["responses"].as_object().unwrap().iter().find(|(status, _)| status.starts_with('2')).unwrap();
        let name = done["content"]["application/json"]["schema"]["$ref"].as_str().unwrap_or_else(|| panic!("{id}: {done}"));
        let schema = document.pointer(&name[1..]).unwrap();
        assert_eq!(schema["properties"]["position"]["type"], "integer", "{id}: {schema}");
        let listed = id.starts_with("list_") && !["list_keys", "list_projections"].contains(&id);
        assert_eq!(schema["properties"]["next"].is_object(), listed, "{id}: {schema}");
        assert!(schema["required"].as_array().unwrap().contains(&"position".into()), "{id}: {schema}");
    }
}

#[test]
fn parameters_are_never_null_and_those_of_the_path_are_required() {
    let document: Value = serde_json::from_slice(&Api::new().document).unwrap();
    for operation in operations(&document) {
        for parameter in operation["parameters"].as_array().unwrap() {
            assert!(!parameter["schema"].to_string().contains("null"), "{parameter}");
            assert!(parameter["in"] != "path" || parameter["required"] == true, "{parameter}");
        }
    }
}

#[test]
fn the_doors_of_sessions_are_described_with_the_shapes_of_their_own_schema() {
    let document: Value = serde_json::from_slice(&Api::new().document).unwrap();
    for (path, field) in [("/v1/search", "query"), ("/v1/get", "session_id"), ("/v1/ingest", "events")] {
        let operation = &document["paths"][path]["post"];
        let at = |content: &Value| {
            let name =
                content["content"]["application/json"]["schema"]["$ref"].as_str().unwrap_or_else(|| panic!("{path}: {content}"));
            document.pointer(&name[1..]).unwrap().clone()
        };
        assert!(at(&operation["requestBody"])["properties"][field].is_object(), "{path}");
        at(&operation["responses"]["200"]);
        for status in ["400", "401", "403", "404", "409", "500", "503"] {
            assert!(at(&operation["responses"][status])["properties"]["error"].is_object(), "{path} {status}");
        }
    }
}
