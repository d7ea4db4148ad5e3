//! A running platform with two people who do not know each other.

use std::sync::Arc;
use std::time::Duration;

use commands::command::{IssueKey, RegisterAgent};
use commands::ports::Hands;
use commands::{Actor, Commands, RealSource};
use event_log::{Log, StoreUrl};
use events::{AgentId, AgentKind};
use http_api::{App, Platform, Secrets, Server, auth};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use postgres_rows::{Rows, RowsProjector};
use projector::{Pace, Runner};
use queries::Queries;
use reqwest::{Client, Method};
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::net::TcpListener;
use tokio::sync::watch;
use vault::{KeySource, ObjectVault};

use crate::cluster::{Shared, database};

pub const KEY: [u8; 32] = [3; 32];

/// What differs from the usual.
#[derive(Default)]
pub struct Setup {
    pub issuer: Option<auth::Issuer>,
    pub secret: Option<&'static str>,
    /// Opens the door to values.
    pub resolve: Option<&'static str>,
    pub hands: Option<Arc<dyn Hands>>,
}

pub struct Town {
    pub url: String,
    client: Client,
    pub ada: Person,
    pub bob: Person,
    pub log: Log,
    pub commands: Commands,
    pub rows: Rows,
    /// What the vault keeps.
    pub values: Arc<dyn ObjectStore>,
    stop: watch::Sender<bool>,
    cluster: Arc<Shared>,
    database: String,
}

#[derive(Clone)]
pub struct Person {
    pub id: AgentId,
    pub key: String,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn code(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Town {
    /// `None` if tests without Postgres are to be skipped.
    pub async fn start() -> Option<Self> {
        Self::with(Setup::default()).await
    }

    pub async fn with(setup: Setup) -> Option<Self> {
        let (cluster, database, rows) = database().await?;
        let log = Log::open(StoreUrl::Memory.open(&[], true).unwrap(), event_log::Options::default()).await.unwrap();
        let runner = Runner::new(log.clone(), Arc::new(RowsProjector), rows.clone(), Pace::default());
        let queries = Queries::new(rows.clone(), runner.monitor());
        tokio::spawn(async move { runner.keep().await });
        let commands = Commands::start(log.clone(), Arc::new(RealSource));
        let (ada, bob) = (person(&commands, "ada").await, person(&commands, "bob").await);
        let values: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let key = KeySource::Text("07".repeat(32).into());
        let vault = ObjectVault::open(values.clone(), vault::Options { keys: vec![key] }).await.unwrap();
        let platform = Platform {
            commands: commands.clone(),
            queries,
            library: None,
            search: None,
            secrets: Some(Secrets { vault: Arc::new(vault), resolve_token: setup.resolve.map(ToOwned::to_owned) }),
            hands: setup.hands,
            auth: auth::Options { key: KEY, issuer: setup.issuer },
        };
        let options = http_api::Options { secret: setup.secret.map(ToOwned::to_owned), ..options() };
        let app = App::open(log.clone(), Some(platform), options).await.unwrap();
        let (url, stop) = listen(app).await;
        Some(Self { url, client: Client::new(), ada, bob, log, commands, rows, values, stop, cluster, database })
    }

    pub async fn end(self) {
        self.stop.send_replace(true);
        self.rows.close().await;
    }

    /// As a superuser of the database.
    pub async fn sql(&self, statement: impl Into<String>) {
        let mut connection = PgConnection::connect_with(&self.cluster.admin(&self.database)).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statement.into())).execute(&mut connection).await.unwrap();
    }

    /// Where the rows are.
    pub fn options(&self) -> PgConnectOptions {
        self.cluster.options(&self.database)
    }

    /// Nobody reaches the rows any more.
    pub async fn lose_database(&self) {
        let mut connection = PgConnection::connect_with(&self.cluster.admin("postgres")).await.unwrap();
        let name = &self.database;
        for statement in [
            format!("alter database {name} with allow_connections false"),
            format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"),
        ] {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        }
    }

    pub async fn send(&self, token: &str, method: &str, path: &str, body: Option<&str>, headers: &[(&str, &str)]) -> Reply {
        let mut request = self.client.request(Method::from_bytes(method.as_bytes()).unwrap(), format!("{}{path}", self.url));
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_owned());
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Reply { status, headers, text: response.text().await.unwrap() }
    }

    pub async fn get(&self, who: &Person, path: &str) -> Reply {
        self.send(&who.key, "GET", path, None, &[]).await
    }

    pub async fn post(&self, who: &Person, path: &str, body: &Value) -> Reply {
        self.send(&who.key, "POST", path, Some(&body.to_string()), &[]).await
    }

    /// The field of what a command made.
    pub async fn make(&self, who: &Person, path: &str, body: &Value, field: &str) -> String {
        let reply = self.post(who, path, body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        assert_eq!(reply.json()["position"].to_string(), reply.header("x-arbe-position"));
        reply.json()[field].as_str().unwrap().to_owned()
    }
}

pub async fn serve(log: Log, platform: Option<Platform>) -> (String, watch::Sender<bool>) {
    listen(App::open(log, platform, options()).await.unwrap()).await
}

pub fn options() -> http_api::Options {
    http_api::Options { long_poll_timeout: Duration::from_secs(10), ..http_api::Options::default() }
}

pub async fn listen(app: Arc<App>) -> (String, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(http_api::serve(Server::new(listener, address, app), stopped));
    (format!("http://{address}"), stop)
}

async fn person(commands: &Commands, name: &str) -> Person {
    let register = RegisterAgent { agent_id: None, kind: AgentKind::Human, runtime: None, name: Some(name.to_owned()) };
    let id = commands.execute(Actor::System, register, None).await.unwrap().made.agent_id.unwrap();
    let key = auth::new_key();
    let issue = IssueKey { agent_id: id, key_id: None, hash: auth::hash_of(&key).unwrap(), label: None };
    commands.execute(Actor::System, issue, None).await.unwrap();
    Person { id, key }
}
