//! Which files belong to which session.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use super::{database, tree};
use crate::source::{Bundle, walk};
use crate::value::{Reader, Value};

/// What a file of a tree is, told by its path alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    Session {
        id: String,
        project: String,
    },
    Message {
        session: String,
        message: String,
    },
    Part {
        session: Option<String>,
        message: String,
    },
    Project(String),
    /// Anything else that is kept by session: todos, diffs, shares.
    Beside(String),
}

pub(super) fn seat(file: &Path) -> Option<Seat> {
    let name = file.to_str()?.strip_suffix(".json")?;
    let steps: Vec<&str> = name.split(['/', '\\']).collect();
    let owned = |text: &str| text.to_owned();
    Some(match steps.as_slice() {
        ["storage", "session", project, id] => Seat::Session { id: owned(id), project: owned(project) },
        ["storage", "message", session, message] => Seat::Message { session: owned(session), message: owned(message) },
        ["storage", "part", message, _] => Seat::Part { session: None, message: owned(message) },
        ["storage", "project", id] => Seat::Project(owned(id)),
        ["storage", _, session, ..] => Seat::Beside(owned(session)),
        ["project", slug, "storage", "session", "info", id] => Seat::Session { id: owned(id), project: owned(slug) },
        ["project", _, "storage", "session", "message", session, message] => {
            Seat::Message { session: owned(session), message: owned(message) }
        }
        ["project", _, "storage", "session", "part", session, message, _] => {
            Seat::Part { session: Some(owned(session)), message: owned(message) }
        }
        ["project", _, "storage", "session", _, session, ..] => Seat::Beside(owned(session)),
        ["project", slug, "app"] => Seat::Project(owned(slug)),
        _ => return None,
    })
}

pub(super) fn bundles(root: &Path) -> io::Result<Vec<Bundle>> {
    if root.is_file() {
        let (Some(parent), Some(name)) = (root.parent(), root.file_name()) else { return Ok(Vec::new()) };
        return Ok(vec![Bundle { root: parent.to_owned(), files: with_log(parent, PathBuf::from(name)) }]);
    }
    let tree = Tree::read(root)?;
    let (mut bundles, mut moved) = (Vec::new(), HashSet::new());
    for name in databases(root)? {
        let mut files = with_log(root, name.clone());
        for id in database::sessions(&root.join(&name)) {
            files.extend(tree.beside.get(&id).into_iter().flatten().cloned());
            moved.insert(id);
        }
        bundles.push(Bundle { root: root.to_owned(), files });
    }
    bundles.extend(tree.unread.iter().map(|file| Bundle { root: root.to_owned(), files: vec![file.clone()] }));
    // A message is recorded once: what may be lacking a part waits until all of it can be read.
    if tree.unread.is_empty() {
        bundles.extend(tree.bundles(root, &moved));
    }
    if bundles.is_empty() && !root.join("storage").exists() && !root.join("project").exists() {
        bundles = exports(root)?;
    }
    Ok(bundles)
}

fn databases(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let name = PathBuf::from(entry?.file_name());
        let text = name.to_string_lossy();
        if text.starts_with("opencode") && text.ends_with(".db") {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// A database with its write-ahead log, in which the latest rows may stand.
fn with_log(root: &Path, file: PathBuf) -> Vec<PathBuf> {
    let log = PathBuf::from(format!("{}-wal", file.display()));
    if root.join(&log).is_file() { vec![file, log] } else { vec![file] }
}

/// A directory that is not opencode's own may hold exports by the name that sessions have.
fn exports(root: &Path) -> io::Result<Vec<Bundle>> {
    let is_export = |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ses_"));
    Ok(jsons(root, Path::new(""))?
        .into_iter()
        .filter(is_export)
        .map(|file| Bundle { root: root.to_owned(), files: vec![file] })
        .collect())
}

fn jsons(root: &Path, below: &Path) -> io::Result<Vec<PathBuf>> {
    let is_json = |file: &Path| file.extension().is_some_and(|it| it == "json");
    if root.join(below).is_dir() { walk(root, below, is_json) } else { Ok(Vec::new()) }
}

/// The files of all trees under a root, by session.
#[derive(Default)]
struct Tree {
    /// With the project and the parent.
    sessions: BTreeMap<String, (PathBuf, String, Option<String>)>,
    messages: BTreeMap<String, Vec<PathBuf>>,
    parts: BTreeMap<String, Vec<PathBuf>>,
    projects: HashMap<String, PathBuf>,
    beside: BTreeMap<String, Vec<PathBuf>>,
    /// Parts that hang on no message there is.
    adrift: Vec<PathBuf>,
    /// Directories that cannot be read.
    unread: Vec<PathBuf>,
}

impl Tree {
    fn read(root: &Path) -> io::Result<Self> {
        let mut files = jsons(root, Path::new("storage"))?;
        if root.join("project").is_dir() {
            for entry in std::fs::read_dir(root.join("project"))? {
                let slug = Path::new("project").join(entry?.file_name());
                files.extend(jsons(root, &slug.join("storage").join("session"))?);
                files.extend(Some(slug.join("app.json")).filter(|file| root.join(file).is_file()));
            }
        }
        let (mut tree, mut parts, mut session_of) = (Self::default(), Vec::new(), HashMap::new());
        for file in files {
            match seat(&file) {
                Some(Seat::Session { id, project }) => {
                    let parent = field(root, &file, "parentID");
                    tree.sessions.insert(id, (file, project, parent));
                }
                Some(Seat::Message { session, message }) => {
                    session_of.insert(message, session.clone());
                    tree.messages.entry(session).or_default().push(file);
                }
                Some(Seat::Part { session, message }) => parts.push((session, message, file)),
                Some(Seat::Project(id)) => drop(tree.projects.insert(id, file)),
                Some(Seat::Beside(session)) => tree.beside.entry(session).or_default().push(file),
                None if root.join(&file).is_dir() => tree.unread.push(file),
                None => {}
            }
        }
        for (session, message, file) in parts {
            let session = session.or_else(|| session_of.get(&message).cloned()).or_else(|| field(root, &file, "sessionID"));
            match session {
                Some(session) => tree.parts.entry(session).or_default().push(file),
                None => tree.adrift.push(file),
            }
        }
        Ok(tree)
    }

    fn bundles(&self, root: &Path, moved: &HashSet<String>) -> Vec<Bundle> {
        let parent = |id: &str| self.sessions.get(id).and_then(|it| it.2.as_deref()).filter(|it| self.sessions.contains_key(*it));
        // Lineages are one level deep: who hangs on a child stands alone.
        let root_of = |id: &str| parent(id).filter(|it| parent(it).is_none()).map(str::to_owned);
        let mut children: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        let mut roots = Vec::new();
        let known = self.sessions.keys().chain(self.messages.keys().filter(|id| !self.sessions.contains_key(*id)));
        for id in known.filter(|id| !moved.contains(*id)) {
            match root_of(id) {
                Some(root) => children.entry(root).or_default().push(id),
                None => roots.push(id),
            }
        }
        let mut bundles: Vec<_> = roots
            .into_iter()
            .map(|id| {
                let mut files = self.files(id);
                files.extend(children.get(id).into_iter().flatten().flat_map(|id| self.files(id)));
                let mut seen = HashSet::new();
                files.retain(|file| seen.insert(file.clone()));
                Bundle { root: root.to_owned(), files }
            })
            .collect();
        if !self.adrift.is_empty() {
            bundles.push(Bundle { root: root.to_owned(), files: self.adrift.clone() });
        }
        bundles
    }

    fn files(&self, id: &str) -> Vec<PathBuf> {
        let session = self.sessions.get(id);
        let project = session.and_then(|(_, project, _)| self.projects.get(project));
        let of = |files: &BTreeMap<String, Vec<PathBuf>>| files.get(id).cloned().unwrap_or_default();
        let own = session.map(|(file, ..)| file.clone());
        own.into_iter().chain(of(&self.messages)).chain(of(&self.parts)).chain(of(&self.beside)).chain(project.cloned()).collect()
    }
}

fn field(root: &Path, file: &Path, key: &str) -> Option<String> {
    let text = tree::text(root, file).ok()?;
    Reader::only(&text).ok()?.get(key).and_then(Value::as_str).map(str::to_owned)
}
