//! Removing copies that were replaced.

use std::time::Duration;

use super::folder::RETIRED;
use super::{FolderError, Folders, files, live_name};

/// Readers that came before a swap have this long to finish.
const KEPT: Duration = Duration::from_secs(60);

impl Folders {
    /// Removes copies that were replaced a while ago and that nobody reads. Whether some are left that have to wait.
    fn tidy(&self) -> Result<bool, FolderError> {
        let live = live_name(&self.directory)?;
        let mut waiting = false;
        for name in self.names()?.into_iter().filter(|name| live.as_ref() != Some(name)) {
            let copy = self.folder(&name);
            if copy.state().is_ok_and(|state| state.label.is_some()) {
                continue;
            }
            let marker = copy.path().join(RETIRED);
            match marker.metadata().and_then(|file| file.modified()) {
                Err(_) => {
                    files::write(&marker, "")?;
                    waiting = true;
                }
                Ok(since) if since.elapsed().is_ok_and(|since| since > KEPT) => {
                    let unread = copy.unread()?;
                    waiting |= unread.is_none();
                    if unread.is_some() {
                        copy.remove()?;
                    }
                }
                Ok(_) => waiting = true,
            }
        }
        Ok(waiting)
    }

    /// Comes back for what has to wait.
    pub(super) fn tidy_up(&self) -> Result<(), FolderError> {
        if self.tidy()? {
            let folders = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(KEPT + Duration::from_secs(1)).await;
                if let (Ok(_alone), Err(error)) = (folders.arranging().await, folders.tidy()) {
                    tracing::warn!(%error, projection = folders.projection, "a copy that was replaced could not be removed");
                }
            });
        }
        Ok(())
    }
}
