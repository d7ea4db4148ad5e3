//! Files of a machine, seen from the host. Whoever works in the machine may change every name at any time, so each directory on the way
//! is opened from the one before, and no symlink is followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use commands::ports::MachineError;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::bubble::{HOME, TREE};
use super::meta::Place;
use super::start::unavailable;

/// What `read` gives back at most.
const LONGEST: u64 = 256 << 20;

pub(crate) fn read(place: &Place, path: &str) -> Result<Vec<u8>, MachineError> {
    let (root, inner) = find(place, path, None)?;
    root.read(Path::new(inner)).map_err(|error| explain(path, &error))
}

pub(crate) fn write(place: &Place, user: Option<u32>, path: &str, contents: &[u8]) -> Result<(), MachineError> {
    let (root, inner) = find(place, path, user)?;
    root.write(Path::new(inner), contents).map_err(|error| explain(path, &error))
}

/// A path as it is inside: of the tree, or of the home, to which one without a slash at its beginning is relative.
fn find<'a>(place: &Place, path: &'a str, user: Option<u32>) -> Result<(Root, &'a str), MachineError> {
    let below = |root: &str| path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    let (root, inner) = match (below(TREE), below(HOME), below("~")) {
        (Some(inner), _, _) => (place.tree(), inner),
        (_, Some(inner), _) | (_, _, Some(inner)) => (place.home(), inner),
        (None, None, None) if path.starts_with('/') => {
            return Err(MachineError::Refused(format!("{path:?} is neither in {TREE} nor in {HOME}")));
        }
        (None, None, None) => (place.home(), path),
    };
    Ok((Root::open(&root, user).map_err(|error| explain(path, &error))?, inner))
}

fn explain(path: &str, error: &io::Error) -> MachineError {
    use io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory, NotFound};
    let kind = error.kind();
    if kind == NotFound {
        return MachineError::Gone(format!("there is no {path:?}"));
    }
    let odd = [InvalidInput, IsADirectory, NotADirectory].contains(&kind) || Errno::from_io_error(error) == Some(Errno::LOOP);
    if odd { MachineError::Refused(format!("{path:?} is no plain path to a file: {error}")) } else { unavailable(path, error) }
}

/// A directory that is held open, and the user to whom everything that is made in it belongs.
pub(crate) struct Root {
    pub(crate) open: OwnedFd,
    user: Option<u32>,
}

pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Root {
    pub(crate) fn open(path: &Path, user: Option<u32>) -> io::Result<Self> {
        Ok(Self { open: rustix::fs::open(path, DIRECTORY, Mode::empty())?, user })
    }

    /// The directory that a path ends in, and its last name there.
    pub(crate) fn parent(&self, path: &Path, make: bool) -> io::Result<(OwnedFd, OsString)> {
        let names = names(path).ok_or(io::ErrorKind::InvalidInput)?;
        let (last, directories) = names.split_last().ok_or(io::ErrorKind::InvalidInput)?;
        let mut at = self.open.try_clone()?;
        for name in directories {
            at = self.step(&at, name, make)?;
        }
        Ok((at, (*last).to_owned()))
    }

    fn step(&self, at: &OwnedFd, name: &OsStr, make: bool) -> io::Result<OwnedFd> {
        match openat(at, name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                match mkdirat(at, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                let made = openat(at, name, DIRECTORY, Mode::empty())?;
                self.give(&made)?;
                Ok(made)
            }
            opened => Ok(opened?),
        }
    }

    /// To the user of the machine.
    pub(crate) fn give(&self, file: impl AsFd) -> io::Result<()> {
        let Some(user) = self.user else { return Ok(()) };
        Ok(fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))?)
    }

    pub(crate) fn give_name(&self, directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let Some(user) = self.user else { return Ok(()) };
        let (uid, gid) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(user)));
        Ok(rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let (directory, name) = self.parent(path, false)?;
        // A pipe would make the reader wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&directory, &name, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut contents = Vec::new();
        File::from(file).take(LONGEST + 1).read_to_end(&mut contents)?;
        if contents.len() as u64 > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is too large"));
        }
        Ok(contents)
    }

    /// Whole or not at all. Something that can be run may be run.
    fn write(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let (directory, name) = self.parent(path, true)?;
        let mode = if contents.starts_with(b"#!") || contents.starts_with(b"\x7fELF") { 0o755 } else { 0o644 };
        let mut draft = OsString::from(".arbe-draft-");
        draft.push(&name);
        match unlinkat(&directory, &draft, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&directory, &draft, flags, Mode::from_raw_mode(0o600))?);
        let filled = file.write_all(contents).and_then(|()| {
            self.give(&file)?;
            Ok(fchmod(&file, Mode::from_raw_mode(mode))?)
        });
        let placed = filled.and_then(|()| Ok(renameat(&directory, &draft, &directory, &name)?));
        if placed.is_err() {
            // The error that matters is the first.
            let _ = unlinkat(&directory, &draft, AtFlags::empty());
        }
        placed
    }
}

/// None if it leads anywhere but downwards.
fn names(path: &Path) -> Option<Vec<&OsStr>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(names)
}
