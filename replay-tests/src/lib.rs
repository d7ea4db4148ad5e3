#![expect(clippy::disallowed_methods, reason = "tests and tools ask their surroundings")]

pub mod agents;
pub mod conformance;
mod directories;
pub mod inspector;
pub mod model;
pub mod node;
pub mod python;
pub mod race;
pub mod recording;
pub mod rig;
pub mod s3;
pub mod servers;
pub mod sessions;
pub mod sim;
pub mod soak;
