//! What the read models of sessions have in common: whose session an event belongs to, what an entry of a thread says as a message, and
//! what a message is found by.

mod source;
mod text;

pub use source::{Head, Source, Unfit, session_head, thread_head, thread_message};
pub use text::search_text;
