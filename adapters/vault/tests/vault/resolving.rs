//! Names to values, on a real log.

use std::sync::Arc;

use commands::command::{BindSecret, CreateEnvironment, CreateHouse, DeleteSecret, RegisterAgent, RotateSecret, SetSecret};
use commands::ports::{Vault, VaultError};
use commands::secrets::{ResolveError, Scope, resolve};
use commands::{Actor, Command, Commands, Made, RealSource};
use event_log::{Log, Store, StoreUrl};
use events::{AgentKind, EnvironmentId, HouseId, JsonObject, SecretId, Uuid};
use vault::ObjectVault;

use crate::shelf::{memory, plain, vault};

struct Scene {
    commands: Commands,
    vault: ObjectVault,
    home: HouseId,
    environment: EnvironmentId,
}

impl Scene {
    async fn start() -> Self {
        Self::on(&StoreUrl::Memory.open(&[], true).unwrap()).await
    }

    async fn on(store: &Store) -> Self {
        let commands = server(store).await;
        let vault = vault(&memory(), &[1]).await;
        let register = RegisterAgent { agent_id: None, kind: AgentKind::Human, runtime: None, name: None };
        let owner = commands.execute(Actor::System, register, None).await.unwrap().made.agent_id;
        let create = CreateHouse { house_id: None, name: "home".to_owned(), owner };
        let home = commands.execute(Actor::System, create, None).await.unwrap().made.house_id.unwrap();
        let config = JsonObject::parse("{}").unwrap();
        let create = CreateEnvironment { house_id: home.clone(), environment_id: None, name: "e".to_owned(), config };
        let environment = commands.execute(Actor::System, create, None).await.unwrap().made.environment_id.unwrap();
        Self { commands, vault, home, environment }
    }

    async fn tell(&self, command: impl Into<Command>) -> Made {
        self.commands.execute(Actor::System, command, None).await.unwrap().made
    }

    async fn set(&self, name: &str, value: &str, at: u128) -> SecretId {
        let vault_secret_id = Uuid::from_u128(at);
        let id = SecretId::new(&format!("s{at}")).unwrap();
        self.vault.keep(&self.home, &id, vault_secret_id, &plain(value)).await.unwrap();
        let (house_id, secret_id, name) = (self.home.clone(), Some(id.clone()), name.to_owned());
        self.tell(SetSecret { house_id, secret_id, name, vault_secret_id }).await;
        id
    }

    async fn bind(&self, name: &str, required: bool) {
        self.tell(BindSecret { environment_id: self.environment.clone(), name: name.to_owned(), required }).await;
    }

    async fn ask(&self, scope: Scope) -> Result<(Vec<(String, String)>, Vec<String>, Vec<String>), ResolveError> {
        let resolved = resolve(&self.vault, &self.commands, &self.home, &scope).await?;
        let text = |value: &commands::ports::Plain| String::from_utf8(value.expose().to_vec()).unwrap();
        let values = resolved.values.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        Ok((values, resolved.missing_optional, resolved.stripped))
    }

    fn bound(&self) -> Scope {
        Scope::Environment(self.environment.clone())
    }
}

async fn server(store: &Store) -> Commands {
    let log = Log::open(store.clone(), event_log::Options { keep: false, ..event_log::Options::default() }).await.unwrap();
    Commands::start(log, Arc::new(RealSource))
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[tokio::test]
async fn bound_names_become_values_and_what_is_missing_is_named() {
    let scene = Scene::start().await;
    scene.bind("TOKEN", true).await;
    scene.bind("SPARE", false).await;
    scene.bind("PATH", true).await;
    let missing = scene.ask(scene.bound()).await.unwrap_err();
    assert!(matches!(&missing, ResolveError::Missing(names) if names == &["TOKEN"]), "{missing}");
    assert!(missing.to_string().contains("TOKEN"));

    scene.set("TOKEN", "one", 1).await;
    scene.set("PATH", "/evil", 2).await;
    scene.set("UNBOUND", "u", 3).await;
    let (values, optional, stripped) = scene.ask(scene.bound()).await.unwrap();
    assert_eq!((values, optional, stripped), (vec![pair("TOKEN", "one")], vec!["SPARE".into()], vec!["PATH".into()]));
    let (values, ..) = scene.ask(Scope::House).await.unwrap();
    assert_eq!(values, [pair("TOKEN", "one"), pair("UNBOUND", "u")], "all of the house but what is reserved");
    let (values, ..) = scene.ask(Scope::Names(vec!["UNBOUND".into()])).await.unwrap();
    assert_eq!(values, [pair("UNBOUND", "u")]);
    let missing = scene.ask(Scope::Names(vec!["B".into(), "A".into(), "TOKEN".into()])).await.unwrap_err();
    assert_eq!(missing.to_string(), "there is no secret A, B, which is required");
}

#[tokio::test]
async fn a_rotated_value_is_the_new_one_and_a_deleted_one_is_missing() {
    let scene = Scene::start().await;
    scene.bind("TOKEN", true).await;
    let secret_id = scene.set("TOKEN", "one", 1).await;
    scene.vault.keep(&scene.home, &secret_id, Uuid::from_u128(2), &plain("two")).await.unwrap();
    scene.tell(RotateSecret { secret_id: secret_id.clone(), vault_secret_id: Uuid::from_u128(2) }).await;
    scene.vault.forget(&scene.home, Uuid::from_u128(1)).await.unwrap();
    assert_eq!(scene.ask(scene.bound()).await.unwrap().0, [pair("TOKEN", "two")]);
    scene.tell(DeleteSecret { secret_id }).await;
    assert!(matches!(scene.ask(scene.bound()).await, Err(ResolveError::Missing(_))));
}

#[tokio::test]
async fn a_value_that_is_rotated_while_it_is_read_is_looked_up_again() {
    let scene = Scene::start().await;
    scene.bind("TOKEN", true).await;
    let secret_id = scene.set("TOKEN", "one", 1).await;
    scene.vault.keep(&scene.home, &secret_id, Uuid::from_u128(2), &plain("two")).await.unwrap();
    scene.vault.forget(&scene.home, Uuid::from_u128(1)).await.unwrap();
    let rotate = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        scene.tell(RotateSecret { secret_id: secret_id.clone(), vault_secret_id: Uuid::from_u128(2) }).await;
    };
    let (asked, ()) = tokio::join!(scene.ask(scene.bound()), rotate);
    assert_eq!(asked.unwrap().0, [pair("TOKEN", "two")]);
}

#[tokio::test]
async fn what_another_server_rotated_is_found_and_what_it_deleted_is_missing() {
    let store = StoreUrl::Memory.open(&[], true).unwrap();
    let scene = Scene::on(&store).await;
    let other = server(&store).await;
    scene.bind("TOKEN", true).await;
    let secret_id = scene.set("TOKEN", "one", 1).await;
    scene.vault.keep(&scene.home, &secret_id, Uuid::from_u128(2), &plain("two")).await.unwrap();
    let rotate = RotateSecret { secret_id: secret_id.clone(), vault_secret_id: Uuid::from_u128(2) };
    other.execute(Actor::System, rotate, None).await.unwrap();
    scene.vault.forget(&scene.home, Uuid::from_u128(1)).await.unwrap();
    assert_eq!(scene.ask(scene.bound()).await.unwrap().0, [pair("TOKEN", "two")]);
    other.execute(Actor::System, DeleteSecret { secret_id }, None).await.unwrap();
    scene.vault.forget(&scene.home, Uuid::from_u128(2)).await.unwrap();
    let missing = scene.ask(scene.bound()).await.unwrap_err();
    assert!(matches!(&missing, ResolveError::Missing(names) if names == &["TOKEN"]), "{missing}");
}

#[tokio::test]
async fn a_value_that_the_vault_has_lost_is_named() {
    let scene = Scene::start().await;
    scene.bind("TOKEN", false).await;
    scene.set("TOKEN", "one", 1).await;
    scene.vault.forget(&scene.home, Uuid::from_u128(1)).await.unwrap();
    let lost = scene.ask(scene.bound()).await.unwrap_err();
    assert!(matches!(&lost, ResolveError::Value { name, source: VaultError::Gone } if name == "TOKEN"), "{lost}");
}

#[tokio::test]
async fn an_environment_of_another_house_is_not_found() {
    let scene = Scene::start().await;
    let owner = scene.commands.with_world(|world| world.agents().next().map(|(id, _)| *id));
    let away = scene.tell(CreateHouse { house_id: None, name: "away".to_owned(), owner }).await.house_id.unwrap();
    for (house, what) in [(away, "environment"), (HouseId::new("nowhere").unwrap(), "house")] {
        let error = resolve(&scene.vault, &scene.commands, &house, &scene.bound()).await.unwrap_err();
        assert!(matches!(error, ResolveError::NotFound(missing) if missing == what), "{error}");
    }
    let unknown = scene.ask(Scope::Environment(EnvironmentId::new("nope").unwrap())).await.unwrap_err();
    assert!(matches!(unknown, ResolveError::NotFound("environment")), "{unknown}");
}
