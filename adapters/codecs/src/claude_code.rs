//! Claude Code: `~/.claude/projects/<slug>/<session>.jsonl`, one record a line, with side files under `<session>/`.
//!
//! Sub-agents are child sessions, wherever their turns stand: inline in the session's file, in a sibling `agent-*.jsonl`, or under
//! `<session>/subagents`. Side files (spilled results of tools, titles, workflows) are carried whole. Not read: what is the user's or
//! the project's and no session's (`history.jsonl`, `memory`, `todos`, `plans`, `file-history`).
//!
//! `project` is the working directory that the records name first; without one, the name of the project's directory.

use std::io;
use std::path::Path;

use events::session::Session;

use crate::artifact::{Artifact, Body, Report, Restored};
use crate::foreign::quoted;
use crate::lineage::Lineage;
use crate::registry::{Codec, Parse};
use crate::restore::{self, Place, RestoreError, Serialize};
use crate::seam::Out;
use crate::source::{self, Bundle, Records};

mod foreign;
mod injected;
mod layout;
mod parse;
mod record;

pub(crate) const CODEC: Codec =
    Codec { origin: "claude-code", homes: &[".claude"], holds: &["projects"], parse: &ClaudeCode, serialize: &ClaudeCode };

struct ClaudeCode;

impl Parse for ClaudeCode {
    fn discover(&self, root: &Path) -> io::Result<Vec<Bundle>> {
        layout::discover(root)
    }

    fn parse(&self, bundle: &Bundle, out: &mut Out<'_>) {
        parse::bundle(bundle, out);
    }

    fn originals(&self, bundle: &Bundle) -> Vec<Artifact> {
        let body = |file: &Path| {
            if layout::is_lines(file) {
                return Some(Body::Lines(Records::open(&bundle.root, file).flatten().map(|it| it.look().clone()).collect()));
            }
            source::whole(&bundle.root, file).ok().map(|it| restore::whole_file(it.look()))
        };
        let artifact = |file: &std::path::PathBuf| Some(Artifact { path: source::name(file).to_string(), body: body(file)? });
        bundle.files.iter().filter_map(artifact).collect()
    }
}

impl Serialize for ClaudeCode {
    fn native(&self, lineage: &Lineage) -> Result<Vec<Artifact>, RestoreError> {
        let files = restore::records(lineage)?;
        let artifact = |(path, placed): (String, Vec<restore::Placed>)| {
            let lines = layout::is_lines(Path::new(&path));
            let body = match placed.last() {
                Some(last) if !lines => restore::whole_file(&last.value),
                Some(_) | None => restore::lines(placed),
            };
            Artifact { path, body }
        };
        Ok(files.into_iter().map(artifact).collect())
    }

    fn foreign(&self, lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError> {
        foreign::serialize(lineage, place, report)
    }

    fn session_id(&self, session: &Session) -> String {
        if session.source_agent == CODEC.origin { session.id.to_string() } else { foreign::uuid_of(session.id.as_str()) }
    }

    fn resume_command(&self, restored: &Restored, _: &Path) -> String {
        format!("claude --resume {}", quoted(&restored.session_id))
    }
}
