//! Verbs about secrets and the vault that keeps their values.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::platform::Limit;
use super::values::secret_name;

#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// List the secrets of the house by name, with the age of their values, the oldest secret first
    List(Limit),
    /// Show what is known of a secret, which is not its value
    #[command(visible_alias = "show")]
    View(OneSecret),
    /// Keep the value that comes on stdin, or is typed unseen; a secret of this name gets it instead of its old one
    Set(OneSecret),
    /// Delete a secret and forget its value for good. Environments that bind its name keep doing so
    Delete(OneSecret),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OneSecret {
    /// The secret's name, which is also the variable's
    #[arg(value_parser = secret_name)]
    pub(crate) name: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VaultVerb {
    /// Seal the keys of all values with the first key, the values staying as they are; exit code 5 if one cannot be opened
    Rotate {
        /// Make a new key first, in front of those in the key file: only where that is the first source of keys, and all servers
        /// read it
        #[arg(long)]
        new_key: bool,
    },
    /// Open every value and hold it against the log; exit code 5 if one is damaged or missing
    Check,
}

#[derive(Debug, ClapArgs)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct OnVault {
    #[command(flatten)]
    pub(crate) keys: VaultKeys,
    #[command(subcommand)]
    pub(crate) verb: VaultVerb,
}

/// Where the keys of the vault are. The first of them seals, all of them open: the variable's, the command's, the file's.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct VaultKeys {
    /// File with the keys that seal the values of secrets, one to a line; the same on all servers of one store
    /// [default: vault-key in the data directory, made at first start]
    #[arg(long, global = true, env = "ARBE_VAULT_KEY_FILE", value_name = "FILE", help_heading = "Vault")]
    pub(crate) vault_key_file: Option<PathBuf>,
    /// The key itself, 32 bytes in base64 or hex. Better given as a variable than as a flag
    #[arg(long, global = true, env = "ARBE_VAULT_KEY", value_name = "KEY", hide_env_values = true, help_heading = "Vault")]
    pub(crate) vault_key: Option<String>,
    /// A command that prints it, as words between spaces; no shell is involved
    #[arg(long, global = true, env = "ARBE_VAULT_KEY_COMMAND", value_name = "COMMAND", help_heading = "Vault")]
    pub(crate) vault_key_command: Option<String>,
}
