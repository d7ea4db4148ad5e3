//! Whether a recipe is one that machines can be made of. Whoever writes it hears of a slip at once; a run would only fail of it.

use events::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::bounds;
use crate::ports::{Limits, ModelConfig, RUNTIMES, Recipe};
use crate::rejection::Rejection;

const WORD_MAX: usize = 2_048;
const LIST_MAX: usize = 256;
const MIB_MAX: u64 = 1 << 24;
const PIDS_MAX: u64 = 1 << 22;
const CPUS_MAX: u64 = 1 << 10;
/// 30 days.
const SECONDS_MAX: u64 = 30 * 24 * 3_600;

/// Which field, with its path, and what is wrong with it.
type Slip = (String, String);

pub(super) fn check(config: &JsonObject) -> Result<(), Rejection> {
    let said = |(field, why): Slip| bounds::invalid("config", &format!("{field}: {why}"));
    let given: Map<String, Value> =
        serde_json::from_str(config.get()).map_err(|error| bounds::invalid("config", &error.to_string()))?;
    let read = serde_json::from_str(config.get());
    let recipe: Recipe = read.map_err(|error| match misfit::<Recipe>(&Map::new(), &given) {
        Some(slip) => said(slip),
        None => bounds::invalid("config", &brief(&error)),
    })?;
    objects("", &given, &["limits", "permissions"]).map_err(said)?;
    texts(&recipe).and_then(|()| limits(&recipe.limits)).and_then(|()| lists(&recipe)).map_err(said)?;
    recipe.model.as_ref().map_or(Ok(()), model).map_err(|(field, why)| said((format!("model.{field}"), why)))
}

/// Where the text stood does not help in a body that held it as a part.
fn brief(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// The first field that does not fit, found by putting each alone into what fits: the reader does not say where it was.
fn misfit<T: DeserializeOwned>(fitting: &Map<String, Value>, given: &Map<String, Value>) -> Option<Slip> {
    let try_alone = |name: &str, value: Value| {
        let mut alone = fitting.clone();
        alone.insert(name.to_owned(), value);
        serde_json::from_value::<T>(Value::Object(alone)).err().map(|error| brief(&error))
    };
    given.iter().find_map(|(name, value)| {
        let why = try_alone(name, value.clone())?;
        let mut parts = value.as_object().into_iter().flatten();
        let inner =
            parts.find_map(|(part, value)| try_alone(name, json!({ part: value })).map(|why| (format!("{name}.{part}"), why)));
        Some(inner.unwrap_or_else(|| (name.clone(), why)))
    })
}

/// A list of the fields' values in their order would do for the reader.
fn objects(within: &str, given: &Map<String, Value>, fields: &[&str]) -> Result<(), Slip> {
    match fields.iter().find(|field| given.get(**field).is_some_and(|value| !value.is_object())) {
        Some(field) => slip(format!("{within}{field}"), "is not an object"),
        None => Ok(()),
    }
}

fn slip(field: impl Into<String>, why: impl Into<String>) -> Result<(), Slip> {
    Err((field.into(), why.into()))
}

fn word(field: &str, text: &str) -> Result<(), Slip> {
    if text.trim().is_empty() {
        return slip(field, "is blank");
    }
    if text.len() > WORD_MAX {
        return slip(field, format!("is longer than {WORD_MAX} bytes"));
    }
    if text.chars().any(char::is_control) { slip(field, "holds a control character") } else { Ok(()) }
}

fn texts(recipe: &Recipe) -> Result<(), Slip> {
    let named = [("runtime", &recipe.runtime), ("image", &recipe.image), ("repo", &recipe.repo), ("branch", &recipe.branch)];
    for (field, text) in named {
        let Some(text) = text else { continue };
        word(field, text)?;
        // Programs would take it for a flag.
        if text.starts_with('-') {
            return slip(field, "begins with `-`");
        }
    }
    if let Some(runtime) = recipe.runtime.as_deref().filter(|runtime| !RUNTIMES.contains(runtime)) {
        return slip("runtime", format!("there is no {runtime:?}: known are {}", RUNTIMES.join(", ")));
    }
    if recipe.branch.is_some() && recipe.repo.is_none() {
        return slip("branch", "there is no `repo` that it could be a branch of");
    }
    Ok(())
}

fn limits(limits: &Limits) -> Result<(), Slip> {
    let Limits { cpus, memory_mib, disk_mib, pids, seconds } = limits;
    for (field, given, most) in [
        ("limits.cpus", cpus.map(u64::from), CPUS_MAX),
        ("limits.memory_mib", *memory_mib, MIB_MAX),
        ("limits.disk_mib", *disk_mib, MIB_MAX),
        ("limits.pids", *pids, PIDS_MAX),
        ("limits.seconds", *seconds, SECONDS_MAX),
    ] {
        if given.is_some_and(|given| given == 0 || given > most) {
            return slip(field, format!("is not between 1 and {most}"));
        }
    }
    Ok(())
}

fn lists(recipe: &Recipe) -> Result<(), Slip> {
    if let Some(name) = recipe.env.keys().find(|name| !bounds::is_variable(name)) {
        return slip(format!("env.{name}"), bounds::NOT_A_VARIABLE);
    }
    for (field, list) in [("egress", &recipe.egress), ("permissions.ask", &recipe.permissions.ask)] {
        if list.len() > LIST_MAX {
            return slip(field, format!("has more than {LIST_MAX} entries"));
        }
    }
    for (at, to) in recipe.egress.iter().enumerate() {
        if !is_address(to) {
            return slip(format!("egress[{at}]"), format!("{to:?} is not written as `host:port`"));
        }
    }
    recipe.permissions.ask.iter().enumerate().try_for_each(|(at, tool)| word(&format!("permissions.ask[{at}]"), tool))
}

fn is_address(to: &str) -> bool {
    let Some((host, port)) = to.rsplit_once(':') else { return false };
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'*');
    let host = match in_brackets {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.len() <= 253 && host.bytes().all(plain),
    };
    host && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn model(given: &Map<String, Value>) -> Result<(), Slip> {
    let model = ModelConfig::parse(given).map_err(|error| {
        let fitting = [("api", "openai"), ("base_url", "http://h"), ("model", "m")];
        if let Some((missing, _)) = fitting.iter().find(|(name, _)| !given.contains_key(*name)) {
            return ((*missing).to_owned(), "is missing".to_owned());
        }
        let fitting = fitting.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect();
        misfit::<ModelConfig>(&fitting, given).unwrap_or_else(|| ("model".to_owned(), brief(&error)))
    })?;
    if let Some(bots) = given.get("bots").and_then(Value::as_object) {
        objects("bots.", bots, &bots.keys().map(String::as_str).collect::<Vec<_>>())?;
    }
    word("model", &model.model)?;
    word("base_url", &model.base_url)?;
    let rest = model.base_url.strip_prefix("https://").or_else(|| model.base_url.strip_prefix("http://"));
    if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with(['/', ':', '?', '#']) || rest.contains(char::is_whitespace)) {
        return slip("base_url", "is not the address of a model: `https://host/v1`");
    }
    if model.api_key_secret.as_ref().is_some_and(|name| !bounds::is_variable(name)) {
        return slip("api_key_secret", bounds::NOT_A_VARIABLE);
    }
    if model.max_tokens == Some(0) { slip("max_tokens", "is 0") } else { Ok(()) }
}
