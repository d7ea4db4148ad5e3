use anyhow::Result;

use super::contestant::Contestant;
use super::options::{Options, Workload};
use super::report::Values;
use super::wire::{BYTES, Dialect, JSON};
use super::{append, catch_up, cold_start, fan_out, long_poll};

#[derive(Clone, Copy, Debug)]
pub(super) enum Case {
    Append { bytes: usize, streams: usize },
    LongPoll,
    FanOut { readers: usize, rate: u32 },
    CatchUp { content_type: &'static str, megabytes: usize },
    ColdStart { streams: usize },
}

pub(super) fn of(workload: Workload, quick: bool) -> Vec<Case> {
    match workload {
        Workload::Append => {
            [256, 1024].into_iter().flat_map(|bytes| [1, 20, 100, 1000].map(|streams| Case::Append { bytes, streams })).collect()
        }
        Workload::LongPoll => vec![Case::LongPoll],
        Workload::FanOut => vec![Case::FanOut { readers: 100, rate: 200 }],
        Workload::CatchUp => [BYTES, JSON].map(|content_type| Case::CatchUp { content_type, megabytes: 64 }).into(),
        Workload::ColdStart if quick => vec![Case::ColdStart { streams: 10_000 }],
        Workload::ColdStart => [10_000, 100_000].map(|streams| Case::ColdStart { streams }).into(),
    }
}

impl Case {
    pub(super) fn workload(self) -> Workload {
        match self {
            Self::Append { .. } => Workload::Append,
            Self::LongPoll => Workload::LongPoll,
            Self::FanOut { .. } => Workload::FanOut,
            Self::CatchUp { .. } => Workload::CatchUp,
            Self::ColdStart { .. } => Workload::ColdStart,
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Append { bytes, streams } => format!("{bytes} B x {streams}"),
            Self::LongPoll => "1 reader".to_owned(),
            Self::FanOut { readers, rate } => format!("{readers} readers, {rate}/s"),
            Self::CatchUp { content_type: JSON, megabytes } => format!("json {megabytes} MiB"),
            Self::CatchUp { megabytes, .. } => format!("bytes {megabytes} MiB"),
            Self::ColdStart { streams } => format!("{streams} streams"),
        }
    }

    pub(super) fn supports(self, contestant: &Contestant) -> bool {
        match self {
            Self::Append { .. } | Self::LongPoll => true,
            Self::FanOut { .. } | Self::CatchUp { .. } | Self::ColdStart { .. } => {
                contestant.dialect() == Dialect::DurableStreams
            }
        }
    }

    pub(super) async fn race(self, contestant: &Contestant, options: &Options) -> Result<Values> {
        match self {
            Self::Append { bytes, streams } => append::race(contestant, options, bytes, streams).await,
            Self::LongPoll => long_poll::race(contestant, options).await,
            Self::FanOut { readers, rate } => fan_out::race(contestant, options, readers, rate).await,
            Self::CatchUp { content_type, megabytes } => catch_up::race(contestant, options, content_type, megabytes).await,
            Self::ColdStart { streams } => cold_start::race(contestant, options, streams).await,
        }
    }
}
