//! What the configuration says of work: machines, models, runs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use commands::ports::Plain;
use serde_json::{Map, Value, json};
use url::Url;

use super::{File, absolute, http_url, not_empty};
use crate::args::{ModelApi, Provider, Work as Flags};

const DAYTONA: &str = "https://app.daytona.io/api";
const SPRITES: &str = "https://api.sprites.dev";
/// Distant machines stop by themselves after an hour, sprites earlier hold themselves; a look that fails is made good by the next.
const LONGEST_WATCH: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) provider: Provider,
    pub(crate) machines_dir: Option<PathBuf>,
    /// Empty: where `arbe tools install` puts them.
    pub(crate) tools: Vec<PathBuf>,
    pub(crate) repositories: Vec<PathBuf>,
    pub(crate) reach: Vec<String>,
    pub(crate) runner: Option<PathBuf>,
    /// As an environment would name it.
    pub(crate) model: Option<Map<String, Value>>,
    pub(crate) model_url: Option<String>,
    pub(crate) orphan_after: Option<Duration>,
    pub(crate) unreachable_after: Option<Duration>,
    pub(crate) reap_after: Option<Duration>,
    pub(crate) watch_every: Option<Duration>,
    /// Where distant machines find the threads.
    pub(crate) machines_url: Option<String>,
    pub(crate) daytona: Option<sandboxes::daytona::Options>,
    pub(crate) sprite: Option<sandboxes::sprite::Options>,
}

/// `serves`: whether it has to be complete. Other verbs do not read the variables of a server, and need not have what is in them.
pub(super) fn work(flags: Flags, file: &File, serves: bool) -> anyhow::Result<Work> {
    let (daytona, sprite) = (daytona(&flags, file)?, sprite(&flags, file)?);
    let provider = flags.sandbox_provider.or(file.sandbox_provider).unwrap_or_default();
    match provider {
        Provider::Daytona if serves && daytona.is_none() => bail!("machines of Daytona need its API key: set daytona_token"),
        Provider::Sprite if serves && sprite.is_none() => bail!("sprites need a token: set sprites_token"),
        Provider::Daytona | Provider::Sprite | Provider::Local | Provider::None => {}
    }
    let model_url = http_url("model_url", either(&flags.model_url, &file.model_url))?;
    let wait = |name: &'static str, flag: Option<humantime::Duration>, file: &Option<String>| {
        let wait = match (flag, file) {
            (Some(given), _) => Some(given.into()),
            (None, Some(text)) => Some(humantime::parse_duration(text).context(name)?),
            (None, None) => None,
        };
        if wait == Some(Duration::ZERO) { bail!("{name} is a time, such as 10s, and not none at all") } else { Ok(wait) }
    };
    let watch_every = wait("watch_every", flags.watch_every, &file.watch_every)?;
    if watch_every.is_some_and(|every| every > LONGEST_WATCH) {
        bail!("watch_every is at most 10m: providers stop machines that nobody looks at");
    }
    Ok(Work {
        provider,
        machines_dir: flags.machines_dir.clone().or_else(|| file.machines_dir.clone()).map(|it| absolute(&it)).transpose()?,
        tools: paths(&flags.tools, &file.tools)?,
        repositories: paths(&flags.repositories, &file.repositories)?,
        reach: reach(&flags, file)?,
        runner: flags.runner.clone().or_else(|| file.runner.clone()).map(|it| absolute(&it)).transpose()?,
        model: model(&flags, file, model_url.as_deref(), serves)?,
        model_url,
        orphan_after: wait("orphan_after", flags.orphan_after, &file.orphan_after)?,
        unreachable_after: wait("unreachable_after", flags.unreachable_after, &file.unreachable_after)?,
        reap_after: wait("reap_after", flags.reap_after, &file.reap_after)?,
        watch_every,
        machines_url: http_url("machines_url", either(&flags.machines_url, &file.machines_url))?,
        daytona,
        sprite,
    })
}

fn either<T: Clone>(flag: &Option<T>, file: &Option<T>) -> Option<T> {
    flag.clone().or_else(|| file.clone())
}

fn paths(flags: &[PathBuf], file: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let given = if flags.is_empty() { file } else { flags };
    given.iter().map(|path| absolute(path)).collect()
}

fn reach(flags: &Flags, file: &File) -> anyhow::Result<Vec<String>> {
    let given = if flags.reach.is_empty() { &file.reach } else { &flags.reach };
    for address in given {
        let port = |port: &str| port == "*" || port.parse::<u16>().is_ok_and(|port| port > 0);
        if !address.rsplit_once(':').is_some_and(|(host, it)| !host.is_empty() && port(it)) {
            bail!("reach {address:?} is not an address such as 127.0.0.1:8080 or gitea.internal:*");
        }
    }
    Ok(given.clone())
}

/// The shape of `model` in an environment's configuration.
fn model(flags: &Flags, file: &File, url: Option<&str>, serves: bool) -> anyhow::Result<Option<Map<String, Value>>> {
    let name = not_empty("the model", either(&flags.model, &file.model))?;
    let (url, name) = match (url, name) {
        (Some(url), Some(name)) => (url, name),
        (None, None) => return Ok(None),
        (Some(_), None) | (None, Some(_)) if !serves => return Ok(None),
        (Some(_), None) => bail!("model_url needs the model's name: set model"),
        (None, Some(_)) => bail!("a model needs its address: set model_url"),
    };
    let api = match flags.model_api.or(file.model_api).unwrap_or_default() {
        ModelApi::Openai => "openai",
        ModelApi::Anthropic => "anthropic",
    };
    let mut model = Map::from_iter([("api", api), ("base_url", url), ("model", &name)].map(|(key, it)| (key.into(), json!(it))));
    let secret = not_empty("the secret of the model's key", either(&flags.model_key_secret, &file.model_key_secret))?;
    model.extend(secret.map(|secret| ("api_key_secret".to_owned(), json!(secret))));
    Ok(Some(model))
}

fn address(what: &str, given: Option<String>, default: &str) -> anyhow::Result<Url> {
    let text = http_url(what, given)?.unwrap_or_else(|| default.to_owned());
    Url::parse(text.trim_end_matches('/')).with_context(|| what.to_owned())
}

fn daytona(flags: &Flags, file: &File) -> anyhow::Result<Option<sandboxes::daytona::Options>> {
    let token = not_empty("daytona_token", either(&flags.daytona_token, &file.daytona_token))?;
    let url = address("daytona_url", either(&flags.daytona_url, &file.daytona_url), DAYTONA)?;
    Ok(token.map(|token| sandboxes::daytona::Options {
        organization: either(&flags.daytona_organization, &file.daytona_organization),
        target: either(&flags.daytona_target, &file.daytona_target),
        snapshot: either(&flags.daytona_snapshot, &file.daytona_snapshot),
        ..sandboxes::daytona::Options::new(url, Plain::new(token.into_bytes()))
    }))
}

fn sprite(flags: &Flags, file: &File) -> anyhow::Result<Option<sandboxes::sprite::Options>> {
    let token = not_empty("sprites_token", either(&flags.sprites_token, &file.sprites_token))?;
    let url = address("sprites_url", either(&flags.sprites_url, &file.sprites_url), SPRITES)?;
    Ok(token.map(|token| sandboxes::sprite::Options {
        region: either(&flags.sprites_region, &file.sprites_region),
        ..sandboxes::sprite::Options::new(url, Plain::new(token.into_bytes()))
    }))
}
