//! Stand-ins for services that cannot be had here, and what every distant machine must do.

pub mod daytona;
pub mod every;
pub mod guest;
pub mod server;
pub mod shape;
pub mod sprite;
