use std::io::Write;

use anyhow::Result;
use clap::Parser;
use replay_tests::model::Model;

const SCRIPT: &str = "\
It speaks OpenAI's chat completions and responses and Anthropic's messages, always as a stream: whatever the path is before \
/chat/completions, /responses or /messages. The URL, up to these, is printed as the first line. No key is asked for.

What it answers depends on the last thing said:
  what a tool gave              It gave: <its first 60 characters>
  anything without directions   I heard: <its first 60 characters>
  a request without tools       A few words on what was said.

Directions may stand anywhere in a person's words, several of them too, and are followed where the request offers tools:
  TOOL: <name> <JSON>           calls the tool with this JSON as its arguments, offered or not: one call, the first. Over responses
                                <space>/<name> is a tool of a name space, and a JSON text is free text, for a custom tool
  THINK                         thinks before it speaks
  FILL                          says that the request has all but filled the window: 127,000 tokens, 120,000 over responses,
                                190,000 over messages
  LENGTH                        ends as if the answer may not be longer
  HANG                          sends the first half of its answer, and then nothing more
  FAIL <n>                      answers 500 to the first n times that the same is asked
  REFUSE                        answers 400, whatever else is said
  SPELL                         once said, speaks slowly and in small pieces, over chat completions

Examples:
  TOOL: bash {\"command\": \"echo 42\"}
  THINK, then TOOL: delegate_task {\"task\": \"TOOL: bash {\\\"command\\\": \\\"ls\\\"}\"}
  FAIL 2, then go on";

/// A model that says what its script says, for a try without a real one
#[derive(Parser)]
#[command(after_help = SCRIPT)]
struct Options {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
}

fn main() -> Result<()> {
    let model = Model::listen(&Options::parse().listen)?;
    writeln!(std::io::stdout(), "{}/v1", model.url())?;
    loop {
        std::thread::park();
    }
}
