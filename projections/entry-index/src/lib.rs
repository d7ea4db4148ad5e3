//! Entries of threads, and messages of sessions and threads, by their words: a tantivy index, local to a node, near real time.
//!
//! The index is a projection and holds words and places only; what is said is read from the log. One index serves all houses; every
//! question is asked inside one house, and counts nothing outside of it.

mod analysis;
mod copies;
mod damage;
mod documents;
mod error;
mod filter;
mod find;
mod groups;
mod hints;
mod newer;
mod projection;
mod question;
mod rank;
mod schema;
mod silence;
mod sink;
mod snippet;
mod sums;
mod view;
mod vocabulary;

pub use analysis::is_dense;
pub use copies::EntryIndex;
pub use documents::entry_text;
pub use error::IndexError;
pub use filter::{EntryFilter, MessageFilter};
pub use find::{EntryFit, FoundEntries};
pub use newer::Last;
pub use projection::{Change, EntriesProjector};
pub use question::Question;
pub use rank::{Fit, Ranked, SessionFit};
pub use silence::{Typed, TypedPlace, Verdict};
pub use sink::EntriesSink;
pub use snippet::{MARKS, beginning, snippet};
pub use view::Whereabouts;

/// Of the fields and of the analysis; part of the name of a copy.
pub const VERSION: u32 = 3;
