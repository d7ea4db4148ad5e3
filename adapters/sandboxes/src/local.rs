//! Machines on this host: a directory each, in which processes run under bubblewrap, without a network, as a user of their own.
//!
//! What a machine may reach is handed in as sockets that this server serves. What is launched in it outlives the server, and the next
//! server finds it again.

mod bubble;
mod create;
mod doors;
mod etc;
mod files;
pub mod helper;
mod limits;
mod meta;
mod procs;
mod record;
pub(crate) mod redact;
mod relays;
mod start;
mod tree;
mod users;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use commands::ports::{
    Created, Execute, Exit, Launch, Limits, Listed, Machine, MachineError, Machines, OutputSink, ProcessState, Verdict, Wanted,
};
use events::SandboxId;
use parking_lot::Mutex;

use limits::Keeper;
use meta::{Meta, Place};
use record::Record;
use relays::Relays;
pub use relays::Ways;
use start::{Starter, unavailable};

use crate::bounded::LARGEST_TREE;

#[derive(Clone, Debug)]
pub struct Options {
    /// Where machines are. If the server is root, every user must be able to pass through to it, since machines are users of their own.
    pub directory: PathBuf,
    /// `arbe-supervisor`, or a program that calls [`helper::main`]. Seen by machines too, so the same holds for it.
    pub helper: PathBuf,
    /// Words that this program wants before those of the helper.
    pub helper_words: Vec<String>,
    pub bubblewrap: PathBuf,
    /// Users of the host that are set apart for machines. Of use only if the server is root.
    pub users: Range<u32>,
    /// For recipes that do not say.
    pub limits: Limits,
    /// Whatever recipes say.
    pub most: Limits,
    /// What `/tmp` and `/dev/shm` hold at most, in memory.
    pub scratch_mib: u64,
    /// Directories of this host that machines see at the same path, to be read: where Node.js and coding agents are.
    pub tools: Vec<PathBuf>,
    /// Put before the usual `PATH`.
    pub path: Vec<PathBuf>,
    /// Directories of this host whose repositories may be cloned by path.
    pub repositories: Vec<PathBuf>,
    /// Where machines may be led, whatever recipes say.
    pub ways: Ways,
    /// At once, out of one machine.
    pub connections: usize,
    /// For each of the clone and the setup.
    pub setup: Duration,
    /// After this a launched process is taken for one that hangs.
    pub runaway: Duration,
    /// Of a working tree as an archive, before that is compressed.
    pub snapshot_bytes: u64,
}

impl Options {
    #[must_use]
    pub fn new(directory: PathBuf, helper: PathBuf) -> Self {
        Self {
            directory,
            helper,
            helper_words: Vec::new(),
            bubblewrap: PathBuf::from("/usr/bin/bwrap"),
            users: 1_900_000_000..1_900_065_536,
            limits: Limits { memory_mib: Some(4096), pids: Some(1024), ..Limits::default() },
            most: Limits::default(),
            scratch_mib: 1024,
            tools: Vec::new(),
            path: Vec::new(),
            repositories: Vec::new(),
            ways: Ways::default(),
            connections: 256,
            setup: Duration::from_secs(30 * 60),
            runaway: Duration::from_secs(3 * 24 * 60 * 60),
            snapshot_bytes: LARGEST_TREE as u64,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another server has the machines in {0}")]
    Taken(PathBuf),
    /// Nothing in it can be seen by the users as whom machines run.
    #[error("{0} is closed to other users, and machines are users of their own")]
    Closed(PathBuf),
    #[error("{path} cannot be used")]
    Unusable { path: PathBuf, source: io::Error },
}

/// The provider `local`.
#[derive(Debug)]
pub struct Local {
    options: Options,
    /// `None`: all machines are the server's own user.
    users: Option<Range<u32>>,
    keeper: Keeper,
    relays: Relays,
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Tells machines in this directory from those in others, where names are shared by all.
    mark: String,
    /// The same for the log, where machines of several hosts may stand. Made once and kept in the directory.
    host: String,
    /// Held for as long as this server has the directory.
    _lock: File,
}

const LOCK: &str = ".lock";
const HOST: &str = ".host";

impl Local {
    /// Opens the doors of all machines again, and removes what an earlier server did not finish.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let directory = options.directory.clone();
        let unusable = |source| OpenError::Unusable { path: directory.clone(), source };
        let (lock, mark) = claim(&directory).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(OpenError::Taken(directory)),
            Err(fs::TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let users = apart(&options.users).map_err(unusable)?;
        if users.is_some() {
            let mut seen = [&directory, &options.helper].into_iter().chain(&options.tools);
            if let Some(path) = seen.find_map(|path| closed(path)) {
                return Err(OpenError::Closed(path));
            }
        }
        let host = host(&directory).map_err(unusable)?;
        let relays = Relays::new(options.ways.clone());
        let local = Self { options, users, keeper: Keeper::find(), relays, turns: Mutex::default(), mark, host, _lock: lock };
        tracing::info!(directory = %directory.display(), limits = local.keeper.name(), "local machines");
        for id in local.ids().map_err(|source| OpenError::Unusable { path: directory.clone(), source })? {
            local.take_up(&id).await;
        }
        Ok(local)
    }

    /// One machine that cannot be taken up does not keep the others from it.
    async fn take_up(&self, id: &str) {
        let Ok(place) = self.place(id) else { return };
        let taken = match place.load() {
            Ok(Some(meta)) => {
                forget_commands(&place);
                let opened = self.relays.open(id, &place.sockets(), &meta.doors, self.options.connections);
                opened.map_err(|error| unavailable("its doors cannot be opened", &error))
            }
            Ok(None) => create::take_away(self, id).await,
            Err(error) => Err(unavailable("its description cannot be read", &error)),
        };
        if let Err(error) = taken {
            tracing::warn!(machine = id, %error, "a machine cannot be taken up");
        }
    }

    /// Whoever made it was given up. It cannot say whose it is, so nobody else would have it taken away.
    async fn take_half_made_away(&self, id: &str) {
        let turn = self.turn(id);
        let Ok(_turn) = turn.try_lock() else { return };
        if matches!(self.made(id), Err(MachineError::Gone(_)))
            && let Err(error) = create::take_away(self, id).await
        {
            tracing::warn!(machine = id, %error, "a machine that was not finished cannot be removed");
        }
    }

    /// What a launched process has printed, as far as it is kept.
    pub async fn log(&self, machine: &Machine, name: &str) -> Result<Bytes, MachineError> {
        let (place, _) = self.made(machine)?;
        start::record(&place, name)?;
        let path = place.logs().join(name);
        let read = blocking(move || fs::read(path)).await?;
        match read {
            Ok(printed) => Ok(Bytes::from(printed)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(MachineError::Gone(format!("{name} has printed nothing")))
            }
            Err(error) => Err(unavailable("its output cannot be read", &error)),
        }
    }

    /// Who holds machines to their limits: `cgroup v2`, `cgroup v1` or `rlimits`.
    #[must_use]
    pub fn limits_kept_by(&self) -> &'static str {
        self.keeper.name()
    }

    /// What the log knows it by.
    fn reference(&self, id: &str) -> String {
        format!("{}.{id}", self.host)
    }

    /// The id of a machine that is here.
    fn id<'a>(&self, machine: &'a Machine) -> Result<&'a str, MachineError> {
        match machine.split_once('.') {
            Some((host, id)) if host == self.host => Ok(id),
            Some((host, _)) if !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Err(MachineError::Unavailable(format!("it is on another host, which is {host}")))
            }
            // Of no host's; whether there is such a machine is seen.
            Some(_) | None => Ok(machine),
        }
    }

    fn place(&self, machine: &Machine) -> Result<Place, MachineError> {
        let id = SandboxId::new(self.id(machine)?).map_err(|error| MachineError::Gone(error.to_string()))?;
        Ok(Place { root: self.options.directory.join(id.as_str()) })
    }

    fn made(&self, machine: &Machine) -> Result<(Place, Meta), MachineError> {
        let place = self.place(machine)?;
        match place.load() {
            Ok(Some(meta)) => Ok((place, meta)),
            Ok(None) if self.is_there() => Err(MachineError::Gone(format!("there is no machine {machine}"))),
            Ok(None) => Err(MachineError::Unavailable("the directory of the machines is not there".to_owned())),
            Err(error) => Err(unavailable("its description cannot be read", &error)),
        }
    }

    /// A directory that was not mounted again looks like one without machines.
    fn is_there(&self) -> bool {
        fs::metadata(self.options.directory.join(LOCK))
            .is_ok_and(|found| format!("{:x}-{:x}", found.dev(), found.ino()) == self.mark)
    }

    fn ready(&self) -> Result<(), MachineError> {
        for (path, package) in [(&self.options.bubblewrap, "bubblewrap"), (&self.options.helper, "arbe-supervisor")] {
            if !path.exists() {
                let path = path.display();
                return Err(MachineError::Refused(format!("{package} is not installed: local machines need it at {path}")));
            }
        }
        Ok(())
    }

    fn claims(&self) -> PathBuf {
        self.options.directory.join(".users")
    }

    fn group(&self, id: &str) -> String {
        format!("{id}-{}", self.mark)
    }

    fn starter<'a>(&'a self, place: &'a Place, meta: &'a Meta, group: &'a str) -> Starter<'a> {
        Starter { options: &self.options, keeper: &self.keeper, place, meta, group }
    }

    /// One at a time makes or removes a machine.
    fn turn(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(id.to_owned()).or_default())
    }

    fn ids(&self) -> io::Result<Vec<String>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.options.directory)? {
            ids.extend(entry?.file_name().to_str().filter(|name| SandboxId::new(name).is_ok()).map(str::to_owned));
        }
        ids.sort_unstable();
        Ok(ids)
    }
}

#[async_trait]
impl Machines for Local {
    fn provider(&self) -> &'static str {
        "local"
    }

    fn holds(&self, machine: &Machine) -> bool {
        self.id(machine).is_ok()
    }

    async fn create(&self, wanted: &Wanted) -> Result<Created, MachineError> {
        create::create(self, wanted).await
    }

    async fn probe(&self, machine: &Machine) -> Verdict {
        match self.made(machine) {
            Ok(_) => Verdict::Live,
            Err(MachineError::Gone(why)) => Verdict::Dead { why },
            Err(
                MachineError::Refused(why)
                | MachineError::Setup(why)
                | MachineError::Unavailable(why)
                | MachineError::Unknown(why),
            ) => Verdict::Unknown { why },
        }
    }

    async fn wake(&self, machine: &Machine) -> Result<(), MachineError> {
        self.made(machine).map(drop)
    }

    async fn tree(&self, machine: &Machine) -> Result<String, MachineError> {
        self.made(machine).map(|_| bubble::TREE.to_owned())
    }

    async fn keep_alive(&self, machine: &Machine) -> Result<(), MachineError> {
        self.made(machine).map(drop)
    }

    async fn execute(&self, machine: &Machine, execute: &Execute, output: OutputSink<'_>) -> Result<Exit, MachineError> {
        let (place, meta) = self.made(machine)?;
        self.ready()?;
        self.starter(&place, &meta, &self.group(meta.sandbox.as_str())).execute(execute, output).await
    }

    async fn launch(&self, machine: &Machine, launch: &Launch) -> Result<(), MachineError> {
        let (place, meta) = self.made(machine)?;
        self.ready()?;
        self.starter(&place, &meta, &self.group(meta.sandbox.as_str())).launch(launch).await
    }

    async fn process(&self, machine: &Machine, name: &str) -> Result<ProcessState, MachineError> {
        let (place, _) = self.made(machine)?;
        let record = Record::load(&start::record(&place, name)?).map_err(|error| MachineError::Unknown(error.to_string()))?;
        Ok(record.map_or(ProcessState::Absent, |record| record.state()))
    }

    async fn stop(&self, machine: &Machine, name: &str, patience: Duration) -> Result<(), MachineError> {
        let (place, _) = self.made(machine)?;
        start::stop(&start::record(&place, name)?, patience).await
    }

    async fn write(&self, machine: &Machine, path: &str, contents: Bytes) -> Result<(), MachineError> {
        let (place, meta) = self.made(machine)?;
        let path = path.to_owned();
        blocking(move || files::write(&place, meta.user, &path, &contents)).await?
    }

    async fn read(&self, machine: &Machine, path: &str) -> Result<Bytes, MachineError> {
        let (place, _) = self.made(machine)?;
        let path = path.to_owned();
        blocking(move || files::read(&place, &path)).await?.map(Bytes::from)
    }

    async fn snapshot(&self, machine: &Machine) -> Result<Bytes, MachineError> {
        let (place, _) = self.made(machine)?;
        let longest = self.options.snapshot_bytes;
        let taken = blocking(move || tree::take(&place.tree(), longest)).await?;
        let lasting = |error: &io::Error| error.kind() == io::ErrorKind::FileTooLarge;
        taken.map(Bytes::from).map_err(|error| {
            if lasting(&error) {
                MachineError::Refused(error.to_string())
            } else {
                unavailable("the tree cannot be taken", &error)
            }
        })
    }

    async fn destroy(&self, machine: &Machine) -> Result<(), MachineError> {
        if !self.is_there() {
            return Err(MachineError::Unavailable("the directory of the machines is not there".to_owned()));
        }
        let id = self.id(machine)?;
        let turn = self.turn(id);
        let _turn = turn.lock().await;
        match create::take_away(self, id).await {
            Err(MachineError::Gone(_)) => Ok(()),
            other => other,
        }
    }

    async fn list(&self) -> Result<Vec<Listed>, MachineError> {
        let ids = self.ids().map_err(|error| unavailable("the machines cannot be listed", &error))?;
        for id in &ids {
            self.take_half_made_away(id).await;
        }
        let listed = ids.into_iter().filter_map(|id| {
            let (place, meta) = self.made(&id).ok()?;
            let records = place.records().into_iter().filter_map(|path| Record::load(&path).ok().flatten());
            let running = records.filter(Record::runs).count();
            let state = if running == 0 { "idle".to_owned() } else { format!("busy with {running}") };
            Some(Listed {
                provider_ref: self.reference(&id),
                house: Some(meta.house),
                sandbox: Some(meta.sandbox),
                thread: meta.thread,
                environment: Some(meta.environment),
                state: format!("{state}, limits by {}", self.keeper.name()),
            })
        });
        Ok(listed.collect())
    }
}

/// The lock file, and what tells this directory from every other.
fn claim(directory: &Path) -> io::Result<(File, String)> {
    fs::create_dir_all(directory)?;
    // Names can be passed through but not listed.
    fs::set_permissions(directory, Permissions::from_mode(0o711))?;
    let lock = File::options().create(true).truncate(false).write(true).open(directory.join(LOCK))?;
    let found = lock.metadata()?;
    Ok((lock, format!("{:x}-{:x}", found.dev(), found.ino())))
}

fn apart(wanted: &Range<u32>) -> io::Result<Option<Range<u32>>> {
    if !nix::unistd::getuid().is_root() {
        return Ok(None);
    }
    let users = users::set_apart(wanted)?;
    match &users {
        Some(users) if users == wanted => {}
        Some(users) => tracing::info!(?users, "machines are users of this container"),
        None => tracing::warn!("too few users are known here: machines are kept apart by namespaces only"),
    }
    Ok(users)
}

fn host(directory: &Path) -> io::Result<String> {
    let path = directory.join(HOST);
    match fs::read_to_string(&path) {
        Ok(found) if !found.trim().is_empty() => return Ok(found.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let made = crate::remote::unique();
    let draft = directory.join(".host.draft");
    let mut file = File::create(&draft)?;
    io::Write::write_all(&mut file, made.as_bytes())?;
    file.sync_all()?;
    fs::rename(draft, path)?;
    File::open(directory)?.sync_all()?;
    Ok(made)
}

/// The first directory on the way that others may not pass through.
#[must_use]
pub fn closed(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let mut on_the_way: Vec<_> = path.ancestors().collect();
    on_the_way.reverse();
    on_the_way.into_iter().find(|part| fs::metadata(part).is_ok_and(|found| found.mode() & 0o001 == 0)).map(Path::to_path_buf)
}

/// Commands end with their server. What is left of them says nothing to anybody.
fn forget_commands(place: &Place) {
    for path in place.records().into_iter().filter(|path| path.starts_with(place.executed())) {
        if let Ok(Some(record)) = Record::load(&path)
            && !record.runs()
        {
            // It is in nobody's way.
            let _ = fs::remove_file(path);
        }
    }
}

/// Off the threads that serve others.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, MachineError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| MachineError::Unknown(format!("the work was given up: {error}")))
}
