//! Whether the mirror lives. It is a guest in pi and can fall silent without any harm to pi, and the thread would show a run that says
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use events::RunId;
use events::dispatch::Warned;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::last::LastWords;
use crate::thread::{Thread, insist};

/// Longer than an attempt of the mirror and the pause after it: one that lives comes to the desk, whether or not the stream is reached.
pub const SILENCE: Duration = Duration::from_secs(25);
const SAYING: Duration = Duration::from_secs(30);

/// Says once that nothing comes from the mirror any more. `None`: it is not there yet.
pub async fn watch(thread: Arc<Thread>, run: RunId, mut heard: watch::Receiver<Option<Instant>>) {
    if heard.wait_for(Option::is_some).await.is_err() {
        return;
    }
    let message = format!(
        "pi works, but nothing has come from its mirror for {} seconds; what pi writes down is told when pi has ended",
        SILENCE.as_secs()
    );
    let lost = Warned { run_id: Some(run), warning: "mirror_lost".to_owned(), message };
    loop {
        match timeout(SILENCE, heard.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) if insist(SAYING, || thread.warned(&lost)).await.is_ok() => return,
            Err(_) => {}
        }
    }
}

/// Of entries that the runner had to tell in the mirror's place, though pi ended in good order.
pub async fn mended(thread: &Thread, run: RunId, entries: usize, last: &mut LastWords) {
    let message = format!("{entries} entries of the session did not come from pi's mirror; they were told after pi had ended");
    let mended = Warned { run_id: Some(run), warning: "mirror_mended".to_owned(), message };
    // If it is refused, the entries are on the thread all the same.
    drop(last.insist(|| thread.warned(&mended)).await);
}
