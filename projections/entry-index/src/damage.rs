//! Files that are not what was written. tantivy takes for granted that they are: it panics where they are not, or finds anything. On the
//! thread that applies deletions nothing catches that, so an index is checked before it is fed.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tantivy::directory::error::OpenReadError;
use tantivy::{Index, TantivyError};

use crate::error::{IndexError, is_damage};

/// What is read of an index. Nothing of ours is left half done: what is remembered of an index is put in its place when it is whole.
pub(crate) fn contained<T>(read: impl FnOnce() -> Result<T, IndexError>) -> Result<T, IndexError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| Err(IndexError::Damaged(told(panic.as_ref()))))
}

/// The same, away from the threads on which others wait.
pub(crate) async fn apart<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, IndexError> {
    let stopped = |error: tokio::task::JoinError| IndexError::Unavailable(error.to_string());
    tokio::task::spawn_blocking(|| contained(read)).await.map_err(stopped)?
}

fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("what is there cannot be read: {}", text.unwrap_or("nobody knows why"))
}

/// Names the files that are damaged. One that is not there was merged into another meanwhile; if it was not, the index cannot be opened.
pub(crate) fn check(index: &Index) -> Result<(), IndexError> {
    let mut damaged = Vec::new();
    let files: BTreeSet<_> = index.load_metas()?.list_segment_files().into_iter().collect();
    for file in files {
        let sound = match index.directory().validate_checksum(&file) {
            Ok(sound) => sound,
            Err(OpenReadError::FileDoesNotExist(_)) => true,
            Err(OpenReadError::IncompatibleIndex(_)) => false,
            Err(OpenReadError::IoError { io_error, .. }) if is_damage(&io_error) => false,
            Err(error @ OpenReadError::IoError { .. }) => return Err(TantivyError::from(error).into()),
        };
        if !sound {
            damaged.push(file.display().to_string());
        }
    }
    if damaged.is_empty() { Ok(()) } else { Err(IndexError::Damaged(format!("not what was written: {}", damaged.join(", ")))) }
}
