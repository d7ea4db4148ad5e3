//! How simulated servers reach each other, and how clients reach them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use async_trait::async_trait;
use event_log::{Command, Log, PeerError, PeerReply, Peers};
use parking_lot::Mutex;

use super::env::Env;
use super::life::Life;

pub const SERVERS: usize = 3;
const PATIENCE: Duration = Duration::from_millis(1_500);

#[derive(Debug)]
pub struct Net {
    pub env: Arc<Env>,
    pub skews: Vec<Arc<AtomicI64>>,
    up: Mutex<Vec<Option<Up>>>,
    /// Messages from the first to the second do not pass.
    blocked: Mutex<BTreeSet<(usize, usize)>>,
}

/// A server that is open.
#[derive(Clone, Debug)]
pub struct Up {
    pub log: Log,
    pub life: Arc<Life>,
}

impl Net {
    pub fn new(env: Arc<Env>) -> Arc<Self> {
        let skews = (0..SERVERS).map(|_| Arc::default()).collect();
        Arc::new(Self { env, skews, up: Mutex::new(vec![None; SERVERS]), blocked: Mutex::default() })
    }

    pub fn set(&self, server: usize, up: Option<Up>) {
        self.up.lock()[server] = up;
    }

    pub fn get(&self, server: usize) -> Option<Up> {
        self.up.lock()[server].clone().filter(|up| !up.life.is_dead())
    }

    pub fn block(&self, from: usize, to: usize) {
        self.env.note(format_args!("{from} no longer reaches {to}"));
        self.blocked.lock().insert((from, to));
    }

    pub fn heal(&self, from: usize, to: usize) {
        self.env.note(format_args!("{from} reaches {to} again"));
        self.blocked.lock().remove(&(from, to));
    }

    fn passes(&self, from: usize, to: usize) -> bool {
        !self.blocked.lock().contains(&(from, to))
    }
}

pub fn url(server: usize) -> String {
    format!("sim://{server}")
}

#[derive(Debug)]
pub struct SimPeers {
    pub net: Arc<Net>,
    pub life: Arc<Life>,
}

fn lost(why: &str) -> PeerError {
    PeerError::Lost(why.to_owned())
}

impl SimPeers {
    fn find(&self, at: &str) -> Result<(usize, Up), PeerError> {
        let to: usize = at.trim_start_matches("sim://").parse().map_err(|_| PeerError::Unreachable("no such server".into()))?;
        if !self.net.passes(self.life.server, to) {
            return Err(PeerError::Unreachable("the network is cut".into()));
        }
        Ok((to, self.net.get(to).ok_or_else(|| PeerError::Unreachable("nobody listens".into()))?))
    }

    async fn ask(&self, at: &str, command: &Command) -> Result<PeerReply, PeerError> {
        let rate = self.net.env.plan.rates.lost_message;
        let (to, up) = self.find(at)?;
        if self.net.env.strikes(rate) {
            tokio::time::sleep(PATIENCE).await;
            return Err(lost("the request got lost"));
        }
        let command = Command::from_wire(&command.to_wire()).ok_or_else(|| lost("the command does not survive the wire"))?;
        let result = tokio::select! {
            biased;
            () = up.life.death() => return Err(lost("the connection broke")),
            result = tokio::time::timeout(PATIENCE, up.log.submit_forwarded(command)) => result.map_err(|_| lost("no answer in time"))?,
        };
        self.net.env.note(format_args!("{} asked {to}: done={}", self.life.server, result.is_ok()));
        if self.net.env.strikes(rate) || !self.net.passes(to, self.life.server) {
            tokio::time::sleep(PATIENCE).await;
            return Err(lost("the answer got lost"));
        }
        PeerReply::decode(&PeerReply::from(result).encode())
    }
}

#[async_trait]
impl Peers for SimPeers {
    async fn submit(&self, at: &str, command: &Command) -> Result<PeerReply, PeerError> {
        self.life.step().await;
        self.net.env.pause(0, 3).await;
        let answer = self.ask(at, command).await;
        self.life.step().await;
        answer
    }

    async fn is_alive(&self, at: &str) -> bool {
        self.life.step().await;
        self.net.env.pause(0, 3).await;
        self.find(at).is_ok_and(|(to, _)| self.net.passes(to, self.life.server))
    }
}
