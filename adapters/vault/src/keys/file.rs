//! The key file: one user's, whole or not there at all.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::{KEY, KeyError, KeyId};
use crate::chance;

/// Any of these bits lets somebody else at it.
const OTHERS: u32 = 0o077;

pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let failed = |source| KeyError::File { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(4 << 10));
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Makes the file with a new key, unless there is one: then that one counts, also if it was made just now.
pub(super) fn make(path: &Path) -> Result<(), KeyError> {
    let failed = |source| KeyError::File { path: path.to_owned(), source };
    if path.exists() {
        return Ok(());
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    }
    let (line, _) = new_line();
    match staged(path, &line, |from, to| std::fs::hard_link(from, to)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(failed),
    }
}

/// Puts a new key in front of those in the file: it seals from now on, and the others still open. Of two at once none is lost.
pub fn add_key(path: &Path) -> Result<KeyId, KeyError> {
    let failed = |source| KeyError::File { path: path.to_owned(), source };
    let _alone = alone(path).map_err(failed)?;
    let known = read(path)?;
    let (mut text, id) = new_line();
    text.push_str(&known);
    staged(path, &text, |from, to| std::fs::rename(from, to)).map_err(failed)?;
    Ok(id)
}

/// For as long as what it returns is held. The key file itself is replaced, so another is locked, which stays where it is.
fn alone(path: &Path) -> io::Result<File> {
    let beside = path.with_added_extension("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(beside)?;
    file.lock()?;
    Ok(file)
}

fn new_line() -> (Zeroizing<String>, KeyId) {
    let key = chance::bytes::<KEY>();
    let mut line = Zeroizing::new(String::with_capacity(4 << 10));
    STANDARD.encode_string(*key, &mut line);
    line.push('\n');
    (line, KeyId::of(&key))
}

/// Written beside its place, synced, and then put there.
fn staged(path: &Path, text: &str, place: impl FnOnce(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    let unfinished = path.with_added_extension(format!("{}.new", std::process::id()));
    let written = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        place(&unfinished, path)?;
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    };
    let done = written();
    let _ = std::fs::remove_file(&unfinished);
    done
}
