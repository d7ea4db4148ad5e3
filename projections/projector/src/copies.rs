//! The physical copies of one projection: one that serves, and others that are being built.

use std::collections::BTreeMap;
use std::future::Future;

use crate::sink::{Checkpoint, Sink, SinkError};

/// A checksum per table.
pub type Sums = BTreeMap<String, String>;

#[derive(Debug)]
pub enum Live<S> {
    Current(S),
    /// It keeps serving but is no longer fed: a copy of this version has to be built.
    Outdated {
        version: u32,
    },
}

/// What became of a copy that was to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    Gone,
    /// It serves.
    Live,
    /// Somebody is building or reading it.
    Busy,
    Unknown,
}

pub trait Copies<C>: Send + Sync {
    type Sink: Sink<C>;
    /// While it is held, the live copy stands still.
    type Hold: Send;

    /// The copy that serves, made empty if there is none.
    fn live(&self) -> impl Future<Output = Result<Live<Self::Sink>, SinkError>> + Send;

    /// The unfinished copy of this label, made empty if there is none.
    fn beside(&self, label: &str) -> impl Future<Output = Result<Self::Sink, SinkError>> + Send;

    /// Stops the live copy (if there is one) and says where.
    fn hold(&self) -> impl Future<Output = Result<(Self::Hold, Checkpoint), SinkError>> + Send;

    /// Puts a copy in the place of the held one.
    fn swap(&self, hold: Self::Hold, copy: &mut Self::Sink) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Where the copy can be read.
    fn address(&self, copy: &Self::Sink) -> String;

    fn discard(&self, copy: Self::Sink) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// The checksums of a copy.
    fn sums(&self, copy: &mut Self::Sink) -> impl Future<Output = Result<Sums, SinkError>> + Send;

    /// The checksums of the live copy and the checkpoint they belong to, as of one moment. `None` without a live copy.
    fn live_sums(&self) -> impl Future<Output = Result<Option<(Checkpoint, Sums)>, SinkError>> + Send;
}
