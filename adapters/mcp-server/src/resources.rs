use queries::library::{
    Code, GetRequest, GetResponse, LONGEST, MOST_SESSIONS, PondError, SESSIONS, SearchRequest, SearchResponse, Stats,
};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::Pond;
use crate::render::{GET_LIMIT, SEARCH_LIMIT};
use crate::server::said;

const SCHEMA: &str = "schema://pond";
const STATS: &str = "stats://pond";
const NAMESPACE: &str = "stats://pond?namespace=";

const STATS_TELLS: &str = "How many sessions, messages and parts there are, and how many of them can be found";

pub(crate) fn all() -> Vec<Resource> {
    vec![
        Resource::new(SCHEMA, "schema")
            .with_title("What can be searched")
            .with_description("Fields, filters, scores and limits of the search, and the JSON Schema of requests and answers")
            .with_mime_type("text/markdown"),
        Resource::new(STATS, "stats")
            .with_title("What there is")
            .with_description(STATS_TELLS)
            .with_mime_type("application/json"),
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("stats://pond{?namespace}", "stats of a namespace")
            .with_description(STATS_TELLS)
            .with_mime_type("application/json"),
    ]
}

pub(crate) async fn read(pond: &dyn Pond, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let namespace = uri.strip_prefix(NAMESPACE).filter(|name| plain(name));
    let (text, kind) = match (uri, namespace) {
        (SCHEMA, _) => (schema(), "text/markdown"),
        (STATS, _) | (_, Some(_)) => {
            let stats = pond.stats(namespace).await.map_err(|error| refused(&error))?;
            (serde_json::to_string_pretty(&stats).unwrap_or_default(), "application/json")
        }
        (_, None) => return Err(ErrorData::resource_not_found(format!("there is no resource {uri:?}"), None)),
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(kind)]))
}

/// What needs no escape in an address.
fn plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

fn refused(error: &PondError) -> ErrorData {
    let data = Some(json!({ "code": error.code }));
    match error.code {
        Code::NotFound | Code::NamespaceUnknown => ErrorData::resource_not_found(said(error), data),
        Code::ValidationFailed | Code::VersionUnsupported => ErrorData::invalid_params(said(error), data),
        Code::StorageUnavailable | Code::Conflict | Code::Internal => ErrorData::internal_error(said(error), data),
    }
}

fn schema() -> String {
    let own = crate::input::SESSIONS;
    let (found, got) = (SEARCH_LIMIT >> 10, GET_LIMIT >> 10);
    format!(
        "\
# What can be searched

## Indexed

The conversation, message by message: the text that users wrote and assistants answered, and the names of files beside it. Every language
is treated alike. Not indexed, and so never found: reasoning, tool calls, tool results, approvals, system messages, and text that a client
put into the transcript by itself. `pond_get` tells all of these once the message is known.

## Fields

| field | meaning |
|---|---|
| `query` | 1 to {LONGEST} characters: words, an identifier, a path, an error as printed, or a question |
| `project` | exactly this project; with `*` at the end, all that begin so |
| `session_id` | this session only |
| `source_agent` | `claude-code`, `codex`, `opencode`, `pi`; `arbe` for threads |
| `role` | `user` or `assistant` |
| `since`, `until` | moments of messages, RFC 3339; the first is included, the second is not |
| `min_score` | only sessions that score at least this, 0 to 1 |
| `limit` | sessions in the answer, 1 to {MOST_SESSIONS}; {own} if left out here, {SESSIONS} over HTTP |
| `namespace` | whose sessions; the only ones there are if left out |

Filters hold before anything is ranked: a filter never makes an answer shorter than it need be.

## Scores

Messages are ranked by words and, where there are embeddings, by meaning as well (`mode` is then `hybrid`, else `keyword`); the server
decides which. Hits are grouped: one entry for each session with those that it spawned, and the best messages in it. A score lies between
0 and 1 and compares within one answer only. `newer_messages` counts what was said after the last match: it may supersede it.

## Sizes

The answer of a tool here is text of at most {found} KiB (`pond_search`) or {got} KiB (`pond_get`). What is left out is named in a line that begins
with `[…` and says how to get it. Contents of files and `options`, the bag of facts of the client, are counted, not shown. The same requests
as JSON, whole: `POST /v1/search` and `POST /v1/get`.

## JSON Schema

```json
{}
```
",
        serde_json::to_string_pretty(&types()).unwrap_or_default()
    )
}

fn types() -> Value {
    let mut asked = SchemaSettings::draft2020_12().into_generator();
    let mut told = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let schemas = json!({
        "SearchRequest": asked.subschema_for::<SearchRequest>(),
        "SearchResponse": told.subschema_for::<SearchResponse>(),
        "GetRequest": asked.subschema_for::<GetRequest>(),
        "GetResponse": told.subschema_for::<GetResponse>(),
        "Stats": told.subschema_for::<Stats>(),
        "ErrorCode": told.subschema_for::<Code>(),
    });
    let mut defs = serde_json::Map::new();
    for mut generator in [asked, told] {
        defs.extend(SchemaGenerator::take_definitions(&mut generator, true));
    }
    json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "properties": schemas, "$defs": defs })
}
