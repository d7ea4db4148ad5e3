//! Values of secrets, encrypted, one object each: `vault/<house>/<version>`. The log knows their names only.
//!
//! See the README for the format, the keys, and what a crash leaves behind. This crate reads no environment and no clock.

mod chance;
mod check;
mod keys;
mod rotate;
mod seal;
mod store;
mod sweep;

pub use check::{Checked, Missing};
pub use keys::{KeyError, KeyId, KeySource, Options, add_key};
pub use rotate::Rotated;
pub use store::{ObjectVault, OpenError, Unopened, VALUE_MAX};
pub use sweep::{GARBAGE_AGE, Swept};
