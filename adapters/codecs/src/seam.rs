//! The one way from source records to canonical values.
//!
//! `model-no-synthesis`: an [`Extracted`] can only come out of a [`Record`], so a codec has nothing to put into a canonical field but
//! what the source says. `adapter-provenance-required`: there is no part without a provenance. `adapter-bounded-values`: what is too
//! large for a text column becomes a sentinel that says how large it was. `model-lossless-projection`: a value that is taken leaves a
//! hole whose place is stored with the part, and everything else stays in the record's remainder.
//!
//! A codec cannot make up a value:
//! ```compile_fail
//! let text = codecs::seam::Extracted { value: "unknown".to_owned(), from: None };
//! ```
//! ```compile_fail
//! let text: codecs::seam::Extracted<String> = "unknown".to_owned().into();
//! ```
//! nor leave a provenance open:
//! ```compile_fail
//! fn part(parts: &mut codecs::seam::Parts<events::session::UserBody>, text: codecs::seam::Extracted<String>) {
//!     parts.text(text);
//! }
//! ```
//! nor put a tool's call into a user's message:
//! ```compile_fail
//! fn part(
//!     parts: &mut codecs::seam::Parts<events::session::UserBody>,
//!     text: codecs::seam::Extracted<String>,
//!     json: codecs::seam::Extracted<events::Json>,
//! ) {
//!     parts.tool_call(text.clone(), text, json, false, events::session::Provenance::Conversational);
//! }
//! ```

mod bound;
mod extracted;
mod out;
mod parts;
mod place;
mod record;
#[cfg(test)]
mod tests;

pub use bound::VALUE_MAX;
pub use extracted::Extracted;
pub use out::{Fact, Handle, Head, Out, Parsed, SessionDraft, Sink, Told};
pub use parts::Parts;
pub use record::Record;
