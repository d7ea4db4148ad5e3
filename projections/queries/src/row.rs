//! Decoding columns into typed values.

use std::str::FromStr;

use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use events::AgentId;

type Error = sqlx::Error;

/// Milliseconds are what events carry.
macro_rules! time {
    ($column:literal) => {
        crate::row::time!($column as $column)
    };
    ($moment:literal as $column:literal) => {
        concat!("to_char(", $moment, r#" at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "#, $column)
    };
}

/// What keyset pagination compares, exactly.
macro_rules! micros {
    ($column:literal) => {
        concat!("(extract(epoch from ", $column, ") * 1000000)::bigint as place_key")
    };
}

pub(crate) use {micros, time};

pub(crate) fn parsed<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(row: &PgRow, column: &str) -> Result<T, Error> {
    parse(row.try_get(column)?, column)
}

pub(crate) fn optional<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    row: &PgRow,
    column: &str,
) -> Result<Option<T>, Error> {
    row.try_get::<Option<&str>, _>(column)?.map(|text| parse(text, column)).transpose()
}

/// Of an array.
pub(crate) fn all<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    row: &PgRow,
    column: &str,
) -> Result<Vec<T>, Error> {
    row.try_get::<Vec<String>, _>(column)?.iter().map(|text| parse(text, column)).collect()
}

fn parse<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(text: &str, column: &str) -> Result<T, Error> {
    text.parse().map_err(|error| undecodable(column, error))
}

pub(crate) fn agent(row: &PgRow, column: &str) -> Result<AgentId, Error> {
    row.try_get::<Uuid, _>(column).map(AgentId)
}

pub(crate) fn optional_agent(row: &PgRow, column: &str) -> Result<Option<AgentId>, Error> {
    Ok(row.try_get::<Option<Uuid>, _>(column)?.map(AgentId))
}

/// A column that holds one of the words of an enum.
pub(crate) fn word<T: serde::de::DeserializeOwned>(row: &PgRow, column: &str) -> Result<T, Error> {
    let text: String = row.try_get(column)?;
    serde_json::from_value(serde_json::Value::String(text)).map_err(|error| undecodable(column, error))
}

pub(crate) fn undecodable(column: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::ColumnDecode { index: column.to_owned(), source: Box::new(error) }
}
