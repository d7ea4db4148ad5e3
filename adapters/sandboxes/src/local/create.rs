//! How a machine comes to be, and how it goes.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use commands::ports::{Created, Exit, MachineError, Plain, Wanted};
use commands::secrets::is_reserved;
use rustix::process::Signal;

use super::bubble::Variables;
use super::limits::settle;
use super::meta::{Meta, Place};
use super::record::Record;
use super::start::unavailable;
use super::{Local, blocking, doors, etc, procs, tree, users};

/// What is kept of the words of the clone and the setup: the last of them.
const PRINTED: usize = 64 << 10;
/// What an error repeats of them.
const REPEATED: usize = 4 << 10;

pub(crate) async fn create(local: &Local, wanted: &Wanted) -> Result<Created, MachineError> {
    let id = wanted.sandbox.as_str();
    let place = local.place(id)?;
    let turn = local.turn(id);
    let _turn = turn.lock().await;
    let made = place.load().map_err(|error| MachineError::Unknown(format!("its description cannot be read: {error}")))?;
    if let Some(meta) = made {
        return Ok(Created { provider_ref: local.reference(id), printed: meta.printed });
    }
    local.ready()?;
    if let Some(image) = &wanted.recipe.image {
        return Err(MachineError::Refused(format!(
            "a local machine has the programs of this host, not those of {image:?}: leave `image` out, or name another `runtime`"
        )));
    }
    // What a server left unfinished is begun anew.
    take_away(local, id).await?;
    match make(local, &place, wanted).await {
        Ok(printed) => Ok(Created { provider_ref: local.reference(id), printed }),
        Err(error) => {
            if let Err(left) = take_away(local, id).await {
                tracing::error!(machine = id, error = %left, "a machine that was not finished cannot be removed");
            }
            Err(error)
        }
    }
}

async fn make(local: &Local, place: &Place, wanted: &Wanted) -> Result<String, MachineError> {
    let repository =
        wanted.recipe.repo.as_deref().filter(|_| wanted.tree.is_none()).map(|repo| repository(local, repo)).transpose()?;
    let mut meta = Meta {
        house: wanted.house.clone(),
        sandbox: wanted.sandbox.clone(),
        environment: wanted.environment.clone(),
        thread: wanted.thread.clone(),
        user: None,
        limits: settle(&wanted.recipe.limits, &local.options.limits, &local.options.most),
        env: wanted.recipe.env.clone().into_iter().filter(|(name, _)| !is_reserved(name)).collect(),
        doors: doors::of(wanted)?,
        repository: repository.flatten(),
        printed: String::new(),
    };
    let laid = lay_out(local, place, &mut meta, wanted.recipe.repo.as_deref());
    laid.map_err(|error| unavailable("its directory cannot be made", &error))?;
    if let Some(packed) = wanted.tree.clone() {
        let (tree, user, longest) = (place.tree(), meta.user, local.options.snapshot_bytes);
        let restored = blocking(move || tree::restore(&tree, user, &packed, longest)).await?;
        restored.map_err(|error| MachineError::Setup(format!("the tree cannot be restored: {error}")))?;
    }
    let mut printed = Printed::default();
    fill(local, place, &meta, &steps(wanted, &meta), &wanted.secrets, &mut printed).await?;
    meta.printed = printed.text();
    place.store(&meta).map_err(|error| unavailable("its description cannot be written", &error))?;
    Ok(meta.printed)
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

struct Step {
    what: &'static str,
    command: Vec<String>,
    /// Why it could not but fail, if it fails.
    suspect: Option<String>,
}

impl Step {
    fn new(what: &'static str, command: Vec<String>) -> Self {
        Self { what, command, suspect: None }
    }
}

/// There is always one: it shows that the machine works. A tree that was restored is not cloned, but set up: not all that a setup makes is
/// in the tree.
fn steps(wanted: &Wanted, meta: &Meta) -> Vec<Step> {
    let recipe = &wanted.recipe;
    let mut steps = Vec::new();
    if let Some(repo) = recipe.repo.as_ref().filter(|_| wanted.tree.is_none()) {
        let from = meta.repository.as_ref().map_or_else(|| repo.clone(), |path| format!("file://{}", path.display()));
        let mut clone = words(["git", "clone"]);
        clone.extend(recipe.branch.as_ref().map(|branch| format!("--branch={branch}")));
        clone.extend(["--".to_owned(), from, ".".to_owned()]);
        let closed = doors::of_repository(repo).filter(|host| !meta.doors.iter().any(|door| door.to.eq_ignore_ascii_case(host)));
        let suspect = closed.map(|host| format!("{host} is not in the environment's `egress`"));
        steps.push(Step { suspect, ..Step::new("the clone", clone) });
    }
    if let Some(setup) = &recipe.setup {
        steps.push(Step::new("the setup", words(["/bin/sh", "-e", "-c", setup])));
    }
    if steps.is_empty() {
        steps.push(Step::new("a first command", words(["true"])));
    }
    steps
}

async fn fill(
    local: &Local,
    place: &Place,
    meta: &Meta,
    steps: &[Step],
    secrets: &BTreeMap<String, Plain>,
    printed: &mut Printed,
) -> Result<(), MachineError> {
    let group = local.group(meta.sandbox.as_str());
    let starter = local.starter(place, meta, &group);
    let variables = Variables { env: &BTreeMap::new(), secrets };
    for Step { what, command, suspect } in steps {
        let mut output = |_, bytes: &[u8]| printed.push(bytes);
        let exit = starter.run(command.clone(), &variables, None, local.options.setup, &mut output).await;
        let how = match exit {
            Ok(Exit::Code(0)) => continue,
            Ok(Exit::Code(code)) => format!("ended with code {code}"),
            Ok(Exit::Signal(signal)) => format!("was ended by signal {signal}"),
            Ok(Exit::Sandbox(signal)) => format!("was ended with its sandbox, by signal {signal} from outside"),
            Ok(Exit::TimedOut) => "took too long".to_owned(),
            // Nothing of the recipe's: this host cannot have machines.
            Err(error) => return Err(error),
        };
        let why = suspect.as_ref().map(|suspect| format!(", and {suspect}")).unwrap_or_default();
        return Err(MachineError::Setup(format!("{what} {how}{why}: {}", printed.last())));
    }
    Ok(())
}

/// The path, if it is one of this host's and may be cloned. Others are reached over doors.
fn repository(local: &Local, repo: &str) -> Result<Option<PathBuf>, MachineError> {
    let path = match (repo.strip_prefix("file://"), repo.starts_with('/')) {
        (Some(path), _) => path,
        (None, true) => repo,
        (None, false) => return Ok(None),
    };
    let refused = || {
        let why = "is in no directory whose repositories this server lets machines clone (--repositories)";
        MachineError::Refused(format!("{repo:?} {why}"))
    };
    let path = fs::canonicalize(path).map_err(|_| refused())?;
    let open = local.options.repositories.iter().filter_map(|open| fs::canonicalize(open).ok());
    if open.into_iter().any(|open| path.starts_with(open)) { Ok(Some(path)) } else { Err(refused()) }
}

fn lay_out(local: &Local, place: &Place, meta: &mut Meta, repo: Option<&str>) -> io::Result<()> {
    let id = meta.sandbox.as_str();
    if let Some(users) = &local.users {
        meta.user = Some(users::claim(&local.claims(), users, id, &local.mark)?);
    }
    make_directories(place, meta.user)?;
    etc::write(&place.etc(), &meta.doors, repo)?;
    local.relays.open(id, &place.sockets(), &meta.doors, local.options.connections)
}

/// The machine's user may pass through to its own parts, and other users of the host may not.
fn make_directories(place: &Place, user: Option<u32>) -> io::Result<()> {
    let make = |path: &Path, mode: u32, owner: Option<u32>, group: Option<u32>| {
        fs::create_dir_all(path)?;
        chown(path, owner, group)?;
        fs::set_permissions(path, Permissions::from_mode(mode))
    };
    make(&place.root, if user.is_some() { 0o710 } else { 0o700 }, None, user)?;
    for path in [place.tree(), place.home(), place.launched(), place.executed(), place.logs()] {
        make(&path, 0o700, user, user)?;
    }
    for path in [place.sockets(), place.etc()] {
        make(&path, 0o755, None, None)?;
    }
    Ok(())
}

/// All of it: the processes, the sockets, the files, the user. One that is gone already is fine.
pub(crate) async fn take_away(local: &Local, id: &str) -> Result<(), MachineError> {
    let place = local.place(id)?;
    local.relays.close(id);
    let user = users::claimed(&local.claims(), id);
    let failed = |error: io::Error| unavailable("it cannot be removed", &error);
    if place.root.exists() {
        place.forget().map_err(failed)?;
    }
    let group = local.group(id);
    let mut left = 0;
    for _ in 0..200 {
        left = kill(local, &place, &group, user);
        if left == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    if left > 0 {
        return Err(MachineError::Unavailable(format!("{left} of its processes do not end")));
    }
    let root = place.root.clone();
    blocking(move || remove(&root)).await?.map_err(failed)?;
    local.keeper.release(&group).map_err(failed)?;
    user.map_or(Ok(()), |user| users::release(&local.claims(), user)).map_err(failed)
}

/// By their records, by their control groups and by their user. Says how many were there.
fn kill(local: &Local, place: &Place, group: &str, user: Option<u32>) -> usize {
    let records = place.records().into_iter().filter_map(|path| Record::load(&path).ok().flatten());
    let mut processes: Vec<_> = records.flat_map(|record| record.processes()).filter(|process| process.lives()).collect();
    processes.extend(user.map(procs::of_user).unwrap_or_default());
    processes.iter().for_each(|process| process.signal(Signal::KILL));
    local.keeper.kill(group);
    processes.len()
}

/// A directory may have been closed to its owner.
fn remove(root: &Path) -> io::Result<()> {
    let done = |error: io::Error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) };
    let removed = match fs::remove_dir_all(root) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open_up(root).and_then(|()| fs::remove_dir_all(root)),
        other => other,
    };
    removed.or_else(done)
}

fn open_up(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// The last words.
#[derive(Default)]
struct Printed(Vec<u8>);

impl Printed {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let excess = self.0.len().saturating_sub(PRINTED);
        self.0.drain(..excess);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    fn last(&self) -> String {
        let from = self.0.len().saturating_sub(REPEATED);
        String::from_utf8_lossy(&self.0[from..]).trim().to_owned()
    }
}
