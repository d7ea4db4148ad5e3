//! The only place that reads configuration files and environment variables.

#![expect(clippy::disallowed_methods, reason = "the home of the environment")]

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use event_log::StoreUrl;
use serde::Deserialize;
use url::Url;
use vault::KeySource;

use crate::args::{Args, Meaning, ModelApi, Provider, Serve, VaultKeys, Verb};

mod work;

pub(crate) use work::Work;

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
    database_url: Option<String>,
    pg_bin: Option<PathBuf>,
    auth_hs256_secret: Option<String>,
    auth_jwks: Option<String>,
    auth_issuer: Option<String>,
    auth_audience: Option<String>,
    token_key: Option<String>,
    vault_key_file: Option<PathBuf>,
    vault_key: Option<String>,
    vault_key_command: Option<String>,
    resolve_token: Option<String>,
    url: Option<String>,
    token: Option<String>,
    house: Option<String>,
    embed_model: Option<String>,
    embed_hub: Option<String>,
    embed_query_prefix: Option<String>,
    embed_document_prefix: Option<String>,
    embed_max_tokens: Option<usize>,
    search_nprobes: Option<usize>,
    search_refine: Option<u32>,
    sandbox_provider: Option<Provider>,
    machines_dir: Option<PathBuf>,
    #[serde(default)]
    tools: Vec<PathBuf>,
    #[serde(default)]
    repositories: Vec<PathBuf>,
    #[serde(default)]
    reach: Vec<String>,
    runner: Option<PathBuf>,
    model_url: Option<String>,
    model: Option<String>,
    model_api: Option<ModelApi>,
    model_key_secret: Option<String>,
    orphan_after: Option<String>,
    unreachable_after: Option<String>,
    reap_after: Option<String>,
    watch_every: Option<String>,
    machines_url: Option<String>,
    daytona_token: Option<String>,
    daytona_url: Option<String>,
    daytona_organization: Option<String>,
    daytona_target: Option<String>,
    daytona_snapshot: Option<String>,
    sprites_token: Option<String>,
    sprites_url: Option<String>,
    sprites_region: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) data_dir: PathBuf,
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
    pub(crate) database_url: Option<String>,
    pub(crate) pg_bin: Option<PathBuf>,
    pub(crate) auth_hs256_secret: Option<String>,
    /// URL or file.
    pub(crate) auth_jwks: Option<String>,
    pub(crate) auth_issuer: Option<String>,
    pub(crate) auth_audience: Option<String>,
    pub(crate) token_key: Option<String>,
    pub(crate) vault: vault::Options,
    /// Nobody said where the vault's key is.
    pub(crate) vault_key_is_default: bool,
    pub(crate) resolve_token: Option<String>,
    /// The server that verbs talk to, if not the one of the data directory.
    pub(crate) url: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) house: Option<String>,
    /// `None`: search compares words only, and no model is loaded.
    pub(crate) embedding: Option<embedders::Options>,
    pub(crate) tuning: lance_sessions::Tuning,
    pub(crate) work: Work,
}

const HUB: &str = "https://huggingface.co";
const VAULT_KEY_FILE: &str = "vault-key";
/// Characters.
const RESOLVE_TOKEN_MIN: usize = 16;
const LISTEN: &str = "127.0.0.1:4437";
const LONG_POLL_MAX: Duration = Duration::from_secs(3_600);
const MEMORY_MIB_MAX: usize = 1 << 20;
/// A body is held in memory whole.
const BODY_LIMIT_MIB_MAX: usize = 256;

impl Config {
    pub(crate) fn load(args: &Args) -> anyhow::Result<Self> {
        Self::merge(args, read_file(args.common.config.as_deref())?)
    }

    fn merge(args: &Args, file: File) -> anyhow::Result<Self> {
        let common = &args.common;
        let (serve, level) =
            if let Verb::Serve(serve) = &args.verb { (*serve.clone(), "info") } else { (Serve::default(), "warn") };
        let (auth, needs) = (serve.auth, args.verb.needs());
        let (database, remote) = (needs.database.cloned().unwrap_or_default(), needs.remote.cloned().unwrap_or_default());
        let data_dir = match common.data_dir.clone().or_else(|| file.data_dir.clone()) {
            Some(given) => absolute(&given)?,
            None => absolute(&xdg("XDG_DATA_HOME", ".local/share")?.join("arbe"))?,
        };
        let store = match (&common.store, &file.store) {
            (Some(given), _) => given.clone(),
            (None, Some(url)) => url.parse()?,
            (None, None) => StoreUrl::File(data_dir.join("log")),
        };
        let embedding = embedding(&common.meaning, &file, &data_dir)?;
        let tuning = tuning(&common.meaning, &file)?;
        let serves = matches!(args.verb, Verb::Serve(_));
        let work = work::work(serve.work, &file, serves)?;
        let vault = vault_keys(needs.vault_keys, &file)?;
        let vault_key_is_default = vault.keys.is_empty();
        let vault = if vault_key_is_default { default_key(&data_dir) } else { vault };
        let config = Self {
            data_dir,
            store,
            store_options: std::env::vars().filter(|(name, _)| is_store_option(name)).collect(),
            log_level: common.log_level.clone().or(file.log_level).unwrap_or_else(|| level.into()),
            log_format: common.log_format.or(file.log_format).unwrap_or_default(),
            listen: address(serve.listen.or(file.listen))?,
            public_url: http_url("public_url", serve.public_url.or(file.public_url))?,
            advertise_url: http_url("advertise_url", serve.advertise_url.or(file.advertise_url))?,
            service_secret: not_empty("the service secret", serve.service_secret.or(file.service_secret))?,
            long_poll_timeout: long_poll(serve.long_poll_timeout, file.long_poll_timeout.as_deref())?,
            memory: mebibytes("the memory budget", serve.memory_mib.or(file.memory_mib).unwrap_or(128), 0..=MEMORY_MIB_MAX)?,
            body_limit: mebibytes(
                "the body limit",
                serve.body_limit_mib.or(file.body_limit_mib).unwrap_or(32),
                1..=BODY_LIMIT_MIB_MAX,
            )?,
            database_url: not_empty("the database URL", database.database_url.or(file.database_url))?,
            pg_bin: database.pg_bin.or(file.pg_bin),
            auth_hs256_secret: not_empty("the issuer's secret", auth.auth_hs256_secret.or(file.auth_hs256_secret))?,
            auth_jwks: not_empty("the issuer's JWKS", auth.auth_jwks.or(file.auth_jwks))?,
            auth_issuer: not_empty("the issuer", auth.auth_issuer.or(file.auth_issuer))?,
            auth_audience: not_empty("the audience", auth.auth_audience.or(file.auth_audience))?,
            token_key: not_empty("the token key", auth.token_key.or(file.token_key))?,
            vault,
            vault_key_is_default,
            resolve_token: not_empty("the resolve token", serve.resolve_token.or(file.resolve_token))?,
            url: not_empty("the server's URL", remote.url.or(file.url))?,
            token: not_empty("the token", remote.token.or(file.token))?,
            house: remote.house.or(file.house),
            embedding,
            tuning,
            work,
        };
        if serves {
            config.check_issuer()?;
            config.check_door()?;
        }
        Ok(config)
    }

    /// A setting that would change nothing about who gets in is a mistake.
    fn check_issuer(&self) -> anyhow::Result<()> {
        match (&self.auth_hs256_secret, &self.auth_jwks) {
            (Some(_), Some(_)) => {
                bail!("auth_hs256_secret and auth_jwks exclude each other: there is one issuer, so leave one of them out")
            }
            (None, None) if self.auth_issuer.is_some() || self.auth_audience.is_some() => {
                bail!("auth_issuer and auth_audience need auth_hs256_secret or auth_jwks: set one of them, or leave these out");
            }
            (Some(_), None) | (None, Some(_) | None) => Ok(()),
        }
    }

    fn check_door(&self) -> anyhow::Result<()> {
        if self.resolve_token.as_ref().is_some_and(|token| token.chars().count() < RESOLVE_TOKEN_MIN) {
            bail!("the resolve token opens every value, so it has at least {RESOLVE_TOKEN_MIN} characters that nobody can guess");
        }
        Ok(())
    }
}

fn embedding(flags: &Meaning, file: &File, data_dir: &Path) -> anyhow::Result<Option<embedders::Options>> {
    let either = |flag: &Option<String>, file: &Option<String>| flag.clone().or_else(|| file.clone());
    let hub = http_url("embed_hub", either(&flags.embed_hub, &file.embed_hub))?.unwrap_or_else(|| HUB.into());
    let max_tokens = flags.embed_max_tokens.or(file.embed_max_tokens);
    if max_tokens == Some(0) {
        bail!("embed_max_tokens is at least 1");
    }
    let model = not_empty("the embedding model", either(&flags.embed_model, &file.embed_model))?;
    Ok(model.map(|model| embedders::Options {
        model,
        models: data_dir.join("models"),
        hub: hub.trim_end_matches('/').to_owned(),
        query_prefix: either(&flags.embed_query_prefix, &file.embed_query_prefix).unwrap_or_default(),
        document_prefix: either(&flags.embed_document_prefix, &file.embed_document_prefix).unwrap_or_default(),
        max_tokens,
    }))
}

/// The variable's key before the command's before the file's: the first seals.
fn vault_keys(flags: Option<&VaultKeys>, file: &File) -> anyhow::Result<vault::Options> {
    let flags = flags.cloned().unwrap_or_default();
    let text = not_empty("the vault's key", flags.vault_key.or_else(|| file.vault_key.clone()))?;
    let command =
        not_empty("the command for the vault's key", flags.vault_key_command.or_else(|| file.vault_key_command.clone()))?;
    let path = flags.vault_key_file.or_else(|| file.vault_key_file.clone()).map(|path| absolute(&path)).transpose()?;
    let words = |line: String| line.split_whitespace().map(ToOwned::to_owned).collect();
    let keys = [
        text.map(|text| KeySource::Text(text.into())),
        command.map(|line| KeySource::Command(words(line))),
        path.map(KeySource::File),
    ];
    Ok(vault::Options { keys: keys.into_iter().flatten().collect() })
}

fn default_key(data_dir: &Path) -> vault::Options {
    vault::Options { keys: vec![KeySource::File(data_dir.join(VAULT_KEY_FILE))] }
}

fn tuning(flags: &Meaning, file: &File) -> anyhow::Result<lance_sessions::Tuning> {
    let default = lance_sessions::Tuning::default();
    let nprobes = flags.search_nprobes.or(file.search_nprobes).unwrap_or(default.nprobes);
    let refine = flags.search_refine.or(file.search_refine).unwrap_or(default.refine);
    if nprobes == 0 || refine == 0 {
        bail!("search_nprobes and search_refine are at least 1");
    }
    Ok(lance_sessions::Tuning { nprobes, refine })
}

fn address(given: Option<String>) -> anyhow::Result<String> {
    let Some(text) = given else { return Ok(LISTEN.into()) };
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text),
        _ => bail!("listen {text:?} is not an address with a port, such as {LISTEN}"),
    }
}

fn http_url(what: &str, given: Option<String>) -> anyhow::Result<Option<String>> {
    let valid = |text: &str| Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    match given {
        Some(text) if !valid(&text) => bail!("{what} {text:?} is not a URL such as https://arbe.example.org"),
        given => Ok(given),
    }
}

fn not_empty(what: &str, given: Option<String>) -> anyhow::Result<Option<String>> {
    match given {
        Some(text) if text.trim().is_empty() => bail!("{what} is empty: leave it out, or give it a value"),
        given => Ok(given),
    }
}

fn long_poll(flag: Option<humantime::Duration>, file: Option<&str>) -> anyhow::Result<Duration> {
    let wait = match (flag, file) {
        (Some(given), _) => given.into(),
        (None, Some(text)) => humantime::parse_duration(text).context("long_poll_timeout")?,
        (None, None) => Duration::from_secs(30),
    };
    if wait > LONG_POLL_MAX {
        bail!("a long-poll waits at most an hour");
    }
    Ok(wait)
}

fn mebibytes(what: &str, given: usize, allowed: RangeInclusive<usize>) -> anyhow::Result<usize> {
    if !allowed.contains(&given) {
        bail!("{what} is {} to {} MiB", allowed.start(), allowed.end());
    }
    Ok(given << 20)
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
    parsed(&text).with_context(|| path.display().to_string())
}

/// What does not fit is told by its line: the line itself may hold a secret.
fn parsed(text: &str) -> anyhow::Result<File> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        anyhow!("line {line}: {}", unquoted(error.message()))
    })
}

/// A value of the wrong kind is quoted before what was expected.
fn unquoted(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((wrong, expected)) if wrong.starts_with("invalid ") => format!("the value does not fit, expected {expected}"),
        Some(_) | None => message.to_owned(),
    }
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn merged(line: &str, file: &str) -> anyhow::Result<Config> {
        let line = ["arbe", "--data-dir", "/d"].into_iter().chain(line.split(' '));
        Config::merge(&Args::try_parse_from(line)?, parsed(file)?)
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let file = "database_url = 'postgres://file'\nurl = 'http://file'\nhouse = 'file'\nauth_issuer = 'file'\nauth_jwks = 'f'";
        let config = merged("serve --database-url postgres://flag --auth-issuer flag --pg-bin /pg", file).unwrap();
        assert_eq!(config.database_url.as_deref(), Some("postgres://flag"));
        assert_eq!(config.auth_issuer.as_deref(), Some("flag"));
        assert_eq!(config.pg_bin.as_deref(), Some(Path::new("/pg")));
        let config = merged("thread list --url http://flag", file).unwrap();
        assert_eq!((config.url.as_deref(), config.house.as_deref()), (Some("http://flag"), Some("file")));
        assert_eq!(config.data_dir, Path::new("/d"));
    }

    #[test]
    fn a_model_is_told_as_an_environment_would_tell_it() {
        let file = "model_api = 'anthropic'\nmodel = 'file'\nmodel_key_secret = 'KEY'\nreap_after = '1m'";
        let work =
            merged("serve --model-url http://127.0.0.1:1/v1 --model flag --reach 127.0.0.1:1,git.internal:*", file).unwrap().work;
        let told = serde_json::json!({
            "api": "anthropic", "base_url": "http://127.0.0.1:1/v1", "model": "flag", "api_key_secret": "KEY",
        });
        assert_eq!(work.model.map(serde_json::Value::Object), Some(told));
        assert_eq!((work.reap_after, work.reach.len()), (Some(Duration::from_secs(60)), 2));
    }

    #[test]
    fn rebuild_and_verify_take_the_database_too() {
        for line in ["rebuild rows --database-url postgres://flag", "verify --database-url postgres://flag"] {
            assert_eq!(merged(line, "").unwrap().database_url.as_deref(), Some("postgres://flag"), "{line}");
        }
    }

    #[test]
    fn an_empty_secret_a_long_wait_and_an_unknown_key_are_refused() {
        for (line, file) in [
            ("serve", "service_secret = ' '"),
            ("serve", "token_key = ''"),
            ("serve --long-poll-timeout 2h", ""),
            ("serve --body-limit-mib 0", ""),
            ("serve", "colour = 'red'"),
            ("serve", "auth_jwks = 'f'\nauth_hs256_secret = 's'"),
            ("serve --auth-audience a", ""),
            ("serve --listen nonsense", ""),
            ("serve --listen 127.0.0.1:70000", ""),
            ("serve --public-url arbe.example.org", ""),
            ("serve --machines-url proxy.example.org", ""),
            ("serve", "store = 'nonsense://'"),
            ("serve --model-url http://127.0.0.1:1/v1", ""),
            ("serve --model m", ""),
            ("serve --sandbox-provider daytona", ""),
            ("serve --reach nowhere", ""),
            ("serve", "orphan_after = 'soon'"),
            ("serve", "unreachable_after = 'never'"),
            ("serve --watch-every 1h", ""),
            ("serve --resolve-token fifteen-letters", ""),
        ] {
            assert!(merged(line, file).is_err(), "{line} {file}");
        }
    }

    /// The variables that complete the file are read for a server alone.
    #[test]
    fn a_file_that_is_complete_only_with_a_servers_variables_is_good_for_other_verbs() {
        for file in [
            "sandbox_provider = 'daytona'",
            "sandbox_provider = 'sprite'",
            "model = 'm'",
            "model_url = 'http://127.0.0.1:1/v1'",
            "auth_audience = 'a'",
            "resolve_token = 'short'",
        ] {
            assert!(merged("serve", file).is_err(), "{file}");
            assert!(merged("thread list", file).is_ok(), "{file}: {:#}", merged("thread list", file).unwrap_err());
        }
    }

    #[test]
    fn what_does_not_fit_is_told_by_its_line_and_no_value_is_shown() {
        for (file, told) in [
            ("listen = 'h:1'\nservice_secrett = 'sk-planted'", "line 2: unknown field `service_secrett`"),
            ("\n\ntoken = 5347", "line 3: the value does not fit, expected a string"),
            ("token = sk-planted", "line 1: "),
            ("token = 'sk-planted", "line 1: "),
            ("listen = 'h:1'\nmemory_mib = 'sk-planted, expected'", "line 2: the value does not fit, expected usize"),
        ] {
            let error = parsed(file).unwrap_err().to_string();
            assert!(error.starts_with(told) && !error.contains("planted") && !error.contains("5347"), "{error}");
        }
    }
}
