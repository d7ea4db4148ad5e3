use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use commands::command::{CreateHouse, CreateThread, RegisterAgent, SetSecret};
use commands::ports::{Plain, Recipe, Vault, VaultError};
use commands::{Actor, Command, Commands, Done, RealSource};
use event_log::{Log, StoreUrl};
use events::{AgentId, AgentKind, HouseId, SecretId, ThreadId, Uuid};

use super::desk::options;
use super::scene::ADA;
use crate::surroundings::Surroundings;
use crate::{Dispatcher, ObjectTrees, Outside, Rebuild, RebuildError, Tokens};

/// Every value is where it is kept.
#[derive(Debug)]
struct Outer;

#[async_trait]
impl Vault for Outer {
    async fn keep(&self, _: &HouseId, _: &SecretId, _: Uuid, _: &Plain) -> Result<(), VaultError> {
        Ok(())
    }

    async fn reveal(&self, _: &HouseId, _: &SecretId, at: Uuid) -> Result<Plain, VaultError> {
        Ok(Plain::new(at.to_string().into_bytes()))
    }

    async fn forget(&self, _: &HouseId, _: Uuid) -> Result<(), VaultError> {
        Ok(())
    }
}

impl Tokens for Outer {
    fn thread_token(&self, _: AgentId, _: &ThreadId) -> Option<String> {
        None
    }
}

#[async_trait]
impl Rebuild for Outer {
    async fn session(&self, _: &ThreadId, _: &str, _: &str) -> Result<Option<Bytes>, RebuildError> {
        Ok(None)
    }
}

async fn done(commands: &Commands, actor: Actor, command: impl Into<Command>) -> Done {
    let done = commands.execute(actor, command, None).await.unwrap();
    commands.wait(done.position).await.unwrap();
    done
}

#[tokio::test]
async fn a_thread_without_an_environment_gets_every_secret_of_its_house_but_reserved_ones() {
    let store = "memory:".parse::<StoreUrl>().unwrap().open(&[], true).unwrap();
    let log = Log::open(store, event_log::Options { keep: false, ..event_log::Options::default() }).await.unwrap();
    let commands = Commands::start(log.clone(), Arc::new(RealSource));
    let ada = RegisterAgent { agent_id: Some(ADA), kind: AgentKind::Human, runtime: None, name: None };
    done(&commands, Actor::System, ada).await;
    let mut houses = Vec::new();
    for (name, secrets) in [("home", ["KEY", "TOKEN", "LD_PRELOAD"]), ("other", ["OTHERS", "KEY", "PATH"])] {
        let house = CreateHouse { house_id: None, name: name.to_owned(), owner: None };
        let house_id = done(&commands, Actor::Agent(ADA), house).await.made.house_id.unwrap();
        for name in secrets {
            let set = SetSecret {
                house_id: house_id.clone(),
                secret_id: None,
                name: name.to_owned(),
                vault_secret_id: Uuid::from_u128(7),
            };
            done(&commands, Actor::Agent(ADA), set).await;
        }
        houses.push(house_id);
    }
    let create = CreateThread {
        house_id: houses[0].clone(),
        thread_id: None,
        name: None,
        parent_thread_id: None,
        parent_agent_id: None,
        environment_id: None,
        sandbox_id: None,
        agent_id: None,
        tags: Vec::new(),
        pinned: false,
    };
    let id = done(&commands, Actor::Agent(ADA), create).await.made.thread_id.unwrap();
    let thread = commands.with_world(|world| world.thread(&id).unwrap().clone());
    let trees = Arc::new(ObjectTrees::new(log.store().objects.clone()));
    let (vault, tokens, rebuild) = (Arc::new(Outer), Arc::new(Outer), Arc::new(Outer));
    let outside = Outside { log, commands, machines: BTreeMap::new(), vault, tokens, rebuild, trees };
    let dispatcher = Dispatcher::new(outside, options("one"));
    let at = Surroundings { thread, environment: None, recipe: Recipe::default() };
    let resolved = dispatcher.inner.secrets(&at).await.unwrap();
    assert_eq!(resolved.values.keys().collect::<Vec<_>>(), ["KEY", "TOKEN"]);
    assert_eq!(resolved.stripped, ["LD_PRELOAD"]);
}
