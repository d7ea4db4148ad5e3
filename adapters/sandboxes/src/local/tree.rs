//! A working tree as one piece of bytes: a tar archive, compressed with zstd. The same tree gives the same bytes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, chmod, fchmod, fstat, futimens, linkat, mkdirat, openat,
    readlinkat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;
use tar::{Archive, Builder, EntryType, Header};

use super::files::{DIRECTORY, Root};
use crate::bounded::{Bounded, too_large};

/// Deeper than any tree that is worked on.
const DEEPEST: usize = 200;

/// Symlinks are kept as they are. Sockets, pipes and devices are left out, and so are owners.
pub(crate) fn take(tree: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let root = Root::open(tree, None)?;
    let packed = zstd::stream::Encoder::new(Vec::new(), 3)?;
    let mut taking = Taking { archive: Builder::new(Bounded::new(packed, longest)) };
    taking.directory(&root.open, &mut PathBuf::new(), 0)?;
    taking.archive.into_inner()?.into_inner().finish()
}

struct Taking<W: Write> {
    archive: Builder<Bounded<W>>,
}

impl<W: Write> Taking<W> {
    fn directory(&mut self, directory: &OwnedFd, path: &mut PathBuf, depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the tree is too deep"));
        }
        for name in sorted(directory)? {
            path.push(&name);
            match self.entry(directory, &name, path, depth) {
                Err(error) if is_moved(&error) => {}
                other => other?,
            }
            path.pop();
        }
        Ok(())
    }

    fn entry(&mut self, directory: &OwnedFd, name: &OsStr, path: &mut PathBuf, depth: usize) -> io::Result<()> {
        let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                let inner = opened(directory, name, DIRECTORY)?;
                self.append(&fstat(&inner)?, EntryType::Directory, 0, path, io::empty())?;
                self.directory(&inner, path, depth + 1)
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = opened(directory, name, flags)?;
                let found = fstat(&file)?;
                if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                    return Ok(());
                }
                let size = u64::try_from(found.st_size).unwrap_or_default();
                // It may shrink or grow meanwhile; the archive has promised a size.
                let contents = File::from(file).chain(io::repeat(0)).take(size);
                self.append(&found, EntryType::Regular, size, path, contents)
            }
            FileType::Symlink => {
                let target = match readlinkat(directory, name, Vec::new()) {
                    // No symlink any more.
                    Err(Errno::INVAL) => return Ok(()),
                    target => OsString::from_vec(target?.into_bytes()),
                };
                let mut header = header(&found, EntryType::Symlink, 0);
                self.archive.append_link(&mut header, path, target)
            }
            FileType::Socket | FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => Ok(()),
        }
    }

    fn append(&mut self, found: &Stat, kind: EntryType, size: u64, path: &Path, contents: impl Read) -> io::Result<()> {
        // Known before anything of it is read.
        if size > self.archive.get_ref().room() {
            return Err(too_large());
        }
        self.archive.append_data(&mut header(found, kind, size), path, contents)
    }
}

/// Removed by whoever works there, or something else is in its place, between the listing and now: a socket cannot be opened.
fn is_moved(error: &io::Error) -> bool {
    let moved = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| moved.contains(&code))
}

/// Whoever works there may have closed it to its own user, who is the server's where that is not root. Then it is opened to that user.
fn opened(directory: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    match openat(directory, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {}
        other => return Ok(other?),
    }
    // Held, so that no symlink that comes into its place meanwhile is followed.
    let held = openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let mode = fstat(&held)?.st_mode;
    let opening = match FileType::from_raw_mode(mode) {
        FileType::Directory => 0o700,
        FileType::RegularFile => 0o600,
        FileType::Symlink
        | FileType::Socket
        | FileType::Fifo
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => return Err(Errno::ACCESS.into()),
    };
    chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), Mode::from_raw_mode(mode & 0o777 | opening))?;
    Ok(openat(directory, name, flags, Mode::empty())?)
}

fn sorted(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn header(found: &Stat, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(found.st_mode & 0o777);
    header.set_mtime(u64::try_from(found.st_mtime).unwrap_or_default());
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Into a tree that is empty and in which nobody works yet. Whoever made the archive may be anybody: nothing is written outside, and not
/// more than the archive holds, so a file with holes is none of ours.
pub(crate) fn restore(tree: &Path, user: Option<u32>, packed: &[u8], longest: u64) -> io::Result<()> {
    let root = Root::open(tree, user)?;
    let unpacked = Bounded::new(zstd::stream::Decoder::new(packed)?, longest);
    let mut archive = Archive::new(unpacked);
    // What is in a directory changes its time, and may be forbidden by its mode: both are set at last.
    let mut directories = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if path.components().all(|part| part == std::path::Component::CurDir) {
            continue;
        }
        let (mode, time) = (Mode::from_raw_mode(entry.header().mode()? & 0o777), entry.header().mtime()?);
        let (directory, name) = root.parent(&path, true)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            match mkdirat(&directory, &name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            root.give(openat(&directory, &name, DIRECTORY, Mode::empty())?)?;
            directories.insert(path, (mode, time));
        } else if kind.is_file() || kind.is_contiguous() {
            file(&root, &directory, &name, &mut entry, mode, time)?;
        } else if kind.is_symlink() {
            let target = entry.link_name()?.ok_or(io::ErrorKind::InvalidData)?;
            symlinkat(target.as_ref(), &directory, &name)?;
            root.give_name(&directory, &name)?;
            utimensat(&directory, &name, &times(time), AtFlags::SYMLINK_NOFOLLOW)?;
        } else if kind.is_hard_link() {
            let target = entry.link_name()?.ok_or(io::ErrorKind::InvalidData)?;
            let (from, old) = root.parent(&target, false)?;
            linkat(from, &old, &directory, &name, AtFlags::empty())?;
        } else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{kind:?} is nothing of a tree")));
        }
    }
    for (path, (mode, time)) in directories.into_iter().rev() {
        let (directory, name) = root.parent(&path, false)?;
        finish(&openat(&directory, &name, DIRECTORY, Mode::empty())?, mode, time)?;
    }
    Ok(())
}

fn file(root: &Root, directory: &OwnedFd, name: &OsStr, contents: &mut impl Read, mode: Mode, time: u64) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(directory, name, flags, Mode::from_raw_mode(0o600))?);
    io::copy(contents, &mut file)?;
    root.give(&file)?;
    finish(&file.into(), mode, time)
}

fn finish(file: &OwnedFd, mode: Mode, time: u64) -> io::Result<()> {
    fchmod(file, mode)?;
    Ok(futimens(file, &times(time))?)
}

fn times(seconds: u64) -> Timestamps {
    let time = Timespec { tv_sec: i64::try_from(seconds).unwrap_or_default(), tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_that_came_into_the_place_of_a_file_is_left_out() {
        let place = tempfile::tempdir().unwrap();
        let _socket = UnixListener::bind(place.path().join("s")).unwrap();
        let root = Root::open(place.path(), None).unwrap();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let error = opened(&root.open, OsStr::new("s"), flags).unwrap_err();
        assert!(is_moved(&error), "{error}");
    }
}
