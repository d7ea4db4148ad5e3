use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use replay_tests::s3::{Faults, S3Server};

/// An honest S3 server in memory, with faults on demand
///
/// The bucket `arbe` exists; any access key is accepted with the secret `test`. The URL is printed
/// as the first line.
#[derive(Parser)]
struct Options {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Wait before a PUT takes effect
    #[arg(long, value_parser = humantime::parse_duration, default_value = "0s")]
    put_latency: Duration,
    /// Wait before a GET, HEAD or LIST is answered
    #[arg(long, value_parser = humantime::parse_duration, default_value = "0s")]
    get_latency: Duration,
    /// Share of PUTs answered with 409 and not stored
    #[arg(long, default_value_t = 0.0)]
    conflict: f64,
    /// Share of PUTs answered with 503 and not stored
    #[arg(long, default_value_t = 0.0)]
    unavailable: f64,
    /// Share of PUTs stored, yet answered with 503
    #[arg(long, default_value_t = 0.0)]
    lost_reply: f64,
    /// Share of PUTs stored, and the connection closed without an answer
    #[arg(long = "drop", default_value_t = 0.0)]
    dropped: f64,
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let faults = Faults {
        seed: options.seed,
        conflict: options.conflict,
        unavailable: options.unavailable,
        lost_reply: options.lost_reply,
        dropped: options.dropped,
        put_latency: options.put_latency,
        get_latency: options.get_latency,
        ..Faults::default()
    };
    let server = S3Server::listen(options.listen, faults)?;
    writeln!(std::io::stdout(), "{}", server.url())?;
    loop {
        std::thread::park();
    }
}
