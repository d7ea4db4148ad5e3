//! An S3 server that keeps its word: of any number of concurrent `If-None-Match: *` PUTs of one key,
//! one wins. It holds everything in memory and misbehaves only as [`Faults`] say.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object_store::aws::AmazonS3Builder;
use parking_lot::MutexGuard;
use s3s::S3Result;
use s3s::auth::{S3Auth, SecretKey};
use s3s::service::S3ServiceBuilder;
use tokio::runtime::Runtime;

mod api;
mod faults;
mod gate;
mod objects;
#[cfg(test)]
mod tests;
mod uploads;

use self::api::Api;
pub use self::faults::{Counts, Fate, Faults};
use self::gate::Gate;
use self::objects::Objects;
use self::uploads::Uploads;

/// Exists from the start; others are made by `CreateBucket`.
pub const BUCKET: &str = "arbe";
const ACCESS_KEY: &str = "test";
const SECRET_KEY: &str = "test";

/// Runs on threads of its own, so a test that blocks or has a runtime with one thread can use it.
pub struct S3Server {
    address: SocketAddr,
    gate: Arc<Gate>,
    runtime: Option<Runtime>,
}

impl S3Server {
    pub fn start(faults: Faults) -> Result<Self> {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), faults)
    }

    pub fn listen(address: SocketAddr, faults: Faults) -> Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let gate = Arc::new(gate(faults));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("honest-s3").enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        runtime.spawn(accept(listener, gate.clone()));
        Ok(Self { address, gate, runtime: Some(runtime) })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn store_url(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// What `AmazonS3Builder::from_env` reads; lowercased, the keys are also its options.
    pub fn env(&self) -> Vec<(String, String)> {
        [
            ("AWS_ENDPOINT", self.url().as_str()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "false"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    /// A client of this server, to which the caller may add retries and timeouts.
    pub fn client(&self) -> AmazonS3Builder {
        let builder = AmazonS3Builder::new().with_bucket_name(BUCKET);
        self.env().into_iter().fold(builder, |builder, (key, value)| {
            let key = key.to_lowercase().parse().expect("object_store knows these keys");
            builder.with_config(key, value)
        })
    }

    /// Changes take effect with the next request; do not hold the guard across one.
    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.gate.faults.lock()
    }

    pub fn counts(&self) -> Counts {
        *self.gate.counts.lock()
    }

    pub fn shutdown(self) {}
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn gate(faults: Faults) -> Gate {
    let objects = Arc::new(Objects::default());
    objects.create_bucket(BUCKET);
    let mut service = S3ServiceBuilder::new(Api { objects, uploads: Uploads::default() });
    service.set_auth(AnyKey);
    Gate { s3: service.build(), faults: faults.into(), counts: Default::default(), attempts: Default::default() }
}

async fn accept(listener: tokio::net::TcpListener, gate: Arc<Gate>) {
    while let Ok((stream, _)) = listener.accept().await {
        let gate = gate.clone();
        tokio::spawn(async move {
            stream.set_nodelay(true).ok();
            let service = service_fn(move |request| gate.clone().handle(request));
            // An error here is a client that went away, or a connection dropped on purpose.
            let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            served.await.ok();
        });
    }
}

/// Any access key is known, its secret is always the same; signatures are checked.
struct AnyKey;

#[async_trait::async_trait]
impl S3Auth for AnyKey {
    async fn get_secret_key(&self, _access_key: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(SECRET_KEY))
    }
}
