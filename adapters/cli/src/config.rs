//! The only place that reads configuration files and environment variables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use event_log::StoreUrl;
use serde::Deserialize;

use crate::args::{Args, Serve, Verb};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Human,
    Json,
}

/// The file's shape; every key is also a flag and an `ARBE_…` variable.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    data_dir: Option<PathBuf>,
    store: Option<String>,
    log_level: Option<String>,
    log_format: Option<LogFormat>,
    listen: Option<String>,
    public_url: Option<String>,
    advertise_url: Option<String>,
    service_secret: Option<String>,
    long_poll_timeout: Option<String>,
    memory_mib: Option<usize>,
    body_limit_mib: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) store: StoreUrl,
    pub(crate) store_options: Vec<(String, String)>,
    pub(crate) log_level: String,
    pub(crate) log_format: LogFormat,
    pub(crate) listen: String,
    pub(crate) public_url: Option<String>,
    pub(crate) advertise_url: Option<String>,
    pub(crate) service_secret: Option<String>,
    pub(crate) long_poll_timeout: Duration,
    pub(crate) memory: usize,
    pub(crate) body_limit: usize,
}

const LONG_POLL_MAX: Duration = Duration::from_secs(3_600);
const MEMORY_MIB_MAX: usize = 1 << 20;
/// A body is held in memory whole.
const BODY_LIMIT_MIB_MAX: usize = 256;

impl Config {
    pub(crate) fn load(args: &Args) -> anyhow::Result<Self> {
        let common = &args.common;
        let file = read_file(common.config.as_deref())?;
        let nothing = Serve::default();
        let (serve, level) = match &args.verb {
            Verb::Serve(serve) => (serve.as_ref(), "info"),
            Verb::Log { .. } | Verb::Completions { .. } => (&nothing, "warn"),
        };
        let data_dir = match common.data_dir.clone().or(file.data_dir) {
            Some(given) => given,
            None => xdg("XDG_DATA_HOME", ".local/share")?.join("arbe"),
        };
        let store = match (&common.store, &file.store) {
            (Some(given), _) => given.clone(),
            (None, Some(url)) => url.parse()?,
            (None, None) => StoreUrl::File(absolute(&data_dir)?.join("log")),
        };
        let wait = match (serve.long_poll_timeout, file.long_poll_timeout) {
            (Some(given), _) => given.into(),
            (None, Some(text)) => humantime::parse_duration(&text).context("long_poll_timeout")?,
            (None, None) => Duration::from_secs(30),
        };
        let service_secret = serve.service_secret.clone().or(file.service_secret);
        if service_secret.as_deref().is_some_and(|secret| secret.trim().is_empty()) {
            bail!("the service secret is empty");
        }
        if wait > LONG_POLL_MAX {
            bail!("a long-poll waits at most an hour");
        }
        let memory_mib = serve.memory_mib.or(file.memory_mib).unwrap_or(128);
        if memory_mib > MEMORY_MIB_MAX {
            bail!("the memory budget is at most {MEMORY_MIB_MAX} MiB");
        }
        let body_limit_mib = serve.body_limit_mib.or(file.body_limit_mib).unwrap_or(32);
        if !(1..=BODY_LIMIT_MIB_MAX).contains(&body_limit_mib) {
            bail!("the body limit is 1 to {BODY_LIMIT_MIB_MAX} MiB");
        }
        Ok(Self {
            store,
            store_options: std::env::vars().filter(|(name, _)| is_store_option(name)).collect(),
            log_level: common.log_level.clone().or(file.log_level).unwrap_or_else(|| level.into()),
            log_format: common.log_format.or(file.log_format).unwrap_or_default(),
            listen: serve.listen.clone().or(file.listen).unwrap_or_else(|| "127.0.0.1:4437".into()),
            public_url: serve.public_url.clone().or(file.public_url),
            advertise_url: serve.advertise_url.clone().or(file.advertise_url),
            service_secret,
            long_poll_timeout: wait,
            memory: memory_mib << 20,
            body_limit: body_limit_mib << 20,
        })
    }
}

fn read_file(given: Option<&Path>) -> anyhow::Result<File> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => match xdg("XDG_CONFIG_HOME", ".config") {
            Ok(directory) if directory.join("arbe/config.toml").exists() => directory.join("arbe/config.toml"),
            _ => return Ok(File::default()),
        },
    };
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

fn xdg(variable: &str, below_home: &str) -> anyhow::Result<PathBuf> {
    if let Some(directory) = std::env::var_os(variable).filter(|value| !value.is_empty()) {
        return Ok(directory.into());
    }
    let home = std::env::var_os("HOME").filter(|value| !value.is_empty());
    let home = home.with_context(|| format!("neither {variable} nor HOME is set; use --data-dir"))?;
    Ok(PathBuf::from(home).join(below_home))
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}

fn is_store_option(name: &str) -> bool {
    ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|prefix| name.starts_with(prefix))
}
