//! Changes that follow each other, folded to one change per row.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::change::{Edit, EditOf, Op};
use crate::rows::{AgentKeyRow, AgentRow, EnvironmentRow, HouseRow, MemberRow, Ms, Row, SandboxRow, SecretRow, ThreadRow};
use crate::work::{Work, WorkChange, WorkKey, WorkKind};

/// What becomes of one row.
enum Fate<R: Row> {
    /// With its turn among the new rows.
    New(R, usize),
    Changed(R::Patch),
}

pub(crate) struct Table<R: Row> {
    fates: BTreeMap<R::Key, Fate<R>>,
    /// Rows that came to their end, whose keys may have been taken since.
    ended: Vec<(R::Key, Fate<R>)>,
    turns: usize,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self { fates: BTreeMap::new(), ended: Vec::new(), turns: 0 }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a row is made twice")]
pub(crate) struct Contradiction;

impl<R: Row> Table<R> {
    fn edit(&mut self, edit: EditOf<R>) -> Result<(), Contradiction> {
        self.turns += 1;
        let turn = self.turns;
        let (key, fate, ends) = match edit {
            Edit::Insert(row) => match self.fates.remove(&row.key()) {
                None => (row.key(), Fate::New(row, turn), false),
                Some(known) if R::FIRST_WINS => (row.key(), known, false),
                Some(Fate::New(..) | Fate::Changed(_)) => return Err(Contradiction),
            },
            Edit::Update(key, later) => {
                let ends = R::ends(&later);
                let fate = match self.fates.remove(&key) {
                    None => Fate::Changed(later),
                    Some(Fate::New(mut row, turn)) => {
                        row.patch(later);
                        Fate::New(row, turn)
                    }
                    Some(Fate::Changed(mut patch)) => {
                        R::merge(&mut patch, later);
                        Fate::Changed(patch)
                    }
                };
                (key, fate, ends)
            }
        };
        if ends {
            self.ended.push((key, fate));
        } else {
            self.fates.insert(key, fate);
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = (&R::Key, &Fate<R>)> {
        self.fates.iter().chain(self.ended.iter().map(|(key, fate)| (key, fate)))
    }

    /// In the order of the log.
    pub(crate) fn new_rows(&self) -> Vec<&R> {
        let new = self.all().filter_map(|(_, fate)| match fate {
            Fate::New(row, turn) => Some((*turn, row)),
            Fate::Changed(_) => None,
        });
        let mut new: Vec<_> = new.collect();
        new.sort_unstable_by_key(|(turn, _)| *turn);
        new.into_iter().map(|(_, row)| row).collect()
    }

    pub(crate) fn changed(&self) -> Vec<Changed<'_, R::Key, R::Patch>> {
        let changed = self.all().filter_map(|(key, fate)| match fate {
            Fate::Changed(patch) => Some(Changed { key, patch }),
            Fate::New(..) => None,
        });
        changed.collect()
    }
}

#[derive(Serialize)]
pub(crate) struct Changed<'a, K, P> {
    key: &'a K,
    #[serde(flatten)]
    patch: &'a P,
}

enum WorkFate {
    Put(Work),
    Seen(Ms),
    Done,
}

#[derive(Default)]
pub(crate) struct WorkTable(BTreeMap<WorkKey, WorkFate>);

impl WorkTable {
    fn edit(&mut self, change: WorkChange) {
        match change {
            WorkChange::Put(work) => {
                // The first death has the cause, the next is a member's wish that the machine be taken away.
                let dead = work.key.kind == WorkKind::SandboxDead && matches!(self.0.get(&work.key), Some(WorkFate::Put(_)));
                if !dead {
                    self.0.insert(work.key.clone(), WorkFate::Put(work));
                }
            }
            WorkChange::Done(key) => {
                self.0.insert(key, WorkFate::Done);
            }
            WorkChange::Seen(key, at) => match self.0.get_mut(&key) {
                None => {
                    self.0.insert(key, WorkFate::Seen(at));
                }
                Some(WorkFate::Put(work)) => work.seen = at,
                Some(WorkFate::Seen(seen)) => *seen = at,
                Some(WorkFate::Done) => {}
            },
        }
    }

    pub(crate) fn put(&self) -> Vec<&Work> {
        let put = self.0.values().filter_map(|fate| match fate {
            WorkFate::Put(work) => Some(work),
            WorkFate::Seen(_) | WorkFate::Done => None,
        });
        put.collect()
    }

    pub(crate) fn seen(&self) -> Vec<Seen<'_>> {
        let seen = self.0.iter().filter_map(|(key, fate)| match fate {
            WorkFate::Seen(seen) => Some(Seen { key, seen: *seen }),
            WorkFate::Put(_) | WorkFate::Done => None,
        });
        seen.collect()
    }

    pub(crate) fn done(&self) -> Vec<&WorkKey> {
        self.0.iter().filter(|(_, fate)| matches!(fate, WorkFate::Done)).map(|(key, _)| key).collect()
    }
}

#[derive(Serialize)]
pub(crate) struct Seen<'a> {
    #[serde(flatten)]
    key: &'a WorkKey,
    seen: Ms,
}

#[derive(Default)]
pub(crate) struct Fold {
    pub houses: Table<HouseRow>,
    pub agents: Table<AgentRow>,
    pub agent_keys: Table<AgentKeyRow>,
    pub members: Table<MemberRow>,
    pub environments: Table<EnvironmentRow>,
    pub secrets: Table<SecretRow>,
    pub sandboxes: Table<SandboxRow>,
    pub threads: Table<ThreadRow>,
    pub work: WorkTable,
}

/// What cannot be folded: whether it has an effect depends on every row as of that moment.
pub(crate) enum Step {
    Folded,
    Barrier(Op),
}

impl Fold {
    pub(crate) fn take(&mut self, op: Op) -> Result<Step, Contradiction> {
        match op {
            Op::House(edit) => self.houses.edit(edit)?,
            Op::Agent(edit) => self.agents.edit(edit)?,
            Op::AgentKey(edit) => self.agent_keys.edit(edit)?,
            Op::Member(edit) => self.members.edit(edit)?,
            Op::Environment(edit) => self.environments.edit(edit)?,
            Op::Secret(edit) => self.secrets.edit(edit)?,
            Op::Sandbox(edit) => self.sandboxes.edit(edit)?,
            Op::Thread(edit) => self.threads.edit(*edit)?,
            Op::Work(change) => self.work.edit(change),
            op @ (Op::DropEnvironment(..) | Op::DropMember(..)) => return Ok(Step::Barrier(op)),
        }
        Ok(Step::Folded)
    }
}
