//! What the server tells the supervisor, over its standard input: the plan, then the options of bubblewrap with all secrets in them.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use rustix::process::Resource;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Nothing in it is secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Where the [`Record`](crate::local::record::Record) is kept.
    pub(crate) record: PathBuf,
    /// If it is to outlive the server: where its output goes.
    pub(crate) log: Option<PathBuf>,
    pub(crate) milliseconds: u64,
    /// The user of the host as whom it runs; the server's own if left out.
    pub(crate) user: Option<u32>,
    /// Control groups to be joined.
    pub(crate) groups: Vec<PathBuf>,
    pub(crate) rlimits: Vec<(Rlimit, u64)>,
    pub(crate) bubblewrap: PathBuf,
    pub(crate) command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rlimit {
    Core,
    FileSize,
    Data,
    Processes,
}

impl Rlimit {
    pub(super) fn resource(self) -> Resource {
        match self {
            Self::Core => Resource::Core,
            Self::FileSize => Resource::Fsize,
            Self::Data => Resource::Data,
            Self::Processes => Resource::Nproc,
        }
    }
}

/// More than any plan or environment needs.
const LONGEST: u32 = 16 << 20;

impl Plan {
    /// The two in one piece, for the standard input of the supervisor.
    pub(crate) fn message(&self, options: &[u8]) -> io::Result<Zeroizing<Vec<u8>>> {
        let plan = serde_json::to_vec(self)?;
        // Sized beforehand, so that no copy of the options stays behind in memory.
        let mut message = Zeroizing::new(Vec::with_capacity(plan.len() + options.len() + 8));
        frame(&mut *message, &plan)?;
        frame(&mut *message, options)?;
        Ok(message)
    }

    pub(super) fn read(source: &mut impl Read) -> io::Result<(Self, Zeroizing<Vec<u8>>)> {
        let plan = serde_json::from_slice(&unframe(source)?)?;
        Ok((plan, unframe(source)?))
    }
}

fn frame(target: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other("the environment is too large"))?;
    target.write_all(&length.to_be_bytes())?;
    target.write_all(bytes)
}

fn unframe(source: &mut impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut length = [0; 4];
    source.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > LONGEST {
        return Err(io::Error::other("the plan is too large"));
    }
    let mut bytes = Zeroizing::new(vec![0; length as usize]);
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}
