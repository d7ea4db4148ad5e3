//! Feeding one copy.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use event_log::Log;
use events::{HouseId, StreamName};
use lance::deps::datafusion::arrow;
use projector::folders::files;
use projector::{Checkpoint, Feeder, Sink, SinkError, Span};
use session_source::{Source, Unfit, session_head, thread_head, thread_message};

use crate::error::DatasetError;
use crate::maintain;
use crate::projection::{Change, Said};
use crate::rows::{self, MessageRow, SessionRow};
use crate::schema::Table;
use crate::substrate::Substrate;
use crate::vectors;

/// One copy and what feeds it.
#[derive(Debug)]
pub struct SessionsSink {
    pub(crate) substrate: Arc<Substrate>,
    source: Source,
    feeder: Feeder,
    /// Whether another copy serves while this one is made.
    beside: bool,
    /// The highest position that a table has rows of.
    marks: HashMap<(HouseId, Table), u64>,
    /// Tables that have rows.
    filled: HashSet<(HouseId, Table)>,
    /// Whether there may be more tables than the state tells of.
    grown: bool,
}

/// The rows of one house.
#[derive(Debug, Default)]
struct Rows {
    sessions: Vec<SessionRow>,
    messages: Vec<MessageRow>,
}

impl SessionsSink {
    pub(crate) fn new(substrate: Arc<Substrate>, log: Log, beside: bool) -> Self {
        let feeder = Feeder::new(substrate.folder().clone());
        Self { substrate, source: Source::new(log), feeder, beside, marks: HashMap::new(), filled: HashSet::new(), grown: true }
    }

    async fn rows(&mut self, changes: Vec<Change>) -> Result<BTreeMap<HouseId, Rows>, SinkError> {
        let mut rows: BTreeMap<HouseId, Rows> = BTreeMap::new();
        for (number, change) in changes.into_iter().enumerate() {
            self.add(&mut rows, change).await.map_err(|unfit| match unfit {
                Unfit::Event(why) => SinkError::Refused { change: number, why },
                Unfit::Log(why) => DatasetError::Unavailable(why).into(),
            })?;
        }
        Ok(rows)
    }

    async fn add(&mut self, rows: &mut BTreeMap<HouseId, Rows>, change: Change) -> Result<(), Unfit> {
        let Change { stream, seq, origin, said } = change;
        let (head, message) = match (said, &stream) {
            (Said::Session(session), StreamName::Session(house, _)) => {
                if seq == 0 {
                    self.source.remember(&stream, session_head(house, &session));
                    rows.entry(house.clone()).or_default().sessions.push(SessionRow { session: *session, origin });
                }
                return Ok(());
            }
            (Said::Message(message), _) => (self.source.head(&stream).await?, *message),
            (Said::Entry(entry), StreamName::Thread(thread)) => {
                if seq == 0 {
                    let (session, head) = thread_head(thread, &entry)?;
                    rows.entry(head.house.clone()).or_default().sessions.push(SessionRow { session, origin });
                    self.source.remember(&stream, head);
                }
                let head = self.source.head(&stream).await?;
                let author = self.source.author(&entry).await?;
                let message = thread_message(thread, &head, seq, &entry, author)?;
                (head, message)
            }
            (Said::Session(_) | Said::Entry(_), _) => return Err(Unfit::Event("it stands in a stream of another kind".into())),
        };
        let source_agent = head.source_agent.clone();
        let (text, embedding) = (session_source::search_text(&message), None);
        let row = MessageRow {
            session_id: head.session_id,
            source_agent,
            project: head.project,
            seq,
            message,
            text,
            embedding,
            origin,
        };
        rows.entry(head.house).or_default().messages.push(row);
        Ok(())
    }

    /// Adds the rows that the table does not have yet.
    async fn put<R>(
        &mut self,
        house: &HouseId,
        table: Table,
        rows: &[R],
        position: impl Fn(&R) -> u64,
        encode: impl Fn(&[R]) -> Result<RecordBatch, ArrowError>,
    ) -> Result<(), SinkError> {
        let at = (house.clone(), table);
        let mark = match self.marks.get(&at) {
            Some(mark) => *mark,
            None => maintain::mark(&self.substrate, house, table).await?,
        };
        if mark > 0 && !self.marks.contains_key(&at) {
            self.filled.insert(at.clone());
        }
        let new = &rows[rows.partition_point(|row| position(row) <= mark)..];
        let Some(last) = new.last() else { return Ok(()) };
        let batch = encode(new).map_err(|error| DatasetError::Unavailable(error.to_string()))?;
        if batch.num_rows() > 0 {
            let there = self.substrate.is_there(house, table)?;
            if !there && self.filled.contains(&at) {
                return Err(DatasetError::Damaged(format!("{} of house {house} is gone", table.name())).into());
            }
            self.grown |= !there;
            self.filled.insert(at.clone());
            let dataset = self.substrate.append(house, table, batch).await?;
            maintain::routine(&self.substrate, dataset, table).await;
        }
        self.marks.insert(at, position(last));
        Ok(())
    }

    async fn write(&mut self, rows: BTreeMap<HouseId, Rows>) -> Result<(), SinkError> {
        for (house, Rows { sessions, mut messages }) in rows {
            let width = vectors::width(&self.substrate, &house).await?;
            vectors::fill(&self.substrate, &mut messages, width, self.beside).await;
            self.put(&house, Table::Parts, &messages, |row| row.origin.position, rows::parts).await?;
            self.put(&house, Table::Messages, &messages, |row| row.origin.position, |new| rows::messages(new, width)).await?;
            self.put(&house, Table::Sessions, &sessions, |row| row.origin.position, rows::sessions).await?;
        }
        Ok(())
    }
}

impl Sink<Change> for SessionsSink {
    async fn checkpoint(&mut self) -> Result<Checkpoint, SinkError> {
        Ok(self.feeder.folder().checkpoint()?)
    }

    async fn claim(&mut self) -> Result<bool, SinkError> {
        Ok(self.feeder.claim()?)
    }

    async fn commit(&mut self, span: &Span, changes: Vec<Change>) -> Result<(), SinkError> {
        let commit = self.feeder.begin(span).await?;
        let rows = self.rows(changes).await?;
        let any = !rows.is_empty();
        self.write(rows).await?;
        if any {
            files::sync_all(self.substrate.directory()).await?;
        }
        commit.end(if self.grown { self.substrate.tables()? } else { BTreeSet::new() })?;
        self.grown = false;
        Ok(())
    }

    async fn stopped(&mut self, why: &str) -> Result<(), SinkError> {
        Ok(self.feeder.stopped(why).await?)
    }
}
