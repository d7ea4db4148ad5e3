//! Codex: one rollout file a session, below `sessions/YYYY/MM/DD` or, put away, below `archived_sessions`; cold ones are `.jsonl.zst`.
//!
//! Three generations are read, told apart record by record: bare items after a header (to 0.3x), items in an envelope
//! `{timestamp,type,payload}` (from 0.34), and the same with an `ordinal` (from 0.166). What the model saw and said are the response
//! items; `event_msg` says the same again for the screen and is carried, as are all other lines. A sub-agent, a review and a fork are
//! files of their own that name their parent.
//!
//! Not read: `history.jsonl`, `session_index.jsonl` and the databases, which repeat the rollouts; the `{session,items}` files of the
//! first, JavaScript client. A restored file that was `.jsonl.zst` is a `.jsonl`, which the client takes as well.

use std::io;
use std::path::Path;

use crate::artifact::{Artifact, Body, Report, Restored};
use crate::foreign::quoted;
use crate::lineage::Lineage;
use crate::registry::{Codec, Parse};
use crate::restore::{Place, RestoreError, Serialize, lines, records, source};
use crate::seam::Out;
use crate::source::{Bundle, Records, name};
use events::session::{Message, Session, SessionId};

mod discover;
mod foreign;
mod header;
mod injected;
mod items;
mod parse;
mod rollout;

const ORIGIN: &str = "codex";

pub(crate) const CODEC: Codec =
    Codec { origin: ORIGIN, homes: &[".codex"], holds: &["sessions", "archived_sessions"], parse: &Codex, serialize: &Codex };

#[derive(Debug)]
struct Codex;

impl Parse for Codex {
    fn discover(&self, root: &Path) -> io::Result<Vec<Bundle>> {
        discover::bundles(root)
    }

    fn parse(&self, bundle: &Bundle, out: &mut Out<'_>) {
        parse::rollout(bundle, out);
    }

    fn originals(&self, bundle: &Bundle) -> Vec<Artifact> {
        let values: Vec<_> = Records::open(&bundle.root, bundle.main()).flatten().map(|record| record.look().clone()).collect();
        let path = unpacked(&name(bundle.main()));
        if values.is_empty() { Vec::new() } else { vec![Artifact { path, body: Body::Lines(values) }] }
    }
}

impl Serialize for Codex {
    fn native(&self, lineage: &Lineage) -> Result<Vec<Artifact>, RestoreError> {
        let files = records(lineage)?.into_iter();
        Ok(files.map(|(file, placed)| Artifact { path: unpacked(&file), body: lines(placed) }).collect())
    }

    fn foreign(&self, lineage: &Lineage, place: &Place, report: &mut Report) -> Result<Vec<Artifact>, RestoreError> {
        foreign::artifacts(lineage, place, report)
    }

    /// From 0.166 on, a fork's header says up to where its history is in another's file.
    fn base(&self, messages: &[Message]) -> Option<SessionId> {
        let place = source(&messages.first()?.options)?;
        let header = place.get("record").filter(|record| header::is_header(record))?.get("payload")?;
        SessionId::new(header.get("history_base")?.get("thread_id")?.as_str()?).ok()
    }

    fn session_id(&self, session: &Session) -> String {
        rollout::thread_id(session)
    }

    fn resume_command(&self, restored: &Restored, _: &Path) -> String {
        format!("codex resume {}", quoted(&restored.session_id))
    }
}

fn unpacked(file: &str) -> String {
    file.strip_suffix(".zst").unwrap_or(file).to_owned()
}
