//! pi: one file of JSON lines a session, below `sessions/--<working directory>--/`. The first line is the header, the rest a tree of
//! entries by `id` and `parentId`, or in its first version a list. The log keeps every entry in the order of the file; the tree stays in
//! the remainders.
//!
//! A file without a header is taken by its name and directory. A fork names the file it was cut from, whose name holds the parent's id.
//! Only `*.jsonl` is read: settings and credentials beside the sessions are not.

use std::io;
use std::path::Path;

use crate::artifact::{Artifact, Body, Report, Restored};
use crate::fault::{Location, What};
use crate::foreign::quoted;
use crate::lineage::Lineage;
use crate::registry::{Codec, Parse};
use crate::restore::{self, Place, RestoreError, Serialize};
use crate::seam::{Extracted, Head, Out, Record, SessionDraft};
use crate::source::{Bundle, Records, name, walk};
use crate::thread;
use crate::value::{self, Value};
use events::session::{Provenance, Session};

mod foreign;
mod injected;
pub(crate) mod typing;

pub(crate) const CODEC: Codec = Codec { origin: "pi", homes: &[".pi/agent"], holds: &["sessions"], parse: &Pi, serialize: &Pi };

/// The newest that is known.
const VERSION: i64 = 3;

struct Pi;

impl Parse for Pi {
    fn discover(&self, root: &Path) -> io::Result<Vec<Bundle>> {
        if root.is_file() {
            return Ok(vec![Bundle::lone(root)]);
        }
        let below = if root.join("sessions").is_dir() { "sessions" } else { "" };
        let files = walk(root, Path::new(below), |file| file.extension().is_some_and(|it| it == "jsonl"))?;
        Ok(files.into_iter().map(|file| Bundle { root: root.to_owned(), files: vec![file] }).collect())
    }

    fn parse(&self, bundle: &Bundle, out: &mut Out<'_>) {
        let mut session = None;
        let mut records = 0;
        for record in Records::open(&bundle.root, bundle.main()) {
            records += 1;
            let mut record = match record {
                Ok(record) => record,
                Err((location, what)) => {
                    out.fault(location, what);
                    continue;
                }
            };
            let handle = match session {
                Some(handle) => handle,
                None => {
                    let Some(draft) = begin(&record, bundle, out) else { return };
                    let Some(handle) = out.session(draft, record.location()) else { return };
                    *session.insert(handle)
                }
            };
            let at = value::Path::root();
            let timestamp = record.time(["timestamp"]).or_else(|| record.time(["message", "timestamp"]));
            let head = Head { id: record.id(["id"]), timestamp, facts: typing::facts(&record, &at) };
            let typed = typing::entry(&mut record, &at, Provenance::Conversational);
            typing::tell(out, handle, record, head, typed);
        }
        if records == 0 {
            out.fault(Location { file: name(bundle.main()), line: None }, What::Missing("the header"));
        }
    }

    fn originals(&self, bundle: &Bundle) -> Vec<Artifact> {
        let records = Records::open(&bundle.root, bundle.main()).filter_map(Result::ok);
        let lines: Vec<_> = records.map(|record| record.look().clone()).collect();
        let artifact = Artifact { path: name(bundle.main()).to_string(), body: Body::Lines(lines.clone()) };
        if lines.is_empty() { Vec::new() } else { vec![artifact] }
    }
}

fn begin(first: &Record, bundle: &Bundle, out: &mut Out<'_>) -> Option<SessionDraft> {
    let file = bundle.root.join(bundle.main());
    let header = first.str(["type"]) == Some("session");
    if !header {
        out.fault(first.location(), What::Unfit("no header; the file's name and directory stand in for it".to_owned()));
    }
    if let Some(version) = first.look().get("version").and_then(Value::as_i64).filter(|it| header && *it > VERSION) {
        out.fault(first.location(), What::Version(version));
    }
    let of_header = |key| first.copy([key]).filter(|it| header && !it.look().is_empty());
    let Some(id) = of_header("id").or_else(|| of_name(&Extracted::of_stem(&file, "")?)) else {
        out.fault(first.location(), What::Missing("the id"));
        return None;
    };
    let encoded = |it: &Extracted<String>| it.look().len() > 4 && it.look().starts_with("--") && it.look().ends_with("--");
    let project = of_header("cwd").or_else(|| Extracted::of_directory(&file, 0).filter(encoded));
    let parent = of_header("parentSession").or_else(|| of_header("branchedFrom")).and_then(|it| of_name(&it));
    let parent = parent.filter(|it| it.look() != id.look());
    let created_at = first.time(["timestamp"]);
    Some(SessionDraft { id, parent, cut: None, project, created_at, facts: Vec::new() })
}

/// The id in `…/<time>_<id>.jsonl`.
fn of_name(path: &Extracted<String>) -> Option<Extracted<String>> {
    let text = path.look();
    let start = text.rfind(['/', '\\']).map_or(0, |at| at + 1);
    let end = start + text[start..].find(".jsonl").unwrap_or(text.len() - start);
    let id = text[start..end].find('_').map_or(start, |at| start + at + 1);
    path.piece(id..end).filter(|it| !it.look().is_empty())
}

impl Serialize for Pi {
    fn native(&self, lineage: &Lineage) -> Result<Vec<Artifact>, RestoreError> {
        let files = restore::records(lineage)?.into_iter().filter(|(_, records)| !records.is_empty());
        Ok(files.map(|(path, records)| Artifact { path, body: restore::lines(records) }).collect())
    }

    fn foreign(&self, lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError> {
        lineage.all().map(|(session, messages)| foreign::file(lineage, session, messages, place, report)).collect()
    }

    fn thread(&self, lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError> {
        let streams = restore::records(lineage)?;
        let said = thread::said_once(lineage);
        let mut artifacts = Vec::new();
        for (session, messages) in said.all() {
            let entries = restore::file_of(session).and_then(|file| streams.get(&file));
            let own = entries.and_then(|entries| thread::transcript(entries));
            artifacts.push(match own {
                Some(transcript) => foreign::transcript(session, transcript, place, report),
                None => foreign::file(lineage, session, messages, place, report)?,
            });
        }
        Ok(artifacts)
    }

    fn session_id(&self, session: &Session) -> String {
        foreign::session_id(session.id.as_str())
    }

    fn resume_command(&self, restored: &Restored, root: &Path) -> String {
        let named = restored.artifacts.iter().find(|it| it.path.contains(&restored.session_id));
        let path = named.or(restored.artifacts.first()).map(|it| root.join(&it.path)).unwrap_or_default();
        format!("pi --session {}", quoted(&path.to_string_lossy()))
    }
}

/// Whether a value is an entry of a session file, or its header.
pub(crate) fn is_entry(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str).is_some()
}
