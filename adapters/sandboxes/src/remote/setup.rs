//! A new machine's working tree: taken from a snapshot or cloned, and set up.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::time::Duration;

use bytes::Bytes;
use commands::ports::{Execute, Exit, MachineError, Wanted};

use super::{PATIENCE, PATIENCE_WITH_TREES, PRIVATE, Reach, ZSTD_MAGIC, discard, execute_as, script, unique};
use crate::bounded::Bounded;

/// One setup at a time, and a second server can end that of a first.
const JOB: &str = "setup";
const LONGEST_PRINTED: usize = 64 << 10;
const PATIENCE_WITH_SETUP: Duration = Duration::from_secs(1800);

/// Does nothing in a machine that was set up before. What was printed comes back without secrets.
pub(crate) async fn set_up(reach: &impl Reach, machine: &str, wanted: &Wanted, largest: usize) -> Result<String, MachineError> {
    let layout = reach.layout(machine).await?;
    let prepared = reach.run(machine, &script::prepare(&layout), PATIENCE).await?;
    if prepared.code != 0 {
        return Err(MachineError::Setup(format!("its directories cannot be made: {}", prepared.printed.trim())));
    }
    let says = |word: &str| prepared.printed.lines().any(|line| line == word);
    if says("ready") {
        return Ok(String::new());
    }
    if let Some(tree) = &wanted.tree {
        restore(reach, machine, tree, says("zstd"), largest).await?;
    }
    let printed = build(reach, machine, wanted).await?;
    let marked = reach.run(machine, &format!(": >{}", script::quote(&layout.ready())), PATIENCE).await?;
    if marked.code == 0 { Ok(printed) } else { Err(MachineError::Setup("it cannot be marked as ready".to_owned())) }
}

async fn restore(reach: &impl Reach, machine: &str, tree: &Bytes, has_zstd: bool, largest: usize) -> Result<(), MachineError> {
    let broken = |error: &dyn std::fmt::Display| MachineError::Setup(format!("the snapshot cannot be read: {error}"));
    let compressed = has_zstd && tree.starts_with(&ZSTD_MAGIC);
    let packed = tree.clone();
    let opened =
        tokio::task::spawn_blocking(move || opened(packed, largest, compressed)).await.map_err(|error| broken(&error))?;
    let contents = opened.map_err(|error| broken(&error))?;
    let layout = reach.layout(machine).await?;
    let file = layout.inbox(&unique());
    let unpacked = async {
        reach.put(machine, &file, PRIVATE, contents).await?;
        reach.run(machine, &script::unpack(&layout, &file, compressed), PATIENCE_WITH_TREES).await
    };
    match unpacked.await {
        Ok(ran) if ran.code == 0 => Ok(()),
        Ok(ran) => Err(broken(&ran.printed.trim())),
        Err(error) => {
            discard(reach, machine, &file).await;
            Err(error)
        }
    }
}

/// A snapshot can claim to be small and be none. One that the machine unpacks itself is only measured.
fn opened(tree: Bytes, largest: usize, compressed: bool) -> io::Result<Bytes> {
    let mut archive = Bounded::new(zstd::Decoder::new(&tree[..])?, largest as u64);
    if compressed {
        io::copy(&mut archive, &mut io::sink())?;
        return Ok(tree);
    }
    let mut opened = Vec::new();
    archive.read_to_end(&mut opened)?;
    Ok(opened.into())
}

/// A tree that was restored is not cloned, but set up: not all that a setup makes is in the tree.
async fn build(reach: &impl Reach, machine: &str, wanted: &Wanted) -> Result<String, MachineError> {
    let recipe = &wanted.recipe;
    let repo = recipe.repo.as_deref().filter(|_| wanted.tree.is_none());
    if repo.is_none() && recipe.setup.is_none() {
        return Ok(String::new());
    }
    let layout = reach.layout(machine).await?;
    reach.run(machine, &script::end(&layout, JOB, Duration::ZERO)?, PATIENCE).await?;
    let execute = Execute {
        command: script::build(repo, recipe.branch.as_deref(), recipe.setup.as_deref()),
        cwd: None,
        secrets: wanted.secrets.clone(),
        env: BTreeMap::new(),
        timeout: recipe.limits.seconds.map_or(PATIENCE_WITH_SETUP, Duration::from_secs),
    };
    let mut printed: Vec<u8> = Vec::new();
    let mut keep = |_, bytes: &[u8]| {
        printed.extend_from_slice(bytes);
        if printed.len() > 2 * LONGEST_PRINTED {
            printed.drain(..printed.len() - LONGEST_PRINTED);
        }
    };
    let ended = execute_as(reach, machine, JOB, &execute, &mut keep).await;
    let printed = end_of(&printed);
    match ended? {
        Exit::Code(0) => Ok(printed),
        Exit::Code(code) => Err(MachineError::Setup(format!("it ended with {code}\n{printed}"))),
        Exit::Signal(signal) | Exit::Sandbox(signal) => {
            Err(MachineError::Setup(format!("it was ended by signal {signal}\n{printed}")))
        }
        Exit::TimedOut => Err(MachineError::Setup(format!("it took too long\n{printed}"))),
    }
}

/// Of a long text the end is kept.
fn end_of(printed: &[u8]) -> String {
    let text = String::from_utf8_lossy(printed);
    let from = text.len().saturating_sub(LONGEST_PRINTED);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_unpacked_than_a_snapshot_may_hold() {
        let packed = Bytes::from(zstd::encode_all(&vec![0; 1 << 20][..], 3).unwrap());
        assert!(packed.len() < 1 << 10);
        for compressed in [true, false] {
            let small = opened(packed.clone(), (1 << 20) - 1, compressed).unwrap_err();
            assert_eq!(small.kind(), io::ErrorKind::FileTooLarge);
        }
        assert_eq!(opened(packed.clone(), 1 << 20, true).unwrap(), packed);
        assert_eq!(opened(packed, 1 << 20, false).unwrap().len(), 1 << 20);
    }

    #[test]
    fn of_a_long_text_the_end_is_kept() {
        let printed = format!("{}é end", "é".repeat(LONGEST_PRINTED));
        let shown = end_of(printed.as_bytes());
        assert!(shown.ends_with("é end") && shown.len() <= LONGEST_PRINTED);
    }
}
