//! opencode.

mod damage;
mod database;
mod foreign;
mod log;
mod provenance;
mod round_trip;

use std::path::Path;

use codecs::check::Contents;
use codecs::registry::Codec;
use codecs::source::Bundle;
use events::session::Message;
use serde_json::{Value, json};

use crate::support::{fixtures, survive, write};

const SESSION: &str = "ses_1";

fn codec() -> &'static Codec {
    crate::support::codec("opencode")
}

fn bundles(home: &Path) -> Vec<Bundle> {
    codec().parse.discover(home).unwrap()
}

fn parse(home: &Path) -> Contents {
    crate::support::parse(codec(), home)
}

fn assert_survives(home: &Path) {
    survive(codec(), home);
}

fn session(id: &str, more: Value) -> String {
    let mut session = json!({"id": id, "projectID": "p", "directory": "/srv/demo", "title": "Adding", "version": "1.1.34",
        "time": {"created": 1_000, "updated": 9_000}});
    session.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    session.to_string()
}

fn user(id: &str, created: u64) -> Value {
    json!({"id": id, "sessionID": SESSION, "role": "user", "time": {"created": created}, "agent": "build"})
}

fn assistant(id: &str, created: u64, completed: Option<u64>) -> Value {
    let time = completed.map_or(json!({"created": created}), |completed| json!({"created": created, "completed": completed}));
    json!({"id": id, "sessionID": SESSION, "role": "assistant", "time": time, "modelID": "m-1", "providerID": "anthropic",
        "tokens": {"input": 3, "output": 5}, "cost": 0.217_131_999_999_999_94, "finish": "stop"})
}

/// A home of 1.1.34 with one session of these messages, each with its parts.
fn home(messages: &[(Value, Vec<Value>)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), &format!("storage/session/p/{SESSION}.json"), session(SESSION, json!({})));
    for (message, parts) in messages {
        put(home.path(), message, parts);
    }
    home
}

fn put(home: &Path, message: &Value, parts: &[Value]) {
    let id = message["id"].as_str().unwrap();
    write(home, &format!("storage/message/{}/{id}.json", message["sessionID"].as_str().unwrap()), message.to_string());
    for (index, part) in parts.iter().enumerate() {
        let mut whole = json!({"id": format!("prt_{id}_{index}"), "messageID": id, "sessionID": message["sessionID"]});
        whole.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        write(home, &format!("storage/part/{id}/prt_{id}_{index}.json"), whole.to_string());
    }
}

/// Records that are no messages are left out.
fn told(messages: &[Message]) -> Vec<String> {
    crate::support::told(messages).into_iter().filter(|it| !it.starts_with("system")).collect()
}

/// A recorded home, laid out as opencode does; databases are kept as the statements that make them.
pub fn recorded(fixture: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(|it| it.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap();
            if entry.is_dir() {
                copy(&entry, &to.join(name));
            } else if let Some(database) = name.strip_suffix(".sql") {
                let connection = rusqlite::Connection::open(to.join(database)).unwrap();
                connection.execute_batch(&std::fs::read_to_string(&entry).unwrap()).unwrap();
            } else {
                std::fs::copy(&entry, to.join(name)).unwrap();
            }
        }
    }
    let home = tempfile::tempdir().unwrap();
    copy(fixture, home.path());
    home
}
