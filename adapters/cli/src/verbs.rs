//! Verbs that talk to a server.

use std::process::ExitCode;

use events::AgentId;
use reqwest::Method;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::{Remote, Verb};
use crate::client::{Answer, Client, Page};
use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::output::{NotFound, Usage, note, print, print_raw};
use crate::row::{Column, cell, one, rows};

mod agent;
mod entry;
mod env;
mod house;
mod input;
mod member;
mod narration;
mod permission;
mod sandbox;
mod secret;
mod tail;
mod thread;

const PAGE: usize = 200;
/// As the server has it.
const KEY_MAX: usize = 128;

pub(crate) async fn run(verb: Verb, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let Some(remote) = verb.needs().remote else { return Ok(ExitCode::SUCCESS) };
    let platform = Platform::open(config, remote, json)?;
    match verb {
        Verb::Say(with) => entry::say(&platform, with.args).await?,
        Verb::Tail(with) => tail::run(&platform, with.args).await?,
        Verb::Thread(on) => thread::run(&platform, on.verb).await?,
        Verb::Entry(on) => entry::run(&platform, on.verb).await?,
        Verb::House(on) => house::run(&platform, on.verb).await?,
        Verb::Member(on) => member::run(&platform, on.verb).await?,
        Verb::Agent(on) => agent::run(&platform, on.verb).await?,
        Verb::Env(on) => env::run(&platform, on.verb).await?,
        Verb::Secret(on) => secret::run(&platform, on.verb).await?,
        Verb::Sandbox(on) => sandbox::run(&platform, on.verb).await?,
        Verb::Permission(on) => permission::run(&platform, on.verb).await?,
        Verb::Whoami(_) => whoami(&platform).await?,
        Verb::Projections(_) => platform.list_whole(&["projections"], PROJECTIONS).await?,
        Verb::Serve(_)
        | Verb::Rebuild(_)
        | Verb::Verify(_)
        | Verb::Library(_)
        | Verb::Vault(_)
        | Verb::Tools { .. }
        | Verb::StreamProxy(_)
        | Verb::Log { .. }
        | Verb::Completions { .. }
        | Verb::Man { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

const PROJECTIONS: &[Column] = &[
    ("NAME", "name"),
    ("VERSION", "version"),
    ("POSITION", "position"),
    ("LAG", "lag"),
    ("SECONDS", "#lag_seconds"),
    ("RATE/S", "#rate"),
    ("STATE", "state"),
    ("ERROR", "error"),
];

const ME: &[Column] = &[("agent", "agent_id"), ("name", "name"), ("kind", "kind"), ("runtime", "runtime")];

const MY_HOUSES: &[Column] = &[("HOUSE", "house_id"), ("NAME", "name"), ("ROLE", "role")];

async fn whoami(platform: &Platform) -> anyhow::Result<()> {
    let answer = platform.get(&["me"], vec![]).await?;
    if platform.json {
        return print_raw(answer.read()?);
    }
    let me: Value = answer.read()?;
    let houses = me["houses"].as_array().cloned().unwrap_or_default();
    print(one(ME, &me) + "\n" + &rows(MY_HOUSES, &houses))
}

/// A server, and how to tell what it answers.
struct Platform {
    client: Client,
    house: Option<String>,
    min_position: Option<u64>,
    json: bool,
}

type Query<'a> = Vec<(&'a str, String)>;

impl Platform {
    fn open(config: &Config, remote: &Remote, json: bool) -> anyhow::Result<Self> {
        let key = match &remote.idempotency_key {
            Some(given) if !(1..=KEY_MAX).contains(&given.len()) || !given.bytes().all(|byte| byte.is_ascii_graphic()) => {
                return Err(Usage(format!("an idempotency key has 1 to {KEY_MAX} visible ASCII characters")).into());
            }
            Some(given) => given.clone(),
            None => random_key()?,
        };
        let client = Client::new(Endpoint::find(config)?, key)?;
        Ok(Self { client, house: config.house.clone(), min_position: remote.min_position, json })
    }

    async fn get(&self, path: &[&str], mut query: Query<'_>) -> anyhow::Result<Answer> {
        query.extend(self.min_position.map(|position| ("min_position", position.to_string())));
        Ok(self.client.get(path, &query).await?)
    }

    /// The house that was chosen, or the only one there is.
    async fn house(&self) -> anyhow::Result<String> {
        if let Some(house) = &self.house {
            return Ok(house.clone());
        }
        let me: Value = self.get(&["me"], vec![]).await?.read()?;
        only_house(me["houses"].as_array().map_or(&[], Vec::as_slice))
    }

    /// The caller itself, if so named.
    async fn agent(&self, named: String) -> anyhow::Result<String> {
        if named != "me" {
            return agent_id(named);
        }
        let me: Value = self.get(&["me"], vec![]).await?.read()?;
        Ok(cell(&me, "agent_id"))
    }

    async fn show(&self, path: &[&str], columns: &[Column]) -> anyhow::Result<()> {
        let answer = self.get(path, vec![]).await?;
        if self.json { print_raw(answer.read()?) } else { print(one(columns, &answer.read()?)) }
    }

    async fn list(&self, path: &[&str], query: Query<'_>, limit: Option<usize>, columns: &[Column]) -> anyhow::Result<()> {
        let items = self.items(path, query, limit).await?;
        self.tell_rows(&items, columns)
    }

    /// A list that comes in one piece.
    async fn list_whole(&self, path: &[&str], columns: &[Column]) -> anyhow::Result<()> {
        let page: Page = self.get(path, vec![]).await?.read()?;
        self.tell_rows(&page.items, columns)
    }

    fn tell_rows(&self, items: &[Box<RawValue>], columns: &[Column]) -> anyhow::Result<()> {
        if self.json {
            return items.iter().try_for_each(|item| print_raw(item));
        }
        let items = items.iter().map(|item| serde_json::from_str(item.get())).collect::<Result<Vec<Value>, _>>()?;
        print(rows(columns, &items))
    }

    /// Every page, up to the limit.
    async fn items(&self, path: &[&str], query: Query<'_>, limit: Option<usize>) -> anyhow::Result<Vec<Box<RawValue>>> {
        let limit = limit.unwrap_or(usize::MAX);
        let (mut items, mut cursor) = (Vec::new(), None);
        while items.len() < limit {
            let mut query = query.clone();
            query.push(("limit", PAGE.min(limit - items.len()).to_string()));
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let page: Page = self.get(path, query).await?.read()?;
            items.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        items.truncate(limit);
        Ok(items)
    }

    /// Sends a command. A query that follows finds what it did: the read models are waited for.
    async fn change(&self, method: Method, path: &[&str], body: impl Serialize) -> anyhow::Result<Answer> {
        let body = serde_json::to_vec(&body)?;
        let body = (body != b"null").then_some(body);
        let answer = self.client.command(method, path, body).await?;
        if let Some(position) = answer.position() {
            let query = [("min_position", position.to_string())];
            if self.client.get_once(&["projections"], &query).await.is_err_and(|error| error.is_passing()) {
                note(format_args!("done at position {position}; the read models are not there yet"));
            }
        }
        Ok(answer)
    }

    /// For people the new thing's id alone, so that it can be used in the next command.
    fn made(&self, answer: &Answer, id: &str) -> anyhow::Result<()> {
        if self.json { print_raw(answer.read()?) } else { print(cell(&answer.read()?, id) + "\n") }
    }

    fn done(&self, answer: &Answer, what: &str) -> anyhow::Result<()> {
        if self.json {
            return print_raw(answer.read()?);
        }
        note(what);
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the home of chance in this crate")]
fn random_key() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What can be no agent's id is nobody's.
fn agent_id(named: String) -> anyhow::Result<String> {
    match named.parse::<AgentId>() {
        Ok(_) => Ok(named),
        Err(_) => Err(NotFound(format!("no agent has the id {named}; `arbe agent list` shows the ids")).into()),
    }
}

fn only_house(houses: &[Value]) -> anyhow::Result<String> {
    match houses {
        [] => Err(NotFound("you are in no house; make one with `arbe house create NAME`".into()).into()),
        [only] => Ok(cell(only, "house_id")),
        several => {
            let table = rows(MY_HOUSES, several);
            Err(Usage(format!(
                "you are in {} houses; choose one with --house or ARBE_HOUSE:\n{}",
                several.len(),
                table.trim_end()
            ))
            .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::code;

    #[test]
    fn an_agent_is_named_by_its_id() {
        let id = "2f1c8a52-0000-4000-8000-000000000000";
        assert_eq!(agent_id(id.into()).unwrap(), id);
        assert_eq!(code(&agent_id("reviewer".into()).unwrap_err()), 3);
    }

    #[test]
    fn the_only_house_needs_no_name_and_several_are_listed() {
        let (lab, home) = (json!({"house_id": "h1", "name": "lab", "role": "owner"}), json!({"house_id": "h2", "name": "home"}));
        assert_eq!(only_house(std::slice::from_ref(&lab)).unwrap(), "h1");
        let several = only_house(&[lab, home]).unwrap_err();
        assert!(several.to_string().contains("h1     lab   owner\nh2     home"), "{several}");
        assert_eq!((code(&several), code(&only_house(&[]).unwrap_err())), (2, 3));
    }
}
