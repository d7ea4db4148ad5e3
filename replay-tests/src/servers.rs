//! Servers as processes of their own, each on a free loopback port and gone with its value.

mod arbe;
mod azurite;
mod process;
mod synced;

pub use self::arbe::ArbeServer;
pub use self::azurite::Azurite;
pub use self::synced::sync;

pub use crate::directories::arbe_binary;

/// Whether the user set `ARBE_SKIP_POSTGRES=1`, which is said.
pub fn without_postgres() -> bool {
    crate::directories::skipped("ARBE_SKIP_POSTGRES")
}
