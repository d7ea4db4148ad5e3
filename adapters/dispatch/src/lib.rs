//! The drivers: what the log says is to be done, they do, and report back with commands.
//!
//! Nothing here decides what is true. A driver looks at the [`Desk`](desk) and at the control plane, causes an effect outside, and says
//! what became of it under an id that a second attempt would have too. See `README.md` for the steps of a run.

mod adopt;
mod clear;
mod command;
mod desk;
mod diagnose;
mod dispatcher;
mod drive;
mod due;
mod follow;
mod hands;
mod judge;
mod keep;
mod load;
mod machine;
mod model;
mod next;
mod notice;
mod options;
mod output;
mod ports;
mod prompt;
mod prune;
mod reconcile;
mod reply;
mod sayable;
mod story;
mod surroundings;
mod sweep;
#[cfg(test)]
mod tests;
mod tools;
mod trees;
mod trigger;
mod unseen;
mod watch;
mod ways;

pub use dispatcher::{Dispatcher, Outside};
pub use model::{Api, BotRule, ModelConfig, Trigger};
pub use options::{Door, Manners, Options, Patience, Runner};
pub use ports::{Rebuild, RebuildError, Tokens, Tree, TreeError, Trees};
pub use trees::ObjectTrees;
