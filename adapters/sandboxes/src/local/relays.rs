//! The host's side of the doors: sockets in a machine's directory that lead to one address each.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use commands::ports::Reach;
use parking_lot::Mutex;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::doors::Door;

const PATIENCE: Duration = Duration::from_secs(10);

/// Where doors may lead.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// Names that stand for an address of now: a door outlives the server that it was made for.
    pub names: BTreeMap<String, String>,
    pub inner: Reach,
}

impl Ways {
    async fn connect(&self, to: &str) -> io::Result<TcpStream> {
        if let Some(address) = self.names.get(to) {
            return TcpStream::connect(address).await;
        }
        let found = tokio::net::lookup_host(to).await?;
        let open: Vec<SocketAddr> = found.filter(|address| self.inner.allows(to, address.ip())).collect();
        if open.is_empty() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "machines may not reach this host's own networks"));
        }
        TcpStream::connect(open.as_slice()).await
    }
}

/// The name of a door's socket in the directory of sockets.
pub(crate) fn socket(index: usize) -> String {
    format!("{index}.sock")
}

/// Serves the doors of all machines, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Relays {
    open: Mutex<BTreeMap<String, JoinSet<()>>>,
    ways: Arc<Ways>,
}

impl Relays {
    pub(crate) fn new(ways: Ways) -> Self {
        Self { open: Mutex::default(), ways: Arc::new(ways) }
    }

    /// Sockets that an earlier server left behind are replaced. Processes that run see the new ones.
    pub(crate) fn open(&self, machine: &str, directory: &Path, doors: &[Door], connections: usize) -> io::Result<()> {
        let places = Arc::new(Semaphore::new(connections));
        let mut tasks = JoinSet::new();
        for (index, door) in doors.iter().enumerate() {
            let listener = listen(directory, &socket(index))?;
            tasks.spawn(serve(listener, door.to.clone(), Arc::clone(&places), Arc::clone(&self.ways)));
        }
        self.open.lock().insert(machine.to_owned(), tasks);
        Ok(())
    }

    /// Connections that are open end too.
    pub(crate) fn close(&self, machine: &str) {
        self.open.lock().remove(machine);
    }
}

/// The path of a socket may have hardly a hundred bytes, so it is named by the open directory.
fn listen(directory: &Path, name: &str) -> io::Result<UnixListener> {
    match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let open = File::open(directory)?;
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{name}", open.as_raw_fd()))?;
    // The directory decides who comes near.
    fs::set_permissions(directory.join(name), Permissions::from_mode(0o666))?;
    Ok(listener)
}

async fn serve(listener: UnixListener, to: String, places: Arc<Semaphore>, ways: Arc<Ways>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((near, _)) => match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => {
                        let (to, ways) = (to.clone(), Arc::clone(&ways));
                        connections.spawn(async move {
                            connect(near, &to, &ways).await;
                            drop(place);
                        });
                    }
                    Err(_) => tracing::warn!(%to, "a machine has too many connections"),
                },
                Err(error) => {
                    tracing::warn!(%to, %error, "a machine's connection cannot be taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(mut near: UnixStream, to: &str, ways: &Ways) {
    match tokio::time::timeout(PATIENCE, ways.connect(to)).await {
        Ok(Ok(mut far)) => {
            // Either side may go at any time.
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        }
        Ok(Err(error)) => tracing::debug!(%to, %error, "what a machine asks for cannot be reached"),
        Err(_) => tracing::debug!(%to, "what a machine asks for does not answer"),
    }
}
