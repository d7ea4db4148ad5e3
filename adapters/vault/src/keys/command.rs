//! A key that a program prints, such as the client of a key service.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use zeroize::Zeroizing;

use super::KeyError;

const PATIENCE: Duration = Duration::from_secs(30);
const PRINTED_MAX: usize = 64 << 10;

/// Without a shell. What the program says on stderr is for whoever reads the server's.
pub(super) async fn run(argv: &[String]) -> Result<Zeroizing<String>, KeyError> {
    let program = argv.first().cloned().unwrap_or_default();
    let failed = |why: String| KeyError::Command { program: program.clone(), why };
    let mut command = Command::new(&program);
    command.args(argv.iter().skip(1)).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| failed(format!("cannot be started: {error}")))?;
    let mut printed = Zeroizing::new(Vec::with_capacity(PRINTED_MAX + 1));
    let stdout = child.stdout.take().ok_or_else(|| failed("has no output".to_owned()))?;
    let ended = async {
        stdout.take(PRINTED_MAX as u64 + 1).read_to_end(&mut printed).await?;
        child.wait().await
    };
    let status = match tokio::time::timeout(PATIENCE, ended).await {
        Err(_) => return Err(failed(format!("did not end within {} s", PATIENCE.as_secs()))),
        Ok(ended) => ended.map_err(|error| failed(format!("failed: {error}")))?,
    };
    // It may have failed because nobody read the rest.
    if printed.len() > PRINTED_MAX {
        return Err(failed(format!("printed more than {PRINTED_MAX} bytes")));
    }
    if !status.success() {
        return Err(failed(format!("failed with {status}")));
    }
    let text = std::str::from_utf8(&printed).map_err(|_| failed("printed something else than text".to_owned()))?;
    Ok(Zeroizing::new(text.to_owned()))
}
