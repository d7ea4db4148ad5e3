//! The three tables of a namespace.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use lance::blob::blob_field;
use lance::deps::datafusion::arrow;

use crate::vectors::{MODEL, VECTOR};

/// Numbers of a vector where no model says otherwise.
pub const DIMENSIONS: i32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    Sessions,
    Messages,
    Parts,
}

/// How a column is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// Many values, ranges.
    Tree,
    /// Few values.
    Bitmap,
}

impl Table {
    pub const ALL: [Self; 3] = [Self::Sessions, Self::Messages, Self::Parts];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Messages => "messages",
            Self::Parts => "parts",
        }
    }

    /// `lance-table-creation-unenforced-pk`, led by the session (`lance-table-creation-session-scoped-pk`).
    pub(crate) fn schema(self) -> SchemaRef {
        static SCHEMAS: LazyLock<[SchemaRef; 3]> = LazyLock::new(|| [sessions(), messages(DIMENSIONS), parts()].map(versioned));
        SCHEMAS[self as usize].clone()
    }

    pub(crate) fn indexes(self) -> &'static [(&'static str, Index)] {
        match self {
            Self::Sessions => &[
                ("id", Index::Tree),
                ("parent_session_id", Index::Tree),
                ("created_at", Index::Tree),
                ("source_agent", Index::Bitmap),
                ("project", Index::Tree),
            ],
            Self::Messages => &[
                ("session_id", Index::Tree),
                ("id", Index::Tree),
                ("timestamp", Index::Tree),
                ("role", Index::Bitmap),
                ("source_agent", Index::Bitmap),
                ("project", Index::Tree),
                ("embedding_model", Index::Bitmap),
            ],
            Self::Parts => &[("session_id", Index::Tree), ("message_id", Index::Tree), ("type", Index::Bitmap)],
        }
    }
}

/// Messages with vectors of a width.
pub(crate) fn messages_with(width: i32) -> SchemaRef {
    if width == DIMENSIONS { Table::Messages.schema() } else { versioned(messages(width)) }
}

/// `lance-dataset-schema-version`
fn versioned(fields: Vec<Field>) -> SchemaRef {
    let metadata = HashMap::from([("arbe:schema-version".to_owned(), crate::VERSION.to_string())]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

pub(crate) fn number_of_a_vector() -> FieldRef {
    Arc::new(Field::new("item", DataType::Float16, true))
}

/// The columns that [`crate::vectors`] fills.
pub(crate) fn derived(width: i32) -> [Field; 2] {
    let vector = DataType::FixedSizeList(number_of_a_vector(), width);
    [Field::new(VECTOR, vector, true), optional(text(MODEL))]
}

fn with(field: Field, more: &[(&str, &str)]) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    field.with_metadata(metadata)
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

fn optional(field: Field) -> Field {
    field.with_nullable(true)
}

fn key(name: &str, place: usize) -> Field {
    let place = place.to_string();
    let key = ("lance-schema:unenforced-primary-key", "true");
    with(text(name), &[key, ("lance-schema:unenforced-primary-key:position", &place)])
}

fn large(name: &str) -> Field {
    with(text(name), &[("lance-encoding:compression", "zstd"), ("lance-encoding:compression-level", "3")])
}

/// Stored as JSONB.
fn json(name: &str) -> Field {
    with(large(name), &[("ARROW:extension:name", "arrow.json")])
}

fn moment(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false)
}

fn number(name: &str) -> Field {
    Field::new(name, DataType::UInt64, false)
}

/// What every row has besides: when it came into the log, and with which position of it.
fn origin() -> [Field; 2] {
    [moment("ingested_at"), number("position")]
}

fn sessions() -> Vec<Field> {
    let own = [
        key("id", 1),
        optional(text("parent_session_id")),
        optional(text("parent_message_id")),
        text("source_agent"),
        moment("created_at"),
        text("project"),
        json("options"),
    ];
    own.into_iter().chain(origin()).collect()
}

fn messages(width: i32) -> Vec<Field> {
    let [vector, model] = derived(width);
    let own = [
        key("session_id", 1),
        key("id", 2),
        number("seq"),
        moment("timestamp"),
        text("role"),
        text("source_agent"),
        text("project"),
        optional(large("content")),
        optional(large("search_text")),
        vector,
        model,
        json("options"),
    ];
    own.into_iter().chain(origin()).collect()
}

fn parts() -> Vec<Field> {
    let own = [
        key("session_id", 1),
        key("message_id", 2),
        key("id", 3),
        number("ordinal"),
        text("type"),
        text("provenance"),
        json("variant_data"),
        blob_field("data", true),
        json("options"),
    ];
    own.into_iter().chain(origin()).collect()
}
