//! One database, as from 1.2 on.

use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::Plan;

const SCHEMA: &str = include_str!("../../../../fixtures/sessions/opencode/1.2.27/opencode.db.sql");
/// The client has these as well; the fixture does without.
const INDEXES: &str = "CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id); \
                       CREATE INDEX part_message_id_id_idx ON part (message_id, id); \
                       CREATE INDEX part_session_idx ON part (session_id); \
                       CREATE INDEX todo_session_idx ON todo (session_id);";
const EMPTY: &str = "DELETE FROM part; DELETE FROM message; DELETE FROM todo; DELETE FROM session_share; DELETE FROM session;";
const PROJECT: &str = "2501278f768fb47a3bc9cc9eb72bd3a5060d2f86";
/// The rows of a session that are carried beside its messages: its own and its project's.
const BESIDE: u64 = 2;

/// The client's own tables, empty but for a project.
pub(super) fn database(home: &Path) -> anyhow::Result<Connection> {
    let directory = home.join(".local/share/opencode");
    std::fs::create_dir_all(&directory)?;
    let database = Connection::open(directory.join("opencode.db"))?;
    database.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    for batch in [SCHEMA, EMPTY, INDEXES] {
        database.execute_batch(batch)?;
    }
    Ok(database)
}

pub(super) fn insert(database: &mut Connection, plan: &mut Plan) -> anyhow::Result<()> {
    let writing = database.transaction()?;
    let id = format!("ses_{}", plan.words.hex(26));
    let (begun, ended) = (plan.millis(0), plan.millis(plan.length));
    writing.execute(
        "INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated) \
         VALUES (?1, ?2, ?3, ?4, ?5, '1.2.27', ?6, ?7)",
        params![id, PROJECT, plan.words.hex(8), plan.project, plan.words.text(5), begun, ended],
    )?;
    let mut asked = String::new();
    for at in 0..plan.length - BESIDE {
        let (time, message) = (plan.millis(at), format!("msg_{:012x}{}", at, plan.words.hex(14)));
        let (data, parts) = if at % 2 == 0 { ask(plan, time) } else { answer(plan, time, &asked) };
        if at % 2 == 0 {
            asked.clone_from(&message);
        }
        let data = data.to_string();
        writing.execute("INSERT INTO message VALUES (?1, ?2, ?3, ?3, ?4)", params![message, id, time, data])?;
        for (place, part) in parts.iter().enumerate() {
            let name = format!("prt_{:010x}{place:02x}{}", at, plan.words.hex(14));
            writing.execute(
                "INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
                params![name, message, id, time, part.to_string()],
            )?;
        }
    }
    Ok(writing.commit()?)
}

fn ask(plan: &mut Plan, time: u64) -> (Value, Vec<Value>) {
    let model = json!({ "providerID": "anthropic", "modelID": "claude-opus-4-5" });
    let data = json!({ "role": "user", "time": { "created": time }, "agent": "build", "model": model });
    (data, vec![json!({ "type": "text", "text": plan.asked() })])
}

fn answer(plan: &mut Plan, time: u64, asked: &str) -> (Value, Vec<Value>) {
    let times = json!({ "created": time, "completed": time + 900 });
    let tokens = json!({ "input": plan.words.below(9_000), "output": plan.words.below(900), "reasoning": 0,
        "cache": { "read": 0, "write": 0 } });
    let data = json!({ "role": "assistant", "time": times, "parentID": asked, "modelID": "claude-opus-4-5", "providerID": "anthropic",
        "mode": "build", "agent": "build", "path": { "cwd": plan.project, "root": plan.project }, "cost": 0.21713199999999994,
        "tokens": tokens, "finish": "tool-calls" });
    let span = json!({ "start": time, "end": time + 1 });
    let state = json!({ "status": "completed", "input": plan.command(), "output": plan.ran(), "title": plan.words.text(4),
        "metadata": {}, "time": span });
    let parts = vec![
        json!({ "type": "step-start", "snapshot": plan.words.hex(40) }),
        json!({ "type": "text", "text": plan.said(), "time": span }),
        json!({ "type": "tool", "callID": format!("call_{}", plan.words.hex(16)), "tool": "bash", "state": state }),
        json!({ "type": "step-finish", "reason": "tool-calls", "cost": 0, "tokens": tokens }),
    ];
    (data, parts)
}
