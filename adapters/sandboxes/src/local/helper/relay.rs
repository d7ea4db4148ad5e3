//! Inside a machine: its own loopback leads to the sockets that were handed in, for as long as the command runs.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::complain;

pub(super) fn relay(arguments: &[OsString]) -> ExitCode {
    let run = || {
        // It keeps the variables that it began with, and a run's token is not for the tools of that run.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(listen_and_run(arguments))
    };
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => complain(&error),
    }
}

async fn listen_and_run(arguments: &[OsString]) -> io::Result<u8> {
    use std::os::unix::process::ExitStatusExt as _;
    let mut arguments = arguments.iter();
    for door in arguments.by_ref().take_while(|argument| *argument != "--") {
        let (address, socket) = parse(door).ok_or_else(|| io::Error::other("a door is ADDRESS=SOCKET"))?;
        let listener = TcpListener::bind(address).await?;
        tokio::spawn(serve(listener, socket));
    }
    // Only listening on a low port needed the right that was given for it.
    rustix::thread::clear_ambient_capability_set()?;
    let program = arguments.next().ok_or_else(|| io::Error::other("a command is wanted"))?;
    let (mut asked, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut child = match Command::new(program).args(arguments).spawn() {
        Ok(child) => child,
        Err(error) => {
            complain(&io::Error::other(format!("{}: {error}", program.to_string_lossy())));
            return Ok(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 });
        }
    };
    let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    let pass = |signal| pid.map(|pid| rustix::process::kill_process(pid, signal));
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = asked.recv() => pass(rustix::process::Signal::TERM),
            _ = interrupted.recv() => pass(rustix::process::Signal::INT),
        };
    };
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(9));
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// A bare port is one of 127.0.0.1.
fn parse(door: &OsString) -> Option<(SocketAddr, PathBuf)> {
    let (address, socket) = door.to_str()?.split_once('=')?;
    let address = match address.parse::<u16>() {
        Ok(port) => SocketAddr::from(([127, 0, 0, 1], port)),
        Err(_) => address.parse().ok()?,
    };
    Some((address, PathBuf::from(socket)))
}

/// So long a connection waits for a server that is starting again: a model's answer is asked for through it, and not every coding agent
/// asks for long.
const HELD: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(250);

/// `None`: there is nobody, or whoever asked has given up. What it asked must not be done later then.
async fn held(near: &TcpStream, socket: &Path) -> Option<UnixStream> {
    let end = tokio::time::Instant::now() + HELD;
    loop {
        match UnixStream::connect(socket).await {
            Ok(far) => return Some(far),
            Err(_) if tokio::time::Instant::now() < end => {}
            Err(_) => return None,
        }
        tokio::time::sleep(PAUSE).await;
        // It is always there to be written to, so this does not wait.
        let state = near.ready(Interest::READABLE | Interest::WRITABLE).await.ok()?;
        if state.is_read_closed() {
            return None;
        }
    }
}

async fn serve(listener: TcpListener, socket: PathBuf) {
    loop {
        match listener.accept().await {
            Ok((mut near, _)) => {
                let socket = socket.clone();
                tokio::spawn(async move {
                    if let Some(mut far) = held(&near, &socket).await {
                        // Either side may go at any time.
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
            // Out of file descriptors, for now.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}
