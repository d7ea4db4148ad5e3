//! How large the index of words is beside what it indexes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use commands::RealSource;
use commands::sessions::Sessions;
use event_log::{Log, Options, StoreUrl};
use session_source::search_text;

/// Bytes of all texts that are searched, as the log holds them.
pub(super) fn searched_bytes(data: &Path) -> anyhow::Result<u64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = StoreUrl::File(data.join("log")).open(&[], false)?;
        let log = Log::open_existing(store, Options::default()).await.context("the log")?;
        let bytes = of_sessions(&Sessions::new(log.clone(), Arc::new(RealSource))).await;
        log.close().await;
        bytes
    })
}

async fn of_sessions(sessions: &Sessions) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for (house, _) in sessions.houses().await? {
        for session in sessions.list(&house).await? {
            let (_, messages) = sessions.read(&house, &session.id).await?.context("a session that is listed is there")?;
            bytes += messages.iter().filter_map(search_text).map(|text| text.len() as u64).sum::<u64>();
        }
    }
    Ok(bytes)
}
