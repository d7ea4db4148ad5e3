//! Keeps one process of a machine: knows its end, writes it down, and ends all of it when asked, too late or left alone.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, Rlimit, Signal};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::Plan;
use super::enter::{NO_FILTER, become_user};
use super::families;
use crate::local::procs::{self, Process};
use crate::local::record::{Ended, Record};

/// What a process prints after this is not kept.
const LONGEST_LOG: usize = 1 << 20;

pub(super) fn supervise(leading: &[OsString]) -> io::Result<()> {
    // Values pass through here.
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    close_what_was_left_open()?;
    // Fails if it leads a session already, which is as good.
    let _ = rustix::process::setsid();
    let mut stdin = File::from(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?);
    let (plan, options) = Plan::read(&mut stdin)?;
    // One thread only: the kernel ties the life of bubblewrap to the thread that began it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let begun = Supervised::begin(leading, &plan, &options, stdin.into())?;
        drop(options);
        match begun {
            Some(supervised) => supervised.watch(&plan).await,
            None => say("taken"),
        }
    })
}

/// Whoever started the server may have left files open to its children. None of them may reach a machine.
fn close_what_was_left_open() -> io::Result<()> {
    let open: Vec<i32> =
        fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The listing itself is in the list, and closed by now.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// For the server that waits to hear whether a lasting process began. It may be gone by now.
fn say(word: &str) -> io::Result<()> {
    let _ = io::stdout().write_all(format!("{word}\n").as_bytes());
    Ok(())
}

struct Supervised {
    record: Record,
    child: Child,
    status: Lines<BufReader<Receiver>>,
    /// Closed by the server, or by its end.
    lifeline: Receiver,
    output: Option<(Receiver, File)>,
    code: Option<i32>,
    /// Bubblewrap has said all it has to say.
    told: bool,
    late: bool,
    alone: bool,
    /// Ended by its supervisor, as somebody asked.
    forced: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Status {
    child_pid: Option<i32>,
    exit_code: Option<i32>,
}

impl Supervised {
    /// None if the name is taken.
    fn begin(leading: &[OsString], plan: &Plan, options: &[u8], lifeline: OwnedFd) -> io::Result<Option<Self>> {
        let me = Process::me().ok_or_else(|| io::Error::other("/proc does not know this process"))?;
        let record = Record { boot: procs::boot(), supervisor: me, init: None, ended: None };
        if !record.claim(&plan.record)? {
            return Ok(None);
        }
        let begun = Self::spawn(leading, plan, options, lifeline, record);
        if begun.is_err() {
            fs::remove_file(&plan.record)?;
        }
        begun.map(Some)
    }

    fn spawn(leading: &[OsString], plan: &Plan, options: &[u8], lifeline: OwnedFd, record: Record) -> io::Result<Self> {
        let options = in_memory(options)?;
        let (status, told) = io::pipe()?;
        // These are inherited, by this one child only, and bubblewrap closes them before the command begins.
        let (options, told) = (rustix::io::dup(&options)?, rustix::io::dup(&told)?);
        let filter = families::filter().map(|filter| Ok::<_, io::Error>(rustix::io::dup(in_memory(&filter)?)?)).transpose()?;
        let shown = filter.as_ref().map_or(NO_FILTER.to_owned(), |filter| filter.as_raw_fd().to_string());
        let mut enter = Command::new("/proc/self/exe");
        enter.args(leading).arg("enter").arg(options.as_raw_fd().to_string()).arg(told.as_raw_fd().to_string());
        enter.arg(shown).arg(record.supervisor.pid.to_string()).env_clear().stdin(in_memory(&serde_json::to_vec(plan)?)?);
        let mut printed = None;
        if plan.log.is_some() {
            let (reader, writer) = io::pipe()?;
            enter.stdout(Stdio::from(OwnedFd::from(writer.try_clone()?))).stderr(Stdio::from(OwnedFd::from(writer)));
            printed = Some(Receiver::from_owned_fd(reader.into())?);
        }
        let child = enter.spawn()?;
        // The writing ends of the pipes are in it, and would keep them open.
        drop(enter);
        if let Some(user) = plan.user {
            become_user(user)?;
        }
        let log =
            plan.log.as_ref().map(|path| OpenOptions::new().create(true).append(true).mode(0o600).open(path)).transpose()?;
        Ok(Self {
            record,
            child,
            status: BufReader::new(Receiver::from_owned_fd(status.into())?).lines(),
            lifeline: Receiver::from_owned_fd(lifeline)?,
            output: printed.zip(log),
            code: None,
            told: false,
            late: false,
            alone: false,
            forced: false,
        })
    }

    async fn watch(mut self, plan: &Plan) -> io::Result<()> {
        let lasting = plan.log.is_some();
        let (mut asked, mut forced) = (signal(SignalKind::terminate())?, signal(SignalKind::quit())?);
        let deadline = tokio::time::sleep(Duration::from_millis(plan.milliseconds));
        tokio::pin!(deadline);
        let mut left = [0; 64];
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status?,
                line = self.status.next_line(), if !self.told => match line? {
                    Some(line) => self.hear(&line, plan)?,
                    None => self.told = true,
                },
                () = copy(&mut self.output) => {}
                _ = asked.recv() => self.ask(),
                _ = forced.recv() => self.end(),
                () = &mut deadline, if !self.late => {
                    self.late = true;
                    self.end();
                }
                read = self.lifeline.read(&mut left), if !lasting && !self.alone => if matches!(read, Ok(0) | Err(_)) {
                    self.alone = true;
                    self.end();
                },
            }
        };
        while let Some(line) = self.status.next_line().await? {
            self.hear(&line, plan)?;
        }
        while self.output.is_some() {
            copy(&mut self.output).await;
        }
        self.finish(plan, status)
    }

    fn hear(&mut self, line: &str, plan: &Plan) -> io::Result<()> {
        let status: Status = serde_json::from_str(line)?;
        self.code = status.exit_code.or(self.code);
        if let Some(pid) = status.child_pid {
            self.record.init = Process::of(pid);
            self.record.store(&plan.record)?;
            if plan.log.is_some() {
                say("started")?;
            }
        }
        Ok(())
    }

    /// The first process of the namespace is bubblewrap's, which heeds no request. The command is its child.
    fn ask(&self) {
        for process in self.record.init.into_iter().flat_map(Process::children) {
            process.signal(Signal::TERM);
        }
    }

    fn end(&mut self) {
        self.forced = true;
        if let Some(init) = self.record.init {
            init.signal(Signal::KILL);
        }
        // It may be gone already.
        let _ = self.child.start_kill();
    }

    fn finish(mut self, plan: &Plan, status: ExitStatus) -> io::Result<()> {
        use std::os::unix::process::ExitStatusExt as _;
        if self.alone {
            return fs::remove_file(&plan.record);
        }
        if let (Some(log), None) = (&plan.log, self.record.init) {
            // Nothing ran, so the name is free again, and the server hears why.
            fs::remove_file(&plan.record)?;
            return Err(io::Error::other(fs::read_to_string(log).unwrap_or_default()));
        }
        self.record.ended = Some(match (self.late, self.code, status.code()) {
            (true, _, _) => Ended::TimedOut,
            (false, Some(code), _) => Ended::from_code(code),
            (false, None, Some(code)) => Ended::Failed(code),
            (false, None, None) if self.forced => Ended::Signal(status.signal().unwrap_or(9)),
            (false, None, None) => Ended::Sandbox(status.signal().unwrap_or(9)),
        });
        // A command's end is read at once by the server that waits for it, and by nobody else.
        if plan.log.is_some() { self.record.settle(&plan.record) } else { self.record.store(&plan.record) }
    }
}

/// Never ends if there is nothing to copy. The output is gone once it has ended.
async fn copy(output: &mut Option<(Receiver, File)>) {
    let Some((printed, log)) = output else { return std::future::pending().await };
    let mut chunk = [0; 8192];
    match printed.read(&mut chunk).await {
        Ok(read) if read > 0 => {
            let kept = log.stream_position().unwrap_or(u64::MAX);
            let room = LONGEST_LOG.saturating_sub(usize::try_from(kept).unwrap_or(usize::MAX));
            // A full disk must not end what runs.
            let _ = log.write_all(&chunk[..read.min(room)]);
        }
        Ok(_) | Err(_) => *output = None,
    }
}

/// A file that never touches a disk, read from its beginning.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("arbe", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}
