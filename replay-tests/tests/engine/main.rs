//! The engine on real stores, in one process.

mod owners;
mod reading;
mod writing;
