//! Providers of machines, each behind the port of `commands`.

mod bounded;
pub mod daytona;
pub mod local;
mod remote;
pub mod sprite;
