//! What is typed at a terminal without being shown there.

use std::io;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

/// As a shell says of what Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// The terminal as it was, to be put back.
struct Shown(Termios);

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// `prompt` is told when nothing typed is shown any more; what was typed before is thrown away.
pub(super) fn unseen<T>(prompt: impl FnOnce(), read: impl FnOnce() -> T) -> io::Result<T> {
    let before = tcgetattr(io::stdin())?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    shown_if_interrupted(before.clone())?;
    let _shown = Shown(before);
    tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
    prompt();
    Ok(read())
}

/// For as long as the process lives: whoever listens for a signal once is not ended by it any more.
fn shown_if_interrupted(before: Termios) -> io::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        interrupted.recv().await;
        drop(Shown(before));
        std::process::exit(INTERRUPTED)
    });
    Ok(())
}
