use std::io::Write;

use anyhow::Result;
use clap::Parser;
use replay_tests::model::Model;

/// A model that says what its script says, for a try without a real one
///
/// It speaks OpenAI's chat completions and responses and Anthropic's messages. `TOOL: <name> <JSON>` in a person's words calls a tool;
/// anything else is said back. The URL is printed as the first line.
#[derive(Parser)]
struct Options {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
}

fn main() -> Result<()> {
    let model = Model::listen(&Options::parse().listen)?;
    writeln!(std::io::stdout(), "{}/v1", model.url())?;
    loop {
        std::thread::park();
    }
}
