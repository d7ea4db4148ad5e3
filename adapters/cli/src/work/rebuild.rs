//! A coding agent's session, made again of what its thread holds, by the codec that restores sessions.

use std::sync::Arc;

use arbe_runner::session::Session;
use async_trait::async_trait;
use bytes::Bytes;
use codecs::restore::Place;
use commands::sessions::Sessions;
use commands::{Commands, RealSource};
use dispatch::{Rebuild, RebuildError};
use event_log::Log;
use events::{StreamName, ThreadId};
use serde::Deserialize;

use crate::library::{Library, codec};

#[derive(Debug)]
pub(super) struct Transcripts {
    log: Log,
    commands: Commands,
}

impl Transcripts {
    pub(super) fn new(log: &Log, commands: &Commands) -> Self {
        Self { log: log.clone(), commands: commands.clone() }
    }
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
}

#[async_trait]
impl Rebuild for Transcripts {
    async fn session(&self, thread: &ThreadId, harness: &str, cwd: &str) -> Result<Option<Bytes>, RebuildError> {
        let codec = codec(harness).map_err(broken)?;
        let house = self.commands.with_world(|world| world.thread(thread).map(|thread| thread.house_id.clone()));
        let house = house.ok_or_else(|| RebuildError::Broken("there is no such thread".to_owned()))?;
        let sessions = Sessions::new(self.log.clone(), Arc::new(RealSource));
        if !holds_session(&sessions, thread).await? {
            return Ok(None);
        }
        let library = Library { log: self.log.clone(), sessions, house };
        let lineage = library.thread(thread.as_str(), true).await.map_err(broken)?;
        let lineage = lineage.ok_or_else(|| RebuildError::Broken("there is no such thread".to_owned()))?;
        let restored = codecs::restore::restore(codec, &lineage, &Place { directory: cwd.to_owned() }).map_err(broken)?;
        let [artifact] = restored.artifacts.as_slice() else {
            return Err(RebuildError::Broken(format!("it would be {} files", restored.artifacts.len())));
        };
        let bytes = artifact.body.to_bytes().ok_or_else(|| RebuildError::Broken("it is not a file of lines".to_owned()))?;
        let text = std::str::from_utf8(&bytes).map_err(broken)?;
        let session = Session::read(text).map_err(broken)?;
        if session.cwd != cwd {
            return Err(RebuildError::Broken(format!("it would go on in {}", session.cwd)));
        }
        Ok(Some(Bytes::from(bytes)))
    }
}

/// Whether a coding agent has told the thread its session's header, with which everything begins.
async fn holds_session(sessions: &Sessions, thread: &ThreadId) -> Result<bool, RebuildError> {
    let mut found = false;
    let stream = StreamName::Thread(thread.clone()).to_string();
    let read = sessions.entries(&stream, |entry| {
        found |= entry.kind == "pi.entry" && entry.payload.decode::<Line>().is_ok_and(|line| line.kind == "session");
        Ok(())
    });
    read.await.map_err(|error| RebuildError::Unavailable(error.to_string()))?;
    Ok(found)
}

fn broken(error: impl std::fmt::Display) -> RebuildError {
    RebuildError::Broken(error.to_string())
}
