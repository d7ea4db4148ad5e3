//! A session and its sub-agents, file by file.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use events::session::{Provenance, Timestamp, UserBody};

use super::layout::{described_agent, is_agent, is_lines};
use super::record;
use crate::fault::{Location, What};
use crate::foreign::is_uuid;
use crate::seam::{Extracted, Fact, Handle, Head, Out, Parts, Record, SessionDraft};
use crate::source::{Bundle, Records, name, whole};
use crate::value::Value;

pub(super) fn bundle(bundle: &Bundle, out: &mut Out<'_>) {
    let main = Some(bundle.main()).filter(|it| is_lines(it) && !is_agent(it) && is_own(it));
    let rest = bundle.files.iter().filter(|it| Some(it.as_path()) != main);
    let (mut agents, others): (Vec<_>, Vec<_>) = rest.partition(|it| is_agent(it));
    agents.sort();
    let (mut descriptions, mut sides) = (BTreeMap::new(), Vec::new());
    for file in others {
        match described_agent(file).filter(|agent| agents.binary_search(&agent).is_ok()) {
            Some(agent) => drop(descriptions.insert(agent, file)),
            None => sides.push(file),
        }
    }
    let mut family = Family { root: &bundle.root, id: None, project: None, begun: None };
    match main {
        Some(main) => family.main(main, out),
        None => family.id = agents.first().or(sides.first()).and_then(|it| family.parent_of(it)),
    }
    for agent in agents {
        family.agent(agent, descriptions.get(agent).copied(), out);
    }
    for side in sides {
        family.side(side, out);
    }
}

/// Not below a session's directory.
fn is_own(file: &Path) -> bool {
    session_directory(file).is_none()
}

/// How many directories up from a side file the session's own is.
fn session_directory(file: &Path) -> Option<usize> {
    file.ancestors().skip(1).position(|it| it.file_name().and_then(|it| it.to_str()).is_some_and(is_uuid))
}

/// What the first records say of their session.
#[derive(Default)]
struct Opening {
    session: Option<Extracted<String>>,
    project: Option<Extracted<String>>,
    created_at: Option<Extracted<Timestamp>>,
    forked: Option<Extracted<String>>,
    cut: Option<Extracted<String>>,
    facts: Vec<Fact>,
}

impl Opening {
    fn read(root: &Path, file: &Path) -> Self {
        let mut opening = Self::default();
        for record in Records::open(root, file).flatten() {
            let fork = record.copy(["forkedFrom", "sessionId"]);
            if opening.is_complete() && fork.is_none() {
                break;
            }
            opening.take(&record, fork);
        }
        opening
    }

    fn is_complete(&self) -> bool {
        self.session.is_some() && self.project.is_some() && self.created_at.is_some()
    }

    fn take(&mut self, record: &Record, fork: Option<Extracted<String>>) {
        if self.facts.is_empty() {
            self.facts.extend(record.copy_json(["version"]).map(|version| ("source", "version", version)));
        }
        self.session = self.session.take().or_else(|| record.copy(["sessionId"]));
        self.project = self.project.take().or_else(|| record.copy(["cwd"]));
        self.created_at = self.created_at.take().or_else(|| record.time(["timestamp"]));
        if fork.is_some() {
            self.cut = record.copy(["forkedFrom", "messageUuid"]).or_else(|| self.cut.take());
            self.forked = self.forked.take().or(fork);
        }
    }
}

/// A session with those that it spawned.
struct Family<'a> {
    root: &'a Path,
    id: Option<Extracted<String>>,
    project: Option<Extracted<String>>,
    begun: Option<Handle>,
}

impl Family<'_> {
    fn main(&mut self, file: &Path, out: &mut Out<'_>) {
        let opening = Opening::read(self.root, file);
        let Some(id) = named(file).or(opening.session) else {
            return out.fault(whole_of(file), What::Missing("the id"));
        };
        let project = opening.project.or_else(|| Extracted::of_directory(file, 0));
        self.id = Some(id.clone());
        self.project = project.clone();
        let forked = opening.forked.filter(|parent| parent.look() != id.look());
        let cut = opening.cut.filter(|_| forked.is_some());
        let draft = SessionDraft { id, parent: forked, cut, project, created_at: opening.created_at, facts: opening.facts };
        self.begun = out.session(draft, whole_of(file));
        let Some(main) = self.begun else { return };
        let mut chains = HashMap::new();
        for record in Records::open(self.root, file) {
            match record {
                Ok(record) => {
                    let to = self.chain(&record, &mut chains, out).unwrap_or(main);
                    record::record(out, to, record);
                }
                Err((location, what)) => out.fault(location, what),
            }
        }
    }

    /// The child that a record of a side chain belongs to: that of its parent, or one that begins with it.
    fn chain(&self, record: &Record, chains: &mut HashMap<Box<str>, Handle>, out: &mut Out<'_>) -> Option<Handle> {
        let field = |key| record.look().get(key);
        let uuid =
            field("uuid").and_then(Value::as_str).filter(|_| field("isSidechain").and_then(Value::as_bool) == Some(true))?;
        let known = field("parentUuid").and_then(Value::as_str).and_then(|parent| chains.get(parent)).copied();
        let handle = known.or_else(|| {
            let parent = self.id.clone()?;
            let draft = SessionDraft {
                id: record.copy(["uuid"])?.within(&parent),
                parent: Some(parent),
                cut: None,
                project: record.copy(["cwd"]).or_else(|| self.project.clone()),
                created_at: record.time(["timestamp"]),
                facts: Vec::new(),
            };
            out.session(draft, Location { line: None, ..record.location() })
        })?;
        chains.insert(uuid.into(), handle);
        Some(handle)
    }

    /// Of a file whose session's own is not there.
    fn parent_of(&self, file: &Path) -> Option<Extracted<String>> {
        match session_directory(file) {
            Some(up) => Extracted::of_directory(file, up),
            None => Opening::read(self.root, file).session,
        }
    }

    fn agent(&self, file: &Path, description: Option<&PathBuf>, out: &mut Out<'_>) {
        let opening = Opening::read(self.root, file);
        let Some(id) = Extracted::of_stem(file, "agent-") else {
            return out.fault(whole_of(file), What::Missing("the id"));
        };
        let description = description.map(|it| whole(self.root, it));
        let mut facts = opening.facts;
        if let Some(Ok(described)) = &description {
            let of = |key| described.copy_json(["json", key]);
            facts.extend(of("agentType").map(|it| ("source", "agent_type", it)));
            facts.extend(of("description").map(|it| ("source", "description", it)));
            facts.extend(of("toolUseId").map(|it| ("source", "tool_use_id", it)));
        }
        let draft = SessionDraft {
            id: self.id.as_ref().map_or(id.clone(), |parent| id.within(parent)),
            parent: self.id.clone(),
            cut: None,
            project: opening.project.or_else(|| self.project.clone()).or_else(|| directory_of_project(file)),
            created_at: opening.created_at,
            facts,
        };
        let Some(to) = out.session(draft, whole_of(file)) else { return };
        for record in Records::open(self.root, file) {
            match record {
                Ok(record) => record::record(out, to, record),
                Err((location, what)) => out.fault(location, what),
            }
        }
        if let Some(description) = description {
            carry(description, to, out);
        }
    }

    fn side(&mut self, file: &Path, out: &mut Out<'_>) {
        if self.begun.is_none() {
            let Some(id) = self.id.clone() else { return out.fault(whole_of(file), What::Missing("the id")) };
            let project = self.project.clone().or_else(|| directory_of_project(file));
            let draft = SessionDraft { id, parent: None, cut: None, project, created_at: None, facts: Vec::new() };
            self.begun = out.session(draft, whole_of(file));
        }
        let Some(to) = self.begun else { return };
        if !is_lines(file) {
            return carry(whole(self.root, file), to, out);
        }
        for record in Records::open(self.root, file) {
            carry(record, to, out);
        }
    }
}

fn carry(record: Result<Record, (Location, What)>, to: Handle, out: &mut Out<'_>) {
    let mut record = match record {
        Ok(record) => record,
        Err((location, what)) => return out.fault(location, what),
    };
    let file = record.location().file;
    match record.data(["base64"]) {
        Some((data, _)) => {
            let mut parts = Parts::<UserBody>::default();
            parts.file(None, Extracted::of_stem(Path::new(&*file), ""), data, Provenance::Injected);
            out.user(to, record, Head::default(), parts);
        }
        None => {
            out.carry(to, record, Head::default());
        }
    }
}

fn whole_of(file: &Path) -> Location {
    Location { file: name(file), line: None }
}

fn directory_of_project(file: &Path) -> Option<Extracted<String>> {
    Extracted::of_directory(file, session_directory(file).map_or(0, |up| up + 1))
}

/// The id in a file's name, also where a tool that copied the file put something before it.
fn named(file: &Path) -> Option<Extracted<String>> {
    let stem = Extracted::of_stem(file, "")?;
    let uuid = stem.look().len().checked_sub(36).filter(|start| stem.look().get(*start..).is_some_and(is_uuid));
    uuid.and_then(|start| stem.piece(start..stem.look().len()))
}
