//! Rows into a database that opencode opens.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::{Null, ToSqlOutput, Value as Sql};
use rusqlite::{Connection, ToSql, params_from_iter};

use crate::value::Value;

/// As opencode 1.18.33 makes it, with the migrations that led there; later versions go on from it.
const SCHEMA: &str = include_str!("schema.sql");

/// Owners come before what they own.
const ORDER: [&str; 3] = ["project", "session", "message"];

/// How a database is made that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// For opencode to open.
    Client,
    /// With the columns that the rows have, whatever version they are of.
    Bare,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub inserted: u64,
    /// Rows whose key was taken. They were left as they are.
    pub present: u64,
    /// Rows for which the database has no table or no column, by that name.
    pub unfit: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("nothing was written to the database")]
    NotWritten(#[from] rusqlite::Error),
}

/// All rows or none; what is there is never written over.
pub fn write(path: &Path, rows: &[(String, Value)], fresh: Fresh) -> Result<Written, WriteError> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let change = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    match fresh {
        Fresh::Client if columns(&change, "session")?.is_empty() => change.execute_batch(SCHEMA)?,
        Fresh::Bare => change.execute_batch(&bare(rows))?,
        Fresh::Client => {}
    }
    let mut sorted: Vec<_> = rows.iter().collect();
    sorted.sort_by_key(|(table, _)| ORDER.iter().position(|it| it == table).unwrap_or(ORDER.len()));
    let mut written = Written::default();
    for (table, row) in sorted {
        let known = columns(&change, table)?;
        if let Some((lacking, _)) = row.fields().iter().find(|(name, value)| *value != Value::Null && !known.contains(name)) {
            written.unfit.push(format!("{table}.{lacking}"));
            continue;
        }
        let fields: Vec<_> = row.fields().iter().filter(|(name, _)| known.contains(name)).collect();
        let names: Vec<_> = fields.iter().map(|(name, _)| quoted(name)).collect();
        let places = vec!["?"; names.len()].join(", ");
        let sql = format!("INSERT INTO {} ({}) VALUES ({places}) ON CONFLICT DO NOTHING", quoted(table), names.join(", "));
        let inserted = change.prepare_cached(&sql)?.execute(params_from_iter(fields.iter().map(|(_, value)| Cell(value))))?;
        written.inserted += inserted as u64;
        written.present += u64::from(inserted == 0);
    }
    change.commit()?;
    Ok(written)
}

fn bare(rows: &[(String, Value)]) -> String {
    let mut tables: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (table, row) in rows {
        let columns = tables.entry(table).or_default();
        for name in row.fields().iter().map(|(name, _)| quoted(name)) {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
    }
    tables.iter().map(|(table, columns)| format!("CREATE TABLE {} ({});", quoted(table), columns.join(", "))).collect()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut query = connection.prepare_cached("SELECT name FROM pragma_table_info(?1)")?;
    query.query_map([table], |row| row.get(0))?.collect()
}

struct Cell<'a>(&'a Value);

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Null => ToSqlOutput::from(Null),
            Value::Bool(is) => ToSqlOutput::from(*is),
            Value::Number(text) => match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(number), _) => ToSqlOutput::from(number),
                (Err(_), Ok(number)) => ToSqlOutput::from(number),
                (Err(_), Err(_)) => ToSqlOutput::Owned(Sql::Text(text.to_string())),
            },
            Value::String(text) => ToSqlOutput::from(text.as_str()),
            json @ (Value::Broken(_) | Value::Array(_) | Value::Object(_)) => ToSqlOutput::Owned(Sql::Text(json.to_string())),
        })
    }
}
