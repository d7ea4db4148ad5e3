//! The only read API over the rows.
//!
//! Every query is one transaction that reads the live copy as the role `arbe_reader` with `app.house_id` set, so that row level security
//! binds it whatever it asks, and that says how far the copy was. Sessions are read through [`library`].

mod cursor;
pub mod entries;
mod environments;
mod houses;
pub mod library;
mod phrase;
mod projections;
mod row;
mod sandboxes;
mod secrets;
mod threads;
mod view;

pub use cursor::{BadCursor, Limit, Page};
pub use environments::{Environment, SecretBinding};
pub use houses::{House, Member};
pub use projections::{Projection, ProjectionState};
pub use sandboxes::{Sandbox, SandboxStatus};
pub use secrets::Secret;
pub use threads::{Thread, ThreadDetail, ThreadFilter};
pub use view::{At, NotThereYet, Queries, QueryError};
