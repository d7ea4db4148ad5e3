//! The control plane as Postgres rows: the tables, what each event does to them, and the private cluster they live in by default.
//!
//! Every copy of the rows is a schema of its own. `arbe.copies` says which one is live and how far each has come. Rows come from
//! events only; a query runs as a role that row level security binds to one house.

mod apply;
mod change;
pub mod cluster;
mod copies;
mod fold;
mod migrate;
mod projection;
mod rows;
mod sink;
mod sql;
mod store;
mod work;

pub use change::Change;
pub use cluster::{Cluster, ClusterError, ClusterOptions};
pub use copies::Hold;
pub use projection::RowsProjector;
pub use sink::RowsSink;
pub use store::{Connections, CopyInfo, ReadError, Rows};
