//! The verbs of an operator beside a running server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use postgres_rows::ClusterOptions;
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

#[path = "../../../projections/postgres-rows/tests/rows/missing.rs"]
mod missing;

struct Server {
    process: Child,
    data: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

fn arbe(data: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arbe"));
    command.args(line.split(' ')).env_clear().env("HOME", "/nonexistent").env("ARBE_DATA_DIR", data);
    command.stdin(Stdio::null());
    command
}

impl Server {
    fn start() -> Option<Self> {
        missing::unless_missing(ClusterOptions::default().check())?;
        let data = tempfile::Builder::new().prefix("operate-").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(data.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = arbe(data.path(), "serve --listen 127.0.0.1:0 --log-level error");
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut greeting = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(greeting.next().unwrap().unwrap().contains("on http://"));
        Some(Self { process, data })
    }

    fn run(&self, line: &str) -> Output {
        arbe(self.data.path(), line).output().unwrap()
    }

    /// The exit code, and both outputs.
    fn ended(&self, line: &str) -> (Option<i32>, String) {
        let done = self.run(line);
        let told = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (done.status.code(), told.concat())
    }

    fn json(&self, line: &str) -> Vec<Value> {
        let done = self.run(&format!("{line} --json"));
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn live(&self) -> String {
        let copies = self.json("projections copies");
        let live = copies.iter().find(|copy| copy["state"] == "live").unwrap();
        live["copy"].as_str().unwrap().to_owned()
    }

    /// As somebody with a client of their own.
    fn sql(&self, statement: String) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let socket = self.data.path().join("postgres/run");
        let options = PgConnectOptions::new_without_pgpass().socket(socket).username("arbe").database("arbe");
        runtime.block_on(async {
            let mut conn = PgConnection::connect_with(&options).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut conn).await.unwrap();
        });
    }
}

#[test]
fn copies_of_the_past_are_listed_and_dropped_and_the_live_one_stays() {
    let Some(server) = Server::start() else { return };
    let live = server.live();
    let past = server.json("rebuild --until 2").remove(0);
    let past = past["address"].as_str().unwrap();
    let (_, listed) = server.ended("projections copies");
    let line = |line: &str| line.starts_with(past) && line.contains("beside  position 2");
    assert!(listed.starts_with("COPY ") && listed.lines().any(line), "{listed}");
    let of = |projection: &str, state: &str| {
        let copies = server.json("projections copies");
        let copy = copies.into_iter().find(|copy| copy["projection"] == projection && copy["state"] == state);
        copy.map(|copy| copy["copy"].as_str().unwrap().to_owned()).unwrap()
    };
    let (datasets, past_datasets) = (of("sessions", "live"), of("sessions", "beside"));
    let (index, past_index) = (of("entries", "live"), of("entries", "beside"));
    for (schema, code, told) in [
        (live.as_str(), Some(4), "the copy that serves"),
        (&datasets, Some(4), "the copy that serves"),
        (&past_datasets, Some(0), "dropped"),
        (&past_datasets, Some(3), "there is no copy sessions_"),
        (&index, Some(4), "the copy that serves"),
        (&past_index, Some(0), "dropped"),
        (&past_index, Some(3), "there is no copy entries_"),
        ("arbe", Some(3), "there is no copy arbe"),
        (past, Some(0), "dropped"),
        (past, Some(3), "`arbe projections copies` lists them"),
    ] {
        let (ended, said) = server.ended(&format!("projections drop {schema}"));
        assert_eq!(ended, code, "{schema}: {said}");
        assert!(said.contains(told), "{schema}: {said}");
    }
    assert_eq!(server.json("projections copies").len(), 3, "the live ones");
}

#[test]
fn rows_that_somebody_dropped_are_damage_that_is_named_until_they_are_rebuilt() {
    let Some(server) = Server::start() else { return };
    let live = server.live();
    assert_eq!(server.ended("verify").0, Some(0));
    server.sql(format!("drop schema {live} cascade"));
    let gone = format!("everything in schema {live} is gone; `arbe rebuild` makes it anew");
    let (code, told) = server.ended("verify");
    assert!(code == Some(5) && told.contains(&gone) && told.contains("GONE"), "{code:?} {told}");
    let rows = server.json("projections").remove(0);
    assert_eq!((rows["state"].as_str(), rows["error"].as_str()), (Some("damaged"), Some(gone.as_str())));
    assert_eq!(server.ended("rebuild").0, Some(0));
    assert_eq!(server.json("projections")[0]["state"], "active");
    let (code, told) = server.ended("verify");
    assert_eq!(code, Some(0), "{told}");
}
