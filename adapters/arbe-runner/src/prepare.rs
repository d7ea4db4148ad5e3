//! Everything before the harness is started: which session it goes on with, and the files that it finds.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use events::Json;

use crate::harness::{Begin, Harness, PROVIDER, Places, models_of_pi};
use crate::pi::Start;
use crate::session::{Session, Unfit};
use crate::settings::Settings;
use crate::told::Told;

const MIRROR: &str = include_str!("../mirror/arbe-mirror.ts");
/// What a harness and its tools have no business with.
const WITHHELD: &[&str] = &["ARBE_STREAM_TOKEN", "ARBE_STREAM_URL", "ARBE_SECRET_NAMES", "ARBE_PROMPT_FILE", "ARBE_SESSION_FILE"];

#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error("{path} cannot be read or written: {source}", path = .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the session that was made for this run is not at {path}: {source}", path = .path.display())]
    NoSession {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// pi would begin anew and say nothing.
    #[error("the session in {path} cannot be gone on with: {source}", path = .path.display())]
    Session {
        path: PathBuf,
        #[source]
        source: Unfit,
    },
    /// pi would go on as if nothing had been said in them.
    #[error("the session in {path} lacks what the thread holds: {lines} of its lines", path = .path.display())]
    Short { path: PathBuf, lines: usize },
    #[error("the session that the thread holds cannot be gone on with: {0}")]
    Thread(#[source] Unfit),
    #[error("the session ran in {cwd}, which is not here")]
    NoDirectory { cwd: String },
    #[error("{0} is described, but not driven by this runner")]
    NotDriven(&'static str),
}

impl PrepareError {
    #[must_use]
    pub fn class(&self) -> &'static str {
        use crate::outcome::class;
        match self {
            Self::NoSession { .. } | Self::Session { .. } | Self::Short { .. } | Self::Thread(_) | Self::NoDirectory { .. } => {
                class::HYDRATE
            }
            Self::File { .. } => class::START,
            Self::NotDriven(_) => class::HARNESS,
        }
    }
}

/// What the harness is started with.
#[derive(Debug)]
pub struct Prepared {
    pub begin: Begin,
    /// How many messages it must have loaded.
    pub messages: usize,
    /// How many lines of the session are on the thread.
    pub next_index: usize,
    pub prompt: String,
}

pub fn prepare(settings: &Settings, told: &Told) -> Result<Prepared, PrepareError> {
    if settings.harness != Harness::Pi {
        return Err(PrepareError::NotDriven(settings.harness.descriptor().name));
    }
    let prompt = read(&settings.prompt)?;
    let run = settings.sessions.join("run");
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&run);
    made.map_err(|source| PrepareError::File { path: run, source })?;
    write(&mirror(settings), MIRROR)?;
    if let (Some(endpoint), Some(model)) = (&settings.endpoint, &settings.model) {
        let home = home(settings);
        fs::create_dir_all(&home).map_err(|source| PrepareError::File { path: home.clone(), source })?;
        write(&home.join("models.json"), &models_of_pi(endpoint, model).to_string())?;
    }
    let Some((path, session)) = session(settings, told)? else {
        let begin = Begin::New { id: settings.thread.to_string() };
        return Ok(Prepared { begin, messages: 0, next_index: 0, prompt });
    };
    if !Path::new(&session.cwd).is_dir() {
        return Err(PrepareError::NoDirectory { cwd: session.cwd });
    }
    let (messages, next_index) = (session.messages, told.next_index(&session));
    Ok(Prepared { begin: Begin::File { path, id: session.id }, messages, next_index, prompt })
}

/// The file that was made for this run; else the one that is here, unless the thread went on elsewhere; else what the thread holds.
fn session(settings: &Settings, told: &Told) -> Result<Option<(PathBuf, Session)>, PrepareError> {
    if let Some(path) = &settings.session_file {
        let text = fs::read_to_string(path).map_err(|source| PrepareError::NoSession { path: path.clone(), source })?;
        let session = Session::read(&text).map_err(|source| PrepareError::Session { path: path.clone(), source })?;
        return match told.beyond(&session) {
            0 => Ok(Some((path.clone(), session))),
            lines => Err(PrepareError::Short { path: path.clone(), lines }),
        };
    }
    let here = found(settings);
    if let Some((path, session)) = here.clone().filter(|(_, session)| told.is_within(session)) {
        return Ok(Some((path, session)));
    }
    let cwd = std::env::current_dir().map_err(|source| PrepareError::File { path: ".".into(), source })?;
    let Some(rebuilt) = told.rebuilt(&cwd.to_string_lossy()) else { return Ok(here) };
    let session = rebuilt.map_err(PrepareError::Thread)?;
    // A file of the same name is one that the thread has left behind.
    let path = settings.sessions.join(format!("{}_{}.jsonl", settings.run, session.id));
    write(&path, &session.to_text())?;
    Ok(Some((path, session)))
}

/// The newest sound file of the thread's session. Its name begins with the time or the run.
fn found(settings: &Settings) -> Option<(PathBuf, Session)> {
    let ending = format!("_{}.jsonl", settings.thread);
    let files = fs::read_dir(&settings.sessions).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(&ending)).collect();
    files.sort_by_key(|path| fs::metadata(path).and_then(|meta| meta.modified()).ok());
    files.into_iter().rev().find_map(|path| {
        let session = sound(&path).filter(|session| session.id == settings.thread.as_str())?;
        Some((path, session))
    })
}

/// Of a line that pi was writing when it was killed nothing is kept: what comes next would be written behind it, and lost with it.
fn sound(path: &Path) -> Option<Session> {
    let text = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (whole, torn) = text.rsplit_once('\n').unwrap_or(("", &text));
    let session = if Json::parse(torn).is_ok() { Session::read(&text) } else { Session::read(whole) }.ok()?;
    if !torn.is_empty() {
        write(path, &session.to_text()).ok()?;
    }
    Some(session)
}

/// How it is started, with the mirror and without the token.
#[must_use]
pub fn start(settings: &Settings, prepared: &Prepared, socket: &Path) -> Start {
    let descriptor = settings.harness.descriptor();
    let mirror = mirror(settings);
    let at = Places { sessions: &settings.sessions, mirror: &mirror };
    let model = match (&settings.endpoint, &settings.model) {
        (Some(_), Some(model)) => Some(format!("{PROVIDER}/{model}")),
        (Some(_) | None, model) => model.clone(),
    };
    let arguments = settings.harness.arguments(&prepared.begin, &at, model.as_deref(), &prepared.prompt);
    let (program, first) = match settings.command.split_first() {
        Some((program, first)) => (program.into(), first.to_vec()),
        None => (descriptor.binary.into(), Vec::new()),
    };
    let fixed = descriptor.variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut variables: BTreeMap<String, String> = fixed.collect();
    let mut set = |name: &str, value: String| drop(variables.insert(name.to_owned(), value));
    set(descriptor.home, home(settings).to_string_lossy().into_owned());
    set("ARBE_STREAM_SOCKET", socket.to_string_lossy().into_owned());
    set("ARBE_PI_MIRROR_NEXT_INDEX", prepared.next_index.to_string());
    set("ARBE_PERMISSIONS", serde_json::json!({ "ask": settings.ask }).to_string());
    let secrets = settings.secrets.clone();
    Start { program, arguments: [first, arguments].concat(), variables, without: WITHHELD, secrets }
}

fn home(settings: &Settings) -> PathBuf {
    settings.home.clone().unwrap_or_else(|| settings.sessions.join("home"))
}

fn mirror(settings: &Settings) -> PathBuf {
    settings.sessions.join("run").join("arbe-mirror.ts")
}

fn read(path: &Path) -> Result<String, PrepareError> {
    fs::read_to_string(path).map_err(|source| PrepareError::File { path: path.to_owned(), source })
}

/// For this user only.
fn write(path: &Path, text: &str) -> Result<(), PrepareError> {
    let open = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = open.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(|source| PrepareError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"t1\",\"cwd\":\"/work\"}\n";
    const ONE: &str = "{\"type\":\"message\",\"id\":\"a\",\"parentId\":null,\"message\":{\"role\":\"user\",\"n\":1.50}}\n";

    fn after(text: &str) -> (Option<usize>, String) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("f.jsonl");
        fs::write(&path, text).unwrap();
        let session = sound(&path).map(|session| session.lines.len());
        (session, fs::read_to_string(&path).unwrap())
    }

    #[test]
    fn of_a_file_whose_last_line_is_torn_only_that_line_is_dropped() {
        let two = format!("{HEADER}{ONE}");
        for torn in ["{\"type\":\"mess", "{", "\u{fffd}"] {
            assert_eq!(after(&format!("{two}{torn}")), (Some(2), two.clone()), "{torn}");
        }
        assert_eq!(after(two.trim_end()), (Some(2), two.clone()), "only its end was not written");
        assert_eq!(after(&two), (Some(2), two.clone()));
    }

    #[test]
    fn a_file_that_is_broken_in_the_middle_is_left_as_it_is() {
        let broken = format!("{HEADER}{{\"type\":\n{ONE}{{");
        assert_eq!(after(&broken), (None, broken.clone()));
        assert_eq!(after("{\"type\":").0, None);
    }
}
