//! Servers as processes of their own, each on a free loopback port and gone with its value.

mod arbe;
mod azurite;
mod process;

pub use self::arbe::ArbeServer;
pub use self::azurite::Azurite;

pub use crate::directories::arbe_binary;
