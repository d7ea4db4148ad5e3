//! The SQLite database: a row is a record, and its table with the database's name is its file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, ToSql};

use super::log::{At, Log, PartAt, begin, state};
use super::tree;
use crate::artifact::{Artifact, Body};
use crate::fault::{Location, What};
use crate::seam::{Out, Record};
use crate::source::{Bundle, metadata, name};
use crate::value::{Path as ValuePath, Reader, Value};

/// Those of a session beside its messages, each with the column that names its owner. All rows of an owner are one state.
const BESIDE: [(&str, &str); 5] = [
    ("todo", "session_id"),
    ("session_share", "session_id"),
    ("session_message", "session_id"),
    ("session_input", "session_id"),
    ("session_context_epoch", "session_id"),
];

/// Those of its project.
const PROJECT: [(&str, &str); 3] = [("project", "id"), ("project_directory", "project_id"), ("permission", "project_id")];

/// Never writes, not even beside: a log that is not there is not made.
pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    let unreadable = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
    metadata(path).map_err(|error| rusqlite::Error::SqliteFailure(unreadable, Some(error.to_string())))?;
    let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let log = std::fs::metadata(format!("{}-wal", path.display())).is_ok_and(|it| it.len() > 0);
    let uri = format!("file:{escaped}?{}", if log { "mode=ro" } else { "mode=ro&immutable=1" });
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    // One snapshot for everything.
    connection.execute_batch("BEGIN")?;
    Ok(connection)
}

/// The ids of the sessions in a database; none if it cannot be read, which parsing will say.
pub(super) fn sessions(path: &Path) -> Vec<String> {
    let read = || {
        let connection = open(path)?;
        let mut query = connection.prepare("SELECT id FROM session")?;
        let ids: rusqlite::Result<Vec<String>> = query.query_map([], |row| row.get(0))?.collect();
        ids
    };
    read().unwrap_or_default()
}

pub(super) fn parse(bundle: &Bundle, out: &mut Out<'_>) {
    let file = bundle.main();
    if let Err(error) = Source::open(bundle).and_then(|source| source.parse(bundle, out)) {
        out.fault(Location { file: name(file), line: None }, What::Unreadable(error.to_string()));
    }
}

struct Source {
    connection: Connection,
    name: Arc<str>,
    tables: Vec<String>,
}

impl Source {
    fn open(bundle: &Bundle) -> rusqlite::Result<Self> {
        let connection = open(&bundle.root.join(bundle.main()))?;
        let tables = connection
            .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Self { connection, name: name(bundle.main()), tables })
    }

    fn parse(&self, bundle: &Bundle, out: &mut Out<'_>) -> rusqlite::Result<()> {
        let mut beside: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for file in bundle.files.iter().skip(1).filter(|file| file.extension().is_some_and(|it| it == "json")) {
            if let Some(super::discover::Seat::Beside(session)) = super::discover::seat(file) {
                beside.entry(session).or_default().push(file.clone());
            }
        }
        // By creation, so that a parent comes before its children.
        for info in self.rows(out, "session", "", "time_created, id", &[])? {
            let id = info.str(["id"]).unwrap_or_default().to_owned();
            let files = beside.remove(&id).unwrap_or_default();
            self.session(bundle, out, info, &id, &files)?;
        }
        Ok(())
    }

    fn session(&self, bundle: &Bundle, out: &mut Out<'_>, info: Record, id: &str, beside: &[PathBuf]) -> rusqlite::Result<()> {
        let messages = self.rows(out, "message", "session_id = ?1", "time_created, id", &[&id])?;
        let log = Log::new(At::row(), messages);
        let location = Location { file: self.place("session"), line: None };
        let Some(to) = begin(out, Some(&info), &ValuePath::root(), None, &log, None, location) else { return Ok(()) };
        let mut failed = Ok(());
        log.tell(out, to, &mut |out, message| {
            let of = message.str(["id"]).unwrap_or_default().to_owned();
            let rows = self.rows(out, "part", "message_id = ?1 AND session_id = ?2", "id", &[&of, &id]);
            let rows = rows.map_err(|error| failed = Err(error)).unwrap_or_default();
            rows.into_iter().map(|row| PartAt::Own(row, At::row())).collect()
        });
        failed?;
        let lost = "session_id = ?1 AND message_id NOT IN (SELECT id FROM message WHERE session_id = ?1)";
        let mut states = self.rows(out, "part", lost, "id", &[&id])?;
        let project = info.str(["project_id"]).unwrap_or_default().to_owned();
        let owned = BESIDE.iter().map(|it| (it, id)).chain(PROJECT.iter().map(|it| (it, project.as_str())));
        for ((table, column), owner) in owned {
            states.extend(self.all(out, table, &format!("{column} = ?1"), &[&owner])?);
        }
        states.push(info);
        states.extend(beside.iter().filter_map(|file| tree::record(bundle, out, file)));
        states.into_iter().for_each(|record| state(out, to, record));
        Ok(())
    }

    fn place(&self, table: &str) -> Arc<str> {
        format!("{}#{table}", self.name).into()
    }

    /// The rows of one owner as one record.
    fn all(&self, out: &mut Out<'_>, table: &str, of: &str, given: &[&dyn ToSql]) -> rusqlite::Result<Option<Record>> {
        let rows = self.rows(out, table, of, "rowid", given)?;
        let line = rows.first().and_then(|it| it.location().line).unwrap_or_default();
        let rows: Vec<_> = rows.iter().map(|row| row.look().clone()).collect();
        Ok((!rows.is_empty()).then(|| Record::new(Value::from(rows), self.place(table), line, 0)))
    }

    /// None of a table that this version does not have.
    fn rows(&self, out: &mut Out<'_>, table: &str, of: &str, order: &str, given: &[&dyn ToSql]) -> rusqlite::Result<Vec<Record>> {
        if !self.tables.iter().any(|it| it == table) {
            return Ok(Vec::new());
        }
        let only = if of.is_empty() { String::new() } else { format!("WHERE {of}") };
        let sql = format!("SELECT rowid, * FROM \"{table}\" {only} ORDER BY {order}");
        let mut query = self.connection.prepare_cached(&sql)?;
        let columns: Vec<String> = query.column_names().iter().skip(1).map(|it| (*it).to_owned()).collect();
        let mut rows = query.query(given)?;
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            let line = u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
            let location = Location { file: self.place(table), line: Some(line) };
            let value = value(row, &columns, &mut |what| out.fault(location.clone(), what));
            records.push(Record::new(value, location.file.clone(), line, records.len() as u64));
        }
        Ok(records)
    }
}

/// What messages and parts say is JSON in a text; a text that is none stays one.
fn value(row: &Row<'_>, columns: &[String], fault: &mut dyn FnMut(What)) -> Value {
    let mut fields = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        let value = match row.get_ref(index + 1) {
            Ok(ValueRef::Integer(number)) => Value::number(number),
            Ok(ValueRef::Real(number)) => real(number),
            Ok(ValueRef::Text(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) if column == "data" => data(text, fault),
                Ok(text) => Value::from(text),
                Err(_) => {
                    fault(What::NotUtf8);
                    Value::Null
                }
            },
            Ok(ValueRef::Null) => Value::Null,
            Ok(ValueRef::Blob(_)) | Err(_) => {
                fault(What::Unfit(format!("column {column} holds bytes")));
                Value::Null
            }
        };
        fields.push((column.clone(), value));
    }
    Value::Object(fields)
}

fn data(text: &str, fault: &mut dyn FnMut(What)) -> Value {
    match Reader::only(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Broken(_)) => Value::from(text),
        Err(malformed) => {
            fault(What::Malformed(malformed));
            Value::from(text)
        }
    }
}

fn real(number: f64) -> Value {
    if number.is_finite() { Value::number(number) } else { Value::number(if number > 0.0 { "9e999" } else { "-9e999" }) }
}

pub(super) fn originals(bundle: &Bundle) -> Vec<Artifact> {
    let mut ignored = |_| Ok(());
    let mut out = Out::new(super::ORIGIN, events::session::Timestamp::from_millis(0).expect("1970 is a year"), &mut ignored);
    let rows = Source::open(bundle).and_then(|source| {
        let mut rows = Vec::new();
        let tables = [("session", ""), ("message", ""), ("part", "")];
        let projects = PROJECT.map(|(table, column)| (table, format!("{column} IN (SELECT project_id FROM session)")));
        let all = tables.iter().map(|(table, of)| (*table, (*of).to_owned())).chain(projects);
        for (table, of) in all.chain(BESIDE.iter().map(|(table, _)| (*table, String::new()))) {
            let found = source.rows(&mut out, table, &of, "rowid", &[])?;
            rows.extend(found.into_iter().map(|row| (table.to_owned(), row.look().clone())));
        }
        Ok(rows)
    });
    let database = Artifact { path: name(bundle.main()).to_string(), body: Body::Rows(rows.unwrap_or_default()) };
    let beside = bundle.files.iter().filter(|file| file.extension().is_some_and(|it| it == "json")).cloned().collect();
    let mut artifacts = tree::originals(&Bundle { root: bundle.root.clone(), files: beside });
    artifacts.push(database);
    artifacts
}
