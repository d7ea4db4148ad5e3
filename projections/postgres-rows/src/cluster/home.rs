//! The directories of a cluster and the user it runs as.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User};
use sha2::{Digest, Sha256};

use super::ClusterError;

/// A unix socket's path has room for 107 bytes, and Postgres puts `/.s.PGSQL.5432` after the directory.
const SOCKET_DIRECTORY_MAX: usize = 90;
/// Where root's cluster lives when the user that runs it cannot get to the directory asked for.
const SHARED: &str = "/var/lib/arbe";
const LOG_TAIL: usize = 2000;

#[derive(Clone, Debug)]
pub(super) struct Home {
    pub root: PathBuf,
    pub socket: PathBuf,
    /// Postgres refuses to run as root.
    pub user: Option<(Uid, Gid)>,
}

impl Home {
    pub(super) fn prepare(directory: &Path) -> Result<Self, ClusterError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ClusterError::Directory { path, source }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let directory = directory.canonicalize().map_err(failed(directory))?;
        let user = user()?;
        let root = match user {
            Some((uid, gid)) if !reachable(&directory, uid, gid) => Path::new(SHARED).join(digest(&directory)),
            Some(_) | None => directory,
        };
        let near = root.join("run");
        let socket = if near.as_os_str().len() <= SOCKET_DIRECTORY_MAX {
            near
        } else {
            PathBuf::from(format!("/tmp/arbe-{}", digest(&root)))
        };
        let home = Self { root, socket, user };
        fs::create_dir_all(&home.root).map_err(failed(&home.root))?;
        home.own(&home.socket).map_err(failed(&home.socket))?;
        Ok(home)
    }

    /// Makes a directory that only the cluster's user can enter. One that somebody else made is refused.
    pub(super) fn own(&self, path: &Path) -> std::io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(path)?;
                let ours =
                    found.uid() == Uid::effective().as_raw() || self.user.is_some_and(|(uid, _)| found.uid() == uid.as_raw());
                if !found.is_dir() || !ours {
                    return Err(std::io::Error::other("belongs to somebody else"));
                }
            }
            Err(error) => return Err(error),
        }
        if let Some((uid, gid)) = self.user {
            std::os::unix::fs::chown(path, Some(uid.as_raw()), Some(gid.as_raw()))?;
        }
        fs::set_permissions(path, Permissions::from_mode(0o700))
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join("pg")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("pg.lock")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.root.join("pg.log")
    }

    pub(super) fn log_tail(&self) -> String {
        let text = fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL)..]).into_owned()
    }
}

fn user() -> Result<Option<(Uid, Gid)>, ClusterError> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let known = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
    known.map(|user| Some((user.uid, user.gid))).ok_or(ClusterError::NoUser)
}

/// Whether a user can get through every directory on the way, and into the last.
fn reachable(directory: &Path, uid: Uid, gid: Gid) -> bool {
    directory.ancestors().all(|path| {
        fs::metadata(path).is_ok_and(|found| {
            let bit = match () {
                () if found.uid() == uid.as_raw() => 0o100,
                () if found.gid() == gid.as_raw() => 0o010,
                () => 0o001,
            };
            found.mode() & bit != 0
        })
    })
}

/// Names a directory elsewhere; the same directory always has the same name.
fn digest(path: &Path) -> String {
    let hash = Sha256::digest(path.as_os_str().as_bytes());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
