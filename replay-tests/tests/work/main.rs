//! Work happens: somebody says something in a thread of a real server, and the real pi does it in a machine of this host, with a scripted
//! model; whatever dies meanwhile, the thread says what became of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests are told by their surroundings what to do, and ask for the time")]

mod doors;
mod house;
mod kills;
mod leaks;
mod machine;
mod outcomes;
mod restarts;
mod scene;
mod secrets;
mod sharing;
mod speed;
mod story;
