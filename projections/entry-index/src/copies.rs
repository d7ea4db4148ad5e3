//! The copies of the index, and reading the one that serves.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use event_log::Log;
use events::HouseId;
use parking_lot::Mutex;
use projector::folders::{CopyInfo, Folder, FolderHold, Folders};
use projector::{Checkpoint, Copies, Dropped, Live, Projector as _, SinkError, Sums};
use tantivy::{Index, IndexReader, ReloadPolicy};

use crate::damage::{apart, check, contained};
use crate::error::IndexError;
use crate::filter::{EntryFilter, MessageFilter};
use crate::find::{self, FoundEntries};
use crate::projection::{Change, EntriesProjector};
use crate::question::Question;
use crate::rank::{self, Asked, Ranked};
use crate::schema::Fields;
use crate::silence::Verdict;
use crate::sink::{self, EntriesSink, MADE};
use crate::sums;
use crate::view::{Sessions, Tables, View, Whereabouts};

/// All copies of the index.
#[derive(Clone)]
pub struct EntryIndex {
    folders: Folders,
    log: Log,
    fields: Fields,
    serving: Arc<Mutex<Option<Serving>>>,
}

/// The copy that is read, and the last moment of it.
struct Serving {
    path: PathBuf,
    reader: IndexReader,
    tables: Tables,
    written: Option<Written>,
    view: View,
}

impl std::fmt::Debug for EntryIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EntryIndex").field("directory", &self.folders.directory()).finish_non_exhaustive()
    }
}

fn told(error: projector::folders::FolderError) -> IndexError {
    match SinkError::from(error) {
        SinkError::Damaged(why) => IndexError::Damaged(why),
        error @ (SinkError::Moved | SinkError::Refused { .. } | SinkError::Unavailable(_)) => {
            IndexError::Unavailable(error.to_string())
        }
    }
}

fn reader(index: &Index) -> Result<IndexReader, IndexError> {
    Ok(index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?)
}

impl EntryIndex {
    /// Copies under `directory`, which is made if need be.
    pub fn open(directory: &Path, log: Log) -> Result<Self, IndexError> {
        let folders = Folders::open(directory, EntriesProjector::NAME, crate::VERSION).map_err(told)?;
        Ok(Self { folders, log, fields: Fields::new(), serving: Arc::default() })
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        self.folders.directory()
    }

    /// How far the copy that serves has come.
    pub fn checkpoint(&self) -> Result<Checkpoint, IndexError> {
        self.folders.checkpoint().map_err(told)
    }

    pub fn copies(&self) -> Result<Vec<CopyInfo>, IndexError> {
        self.folders.copies().map_err(told)
    }

    pub async fn drop_copy(&self, name: &str) -> Result<Dropped, IndexError> {
        self.folders.drop_copy(name).await.map_err(told)
    }

    fn sink(&self, folder: Folder) -> EntriesSink {
        EntriesSink::new(folder, self.fields.clone(), self.log.clone())
    }

    /// Reads the index as it is now. `None`: nothing was ever projected.
    pub(crate) fn look<T>(&self, read: impl FnOnce(&View) -> Result<T, IndexError>) -> Result<Option<T>, IndexError> {
        contained(|| self.view()?.as_ref().map(read).transpose())
    }

    fn view(&self) -> Result<Option<View>, IndexError> {
        let Some(folder) = self.folders.serving().map_err(told)? else { return Ok(None) };
        if !folder.state().map_err(told)?.made().contains(MADE) {
            return Ok(None);
        }
        let mut serving = self.serving.lock();
        let known = serving.take().filter(|serving| serving.path == folder.path());
        let mut now = match known {
            Some(known) => known,
            None => Serving::open(folder.path(), &self.fields)?,
        };
        now.freshen(&self.fields)?;
        let view = now.view.clone();
        *serving = Some(now);
        Ok(Some(view))
    }

    /// Which sessions of a house fit a question. Reads files: not for a thread that others wait on.
    pub fn messages(
        &self,
        house: &HouseId,
        question: &Question,
        filter: &MessageFilter,
        most: usize,
    ) -> Result<Option<Ranked>, IndexError> {
        self.look(|view| {
            let ranked = rank::rank(&Asked { view, house, question, filter }, most)?;
            Ok(match nobodys(&view.sessions(house), filter) {
                Some(why) => Ranked { verdict: Verdict::Never { why }, typed: None, ..ranked },
                None => ranked,
            })
        })
    }

    /// Which entries of a house's threads fit a question. Reads files: not for a thread that others wait on.
    pub fn entries(
        &self,
        house: &HouseId,
        question: &Question,
        filter: &EntryFilter,
        skip: usize,
        most: usize,
    ) -> Result<Option<FoundEntries>, IndexError> {
        self.look(|view| find::find(view, house, question, filter, skip, most))
    }

    /// The thread whose entry was found. A stream never becomes that of another, so the moment that it was found in knows it.
    pub fn thread(&self, house: &HouseId, stream: u64) -> Result<Option<String>, IndexError> {
        let last = self.serving.lock().as_ref().map(|serving| serving.view.clone());
        if let Some(thread) = last.and_then(|view| find::thread_of(&view, house, stream)) {
            return Ok(Some(thread));
        }
        Ok(self.look(|view| Ok(find::thread_of(view, house, stream)))?.flatten())
    }

    /// Where sessions stand, and what they hang on; `None` for those that are not indexed yet.
    pub fn whereabouts(&self, house: &HouseId, ids: &[&str]) -> Result<Vec<Option<Whereabouts>>, IndexError> {
        let found = self.look(|view| {
            let sessions = view.sessions(house);
            Ok(ids.iter().map(|id| sessions.whereabouts(id)).collect())
        });
        Ok(found?.unwrap_or_else(|| vec![None; ids.len()]))
    }

    /// The clients that recorded something in a house.
    pub fn clients(&self, house: &HouseId) -> Result<BTreeSet<String>, IndexError> {
        let found = self.look(|view| Ok(view.sessions(house).clients().map(str::to_owned).collect()));
        Ok(found?.unwrap_or_default())
    }

    /// Messages of a house that can be found.
    pub fn count(&self, house: &HouseId) -> Result<u64, IndexError> {
        Ok(self.look(|view| Ok(view.sessions(house).messages))?.unwrap_or_default())
    }
}

/// Anybody may record under a name of theirs, so a client of which there is nothing is a slip, or one that comes later.
fn nobodys(sessions: &Sessions, filter: &MessageFilter) -> Option<String> {
    let wanted = filter.source_agent.as_deref()?;
    if sessions.clients().any(|client| client == wanted) {
        return None;
    }
    let clients: BTreeSet<&str> = sessions.clients().collect();
    let known = match clients.len() {
        0 => "nor is any other".to_owned(),
        _ => format!("there are {}", clients.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Some(format!("no session of a client {wanted:?} is recorded; {known}"))
}

impl Serving {
    fn open(path: &Path, fields: &Fields) -> Result<Self, IndexError> {
        // Nobody reads before the first commit. An empty index in the place of one that is gone would say that nothing was ever said.
        if !sink::list(path).exists() {
            return Err(IndexError::Damaged("its list of segments is gone".into()));
        }
        // Before the reader looks: what is committed in between is seen the next time.
        let written = written(path);
        let index = sink::open(path, fields)?;
        let reader = reader(&index)?;
        let tables = Tables::default();
        let view = View::new(IndexReader::searcher(&reader), fields.clone(), &tables)?;
        Ok(Self { path: path.to_owned(), reader, tables, written, view })
    }

    /// The list of segments is replaced by every commit and every merge.
    fn freshen(&mut self, fields: &Fields) -> Result<(), IndexError> {
        let now = written(&self.path);
        if now != self.written {
            self.reader.reload()?;
            self.view = View::new(self.reader.searcher(), fields.clone(), &self.tables)?;
            self.written = now;
        }
        Ok(())
    }
}

/// The list of segments as a file; another one takes its place whenever it changes.
type Written = (u64, SystemTime);

fn written(path: &Path) -> Option<Written> {
    let list = std::fs::metadata(sink::list(path)).ok()?;
    Some((list.ino(), list.modified().ok()?))
}

impl Copies<Change> for EntryIndex {
    type Sink = EntriesSink;
    type Hold = FolderHold;

    async fn live(&self) -> Result<Live<EntriesSink>, SinkError> {
        let (live, _alone) = self.folders.live().await?;
        let folder = match live {
            Live::Current(folder) => folder,
            Live::Outdated { version } => return Ok(Live::Outdated { version }),
        };
        let (copy, fields) = (folder.clone(), self.fields.clone());
        let sound = apart(move || Ok(sink::is_sound(&copy, &fields))).await?;
        Ok(if sound { Live::Current(self.sink(folder)) } else { Live::Outdated { version: 0 } })
    }

    async fn beside(&self, label: &str) -> Result<EntriesSink, SinkError> {
        Ok(self.sink(self.folders.beside(label).await?))
    }

    async fn hold(&self) -> Result<(FolderHold, Checkpoint), SinkError> {
        Ok(self.folders.hold().await?)
    }

    async fn swap(&self, hold: FolderHold, copy: &mut EntriesSink) -> Result<(), SinkError> {
        Ok(self.folders.swap(hold, copy.folder())?)
    }

    fn address(&self, copy: &EntriesSink) -> String {
        copy.folder().path().display().to_string()
    }

    async fn discard(&self, copy: EntriesSink) -> Result<(), SinkError> {
        let folder = copy.folder().clone();
        drop(copy);
        Ok(self.folders.discard(&folder).await?)
    }

    async fn sums(&self, copy: &mut EntriesSink) -> Result<Sums, SinkError> {
        sums_of(copy.folder(), &self.fields).await
    }

    async fn live_sums(&self) -> Result<Option<(Checkpoint, Sums)>, SinkError> {
        let Some(folder) = self.folders.serving()? else { return Ok(None) };
        let _reading = folder.reading()?;
        let index = {
            let _standing = folder.stand_still().await?;
            sink::open(folder.path(), &self.fields)?
        };
        // It takes longer than to open it, so whoever feeds does not wait for it.
        let checked = index.clone();
        apart(move || check(&checked)).await?;
        let (at, searcher) = {
            let _standing = folder.stand_still().await?;
            (folder.checkpoint()?, apart(move || Ok(reader(&index)?.searcher())).await?)
        };
        let fields = self.fields.clone();
        let sums = apart(move || sums::of(&searcher, &fields)).await;
        Ok(Some((at, sums.map_err(|error| SinkError::Damaged(error.to_string()))?)))
    }
}

async fn sums_of(folder: &Folder, fields: &Fields) -> Result<Sums, SinkError> {
    let (path, fields) = (folder.path().to_owned(), fields.clone());
    let sums = apart(move || {
        let searcher = reader(&sink::open(&path, &fields)?)?.searcher();
        sums::of(&searcher, &fields)
    });
    Ok(sums.await?)
}
