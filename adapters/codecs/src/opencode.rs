//! opencode, in every form it has had: trees of JSON files (0.1 to 1.1), an SQLite database (from 1.2 on), and the files that
//! `opencode export` writes and `opencode import` reads.
//!
//! A message with its parts is one canonical message. A tool's part holds call and result, so both stand in the assistant's message,
//! the result behind its call. Parts that say nothing (steps, patches, snapshots) are kept by the message they belong to.
//!
//! Messages are in the order of their creation, then of their ids, which start over every 795 days. What comes after the last
//! assistant message that is complete may still change: its records are carried as states, and become messages when an answer
//! after them is complete. What opencode does to a message later (a title, a pruned output, a revert) is not taken over. The records
//! of the session, its project, todos and diffs are states too.
//!
//! Read are the tables of sessions and of their projects, and no other: not the accounts and credentials, and not the event log, which
//! repeats what the rows say. Outputs spilled into `tool-output` and the snapshots' git objects are files of their own and are left
//! out. A tree that opencode moved into its database is left to the database.

use std::io;
use std::path::Path;

use events::session::Session;

use crate::artifact::{Artifact, Body, Report, Restored};
use crate::foreign::quoted;
use crate::lineage::Lineage;
use crate::registry::{Codec, Parse};
use crate::restore::{Place, RestoreError, Serialize};
use crate::seam::Out;
use crate::source::Bundle;
use crate::value::Value;

mod database;
mod discover;
mod export;
mod foreign;
mod ids;
mod log;
mod native;
mod provenance;
pub mod rows;
mod tree;
mod typing;

const ORIGIN: &str = "opencode";

pub(crate) const CODEC: Codec = Codec {
    origin: ORIGIN,
    homes: &[".local/share/opencode"],
    holds: &["storage", "project", "opencode.db"],
    parse: &Opencode,
    serialize: &Opencode,
};

struct Opencode;

/// Writes restored rows into the client's database, which is made if it is not there.
pub fn write_rows(path: &Path, rows: &[(String, Value)]) -> Result<rows::Written, rows::WriteError> {
    rows::write(path, rows, rows::Fresh::Client)
}

enum Kind {
    Database,
    Tree,
    Export,
}

fn kind(bundle: &Bundle) -> Kind {
    let main = bundle.main();
    if main.extension().is_some_and(|it| it == "db") {
        Kind::Database
    } else if discover::seat(main).is_some() {
        Kind::Tree
    } else {
        Kind::Export
    }
}

impl Parse for Opencode {
    fn discover(&self, root: &Path) -> io::Result<Vec<Bundle>> {
        discover::bundles(root)
    }

    fn parse(&self, bundle: &Bundle, out: &mut Out<'_>) {
        match kind(bundle) {
            Kind::Database => database::parse(bundle, out),
            Kind::Tree => tree::parse(bundle, out),
            Kind::Export => export::parse(bundle, out),
        }
    }

    fn originals(&self, bundle: &Bundle) -> Vec<Artifact> {
        match kind(bundle) {
            Kind::Database => database::originals(bundle),
            Kind::Tree | Kind::Export => tree::originals(bundle),
        }
    }
}

impl Serialize for Opencode {
    fn native(&self, lineage: &Lineage) -> Result<Vec<Artifact>, RestoreError> {
        native::native(lineage)
    }

    fn foreign(&self, lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError> {
        foreign::foreign(lineage, place, report)
    }

    fn session_id(&self, session: &Session) -> String {
        ids::session(session)
    }

    fn resume_command(&self, restored: &Restored, root: &Path) -> String {
        let exports = restored.artifacts.iter().filter(|it| matches!(&it.body, Body::Json(value) if native::is_export(value)));
        let imports = exports.map(|it| format!("opencode import {} && ", quoted(&root.join(&it.path).to_string_lossy())));
        format!("{}opencode --session {}", imports.collect::<String>(), quoted(&restored.session_id))
    }
}
