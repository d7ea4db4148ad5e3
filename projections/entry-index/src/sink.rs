//! Feeding one copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use event_log::Log;
use events::{HouseId, StreamName, ThreadId};
use projector::folders::{Feeder, Folder};
use projector::{Checkpoint, Sink, SinkError, Span};
use session_source::{Source, Unfit, session_head, thread_head, thread_message};
use tantivy::collector::TopDocs;
use tantivy::directory::MmapDirectory;
use tantivy::query::TermQuery;
use tantivy::schema::{IndexRecordOption, Value};
use tantivy::{Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, TantivyDocument, Term};

use crate::analysis::{WORDS, Words};
use crate::damage::{apart, check, contained};
use crate::documents::ThreadNote;
use crate::error::IndexError;
use crate::projection::{Change, Said, Stands};
use crate::schema::Fields;

/// Whoever comes to feed a little and goes waits so long for merges: what nobody merges makes every question slower.
const MERGES: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);
/// What a writer holds before it writes a segment.
const MEMORY: usize = 64 << 20;
const INDEX: &str = "index";
/// Of a copy that has an index.
pub(crate) const MADE: &str = "index";

/// The index of a copy, made empty if there is none.
pub(crate) fn open(copy: &Path, fields: &Fields) -> Result<Index, IndexError> {
    let path = copy.join(INDEX);
    std::fs::create_dir_all(&path)?;
    let directory = MmapDirectory::open(&path).map_err(|error| IndexError::Unavailable(error.to_string()))?;
    let settings = IndexSettings::default();
    let index = if Index::exists(&directory).map_err(|error| IndexError::Unavailable(error.to_string()))? {
        Index::open(directory)?
    } else {
        Index::create(directory, fields.schema.clone(), settings)?
    };
    if index.schema() != fields.schema {
        return Err(IndexError::Damaged("its fields are not those of this version".into()));
    }
    index.tokenizers().register(WORDS, Words);
    Ok(index)
}

/// The list of segments.
pub(crate) fn list(copy: &Path) -> PathBuf {
    copy.join(INDEX).join("meta.json")
}

/// Whether what was made is still there and what was written.
pub(crate) fn is_sound(folder: &Folder, fields: &Fields) -> bool {
    let made = folder.state().is_ok_and(|state| state.made().contains(MADE));
    if !made {
        return folder.state().is_ok();
    }
    let read = || {
        if !list(folder.path()).exists() {
            return Err(IndexError::Damaged("the index is gone".into()));
        }
        let index = open(folder.path(), fields)?;
        check(&index)?;
        Ok(index.reader()?)
    };
    let opened = contained(read);
    if let Err(error) = &opened {
        tracing::warn!(%error, "the index cannot be read");
    }
    opened.is_ok()
}

/// One copy and what feeds it.
pub struct EntriesSink {
    feeder: Feeder,
    fields: Fields,
    source: Source,
    open: Option<Open>,
}

/// What only the one who feeds has.
struct Open {
    writer: IndexWriter,
    reader: IndexReader,
    /// The highest position that the index has documents of.
    mark: u64,
}

impl std::fmt::Debug for EntriesSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EntriesSink").field("copy", self.feeder.folder()).finish_non_exhaustive()
    }
}

fn refused(unfit: Unfit, change: usize) -> SinkError {
    match unfit {
        Unfit::Event(why) => SinkError::Refused { change, why },
        Unfit::Log(why) => SinkError::Unavailable(why),
    }
}

fn fault(error: impl std::fmt::Display) -> SinkError {
    SinkError::Unavailable(error.to_string())
}

impl EntriesSink {
    pub(crate) fn new(folder: Folder, fields: Fields, log: Log) -> Self {
        Self { feeder: Feeder::new(folder), fields, source: Source::new(log), open: None }
    }

    pub(crate) fn folder(&self) -> &Folder {
        self.feeder.folder()
    }

    async fn opened(&mut self) -> Result<(), SinkError> {
        if self.open.is_none() {
            let (path, fields) = (self.feeder.folder().path().to_owned(), self.fields.clone());
            self.open = Some(apart(move || Open::new(&path, &fields)).await?);
        }
        Ok(())
    }

    /// Documents, and how threads stand after all of it.
    async fn documents(&mut self, changes: Vec<Change>) -> Result<Vec<Write>, SinkError> {
        let mark = self.open.as_ref().map_or(0, |open| open.mark);
        let mut writes = Vec::new();
        let mut threads: BTreeMap<StreamName, (HouseId, ThreadNote)> = BTreeMap::new();
        for (place, change) in changes.into_iter().enumerate() {
            let new = change.position > mark;
            let Change { stream, seq, said, .. } = change;
            match (said, &stream) {
                (Said::Session(session), StreamName::Session(house, _)) => {
                    if seq == 0 {
                        self.source.remember(&stream, session_head(house, &session));
                        let document = self.fields.session(house, &stream, &session).map_err(fault)?;
                        writes.extend(new.then_some(Write::Add(document)));
                    }
                }
                (Said::Message(message), _) => {
                    let head = self.source.head(&stream).await.map_err(|unfit| refused(unfit, place))?;
                    let document = self.fields.message(&head, &stream, seq, &message);
                    writes.extend(document.filter(|_| new).map(Write::Add));
                }
                (Said::Entry(entry, stands), StreamName::Thread(thread)) => {
                    let said = self.entry(thread, &stream, seq, &entry).await.map_err(|unfit| refused(unfit, place))?;
                    if stands != Stands::default() {
                        let note = match threads.remove(&stream) {
                            Some((_, note)) => note,
                            None => self.standing(&stream)?.unwrap_or_else(|| ThreadNote::new(thread, &said.0)),
                        };
                        threads.insert(stream.clone(), (said.0, stand(note, stands)));
                    }
                    writes.extend(said.1.into_iter().filter(|_| new).map(Write::Add));
                }
                (Said::Session(_) | Said::Entry(..), _) => {
                    return Err(SinkError::Refused { change: place, why: "it stands in a stream of another kind".into() });
                }
            }
        }
        for (stream, (house, note)) in threads {
            let document = self.fields.thread(&house, &stream, &note).map_err(fault)?;
            writes.push(Write::Replace(Term::from_field_text(self.fields.thread, &note.thread), document));
        }
        Ok(writes)
    }

    async fn entry(
        &mut self,
        thread: &ThreadId,
        stream: &StreamName,
        seq: u64,
        entry: &events::Entry,
    ) -> Result<(HouseId, Vec<TantivyDocument>), Unfit> {
        let mut documents = Vec::new();
        if seq == 0 {
            let (session, head) = thread_head(thread, entry)?;
            let document = self.fields.session(&head.house, stream, &session);
            documents.push(document.map_err(|error| Unfit::Event(error.to_string()))?);
            self.source.remember(stream, head);
        }
        let head = self.source.head(stream).await?;
        let author = self.source.author(entry).await?;
        let message = thread_message(thread, &head, seq, entry, author)?;
        documents.extend(self.fields.message(&head, stream, seq, &message));
        documents.push(self.fields.entry(&head.house, stream, seq, entry));
        Ok((head.house, documents))
    }

    fn standing(&self, stream: &StreamName) -> Result<Option<ThreadNote>, SinkError> {
        let (Some(open), StreamName::Thread(thread)) = (&self.open, stream) else { return Ok(None) };
        Ok(contained(|| open.standing(&self.fields, thread))?)
    }
}

fn stands_otherwise(change: &Change) -> bool {
    matches!(&change.said, Said::Entry(_, stands) if *stands != Stands::default())
}

fn stand(note: ThreadNote, stands: Stands) -> ThreadNote {
    let tags = stands.tags.unwrap_or(note.tags);
    let status = stands.status.map_or(note.status, |status| status.as_str().to_owned());
    ThreadNote { tags, status, ..note }
}

enum Write {
    Add(TantivyDocument),
    Replace(Term, TantivyDocument),
}

impl Open {
    fn new(copy: &Path, fields: &Fields) -> Result<Self, IndexError> {
        let index = open(copy, fields)?;
        let payload = index.load_metas()?.payload;
        let mark = payload.and_then(|payload| payload.parse().ok()).unwrap_or_default();
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { writer: index.writer_with_num_threads(1, MEMORY)?, reader, mark })
    }

    /// Reads what is read to replace something, where a panic in it would end the process, before that is done.
    fn reread(&self) -> Result<(), IndexError> {
        Ok(self.reader.reload()?)
    }

    /// How a thread stands in the index. What cannot be looked up is not replaced, either.
    fn standing(&self, fields: &Fields, thread: &ThreadId) -> Result<Option<ThreadNote>, IndexError> {
        let searcher = self.reader.searcher();
        let query = TermQuery::new(Term::from_field_text(fields.thread, thread.as_str()), IndexRecordOption::Basic);
        for (_, address) in searcher.search(&query, &TopDocs::with_limit(2).order_by_score())? {
            let document: TantivyDocument = searcher.doc(address)?;
            let stored = document.get_first(fields.stored).and_then(|value| value.as_str().map(str::to_owned));
            if let Some(note) = stored.and_then(|text| serde_json::from_str(&text).ok()) {
                return Ok(Some(note));
            }
        }
        Ok(None)
    }

    fn write(&mut self, writes: Vec<Write>, mark: u64) -> Result<(), tantivy::TantivyError> {
        for write in writes {
            match write {
                Write::Add(document) => self.writer.add_document(document)?,
                Write::Replace(term, document) => {
                    self.writer.delete_term(term);
                    self.writer.add_document(document)?
                }
            };
        }
        let mut commit = self.writer.prepare_commit()?;
        commit.set_payload(&mark.to_string());
        commit.commit()?;
        self.mark = mark;
        self.reader.reload()
    }

    /// A commit begins merges, and they end with the writer, whether or not they are done.
    fn merged(&self) -> Result<(), tantivy::TantivyError> {
        let (policy, until) = (self.writer.get_merge_policy(), Instant::now() + MERGES);
        while !policy.compute_merge_candidates(&self.writer.index().searchable_segment_metas()?).is_empty()
            && Instant::now() < until
        {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Open {
    /// A commit takes away what merges have replaced. After the last one nobody would, and it is as much as the index itself.
    fn drop(&mut self) {
        let collect = || {
            self.merged()?;
            self.reader.reload()?;
            Ok(self.writer.garbage_collect_files().wait()?)
        };
        if let Err(error) = contained(collect) {
            tracing::debug!(%error, "what the index does not need any more stays until the next commit");
        }
    }
}

impl Sink<Change> for EntriesSink {
    async fn checkpoint(&mut self) -> Result<Checkpoint, SinkError> {
        Ok(self.feeder.folder().checkpoint()?)
    }

    async fn claim(&mut self) -> Result<bool, SinkError> {
        Ok(self.feeder.claim()?)
    }

    async fn commit(&mut self, span: &Span, changes: Vec<Change>) -> Result<(), SinkError> {
        let commit = self.feeder.begin(span).await?;
        self.opened().await?;
        if !changes.is_empty() {
            if let Some(open) = self.open.as_ref().filter(|_| changes.iter().any(stands_otherwise)) {
                contained(|| open.reread())?;
            }
            let writes = self.documents(changes).await?;
            let mut open = self.open.take().ok_or_else(|| fault("the writer is gone"))?;
            // What was there before a checkpoint was lost stays there.
            let mark = span.to.position().max(open.mark);
            // A writer that failed is not used again.
            let written = apart(move || {
                open.write(writes, mark)?;
                Ok(open)
            });
            self.open = Some(written.await?);
        }
        Ok(commit.end([MADE.to_owned()])?)
    }

    async fn stopped(&mut self, why: &str) -> Result<(), SinkError> {
        Ok(self.feeder.stopped(why).await?)
    }
}
