use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use commands::ports::Reach;
use serde_json::{Map, Value};

/// How the drivers behave. Plain values; whoever puts the server together reads configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// This server's own name in claims. It stays the same over restarts, and no other server of the log has it.
    pub server: String,
    /// Where machines are made when an environment does not say.
    pub provider: String,
    /// Providers whose machines have no network, so that every address is handed in.
    pub relayed: BTreeSet<String>,
    pub door: Door,
    /// Runtimes of bots that the runner can start.
    pub harnesses: BTreeSet<String>,
    /// By the name of the provider; what is not there is launched nowhere.
    pub runners: BTreeMap<String, Runner>,
    /// For houses and environments that name no model of their own; see `Recipe::model`.
    pub model: Option<Map<String, Value>>,
    /// Where models may be inside this server's own networks.
    pub reach: Reach,
    pub patience: Patience,
    pub manners: Manners,
}

/// How a machine reaches this server.
#[derive(Clone, Debug)]
pub struct Door {
    /// For machines with a network, as `https://host`.
    pub url: String,
    /// For the others, as `host:port`: what listens here.
    pub address: String,
}

/// How the in-sandbox helper comes to be there.
#[derive(Clone, Debug)]
pub enum Runner {
    /// It is there already, under this path.
    At(String),
    /// It is written to the home directory first.
    Upload(Bytes),
}

/// How long what is waited for.
#[derive(Clone, Debug)]
pub struct Patience {
    /// A claim without a sign of life is another's to take.
    pub lease: Duration,
    /// Without a sign of life for so long, and without a process, a run is an orphan.
    pub orphan: Duration,
    /// Between the end of a process and the end of its run, the run may still say itself how it ended.
    pub settle: Duration,
    /// Between two looks at a machine.
    pub watch: Duration,
    /// A run that was asked to stop may take this long before its process is stopped.
    pub cancel: Duration,
    /// Of a machine that cannot be reached, or made, before a run that is on its way or was asked to stop is given up.
    pub machine: Duration,
    /// Of a run on a machine that cannot be reached, without a sign of life, before it is declared an orphan.
    pub unreachable: Duration,
    /// An idle machine is kept for so long, and a sandbox that nobody waits for before it is made. What is left of those that are over is
    /// looked for as often, or every ten minutes if that is more often.
    pub reap: Duration,
    /// After the last work on a machine its tree is taken.
    pub keep: Duration,
    /// A command that names no limit, and the most that one may name.
    pub command: Duration,
    pub command_max: Duration,
    /// Of one answer of a model.
    pub model: Duration,
    /// Of a person who was asked for leave: at night nobody answers.
    pub permission: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            orphan: Duration::from_secs(90),
            settle: Duration::from_secs(15),
            watch: Duration::from_secs(10),
            cancel: Duration::from_secs(30),
            machine: Duration::from_secs(300),
            unreachable: Duration::from_secs(24 * 3_600),
            reap: Duration::from_secs(600),
            keep: Duration::from_secs(5),
            command: Duration::from_secs(120),
            command_max: Duration::from_secs(3_600),
            model: Duration::from_secs(300),
            permission: Duration::from_secs(24 * 3_600),
        }
    }
}

/// What keeps bots from talking for ever.
#[derive(Clone, Debug)]
pub struct Manners {
    /// What was said in a chat longer ago is not answered any more, only told so.
    pub answer_within: Duration,
    /// Between a bot's own words and its answer to another bot.
    pub cooldown: Duration,
    /// Answers of one bot to bots since a person said something.
    pub turns: u32,
    /// Rounds of tools in one answer.
    pub rounds: u32,
}

impl Default for Manners {
    fn default() -> Self {
        Self { answer_within: Duration::from_secs(600), cooldown: Duration::from_secs(3), turns: 3, rounds: 16 }
    }
}
