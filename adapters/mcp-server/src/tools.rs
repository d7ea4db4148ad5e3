use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::{GetInput, SearchInput};

pub(crate) const SEARCH: &str = "pond_search";
pub(crate) const GET: &str = "pond_get";

const SEARCH_TELLS: &str = "\
Searches past sessions of coding agents: what users asked and what assistants answered, in any project and from any client. Use it \
before work that may have been done, decided or debugged before, and whenever the user refers to an earlier conversation.

How to ask: a few distinctive keywords; an exact identifier, function, path or flag; an error as it was printed; or a short question in \
the language it was discussed in. Fewer words find more. Narrow by project, source_agent, role, since and until rather than by more \
words. Tool calls, tool results and reasoning are not searched.

The answer: sessions, the best first, each with the messages that match, under lines with ids; indented lines are quoted. Scores \
compare within one answer only. No session means that nobody said these words, not that it never happened: try other words, or fewer. \
What was said may be superseded: if newer_messages is not 0, or a later session has the same topic, read on before relying on it.

To go on: pond_get with the session_id and message_id of a match shows the whole message and what stands around it; pond_get with \
session_id alone reads the session.";

const GET_TELLS: &str = "\
Reads a past session, or one message of it with what stands around it. Use it after pond_search, with the ids of its answer, or with \
ids that the user gave.

One message: message_id, better with session_id, because message ids are unique only within their session. All parts of it are told, \
as tool calls and their results, and context_depth messages before and after it.

A session: session_id alone. response_mode conversational (the default) tells what people and models said; complete adds every other \
message; verbatim adds what tools were asked and what they answered, which is long.

Answers are cut to a size. A line `[… N messages more; pond_get … after_id=…]` says how to go on: ask again with that after_id and \
otherwise the same. `[… N bytes more; pond_get session_id=… message_id=…]` stands where a long text was cut. Indented lines are quoted.";

pub(crate) fn all() -> Vec<Tool> {
    vec![
        tool::<SearchInput>(SEARCH, "Search past sessions", SEARCH_TELLS),
        tool::<GetInput>(GET, "Read a past session", GET_TELLS),
    ]
}

fn tool<T: JsonSchema>(name: &'static str, title: &'static str, tells: &'static str) -> Tool {
    let hints = ToolAnnotations::with_title(title).read_only(true).destructive(false).idempotent(true).open_world(false);
    Tool::new(name, tells, schema::<T>()).with_title(title).with_annotations(hints)
}

/// Without references: not every client follows them. Without the name of our type, which tells a model nothing, without `null` as a
/// default of what may be left out, and without formats such as `uint32`, which some clients refuse.
fn schema<T: JsonSchema>() -> Arc<JsonObject> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        fields.values_mut().filter_map(Value::as_object_mut).for_each(|field| {
            field.remove("default");
            field.remove("format");
        });
    }
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}
