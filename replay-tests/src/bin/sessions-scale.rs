use clap::Parser;
use replay_tests::sessions::{self, Options};

fn main() -> anyhow::Result<std::process::ExitCode> {
    sessions::scale(&Options::parse())
}
