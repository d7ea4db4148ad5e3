//! What the first start makes: a house, its owner, a token for them, and the key that signs tokens.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use commands::command::{CreateHouse, IssueKey, RegisterAgent};
use commands::{Actor, CommandError, Commands};
use events::{AgentKind, KeyHash};
use sha2::{Digest, Sha256};

use crate::endpoint::TOKEN_FILE;

const KEY_FILE: &str = "token-key";
const HOUSE: &str = "home";
const OWNER: &str = "owner";

/// Where the owner's token is, if it is here.
pub(crate) async fn welcome(commands: &Commands, log: u128, data_dir: &Path) -> anyhow::Result<Option<PathBuf>> {
    let path = data_dir.join(TOKEN_FILE);
    let found = read_private(&path)?;
    let (known, settled) = commands.with_world(|world| {
        let known = found.as_deref().is_some_and(|token| world.agent_by_key(&hash(token)).is_some());
        (known, world.houses().next().is_some())
    });
    if known {
        return Ok(Some(path));
    }
    if found.is_none() && settled {
        return Ok(None);
    }
    let token = match found {
        Some(token) => token,
        None => make_token(&path)?,
    };
    Ok(settle(commands, log, &token).await?.then_some(path))
}

/// Done again after a crash it leads to the same house, owner and key.
async fn settle(commands: &Commands, log: u128, token: &str) -> anyhow::Result<bool> {
    // Servers that start together on one log make one house; never changed.
    let key = |what: &str| format!("first start of {log:032x}: {what}");
    let register = RegisterAgent { agent_id: None, kind: AgentKind::Human, runtime: None, name: Some(OWNER.into()) };
    let agent = commands.execute(Actor::System, register, Some(&key("agent"))).await?.made.agent_id;
    let agent = agent.context("the log holds another first start")?;
    let create = CreateHouse { house_id: None, name: HOUSE.into(), owner: Some(agent) };
    commands.execute(Actor::System, create, Some(&key("house"))).await?;
    let issue = IssueKey { agent_id: agent, key_id: None, hash: hash(token), label: Some(TOKEN_FILE.into()) };
    match commands.execute(Actor::System, issue, Some(&key("token"))).await {
        Ok(_) => Ok(true),
        Err(CommandError::IdempotencyKeyReused) => {
            tracing::warn!(
                "the owner's token was made by another server of this log; the one in this data directory is not valid"
            );
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn hash(token: &str) -> KeyHash {
    let digest = Sha256::digest(token.as_bytes());
    let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    KeyHash::new(&text).expect("a SHA-256 in hex")
}

fn make_token(path: &Path) -> anyhow::Result<String> {
    Ok(made_private(path, &format!("{}\n", http_api::auth::new_key()))?.trim().to_owned())
}

/// The key that signs this server's tokens: the one that is configured, or one made once.
pub(crate) fn signing_key(given: Option<&str>, data_dir: &Path) -> anyhow::Result<[u8; 32]> {
    if let Some(text) = given {
        return Ok(Sha256::digest(text.as_bytes()).into());
    }
    let path = data_dir.join(KEY_FILE);
    let text = match read_private(&path)? {
        Some(text) => text,
        None => made_private(&path, &http_api::auth::new_key())?,
    };
    Ok(Sha256::digest(text.trim().as_bytes()).into())
}

/// What is in the file then: this, or what another process has just put there.
fn made_private(path: &Path, text: &str) -> anyhow::Result<String> {
    let written = write_private(path, text);
    match (written, read_private(path)?) {
        (_, Some(there)) => Ok(there),
        (Err(error), None) => Err(error),
        (Ok(()), None) => anyhow::bail!("{} is gone again", path.display()),
    }
}

/// Whole or not at all: a file that ran out of disk would be a key that everybody knows.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    let written = || {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        // Never over one that another server has just made.
        std::fs::hard_link(&unfinished, path)
    };
    let done = written();
    let _ = std::fs::remove_file(&unfinished);
    done.with_context(|| path.display().to_string())
}

/// What is in a file of a secret, if there is one. One that is cut short is not used and not replaced.
fn read_private(path: &Path) -> anyhow::Result<Option<String>> {
    const SHORTEST: usize = 16;
    match std::fs::read_to_string(path) {
        Ok(text) if text.trim().len() < SHORTEST => {
            bail!("{} is empty or cut short; remove it to have a new one", path.display())
        }
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_is_cut_short_is_neither_used_nor_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(KEY_FILE);
        for text in ["", "\n", "arbe_abc"] {
            std::fs::write(&path, text).expect("written");
            assert!(signing_key(None, directory.path()).is_err(), "{text:?}");
            assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
        }
        std::fs::remove_file(&path).expect("removed");
        let made = signing_key(None, directory.path()).expect("made");
        assert_eq!(signing_key(None, directory.path()).expect("read"), made);
        assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 1);
    }
}
