//! Ports of the machine's own loopback that lead out through sockets, for as long as a command runs.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::processes;

/// At one port at a time.
const CONNECTIONS: usize = 256;
/// So long a connection waits for whoever listens outside, who may be starting again: not every coding agent asks for long.
const HELD: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(250);

/// `PORT=SOCKET`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    pub port: u16,
    pub socket: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not PORT=SOCKET")]
pub struct NoWay(String);

impl FromStr for Way {
    type Err = NoWay;

    fn from_str(text: &str) -> Result<Self, NoWay> {
        let (port, socket) = text.split_once('=').ok_or_else(|| NoWay(text.to_owned()))?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(|| NoWay(text.to_owned()))?;
        let socket = Some(socket).filter(|socket| !socket.is_empty()).ok_or_else(|| NoWay(text.to_owned()))?;
        Ok(Self { port, socket: socket.into() })
    }
}

/// Every port is open before the command starts. Gives the command's exit code, as a shell tells it.
pub async fn run(ways: &[Way], command: &[String]) -> io::Result<i32> {
    for way in ways {
        let listener = TcpListener::bind(("127.0.0.1", way.port)).await?;
        tokio::spawn(serve(listener, way.socket.clone()));
    }
    let (program, arguments) = command.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
    let mut child = Command::new(program).args(arguments).spawn()?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        let passed = tokio::select! {
            ended = child.wait() => return Ok(code_of(ended?)),
            _ = term.recv() => Signal::TERM,
            _ = interrupt.recv() => Signal::INT,
            _ = hangup.recv() => Signal::HUP,
        };
        pid.into_iter().for_each(|pid| processes::signal(pid, passed));
    }
}

#[must_use]
pub fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// `None`: there is nobody, or whoever asked has given up. What it asked must not be done later then.
async fn held(inner: &TcpStream, socket: &Path) -> Option<UnixStream> {
    let end = tokio::time::Instant::now() + HELD;
    loop {
        match UnixStream::connect(socket).await {
            Ok(outer) => return Some(outer),
            Err(_) if tokio::time::Instant::now() < end => {}
            Err(_) => return None,
        }
        tokio::time::sleep(PAUSE).await;
        // It is always there to be written to, so this does not wait.
        let state = inner.ready(Interest::READABLE | Interest::WRITABLE).await.ok()?;
        if state.is_read_closed() {
            return None;
        }
    }
}

async fn serve(listener: TcpListener, socket: PathBuf) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let mut inner = match listener.accept().await {
            Ok((inner, _)) => inner,
            // Out of descriptors, say: the next may be luckier.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let socket = socket.clone();
        tokio::spawn(async move {
            drop(inner.set_nodelay(true));
            if let Some(mut outer) = held(&inner, &socket).await {
                drop(tokio::io::copy_bidirectional(&mut inner, &mut outer).await);
            }
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_a_port_and_a_socket() {
        let way = Way { port: 8080, socket: "/run/arbe/a=b.sock".into() };
        assert_eq!("8080=/run/arbe/a=b.sock".parse(), Ok(way));
        for wrong in ["8080", "8080=", "0=/x", "x=/x", "99999=/x", ""] {
            assert!(wrong.parse::<Way>().is_err(), "{wrong}");
        }
    }
}
