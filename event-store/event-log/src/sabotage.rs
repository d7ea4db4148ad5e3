//! Faults built in on purpose, so that the tests can show they would notice. Compiled to nothing in release builds.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Data slots are valid whatever they chain on.
    ChainCheck,
    /// A command id already in the log is executed again.
    CommandDedupe,
}

thread_local! {
    static ACTIVE: Cell<Option<Sabotage>> = const { Cell::new(None) };
}

/// Applies to the current thread only; the simulation runs on one.
pub fn set(sabotage: Option<Sabotage>) {
    ACTIVE.set(sabotage);
}

pub(crate) fn is(sabotage: Sabotage) -> bool {
    cfg!(debug_assertions) && ACTIVE.get() == Some(sabotage)
}
