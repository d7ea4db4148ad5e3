//! The owner of a server, over one connection.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::Value;

use crate::race::http1::{Connection, SMALL};
use crate::race::process::address_of;
use crate::race::wire::{self, JSON};
use crate::servers::ArbeServer;

pub(super) struct Client {
    connection: Connection,
    token: String,
}

impl Client {
    pub(super) async fn new(server: &ArbeServer) -> anyhow::Result<Self> {
        let connection = Connection::open(address_of(server.url())?, SMALL).await?;
        Ok(Self { connection, token: format!("Bearer {}", server.data("owner-token")?) })
    }

    /// What was answered, and how long that took.
    pub(super) async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<(Value, Duration)> {
        let headers = [("Content-Type", JSON), ("Authorization", self.token.as_str())];
        let request = wire::request("POST", path, &headers, body.to_string().as_bytes());
        let since = Instant::now();
        self.connection.send(&request).await?;
        let head = self.connection.head().await?;
        let mut answer = Vec::new();
        self.connection.body(&head, |bytes| answer.extend_from_slice(bytes)).await?;
        let took = since.elapsed();
        ensure!(head.status == 200, "{body}: {} {}", head.status, String::from_utf8_lossy(&answer));
        Ok((serde_json::from_slice(&answer)?, took))
    }
}
