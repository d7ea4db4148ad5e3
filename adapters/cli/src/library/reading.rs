//! `arbe get` and `arbe status`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use event_log::StoreUrl;
use lance_sessions::Health;
use queries::library::{self, Code, Files, GetRequest, GetResponse, MessageView, PROTOCOL_VERSION, PondError};
use serde::Serialize;

use super::{Library, stages};
use crate::args::{Get, LibraryStatus};
use crate::config::Config;
use crate::datasets::{self, Shelf};
use crate::output::{self, NotFound, Usage};
use crate::seeker;

pub(super) async fn get(args: Get, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let usage = |error: events::InvalidId| Usage(error.to_string());
    let request = GetRequest {
        protocol_version: PROTOCOL_VERSION,
        namespace: None,
        session_id: args.session.as_deref().map(str::parse).transpose().map_err(usage)?,
        message_id: args.message.as_deref().map(str::parse).transpose().map_err(usage)?,
        response_mode: args.mode.map(Into::into),
        context_depth: args.context,
        after_id: args.after,
        min_position: None,
        files: Files::Whole,
    };
    let library = Library::open(config, args.house.as_deref()).await?;
    let shelf = Shelf::new(datasets::open(config, &library.log)?, &library.log, None);
    let late = stages::follow(&library.log, &shelf.datasets).await.err();
    let got = library::get(&shelf, &library.house, request).await;
    library.close().await;
    let got = got.map_err(|error| refused(error, late.as_ref()))?;
    if let Some(why) = &late {
        output::note(format_args!("the datasets are behind the log, so there may be more: {why:#}"));
    }
    if json {
        output::print_json(&got)?;
    } else {
        output::print(told(&got)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn refused(error: PondError, late: Option<&anyhow::Error>) -> anyhow::Error {
    let hint = late.map(|why| format!("; the datasets are behind the log: {why:#}")).unwrap_or_default();
    match error.code {
        Code::NotFound | Code::NamespaceUnknown => NotFound(format!("{error}{hint}")).into(),
        Code::ValidationFailed | Code::VersionUnsupported => Usage(error.message).into(),
        Code::StorageUnavailable | Code::Conflict | Code::Internal => error.into(),
    }
}

/// For people: who said what.
fn told(got: &GetResponse) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut add = |message: &MessageView| -> anyhow::Result<()> {
        text.push_str(&format!("{}  {}  {}\n", message.timestamp, message.role.as_str(), message.id));
        for line in message.text.iter().flat_map(|said| said.lines()) {
            text.push_str(&format!("    {}\n", output::clean(line)));
        }
        for part in message.parts_summary.iter().flatten().filter(|part| part.kind != "text") {
            let name = part.name.as_deref().map(|name| format!(" {}", output::clean(name))).unwrap_or_default();
            text.push_str(&format!("    [{}{name}, {} bytes]\n", part.kind, part.bytes));
        }
        for part in message.parts.iter().flatten() {
            text.push_str(&format!("    {}\n", serde_json::to_string(part)?));
        }
        Ok(())
    };
    match got {
        GetResponse::Session(page) => {
            page.messages.iter().try_for_each(&mut add)?;
            if let (1.., Some(last)) = (page.messages_remaining, page.messages.last()) {
                output::note(format_args!("{} more; go on with --after {}", page.messages_remaining, last.id));
            }
        }
        GetResponse::Message(page) => {
            page.before.iter().chain([&page.target]).chain(&page.after).try_for_each(&mut add)?;
            if page.target_parts_remaining > 0 {
                output::note(format_args!(
                    "{} more parts; go on with --after and the id of the last",
                    page.target_parts_remaining
                ));
            }
        }
    }
    Ok(text)
}

#[derive(Serialize)]
struct Cheap {
    log_position: u64,
    datasets_position: u64,
    log_bytes: u64,
    datasets_bytes: u64,
    datasets: String,
    /// Whether the datasets hold what the log does.
    current: bool,
}

pub(super) async fn status(args: LibraryStatus, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let library = Library::open(config, args.house.as_deref()).await?;
    let datasets = datasets::open(config, &library.log)?;
    let cheap = Cheap {
        log_position: library.log.position(),
        datasets_position: datasets.checkpoint()?.position(),
        log_bytes: log_bytes(&config.store),
        datasets_bytes: bytes_under(datasets.directory()),
        datasets: datasets.directory().display().to_string(),
        current: projector::is_current(&library.log, datasets.checkpoint()?).await,
    };
    if !json {
        let Cheap { log_position, datasets_position, log_bytes, datasets_bytes, datasets, current } = &cheap;
        output::print(format!(
            "log       position {log_position}, {}\ndatasets  position {datasets_position}, {} in {datasets}\n",
            mebibytes(*log_bytes),
            mebibytes(*datasets_bytes)
        ))?;
        if !current {
            output::note("the datasets are behind the log: little news waits for more, and is fetched when somebody reads");
        }
    }
    let counted = count(&library, config).await;
    library.close().await;
    let (health, clients) = counted?;
    if json {
        output::print_json(&serde_json::json!({ "storage": cheap, "tables": health, "clients": clients }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<_> = health
        .iter()
        .map(|(table, it)| {
            let numbers = [it.rows, it.fragments, it.versions, it.indexes, it.unindexed, it.embedded];
            std::iter::once((*table).to_owned()).chain(numbers.iter().map(ToString::to_string)).collect()
        })
        .collect();
    output::print(output::table(&["TABLE", "ROWS", "FRAGMENTS", "VERSIONS", "INDEXES", "UNINDEXED ROWS", "EMBEDDED"], &rows))?;
    let rows: Vec<_> = clients.iter().map(|(client, count)| vec![client.clone(), count.to_string()]).collect();
    output::print(output::table(&["CLIENT", "SESSIONS"], &rows))?;
    Ok(ExitCode::SUCCESS)
}

type Counted = (BTreeMap<&'static str, Health>, BTreeMap<String, u64>);

/// What has a vector is asked of the configured model. Without it there is more to be told than how it fails.
async fn count(library: &Library, config: &Config) -> anyhow::Result<Counted> {
    let model = match seeker::model(config).await {
        Ok(model) => model,
        Err(why) => {
            output::note(format_args!("the model cannot be used, so vectors of every model are counted: {why:#}"));
            None
        }
    };
    let datasets = datasets::open_with(config, &library.log, model.as_ref())?;
    Ok((datasets.health(&library.house).await?, datasets.clients(&library.house).await?))
}

/// Zero where the log is not on local files: nobody has counted.
fn log_bytes(store: &StoreUrl) -> u64 {
    match store {
        StoreUrl::File(path) => bytes_under(path),
        StoreUrl::Memory | StoreUrl::Remote(_) => 0,
    }
}

fn bytes_under(directory: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_under(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
