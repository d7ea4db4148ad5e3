//! Values are planted, used, rotated and deleted, and then looked for everywhere.

use std::fs;
use std::path::Path;
use std::process::Command;

use replay_tests::servers::arbe_binary;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, Connection};
use tokio::runtime::Runtime;

use crate::house::{House, bash};
use crate::machine::{Machine, Process, processes};
use crate::secrets::{NAME, SHOW, shown};
use crate::story::Story;

const MODEL_KEY: &str = "MODEL_KEY";

#[test]
fn a_value_is_with_the_processes_in_its_machine_and_nowhere_else() {
    let flags = ["--model-key-secret", MODEL_KEY, "--log-level", "debug"];
    let recipe = json!({ "setup": format!("echo \"made with ${NAME}\"") });
    let Some(house) = House::apart(&flags, &recipe) else { return };
    let mark = format!("leak-{}", house.id);
    let value = |what: &str| format!("{mark}-{what}");
    house.bind(NAME, true);
    house.set_secret(MODEL_KEY, &value("model"));
    house.delete_secret(&house.set_secret("FORGOTTEN", &value("deleted")));
    let secret = house.set_secret(NAME, &value("first"));
    house.rotate(&secret, &value("second"));

    let child = house.delegate(&bash(&format!("{SHOW}; echo ran > ran; sleep 3")));
    let machine = house.in_a_tool(&child, "ran");
    let token = token(&machine);
    only_inside(&machine, &[&mark, &token]);
    let story = house.completed(&child, 1);
    assert_eq!(story.results(), [shown(&value("second"))]);
    let ran = house.command(&child, &format!("echo \"it is ${NAME}\"; echo \"${NAME}\" >&2; {SHOW}"));
    // The two streams come each in its order.
    let told = ran["output"].as_str().unwrap().replace(&shown(&value("second")), "its hash\n");
    let mut lines: Vec<&str> = told.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [format!("[{NAME}]"), format!("it is [{NAME}]"), "its hash".to_owned()]);
    house.say(&house.chat, "@Pia hello");
    house.until(&house.chat, "the bot answers", |story: &Story| (!story.of("pi.assistant").is_empty()).then_some(()));
    assert!(house.scene.model.keys().contains(&value("model")), "the model is shown its key");

    let everything = [("log", house.scene.log()), ("streams", streams(&house)), ("rows", rows(&house.scene.data()))];
    for (what, text) in everything {
        assert!(text.contains(&house.id) || what == "log", "nothing was looked at: {what}");
        let found: Vec<_> = text.lines().filter(|line| line.contains(&mark) || line.contains(&token)).collect();
        assert!(found.is_empty(), "{what}: {found:#?}");
    }
    for mark in [mark.as_bytes(), token.as_bytes()] {
        let mut found = Vec::new();
        let looked_at = search(&house.scene.data(), mark, &mut found) + search(&machine.directory, mark, &mut found);
        assert!(found.is_empty() && looked_at > 100, "{found:#?} of {looked_at} files");
    }
}

#[test]
fn a_value_that_the_model_spells_is_in_no_stream_though_its_pieces_are_put_together() {
    let Some(house) = House::start() else { return };
    let value = format!("leak-{}-spelled", house.id);
    house.bind(NAME, true);
    house.set_secret(NAME, &value);
    let child = house.delegate(&format!("SPELL what it gives. {}", bash(&format!("echo \"${NAME} and so on\""))));
    let story = house.completed(&child, 1);
    assert_eq!(story.results(), ["[…] and so on\n"]);
    let pieces = story.of("pi.chunk").into_iter().filter(|piece| piece["part"] == "text");
    let spelled: String = pieces.filter_map(|piece| piece["delta"].as_str()).collect();
    assert!(spelled.contains("[…] a") && !spelled.contains("leak-"), "{spelled}");
    assert!(!streams(&house).contains(&value[..value.len() - 2]));
}

/// In an environment where cores are kept.
#[test]
fn whoever_has_a_value_in_memory_leaves_no_core_behind() {
    let most = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most }).unwrap();
    let Some(house) = House::apart(&[], &json!({})) else { return };
    let child = house.delegate(&bash("echo ran > ran; sleep 2"));
    let machine = house.in_a_tool(&child, "ran");
    let data = house.scene.data().display().to_string();
    let serves = |process: &Process| process.read("cmdline").is_some_and(|line| line.contains("serve\0") && line.contains(&data));
    let mut holders: Vec<_> = processes().into_iter().filter(serves).collect();
    assert_eq!(holders.len(), 1, "{holders:?}");
    holders.push(machine.supervisor(house.story(&child).run()));
    holders.extend(machine.processes());
    let falls = |process: &Process| {
        let core = |limits: String| limits.lines().find_map(|line| line.strip_prefix("Max core file size")).map(str::to_owned);
        process.read("limits").and_then(core).is_some_and(|core| core.split_whitespace().next() != Some("0"))
    };
    let falling: Vec<_> = holders.into_iter().filter(falls).collect();
    assert!(falling.is_empty(), "these would: {falling:?}");
    house.completed(&child, 1);
}

/// The one that the run speaks to its thread with.
fn token(machine: &Machine) -> String {
    let environments = machine.processes().into_iter().filter_map(|process| process.read("environ"));
    let found =
        environments.filter_map(|it| it.split('\0').find_map(|it| it.strip_prefix("ARBE_STREAM_TOKEN=")).map(str::to_owned));
    found.into_iter().next().expect("the run has a token")
}

/// In the environments of those who run in the machine, and in no environment and on no command line of the host.
fn only_inside(machine: &Machine, marks: &[&str]) {
    let inside = machine.processes();
    let holds = |text: Option<String>| text.is_some_and(|text| marks.iter().any(|mark| text.contains(mark)));
    assert!(inside.iter().any(|process| process.name == "sleep" && holds(process.read("environ"))), "{inside:?}");
    for process in processes().iter().filter(|process| inside.iter().all(|it| it.pid != process.pid)) {
        assert!(!holds(process.read("environ")), "the environment of {process:?}");
        assert!(!holds(process.read("cmdline")), "the command line of {process:?}");
    }
    let lines = inside.iter().filter(|process| holds(process.read("cmdline"))).collect::<Vec<_>>();
    assert!(lines.is_empty(), "the command line of {lines:?}");
}

/// Every stream of the log, as the operator sees it.
fn streams(house: &House) -> String {
    let log = |args: &[&str]| {
        let mut command = Command::new(arbe_binary().unwrap());
        command.arg("--data-dir").arg(house.scene.data()).arg("log").args(args);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let names = log(&["streams", "--json"]);
    let names = names.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["stream"].as_str().unwrap().to_owned());
    names.map(|name| log(&["cat", &name])).collect()
}

/// Every row of every table.
fn rows(data: &Path) -> String {
    let options = PgConnectOptions::new_without_pgpass().socket(data.join("postgres/run")).port(5432);
    let options = options.ssl_mode(PgSslMode::Disable).username("arbe_admin").database("arbe");
    Runtime::new().unwrap().block_on(async {
        let mut database = PgConnection::connect_with(&options).await.unwrap();
        let tables = "select format('%I.%I', schemaname, tablename) from pg_tables
                      where schemaname not in ('pg_catalog', 'information_schema')";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut database).await.unwrap();
        let mut all = Vec::new();
        for table in tables {
            let rows = AssertSqlSafe(format!("select it::text from {table} it"));
            all.extend(sqlx::query_scalar::<_, String>(rows).fetch_all(&mut database).await.unwrap());
        }
        all.join("\n")
    })
}

/// How many files were looked at.
fn search(directory: &Path, mark: &[u8], found: &mut Vec<String>) -> usize {
    let mut looked_at = 0;
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            looked_at += search(&entry.path(), mark, found);
        } else if let Some(bytes) = Some(entry.path()).filter(|_| kind.is_file()).and_then(|path| fs::read(path).ok()) {
            looked_at += 1;
            if bytes.windows(mark.len()).any(|window| window == mark) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    looked_at
}
