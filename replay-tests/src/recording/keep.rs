//! What the agents wrote, as if in `/srv/demo`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use codecs::value::{Reader, Value};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::words;
use crate::agents::{Agent, Home};

/// The tables of opencode's sessions, owners first; its accounts and credentials are beside them.
const TABLES: [&str; 8] = ["project", "project_directory", "permission", "session", "message", "part", "todo", "session_share"];

pub(super) fn sessions(agent: Agent, home: &Home, into: &Path) -> Result<()> {
    let (from, to) = match agent {
        Agent::ClaudeCode => (".claude/projects", "projects"),
        Agent::Codex => (".codex/sessions", "sessions"),
        Agent::Pi => (".pi/agent/sessions", "sessions"),
        Agent::Opencode => return database(home, into),
    };
    tree(&home.root().join(from), &into.join(to), home)
}

/// The project's and the home's names, also as the agents make names of files of them.
fn elsewhere(text: &str, home: &Home) -> String {
    let mut text = text.to_owned();
    for (here, there) in [(home.project(), "/srv/demo"), (home.root(), "/home/demo"), (home.aside().to_owned(), "/srv")] {
        let here = here.to_string_lossy().into_owned();
        let claude = |name: &str| name.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
        let pi = |name: &str| name.replace('/', "-");
        text = text.replace(&here, there).replace(&here[1..], &there[1..]);
        text = text.replace(&claude(&here), &claude(there)).replace(&pi(&here), &pi(there));
    }
    text
}

fn tree(from: &Path, to: &Path, home: &Home) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let to = to.join(elsewhere(&path.file_name().unwrap_or_default().to_string_lossy(), home));
        if path.is_dir() {
            tree(&path, &to, home)?;
            continue;
        }
        let text = elsewhere(&fs::read_to_string(&path)?, home);
        let kept = match path.extension().and_then(|it| it.to_str()) {
            Some("jsonl" | "json") => text.lines().map(|line| json(line).map(|it| it + "\n")).collect::<Result<String>>()?,
            _ => text.chars().take(100).collect(),
        };
        fs::write(to, kept)?;
    }
    Ok(())
}

fn json(text: &str) -> Result<String> {
    let mut value = Reader::only(text).ok().context("a line of JSON")?;
    words::replace(&mut value);
    Ok(value.to_string())
}

/// As the statements that make it.
fn database(home: &Home, into: &Path) -> Result<()> {
    let connection = Connection::open(home.root().join(".local/share/opencode/opencode.db"))?;
    let mut sql = "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n".to_owned();
    for table in TABLES {
        let made: String = connection.query_row("SELECT sql FROM sqlite_master WHERE name = ?1", [table], |row| row.get(0))?;
        sql += &format!("{made};\n");
        let mut query = connection.prepare(&format!("SELECT * FROM {table} ORDER BY rowid"))?;
        let width = query.column_count();
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let cells: Vec<_> = (0..width).map(|at| Ok(cell(row.get_ref(at)?, home))).collect::<Result<_>>()?;
            sql += &format!("INSERT INTO {table} VALUES({});\n", cells.join(","));
        }
    }
    fs::create_dir_all(into)?;
    fs::write(into.join("opencode.db.sql"), sql + "COMMIT;\n")?;
    Ok(())
}

fn cell(cell: ValueRef<'_>, home: &Home) -> String {
    match cell {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Blob(bytes) => format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        ValueRef::Text(bytes) => {
            let text = elsewhere(&String::from_utf8_lossy(bytes), home);
            let text = match Reader::only(&text) {
                Ok(Value::Object(_) | Value::Array(_)) => json(&text).unwrap_or(text),
                Ok(_) | Err(_) => text,
            };
            format!("'{}'", text.replace('\'', "''"))
        }
    }
}
