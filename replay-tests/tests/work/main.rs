//! Work happens: somebody says something in a thread of a real server, and the real pi does it in a machine, with a scripted
//! model; whatever dies meanwhile, the thread says what became of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests are told by their surroundings what to do, and ask for the time")]

mod abroad;
mod distant;
mod doors;
mod house;
mod hydrate;
mod kills;
mod leaks;
mod machine;
mod mirror;
mod outcomes;
mod restarts;
mod scene;
mod secrets;
mod sharing;
mod speed;
mod story;

/// The vendors, as the providers' own tests have them.
#[expect(dead_code, reason = "not all of it is needed here")]
#[path = "../../../adapters/sandboxes/tests/distant/standin"]
mod standin {
    pub mod daytona;
    pub mod guest;
    pub mod server;
    pub mod shape;
    pub mod sprite;
}
