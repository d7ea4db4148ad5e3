use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    Append,
    LongPoll,
    FanOut,
    CatchUp,
    ColdStart,
}

impl Workload {
    const ALL: [Self; 5] = [Self::Append, Self::LongPoll, Self::FanOut, Self::CatchUp, Self::ColdStart];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::LongPoll => "long-poll",
            Self::FanOut => "fan-out",
            Self::CatchUp => "catch-up",
            Self::ColdStart => "cold-start",
        }
    }
}

/// Race Durable Streams servers over HTTP on this machine, one at a time.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "race", version)]
pub struct Options {
    /// Run only this workload; may be repeated.
    #[arg(long, value_enum)]
    pub only: Vec<Workload>,
    /// Run only the cases whose name contains this text.
    #[arg(long)]
    pub case: Option<String>,
    /// Race only this server; may be repeated.
    #[arg(long)]
    pub server: Vec<String>,
    /// Short runs and fewer streams.
    #[arg(long)]
    pub quick: bool,
    /// Measured seconds per case.
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Run every case this often, the servers taking turns, and keep the median run of each.
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Write one JSON document instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Where the servers keep their temporary data directories.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// The `arbe` binary; otherwise the one beside this binary.
    #[arg(long)]
    pub arbe: Option<PathBuf>,
    /// What every PUT to the S3 server takes longer, such as `20ms`.
    #[arg(long, default_value = "0ms")]
    pub s3_latency: String,
    /// A directory with the binaries of the peers; otherwise they are looked for in PATH.
    #[arg(long)]
    pub peers: Option<PathBuf>,
    /// A `node_modules` directory that holds `@durable-streams/server`.
    #[arg(long)]
    pub node_modules: Option<PathBuf>,
}

impl Options {
    pub(super) fn workloads(&self) -> Vec<Workload> {
        let wanted = |one: &Workload| self.only.is_empty() || self.only.contains(one);
        Workload::ALL.into_iter().filter(wanted).collect()
    }

    pub(super) fn wants_case(&self, name: &str) -> bool {
        self.case.as_deref().is_none_or(|text| name.contains(text))
    }

    pub(super) fn wants_server(&self, name: &str) -> bool {
        self.server.is_empty() || self.server.iter().any(|one| one == name)
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    pub(super) fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(if self.quick { 2 } else { 8 }).max(1))
    }

    pub(super) fn warm_up(&self) -> Duration {
        Duration::from_millis(if self.quick { 500 } else { 1500 })
    }
}
