//! Answers as a model reads them: short lines of ours, and below them, indented, what sessions say. A line that is not indented is never
//! quoted, so nothing that was said in a session can pass for a line of ours.
//!
//! Every answer has a largest size. What is left out for it is named together with how to get it.

mod get;
mod page;
mod search;
mod view;

pub(crate) use get::{LIMIT as GET_LIMIT, got};
pub(crate) use page::spelled;
pub(crate) use search::{LIMIT as SEARCH_LIMIT, search};
