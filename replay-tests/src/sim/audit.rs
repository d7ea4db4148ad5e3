//! When all is calm: every server, and a new one, must say what the log says.

use std::sync::Arc;

use bytes::Bytes;
use event_log::{Cluster, From, Log, Options, ReadError, check, checkpoint};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::env::Env;
use super::fold::Fold;
use super::intent::chunks;
use super::life::Clock;
use super::server::store_of;

pub struct Audit<'a> {
    pub env: &'a Arc<Env>,
    pub objects: &'a Arc<InMemory>,
    pub cluster: &'a Cluster,
    pub fold: &'a Fold,
}

impl Audit<'_> {
    /// The table without what each server may choose for itself: which packs it uses.
    fn plain(&self, table: &Bytes) -> Result<Bytes, String> {
        let mut state = checkpoint::decode(self.cluster.id(), table).map_err(|error| error.to_string())?;
        state.packs.clear();
        state.skips.clear();
        state.streams.values_mut().for_each(|stream| stream.extents.clear());
        Ok(checkpoint::encode(self.cluster.id(), &state))
    }

    pub async fn server(&self, who: &str, log: &Log) {
        if let Some(why) = log.failed().borrow().as_ref() {
            return self.env.problem(format!("{who} gave up: {why}"));
        }
        let folded = checkpoint::encode(self.cluster.id(), &self.fold.state);
        if self.plain(&log.table()) != self.plain(&folded) {
            self.env.problem(format!(
                "{who} has another table than the log ({} of {} slots)",
                log.position(),
                self.fold.state.chain.next
            ));
        }
        self.read_all(who, log).await;
    }

    async fn read_all(&self, who: &str, log: &Log) {
        let mut streams: Vec<_> = self.fold.state.streams.iter().filter(|(_, s)| !s.head.deleted).collect();
        streams.sort_unstable_by_key(|(name, _)| *name);
        for (name, stream) in streams {
            let limit = self.env.within(6, 300) as usize;
            let life = &self.fold.incarnations[&stream.head.config.generation];
            match read(log, name, limit).await {
                Ok(found) if found == life.page(0, life.units()) => {}
                Ok(found) => {
                    let found = String::from_utf8_lossy(&found).into_owned();
                    self.env.problem(format!("{who} reads {name} by {limit} as {found:?}"));
                }
                Err(ReadError::NotFound) if stream.head.config.ttl_seconds.is_some() => {}
                Err(error) => self.env.problem(format!("{who} cannot read {name}: {error}")),
            }
        }
    }

    async fn open(&self) -> Option<Log> {
        let options = Options {
            memory: self.env.plan.memory,
            world: Arc::new(Clock { env: self.env.clone(), skew_ms: Arc::default() }),
            ..Options::default()
        };
        match Log::open_existing(store_of(self.env, self.objects.clone()), options).await {
            Ok(log) => Some(log),
            Err(error) => {
                self.env.problem(format!("a new server cannot open: {error}"));
                None
            }
        }
    }

    async fn remove(&self, prefix: &str) {
        let found: Result<Vec<_>, _> = self.objects.list(Some(&Path::from(prefix))).try_collect().await;
        for meta in found.unwrap_or_default() {
            let _ = self.objects.delete(&meta.location).await;
        }
    }

    /// A new server, from the checkpoint; then without packs; then from nothing but slots.
    pub async fn newcomers(&self) {
        let Some(log) = self.open().await else { return };
        self.server("a new server", &log).await;
        self.remove("pack").await;
        self.server("a server whose packs were deleted", &log).await;
        self.remove("ckpt").await;
        let Some(log) = self.open().await else { return };
        self.server("a server without checkpoint", &log).await;
    }

    pub async fn check(&self) {
        match check::check(store_of(self.env, self.objects.clone()), &mut |_| {}).await {
            Ok(report) => {
                for finding in report.damages {
                    self.env.problem(format!("check finds {}: {}", finding.key, finding.what));
                }
                if (report.void_slots, report.slots) != (self.fold.voids, self.fold.state.chain.next) {
                    self.env.problem(format!("check counts {} slots and {} voids", report.slots, report.void_slots));
                }
            }
            Err(error) => self.env.problem(format!("check fails: {error}")),
        }
    }
}

async fn read(log: &Log, name: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
    let mut parts = Vec::new();
    let mut from = From::Start;
    loop {
        let page = log.read(name, from, limit).await?;
        if page.bytes > 0 {
            parts.push(chunks(&page));
        }
        if page.up_to_date || From::At(page.next) == from {
            return Ok(parts.join(if page.json { &b","[..] } else { &b""[..] }));
        }
        from = From::At(page.next);
    }
}
