//! Which files belong to one session.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::foreign::is_uuid;
use crate::source::{Bundle, Records};
use crate::value::Value;

/// Deeper than the client nests, so that a cycle of links ends.
const DEPTH: usize = 8;

pub(super) fn is_lines(file: &Path) -> bool {
    file.extension().is_some_and(|it| it == "jsonl")
}

pub(super) fn is_agent(file: &Path) -> bool {
    is_lines(file) && file_name(file).starts_with("agent-")
}

/// The agent whose description a file holds.
pub(super) fn described_agent(file: &Path) -> Option<PathBuf> {
    let name = file_name(file).strip_suffix(".meta.json").filter(|name| name.starts_with("agent-"))?;
    Some(file.with_file_name(format!("{name}.jsonl")))
}

fn file_name(file: &Path) -> &str {
    file.file_name().and_then(|it| it.to_str()).unwrap_or_default()
}

pub(super) fn discover(root: &Path) -> io::Result<Vec<Bundle>> {
    if root.is_file() {
        let home = home_of(root);
        let file = root.strip_prefix(home).map_err(io::Error::other)?.to_owned();
        let directory = side_directory(&file).filter(|_| !is_agent(&file));
        let mut files = vec![file];
        if let Some(directory) = directory.filter(|it| home.join(it).is_dir()) {
            below(home, &directory, DEPTH, &mut files)?;
        }
        return Ok(vec![Bundle { root: home.to_owned(), files }]);
    }
    let (home, start) = match root.file_name() {
        Some(name) if name == "projects" => (root.parent().unwrap_or(root), PathBuf::from("projects")),
        Some(_) | None if root.join("projects").is_dir() => (root, PathBuf::from("projects")),
        Some(_) | None => (root, PathBuf::new()),
    };
    let mut bundles = Vec::new();
    visit(home, &start, DEPTH, &mut bundles)?;
    Ok(bundles)
}

/// What the paths of a lone file's bundle are relative to: where `projects` is, or the directory above the file's own, whose name
/// stands for the project.
fn home_of(file: &Path) -> &Path {
    let projects = file.ancestors().find(|it| it.file_name().is_some_and(|name| name == "projects")).and_then(Path::parent);
    projects.or_else(|| file.ancestors().nth(2)).unwrap_or(Path::new(""))
}

fn side_directory(file: &Path) -> Option<PathBuf> {
    is_lines(file).then(|| file.with_extension(""))
}

struct Listed {
    files: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

fn list(home: &Path, directory: &Path) -> io::Result<Listed> {
    let path = home.join(directory);
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut listed = Listed { files: Vec::new(), directories: Vec::new() };
    for entry in std::fs::read_dir(&path).map_err(named)? {
        let entry = entry.map_err(named)?;
        let kind = entry.file_type().map_err(named)?;
        let at = directory.join(entry.file_name());
        if kind.is_dir() {
            listed.directories.push(at);
        } else {
            listed.files.push(at);
        }
    }
    listed.files.sort();
    listed.directories.sort();
    Ok(listed)
}

/// A directory that cannot be read stands for what is in it. One with session files, or with what is left of sessions, is a project's; any other may hold such.
fn visit(home: &Path, directory: &Path, depth: usize, bundles: &mut Vec<Bundle>) -> io::Result<()> {
    let listed = list(home, directory)?;
    let is_project = listed.files.iter().any(|it| is_lines(it)) || listed.directories.iter().any(|it| is_uuid(file_name(it)));
    if is_project {
        return project(home, listed, bundles);
    }
    for inner in listed.directories.iter().filter(|_| depth > 0) {
        if visit(home, inner, depth - 1, bundles).is_err() {
            bundles.push(Bundle { root: home.to_owned(), files: vec![inner.clone()] });
        }
    }
    Ok(())
}

fn project(home: &Path, listed: Listed, bundles: &mut Vec<Bundle>) -> io::Result<()> {
    let (agents, sessions): (Vec<_>, Vec<_>) = listed.files.into_iter().filter(|it| is_lines(it)).partition(|it| is_agent(it));
    let mut of_session: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for session in sessions {
        of_session.insert(session.with_extension(""), vec![session]);
    }
    let mut alone = Vec::new();
    for agent in agents {
        let parent = parent_of(home, &agent).map(|parent| agent.with_file_name(parent));
        match parent.and_then(|parent| of_session.get_mut(&parent)) {
            Some(files) => files.push(agent),
            None => alone.push(vec![agent]),
        }
    }
    for directory in listed.directories {
        let is_session = of_session.contains_key(&directory) || is_uuid(file_name(&directory));
        if is_session {
            let files = of_session.entry(directory.clone()).or_default();
            if below(home, &directory, DEPTH, files).is_err() {
                files.push(directory);
            }
        }
    }
    let groups = of_session.into_values().chain(alone).filter(|files| !files.is_empty());
    bundles.extend(groups.map(|files| Bundle { root: home.to_owned(), files }));
    Ok(())
}

fn below(home: &Path, directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let listed = list(home, directory)?;
    files.extend(listed.files);
    for inner in listed.directories.iter().filter(|_| depth > 0) {
        if below(home, inner, depth - 1, files).is_err() {
            files.push(inner.clone());
        }
    }
    Ok(())
}

/// The session that an agent's records name.
fn parent_of(home: &Path, agent: &Path) -> Option<String> {
    let named = |record: crate::seam::Record| record.look().get("sessionId").and_then(Value::as_str).map(str::to_owned);
    Records::open(home, agent).flatten().find_map(named)
}
