//! Which values a run gets, by the names that its environment binds.

use std::collections::BTreeMap;
use std::time::Duration;

use events::{EnvironmentId, HouseId, SecretId};
use uuid::Uuid;

use crate::error::{CommandError, Stopped};
use crate::handler::Commands;
use crate::ports::{Plain, Vault, VaultError};
use crate::world::World;

/// Values of others may be rotated while they are read: the world then names another version, at once or after a while.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Variables that decide what runs, or that are the platform's own. A secret of such a name is kept, and reaches no sandbox.
const RESERVED: [&str; 19] = [
    "BASHOPTS",
    "BASH_ENV",
    "DAYTONA_API_KEY",
    "ENV",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "HOME",
    "IFS",
    "LOGNAME",
    "NODE_OPTIONS",
    "OLDPWD",
    "PATH",
    "PI_CODING_AGENT_DIR",
    "PWD",
    "SHELL",
    "SHELLOPTS",
    "SPRITES_TOKEN",
    "TMPDIR",
    "USER",
];
const RESERVED_PREFIXES: [&str; 3] = ["ARBE_", "LD_", "DYLD_"];

#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whose secrets are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What the environment binds.
    Environment(EnvironmentId),
    /// These, all of them required.
    Names(Vec<String>),
    /// Everything the house has: for a thread without an environment.
    House,
}

/// The values, and what a run has to be told of.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    pub values: BTreeMap<String, Plain>,
    /// Optional bindings of which there is no secret. Sorted, as the next.
    pub missing_optional: Vec<String>,
    /// Names that are reserved: see [`is_reserved`].
    pub stripped: Vec<String>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error("there is no secret {}, which is required", .0.join(", "))]
    Missing(Vec<String>),
    /// The log knows it and the vault does not: it has to be set again.
    #[error("the value of {name} is not there: {source}")]
    Value {
        name: String,
        #[source]
        source: VaultError,
    },
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Where the values are, as the world has it at one moment.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    at: BTreeMap<String, (SecretId, Uuid)>,
    missing_optional: Vec<String>,
    stripped: Vec<String>,
}

fn find(world: &World, house: &HouseId, scope: &Scope) -> Result<Found, ResolveError> {
    world.house(house).ok_or(ResolveError::NotFound("house"))?;
    let wanted: BTreeMap<String, bool> = match scope {
        Scope::Environment(id) => {
            let environment = world.environment(id).filter(|environment| environment.house_id == *house);
            environment.ok_or(ResolveError::NotFound("environment"))?.secret_bindings.clone()
        }
        Scope::Names(names) => names.iter().map(|name| (name.clone(), true)).collect(),
        Scope::House => {
            let own = world.secrets().filter(|(_, secret)| secret.house_id == *house);
            own.map(|(_, secret)| (secret.name.clone(), false)).collect()
        }
    };
    let (mut found, mut missing) = (Found::default(), Vec::new());
    for (name, required) in wanted {
        if is_reserved(&name) {
            found.stripped.push(name);
            continue;
        }
        let secret = world.secret_named(house, &name).and_then(|id| Some((id.clone(), world.secret(id)?.vault_secret_id)));
        match (secret, required) {
            (Some(secret), _) => drop(found.at.insert(name, secret)),
            (None, true) => missing.push(name),
            (None, false) => found.missing_optional.push(name),
        }
    }
    if missing.is_empty() { Ok(found) } else { Err(ResolveError::Missing(missing)) }
}

/// The values that the scope names, each as it is now.
pub async fn resolve(vault: &dyn Vault, commands: &Commands, house: &HouseId, scope: &Scope) -> Result<Resolved, ResolveError> {
    let mut looked = 1;
    loop {
        commands.caught_up().await?;
        let found = commands.with_world(|world| find(world, house, scope))?;
        match reveal(vault, house, &found).await {
            Err(ResolveError::Value { name, source: VaultError::Gone }) if looked < LOOKS => {
                looked += 1;
                tokio::time::sleep(BETWEEN_LOOKS).await;
                // It may have been rotated or deleted through another server, of which the log here has not heard.
                let unseen = |error: CommandError| VaultError::Unavailable(error.to_string());
                commands.refreshed().await.map_err(|error| ResolveError::Value { name, source: unseen(error) })?;
            }
            Err(error) => return Err(error),
            Ok(values) => {
                let Found { missing_optional, stripped, .. } = found;
                return Ok(Resolved { values, missing_optional, stripped });
            }
        }
    }
}

async fn reveal(vault: &dyn Vault, house: &HouseId, found: &Found) -> Result<BTreeMap<String, Plain>, ResolveError> {
    let mut values = BTreeMap::new();
    for (name, (secret, at)) in &found.at {
        let value = vault.reveal(house, secret, *at).await;
        let value = value.map_err(|source| ResolveError::Value { name: name.clone(), source })?;
        values.insert(name.clone(), value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_what_runs_is_reserved() {
        for name in ["PATH", "HOME", "ARBE_STREAM_TOKEN", "LD_PRELOAD", "SPRITES_TOKEN", "DAYTONA_API_KEY", "BASH_ENV"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["GITHUB_TOKEN", "OPENROUTER_API_KEY", "MY_PATH", "OLD_KEY", "path"] {
            assert!(!is_reserved(name), "{name}");
        }
        assert!(RESERVED.is_sorted());
    }
}
