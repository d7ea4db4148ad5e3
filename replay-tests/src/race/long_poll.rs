//! From sending an append to a long-polling reader having its bytes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::Instant;

use super::append::Window;
use super::contestant::Contestant;
use super::http1::{Connection, SMALL};
use super::options::Options;
use super::report::Values;
use super::samples::Samples;
use super::wire::{self, BYTES, Dialect};

const STREAM: &str = "long-poll";
const PAYLOAD: usize = 256;
/// Long enough for the reader's request to be waiting inside the server.
const PARK: Duration = Duration::from_millis(4);

pub(super) async fn race(contestant: &Contestant, options: &Options) -> Result<Values> {
    let (server, _home) = contestant.fresh(options).await?;
    let mut writer = Connection::open(server.address, SMALL).await?;
    let mut reader = Reader {
        connection: Connection::open(server.address, SMALL).await?,
        dialect: server.dialect,
        position: server.dialect.first_position().to_owned(),
    };
    if let Some(create) = server.dialect.create(STREAM, BYTES) {
        writer.call(&create).await?;
    }
    let append = server.dialect.append(STREAM, BYTES, &wire::filler(PAYLOAD, 1));
    committed(&mut writer, &append).await?;
    reader.ask().await?;
    reader.answered().await?;

    let window = Window::opening(options);
    let (mut commits, mut deliveries) = (Samples::default(), Samples::default());
    while Instant::now() < window.end {
        reader.ask().await?;
        tokio::time::sleep(PARK).await;
        let sent = Instant::now();
        let (committed, delivered) = tokio::join!(committed(&mut writer, &append), reader.answered());
        let (committed, delivered) = (committed?, delivered?);
        if sent >= window.begin {
            commits.record(committed - sent);
            deliveries.record(delivered - sent);
        }
    }
    let (commits, deliveries) = (commits.sorted(), deliveries.sorted());
    Ok(vec![
        ("commit_p50", commits.milliseconds(0.5)),
        ("commit_p99", commits.milliseconds(0.99)),
        ("delivery_p50", deliveries.milliseconds(0.5)),
        ("delivery_p99", deliveries.milliseconds(0.99)),
        ("difference", deliveries.milliseconds(0.5) - commits.milliseconds(0.5)),
    ])
}

struct Reader {
    connection: Connection,
    dialect: Dialect,
    position: String,
}

impl Reader {
    async fn ask(&mut self) -> Result<()> {
        let request = self.dialect.long_poll(STREAM, &self.position);
        Ok(self.connection.send(&request).await?)
    }

    async fn answered(&mut self) -> Result<Instant> {
        let head = self.connection.head().await?;
        let mut length = 0;
        self.connection.body(&head, |bytes| length += bytes.len()).await?;
        let delivered = Instant::now();
        ensure!(head.status == 200, "the reader was answered with {}", head.status);
        ensure!(length >= PAYLOAD, "the reader got {length} bytes");
        let next = self.dialect.next_position(&self.position, &head);
        self.position = next.context("an answer without a next offset")?;
        Ok(delivered)
    }
}

async fn committed(writer: &mut Connection, append: &[u8]) -> Result<Instant> {
    let head = writer.call(append).await?;
    ensure!(head.status / 100 == 2, "an append was answered with {}", head.status);
    Ok(Instant::now())
}
