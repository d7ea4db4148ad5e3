//! What each event does to the rows.

mod directory;
mod dispatch;
mod house;
mod thread;

use events::{Event, StreamName};
use projector::{Projector, Recorded, Unprojectable};

use crate::change::{Change, Op};

/// The control plane as rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowsProjector;

impl Projector for RowsProjector {
    const NAME: &'static str = "rows";
    const VERSION: u32 = 2;
    type Change = Change;

    fn reads(stream: &StreamName) -> bool {
        !matches!(stream, StreamName::Session(..))
    }

    fn project(&self, recorded: &Recorded) -> Result<Vec<Change>, Unprojectable> {
        let at = recorded.ts;
        let ops = match (&recorded.stream, &recorded.event) {
            (_, Event::Content(_)) => Vec::new(),
            (StreamName::Thread(thread), Event::Thread(event)) => thread::project(thread, at, event)?,
            (StreamName::Thread(thread), Event::Dispatch(event)) => dispatch::project(thread, at, event),
            (StreamName::House(house), Event::House(event)) => house::project(house, at, recorded.entry.author_agent_id, event)?,
            (StreamName::Agents, Event::Directory(event)) => vec![directory::project(at, event)],
            (_, Event::Thread(_) | Event::Dispatch(_) | Event::House(_) | Event::Directory(_) | Event::Session(_)) => {
                return Err(Unprojectable("it stands in a stream of another kind".into()));
            }
        };
        Ok(ops.into_iter().map(Change).collect())
    }
}

/// Postgres text holds everything but NUL.
fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn optional(name: Option<&String>) -> Option<String> {
    name.map(|name| text(name))
}

fn belongs(same: bool) -> Result<(), Unprojectable> {
    if same { Ok(()) } else { Err(Unprojectable("it names another id than its stream".into())) }
}

impl From<crate::work::WorkChange> for Op {
    fn from(change: crate::work::WorkChange) -> Self {
        Self::Work(change)
    }
}
