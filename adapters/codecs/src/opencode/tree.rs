//! Trees: a file for every record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::discover::{Seat, seat};
use super::log::{At, Log, PartAt, begin};
use crate::artifact::{Artifact, Body};
use crate::fault::{Location, What};
use crate::seam::{Extracted, Out, Record};
use crate::source::{Bundle, bytes, name};
use crate::value::{Path as ValuePath, Reader, Value};

#[derive(Default)]
struct Files {
    info: Option<PathBuf>,
    messages: Vec<PathBuf>,
    beside: Vec<PathBuf>,
}

pub(super) fn parse(bundle: &Bundle, out: &mut Out<'_>) {
    let mut sessions: Vec<(String, Files)> = Vec::new();
    let (mut parts, mut projects): (BTreeMap<String, Vec<PathBuf>>, Vec<PathBuf>) = (BTreeMap::new(), Vec::new());
    for file in bundle.files.iter().cloned() {
        match seat(&file) {
            Some(Seat::Session { id, .. }) => files_of(&mut sessions, id).info = Some(file),
            Some(Seat::Message { session, .. }) => files_of(&mut sessions, session).messages.push(file),
            Some(Seat::Part { message, .. }) => parts.entry(message).or_default().push(file),
            Some(Seat::Project(_)) => projects.push(file),
            Some(Seat::Beside(session)) => files_of(&mut sessions, session).beside.push(file),
            None => {}
        }
    }
    parts.values_mut().for_each(|files| files.sort());
    let last = sessions.len().saturating_sub(1);
    for (index, (id, mut files)) in sessions.into_iter().enumerate() {
        files.beside.extend(projects.iter().cloned());
        session(bundle, out, &id, files, &mut parts, index == last);
    }
    for file in parts.into_values().flatten() {
        out.fault(Location { file: name(&file), line: None }, What::Missing("the session of a part"));
    }
}

fn files_of(sessions: &mut Vec<(String, Files)>, id: String) -> &mut Files {
    let at = sessions.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
        sessions.push((id, Files::default()));
        sessions.len() - 1
    });
    &mut sessions[at].1
}

fn session(
    bundle: &Bundle,
    out: &mut Out<'_>,
    id: &str,
    files: Files,
    parts: &mut BTreeMap<String, Vec<PathBuf>>,
    last: bool,
) -> Option<()> {
    let main = files.info.as_ref().or(files.messages.first()).or(files.beside.first())?;
    let location = Location { file: name(main), line: None };
    let info = files.info.as_ref().and_then(|file| record(bundle, out, file));
    if files.info.is_none() {
        out.fault(location.clone(), What::Unfit(format!("session {id} has no record of its own")));
    }
    // The name of a file or directory is what the source says too.
    let told = match &files.info {
        Some(file) => Extracted::of_stem(file, ""),
        None => Extracted::of_directory(files.messages.first()?, 0),
    };
    let messages: Vec<_> = files.messages.iter().filter_map(|file| record(bundle, out, file)).collect();
    let slug = files.info.as_ref().filter(|file| file.starts_with("project")).and_then(|file| Extracted::of_directory(file, 3));
    let log = Log::sorted(At::whole(), messages);
    let to = begin(out, info.as_ref(), &ValuePath::root(), told, &log, slug, location)?;
    log.tell(out, to, &mut |out, message| {
        let inside = PartAt::inside(message, &ValuePath::root());
        let place = message.location().file;
        let id = Path::new(&*place).file_stem().and_then(|it| it.to_str());
        let files = id.and_then(|id| parts.remove(id)).unwrap_or_default();
        let own = files.iter().filter_map(|file| record(bundle, out, file)).map(|it| PartAt::Own(it, At::whole()));
        inside.into_iter().chain(own).collect()
    });
    let mut beside = files.beside;
    // What hangs on a message that is not there is still kept.
    if last {
        beside.extend(std::mem::take(parts).into_values().flatten());
    }
    let states: Vec<_> = info.into_iter().chain(beside.iter().filter_map(|file| record(bundle, out, file))).collect();
    states.into_iter().for_each(|record| super::log::state(out, to, record));
    Some(())
}

pub(super) fn text(root: &Path, file: &Path) -> Result<String, What> {
    String::from_utf8(bytes(root, file)?).map_err(|_| What::NotUtf8)
}

pub(super) fn record(bundle: &Bundle, out: &mut Out<'_>, file: &Path) -> Option<Record> {
    value(bundle, out, file).map(|value| Record::new(value, name(file), 1, 0))
}

pub(super) fn value(bundle: &Bundle, out: &mut Out<'_>, file: &Path) -> Option<Value> {
    let location = |line| Location { file: name(file), line };
    let text = match text(&bundle.root, file) {
        Ok(text) => text,
        Err(what) => {
            out.fault(location(None), what);
            return None;
        }
    };
    match Reader::only(text.trim_start_matches('\u{feff}')) {
        Ok(value) => Some(value),
        Err(malformed) => {
            let before = text.as_bytes().get(..malformed.at).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            out.fault(location(Some(line)), What::Malformed(malformed));
            None
        }
    }
}

pub(super) fn originals(bundle: &Bundle) -> Vec<Artifact> {
    let value = |file: &PathBuf| Reader::only(text(&bundle.root, file).ok()?.trim_start_matches('\u{feff}')).ok();
    let artifact = |file: &PathBuf| Some(Artifact { path: name(file).to_string(), body: Body::Json(value(file)?) });
    bundle.files.iter().filter_map(artifact).collect()
}
