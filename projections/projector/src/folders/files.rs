//! Files of a copy that are not its store's: who feeds it, how far it is, which copy serves. Written beside and renamed, synced before.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::FolderError;

const LOOK_AGAIN: Duration = Duration::from_millis(2);

fn open(path: &Path) -> Result<File, FolderError> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    file.map_err(|error| FolderError::io(path, error))
}

/// A lock that is held as long as the file is there, and ends with the process. `None`: another has it.
pub fn try_lock(path: &Path) -> Result<Option<File>, FolderError> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(FolderError::io(path, error)),
    }
}

/// Beside others that read.
pub fn lock_shared(path: &Path) -> Result<File, FolderError> {
    let file = open(path)?;
    file.lock_shared().map_err(|error| FolderError::io(path, error))?;
    Ok(file)
}

pub async fn lock(path: &Path) -> Result<File, FolderError> {
    loop {
        if let Some(file) = try_lock(path)? {
            return Ok(file);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// `None`: there is no such file.
pub fn read(path: &Path) -> Result<Option<String>, FolderError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FolderError::io(path, error)),
    }
}

/// Whole or not at all, also after a power cut.
pub fn write(path: &Path, text: &str) -> Result<(), FolderError> {
    let fault = |error: std::io::Error| FolderError::io(path, error);
    let beside = path.with_extension("new");
    let mut file = File::create(&beside).map_err(fault)?;
    file.write_all(text.as_bytes()).map_err(fault)?;
    file.sync_data().map_err(fault)?;
    std::fs::rename(&beside, path).map_err(fault)?;
    let parent = path.parent().unwrap_or(Path::new("."));
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(fault)
}

/// Everything that was written to the file system of `path` is on the disk afterwards.
pub async fn sync_all(path: &Path) -> Result<(), FolderError> {
    let directory = path.to_owned();
    let synced = tokio::task::spawn_blocking(move || File::open(&directory).and_then(|file| Ok(rustix::fs::syncfs(file)?))).await;
    synced.unwrap_or_else(|error| Err(error.into())).map_err(|error| FolderError::io(path, error))
}
