//! A server's way to the store, on which everything that can go wrong does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::env::Env;
use super::life::Life;

#[derive(Debug)]
pub struct Faulty {
    pub inner: Arc<InMemory>,
    pub env: Arc<Env>,
    pub life: Arc<Life>,
}

/// What becomes of one PUT.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Fine,
    LostReply,
    Never,
    Late { ms: u64 },
    Phantom,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty store of server {}", self.life.server)
    }
}

fn trouble(what: &'static str) -> Error {
    Error::Generic { store: "sim", source: what.into() }
}

impl Faulty {
    fn fate(&self, mode: &PutMode) -> Fate {
        let rates = self.env.plan.rates;
        if self.env.strikes(rates.lost_reply) {
            Fate::LostReply
        } else if self.env.strikes(rates.never_applied) {
            Fate::Never
        } else if self.env.strikes(rates.late) {
            Fate::Late { ms: self.env.within(20, 4_000) }
        } else if *mode == PutMode::Create && self.env.strikes(rates.phantom) {
            Fate::Phantom
        } else {
            Fate::Fine
        }
    }

    async fn delay(&self) {
        self.env.pause(0, self.env.plan.latency_ms).await;
    }

    fn later(&self, ms: u64, location: &Path, payload: PutPayload, options: PutOptions) {
        let (inner, env, location) = (self.inner.clone(), self.env.clone(), location.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let landed = inner.put_opts(&location, payload, options).await.is_ok();
            env.note(format_args!("late put {location} landed={landed}"));
        });
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.life.step().await;
        self.delay().await;
        let fate = self.fate(&options.mode);
        let server = self.life.server;
        self.env.note(format_args!("{server} put {location} {} bytes {fate:?}", payload.content_length()));
        let answer = match fate {
            Fate::Fine => self.inner.put_opts(location, payload, options).await,
            Fate::LostReply => {
                let _ = self.inner.put_opts(location, payload, options).await;
                Err(trouble("the answer was lost"))
            }
            Fate::Never => Err(trouble("the request was lost")),
            Fate::Late { ms } => {
                self.later(ms, location, payload, options);
                Err(trouble("the answer took too long"))
            }
            Fate::Phantom => Err(Error::AlreadyExists { path: location.to_string(), source: "conflict".into() }),
        };
        self.life.step().await;
        self.delay().await;
        answer
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.life.step().await;
        self.delay().await;
        if self.env.strikes(self.env.plan.rates.failed_get) {
            return Err(trouble("the store is tired"));
        }
        let found = self.inner.get_opts(location, options).await;
        self.env.note(format_args!("{} get {location} found={}", self.life.server, found.is_ok()));
        self.life.step().await;
        found
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(trouble("the log does not use multipart uploads"))
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(trouble("the log does not copy"))
    }
}
