//! Models at the door: `arbe mcp` over stdio, `/mcp` over HTTP.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use events::HouseId;
use http_api::Visitor;
use mcp_server::{Asker, Pond};
use queries::library::{self, Code, Finder, GetRequest, GetResponse, PondError, SearchRequest, SearchResponse, Stats};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::args::Mcp;
use crate::config::Config;
use crate::datasets::{self, Shelf};
use crate::library::{Library, stages};
use crate::seeker::{self, LATE, Seeker};

/// The door of a server.
#[derive(Debug, Default)]
pub(crate) struct HttpDoor(mcp_server::HttpDoor);

#[async_trait::async_trait]
impl http_api::Door for HttpDoor {
    async fn handle(
        &self,
        visitor: Visitor,
        mut request: axum::http::Request<axum::body::Body>,
    ) -> axum::http::Response<axum::body::Body> {
        request.extensions_mut().insert(Asker(Arc::new(Guest(visitor))));
        self.0.handle(request).await
    }
}

/// Whoever asks over HTTP.
#[derive(Debug)]
struct Guest(Visitor);

#[async_trait::async_trait]
impl Pond for Guest {
    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, PondError> {
        self.0.search(request).await
    }

    async fn get(&self, request: GetRequest) -> Result<GetResponse, PondError> {
        self.0.get(request).await
    }

    async fn stats(&self, namespace: Option<&str>) -> Result<Stats, PondError> {
        self.0.stats(namespace).await
    }
}

/// No call waits longer for what was recorded last: clients give up after a minute.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whoever may read the files reads one house of them.
#[derive(Debug)]
struct Local {
    library: Library,
    seeker: Seeker,
    shelf: Shelf,
    words: Following,
    rows: Following,
    patience: Duration,
}

/// Brings a read model up to the log. What a call does not wait for goes on behind it, and the next finds more.
#[derive(Debug, Default)]
struct Following(Mutex<Option<JoinHandle<anyhow::Result<()>>>>);

impl Following {
    /// Whether everything is there that was recorded before.
    async fn up(&self, patience: Duration, follow: impl Future<Output = anyhow::Result<()>> + Send + 'static) -> bool {
        let followed = async {
            let mut running = self.0.lock().await;
            // One that was begun earlier may not look for what was recorded since.
            if let Some(earlier) = running.as_mut() {
                let _ = earlier.await;
            }
            let done = running.insert(tokio::spawn(follow)).await;
            *running = None;
            done?
        };
        match tokio::time::timeout(patience, followed).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => tracing::warn!(%error, "what was recorded last may not be found"),
            Err(_) => tracing::debug!("what was recorded last is still being read in"),
        }
        false
    }

    async fn stop(&self) {
        let running = self.0.try_lock().ok().and_then(|mut running| running.take());
        if let Some(running) = running {
            running.abort();
            let _ = running.await;
        }
    }
}

impl Local {
    async fn open(library: Library, config: &Config) -> anyhow::Result<Self> {
        let model = seeker::model(config).await?;
        let index = seeker::open(config, &library.log)?;
        let datasets = datasets::open_with(config, &library.log, model.as_ref())?;
        let shelf = Shelf::new(datasets.clone(), &library.log, None);
        let seeker = Seeker::new(config, &library.log, index, datasets, model);
        let (words, rows) = (Following::default(), Following::default());
        Ok(Self { library, seeker, shelf, words, rows, patience: PATIENCE })
    }

    /// `wire-namespace-resolution`: here there is the one house that was opened.
    fn resolve(&self, namespace: Option<&str>) -> Result<&HouseId, PondError> {
        let house = &self.library.house;
        match namespace {
            None => Ok(house),
            Some(name) if name == house.as_str() => Ok(house),
            Some(_) => Err(PondError::new(Code::NamespaceUnknown, "there is no such namespace")),
        }
    }

    async fn follow_words(&self, patience: Duration) -> bool {
        let (log, index) = (self.library.log.clone(), self.seeker.index.clone());
        let follow = async move {
            log.refresh().await;
            stages::follow_index(&log, &index).await
        };
        self.words.up(patience, follow).await
    }

    async fn follow_rows(&self, patience: Duration) -> bool {
        let (log, datasets) = (self.library.log.clone(), self.seeker.datasets.clone());
        let follow = async move {
            log.refresh().await;
            stages::follow(&log, &datasets).await
        };
        self.rows.up(patience, follow).await
    }

    /// Words are in the index, and what they mean beside the rows, if it is known at all.
    async fn follow_what_is_searched(&self, patience: Duration) -> bool {
        let rows = async { self.seeker.model().is_none() || self.follow_rows(patience).await };
        let (words, rows) = tokio::join!(self.follow_words(patience), rows);
        words && rows
    }

    async fn close(&self) {
        tokio::join!(self.words.stop(), self.rows.stop());
        self.library.log.clone().close().await;
    }
}

#[async_trait::async_trait]
impl Pond for Local {
    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, PondError> {
        let house = self.resolve(request.namespace.as_deref())?;
        let all = self.follow_what_is_searched(self.patience).await;
        let mut found = library::search(&self.seeker, house, request).await?;
        if !all {
            found.hints.insert(0, LATE.to_owned());
        }
        Ok(found)
    }

    async fn get(&self, request: GetRequest) -> Result<GetResponse, PondError> {
        let house = self.resolve(request.namespace.as_deref())?;
        let all = self.follow_rows(self.patience).await;
        let got = library::get(&self.shelf, house, request).await;
        got.map_err(|error| {
            let late = !all && error.code == Code::NotFound;
            if late { PondError::new(error.code, format!("{}; {LATE}", error.message)) } else { error }
        })
    }

    async fn stats(&self, namespace: Option<&str>) -> Result<Stats, PondError> {
        let house = self.resolve(namespace)?;
        // Both are counted.
        tokio::join!(self.follow_words(self.patience), self.follow_rows(self.patience));
        self.seeker.stats(house).await
    }
}

/// `arbe mcp`: until its input ends.
pub(crate) async fn stdio(args: Mcp, config: &Config) -> anyhow::Result<ExitCode> {
    let library = Library::open(config, args.house.as_deref()).await?;
    let local = Arc::new(Local::open(library, config).await?);
    // Begun before it is asked for; a client waits for its greeting.
    local.follow_what_is_searched(Duration::ZERO).await;
    let served = mcp_server::stdio(local.clone()).await;
    local.close().await;
    served?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use commands::sessions::Recording;
    use projector::{Copies, Live, Sink};
    use serde_json::json;
    use tempfile::TempDir;
    use tokio::time::Instant;

    use super::*;
    use crate::args::Args;

    struct Place {
        _directory: TempDir,
        config: Config,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join("config"), "").unwrap();
            let paths = [("--config", directory.path().join("config")), ("--data-dir", directory.path().join("data"))];
            let paths = paths.iter().flat_map(|(flag, path)| [*flag, path.to_str().unwrap()]);
            let config = Config::load(&Args::try_parse_from(["arbe"].into_iter().chain(paths).chain(["mcp"])).unwrap()).unwrap();
            Self { _directory: directory, config }
        }

        async fn local(&self, patience: Duration) -> Local {
            let library = Library::open_to_write(&self.config, None).await.unwrap();
            Local { patience, ..Local::open(library, &self.config).await.unwrap() }
        }
    }

    async fn say(local: &Local, session: &str, text: &str) {
        let part = json!({ "id": "0", "type": "text", "provenance": "conversational", "text": text });
        let message = json!({ "id": "m", "role": "user", "timestamp": "2026-01-01T00:00:00Z", "content": [part] });
        let head = json!({ "id": session, "source_agent": "pi", "created_at": "2026-01-01T00:00:00Z", "project": "/p" });
        let recording = Recording {
            session_id: session.parse().unwrap(),
            session: Some(serde_json::from_value(head).unwrap()),
            messages: vec![serde_json::from_value(message).unwrap()],
        };
        local.library.sessions.record(&local.library.house, recording).await.unwrap();
    }

    fn search(query: &str) -> SearchRequest {
        serde_json::from_value(json!({ "protocol_version": 1, "query": query })).unwrap()
    }

    fn get(session: &str) -> GetRequest {
        serde_json::from_value(json!({ "protocol_version": 1, "session_id": session })).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_a_model_a_search_writes_no_rows_and_finds_what_was_just_recorded() {
        let local = Place::new();
        let local = local.local(PATIENCE).await;
        say(&local, "s", "kestrels hover").await;
        let found = local.search(search("kestrels")).await.unwrap();
        assert_eq!((found.sessions.len(), found.hints), (1, Vec::<String>::new()));
        assert_eq!(local.seeker.datasets.checkpoint().unwrap().position(), 0);
        assert!(matches!(local.get(get("s")).await.unwrap(), GetResponse::Session(page) if page.messages.len() == 1));
        assert_eq!(local.stats(None).await.unwrap().messages, 1);
        local.close().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_waits_for_another_to_feed_answers_in_time_and_says_that_something_may_be_missing() {
        let place = Place::new();
        let local = place.local(Duration::from_millis(300)).await;
        say(&local, "s/1", "kestrels hover").await;
        assert_eq!(local.stats(None).await.unwrap().messages, 1);
        let Live::Current(mut feeder) = local.seeker.datasets.live().await.unwrap() else { panic!("it is current") };
        let Live::Current(mut indexer) = local.seeker.index.live().await.unwrap() else { panic!("it is current") };
        assert!(feeder.claim().await.unwrap() && indexer.claim().await.unwrap());
        say(&local, "s/2", "kestrels dive").await;
        let began = Instant::now();
        let found = local.search(search("kestrels")).await.unwrap();
        assert_eq!((found.sessions.len(), &found.hints[..]), (1, &[LATE.to_owned()][..]));
        let missing = local.get(get("s/2")).await.unwrap_err();
        assert!(missing.code == Code::NotFound && missing.message.ends_with(LATE), "{missing:?}");
        local.get(get("s/1")).await.unwrap();
        assert_eq!(local.stats(None).await.unwrap().messages, 1);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        drop((feeder, indexer));
        let local = Local { patience: PATIENCE, ..local };
        assert_eq!(local.search(search("kestrels")).await.unwrap().sessions.len(), 2, "who fed is gone");
        assert!(matches!(local.get(get("s/2")).await.unwrap(), GetResponse::Session(_)));
        local.close().await;
    }
}
