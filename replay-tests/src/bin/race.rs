use clap::Parser;
use replay_tests::race::{self, Options};

fn main() -> anyhow::Result<()> {
    race::run(&Options::parse())
}
