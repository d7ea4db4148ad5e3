use clap::Parser;
use replay_tests::race::{self, LatencyOptions};

fn main() -> anyhow::Result<()> {
    race::latency(&LatencyOptions::parse())
}
