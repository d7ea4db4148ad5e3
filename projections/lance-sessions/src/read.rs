//! Reading sessions, messages and parts back, always through an index of the session.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float16Type, TimestampMicrosecondType, UInt64Type};
use events::session::{MessageId, Options, Provenance, Role, Session, SessionId, Timestamp};
use events::{HouseId, Json};
use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::scanner::{ColumnOrdering, Scanner};
use lance::datatypes::BlobHandling;
use lance::deps::datafusion::arrow;

use crate::copies::{self, Datasets};
use crate::error::DatasetError;
use crate::json;
use crate::schema::Table;
use crate::substrate::{Substrate, scan, told};

/// A message without its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub session_id: SessionId,
    pub id: MessageId,
    /// Its place in the session.
    pub seq: u64,
    pub timestamp: Timestamp,
    pub role: Role,
    /// Of a system message.
    pub content: Option<String>,
    pub search_text: Option<String>,
    pub options: Json,
}

/// A part as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub message_id: MessageId,
    pub id: String,
    pub ordinal: u64,
    pub kind: String,
    pub provenance: Provenance,
    /// The fields that only its kind has, as one object.
    pub variant: Json,
    /// What a file holds: base64, or where it is to be had, as `data_kind` in the variant says.
    pub data: Option<String>,
    pub options: Json,
}

/// Which messages of a session, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Only those with a place from here on.
    pub from: u64,
    /// Only those with a place below.
    pub below: Option<u64>,
    /// Only those in which somebody says something.
    pub said: bool,
    pub at_most: Option<u64>,
    /// The last of them rather than the first.
    pub last: bool,
}

type Fault = DatasetError;

pub(crate) fn fault(error: lance::Error) -> Fault {
    told(error, 1)
}

/// A text as a literal of a filter.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(crate) fn damaged(what: &dyn std::fmt::Display) -> Fault {
    DatasetError::Damaged(what.to_string())
}

/// The rows of one batch by the names of their columns.
pub(crate) struct Columns(RecordBatch);

impl Columns {
    fn column(&self, name: &str) -> Result<&dyn Array, Fault> {
        self.0.column_by_name(name).map(AsRef::as_ref).ok_or_else(|| damaged(&format!("there is no column {name}")))
    }

    fn text(&self, name: &str, row: usize) -> Result<Option<String>, Fault> {
        let column = self.column(name)?;
        if column.is_null(row) {
            return Ok(None);
        }
        let text = column.as_string_opt::<i32>().map(|texts| texts.value(row).to_owned());
        text.or_else(|| column.as_string_opt::<i64>().map(|texts| texts.value(row).to_owned()))
            .or_else(|| column.as_binary_opt::<i64>().and_then(|bytes| String::from_utf8(bytes.value(row).to_vec()).ok()))
            .ok_or_else(|| damaged(&format!("{name} is no text")))
            .map(Some)
    }

    pub fn required(&self, name: &str, row: usize) -> Result<String, Fault> {
        self.text(name, row)?.ok_or_else(|| damaged(&format!("{name} is null")))
    }

    pub fn parsed<T: std::str::FromStr>(&self, name: &str, row: usize) -> Result<T, Fault>
    where
        T::Err: std::fmt::Display,
    {
        self.required(name, row)?.parse().map_err(|error| damaged(&format_args!("{name}: {error}")))
    }

    pub fn number(&self, name: &str, row: usize) -> Result<u64, Fault> {
        let numbers = self.column(name)?.as_primitive_opt::<UInt64Type>();
        numbers.map(|numbers| numbers.value(row)).ok_or_else(|| damaged(&format!("{name} is no number")))
    }

    pub fn vector(&self, name: &str, row: usize) -> Result<Vec<f32>, Fault> {
        let vectors = self.column(name)?.as_fixed_size_list_opt();
        let vector = vectors.filter(|vectors| vectors.is_valid(row)).map(|vectors| vectors.value(row));
        let numbers = vector.as_ref().and_then(|vector| vector.as_primitive_opt::<Float16Type>());
        let numbers = numbers.ok_or_else(|| damaged(&format!("{name} is no vector")))?;
        Ok(numbers.values().iter().map(|number| number.to_f32()).collect())
    }

    pub fn moment(&self, name: &str, row: usize) -> Result<Timestamp, Fault> {
        let moments = self.column(name)?.as_primitive_opt::<TimestampMicrosecondType>();
        let micros = moments.map(|moments| moments.value(row)).ok_or_else(|| damaged(&format!("{name} is no moment")))?;
        Timestamp::from_micros(micros).map_err(|error| damaged(&error))
    }

    fn json(&self, name: &str, row: usize) -> Result<Json, Fault> {
        Json::parse(&json::unpack(&self.required(name, row)?)).map_err(|error| damaged(&error))
    }

    pub fn decoded<T: serde::de::DeserializeOwned>(&self, name: &str, row: usize) -> Result<T, Fault> {
        let text = serde_json::Value::String(self.required(name, row)?);
        serde_json::from_value(text).map_err(|error| damaged(&format_args!("{name}: {error}")))
    }

    fn session(&self, row: usize) -> Result<Session, Fault> {
        let parent_session_id = self.text("parent_session_id", row)?.map(|id| SessionId::new(&id)).transpose();
        let parent_message_id = self.text("parent_message_id", row)?.map(|id| MessageId::new(&id)).transpose();
        let options: Options = self.json("options", row)?.decode().map_err(|error| damaged(&error))?;
        Ok(Session {
            id: self.parsed("id", row)?,
            parent_session_id: parent_session_id.map_err(|error| damaged(&error))?,
            parent_message_id: parent_message_id.map_err(|error| damaged(&error))?,
            source_agent: self.required("source_agent", row)?,
            created_at: self.moment("created_at", row)?,
            project: self.required("project", row)?,
            options,
        })
    }

    fn message(&self, row: usize) -> Result<Message, Fault> {
        Ok(Message {
            session_id: self.parsed("session_id", row)?,
            id: self.parsed("id", row)?,
            seq: self.number("seq", row)?,
            timestamp: self.moment("timestamp", row)?,
            role: self.decoded("role", row)?,
            content: self.text("content", row)?,
            search_text: self.text("search_text", row)?,
            options: self.json("options", row)?,
        })
    }

    fn part(&self, row: usize) -> Result<Part, Fault> {
        Ok(Part {
            message_id: self.parsed("message_id", row)?,
            id: self.required("id", row)?,
            ordinal: self.number("ordinal", row)?,
            kind: self.required("type", row)?,
            provenance: self.decoded("provenance", row)?,
            variant: self.json("variant_data", row)?,
            data: self.text("data", row)?,
            options: self.json("options", row)?,
        })
    }
}

pub(crate) async fn collect<T>(scanner: &Scanner, row: impl Fn(&Columns, usize) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    let mut batches = scanner.try_into_stream().await.map_err(fault)?;
    let mut rows = Vec::new();
    while let Some(batch) = batches.try_next().await.map_err(fault)? {
        let columns = Columns(batch);
        for n in 0..columns.0.num_rows() {
            rows.push(row(&columns, n)?);
        }
    }
    Ok(rows)
}

const MESSAGE: [&str; 8] = ["session_id", "id", "seq", "timestamp", "role", "content", "search_text", "options"];
const PART: [&str; 8] = ["message_id", "id", "ordinal", "type", "provenance", "variant_data", "data", "options"];

impl Datasets {
    /// A table as it is now, and where it is.
    pub(crate) async fn table(&self, house: &HouseId, table: Table) -> Result<Option<(Arc<Substrate>, Dataset)>, Fault> {
        let Some(substrate) = self.serving()? else { return Ok(None) };
        let dataset = match substrate.table(house, table).await? {
            Some(dataset) => Some(dataset),
            // Its feeder may just have made it.
            None => match copies::missed(&substrate, house, table) {
                Ok(()) => None,
                Err(gone) => Some(substrate.table(house, table).await?.ok_or(gone)?),
            },
        };
        Ok(dataset.map(|dataset| (substrate, dataset)))
    }

    async fn scan(&self, house: &HouseId, table: Table) -> Result<Option<Scanner>, Fault> {
        Ok(self.table(house, table).await?.map(|(_, dataset)| scan(&dataset)))
    }

    pub async fn session(&self, house: &HouseId, id: &SessionId) -> Result<Option<Session>, Fault> {
        let Some(mut scanner) = self.scan(house, Table::Sessions).await? else { return Ok(None) };
        scanner.filter(&format!("id = {}", literal(id.as_str()))).map_err(fault)?;
        Ok(collect(&scanner, Columns::session).await?.into_iter().next())
    }

    /// How many sessions each client has.
    pub async fn clients(&self, house: &HouseId) -> Result<BTreeMap<String, u64>, Fault> {
        let mut clients = BTreeMap::new();
        let Some(mut scanner) = self.scan(house, Table::Sessions).await? else { return Ok(clients) };
        scanner.project(&["source_agent"]).map_err(fault)?;
        for client in collect(&scanner, |columns, row| columns.required("source_agent", row)).await? {
            *clients.entry(client).or_default() += 1;
        }
        Ok(clients)
    }

    /// Messages of a session in order.
    pub async fn messages(&self, house: &HouseId, session: &SessionId, which: Around) -> Result<Vec<Message>, Fault> {
        // Lance cannot look for nothing.
        if which.at_most == Some(0) {
            return Ok(Vec::new());
        }
        let Some(mut scanner) = self.scan(house, Table::Messages).await? else { return Ok(Vec::new()) };
        scanner.filter(&which.filter(session)).map_err(fault)?.project(&MESSAGE).map_err(fault)?;
        let order =
            if which.last { ColumnOrdering::desc_nulls_last("seq".into()) } else { ColumnOrdering::asc_nulls_last("seq".into()) };
        scanner.order_by(Some(vec![order])).map_err(fault)?;
        let most = which.at_most.and_then(|most| i64::try_from(most).ok());
        scanner.limit(most, None).map_err(fault)?;
        let mut messages = collect(&scanner, Columns::message).await?;
        if which.last {
            messages.reverse();
        }
        Ok(messages)
    }

    /// How many messages [`Self::messages`] would find.
    pub async fn count(&self, house: &HouseId, session: &SessionId, which: Around) -> Result<u64, Fault> {
        let Some(mut scanner) = self.scan(house, Table::Messages).await? else { return Ok(0) };
        scanner.filter(&which.filter(session)).map_err(fault)?.empty_project().map_err(fault)?.with_row_id();
        scanner.count_rows().await.map_err(fault)
    }

    /// Every message of an id, in whatever session; ids are unique within one only.
    pub async fn message(&self, house: &HouseId, id: &MessageId, session: Option<&SessionId>) -> Result<Vec<Message>, Fault> {
        let Some(mut scanner) = self.scan(house, Table::Messages).await? else { return Ok(Vec::new()) };
        let session = session.map(|session| format!(" and session_id = {}", literal(session.as_str()))).unwrap_or_default();
        let filter = format!("id = {}{session}", literal(id.as_str()));
        scanner.filter(&filter).map_err(fault)?.project(&MESSAGE).map_err(fault)?;
        collect(&scanner, Columns::message).await
    }

    /// The parts of some messages of a session, by message and place.
    pub async fn parts(&self, house: &HouseId, session: &SessionId, of: &[MessageId]) -> Result<Vec<Part>, Fault> {
        let Some(mut scanner) = self.scan(house, Table::Parts).await? else { return Ok(Vec::new()) };
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<_> = of.iter().map(|id| literal(id.as_str())).collect();
        let filter = format!("session_id = {} and message_id in ({})", literal(session.as_str()), ids.join(", "));
        scanner.filter(&filter).map_err(fault)?.project(&PART).map_err(fault)?.blob_handling(BlobHandling::AllBinary);
        let mut parts = collect(&scanner, Columns::part).await?;
        parts.sort_by_key(|part| part.ordinal);
        Ok(parts)
    }
}

impl Around {
    fn filter(&self, session: &SessionId) -> String {
        let mut filter = format!("session_id = {} and seq >= {}", literal(session.as_str()), self.from);
        if let Some(below) = self.below {
            filter.push_str(&format!(" and seq < {below}"));
        }
        if self.said {
            filter.push_str(" and search_text is not null");
        }
        filter
    }
}
