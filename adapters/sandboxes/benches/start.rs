//! How long a machine and a command in it take to begin. Prints figures and judges nothing.

#![expect(clippy::print_stdout, reason = "it is there to print")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use commands::ports::{Execute, Launch, Machines, Recipe, Relay, Wanted};
use events::{EnvironmentId, HouseId, SandboxId};
use sandboxes::local::{Local, Options};

const ROUNDS: usize = 50;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let directory = tempfile::tempdir().expect("a directory for the machines");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let helper = directory.path().join("arbe-supervisor");
    fs::copy(env!("CARGO_BIN_EXE_arbe-supervisor"), &helper).expect("the helper is built");
    let local = Local::open(Options::new(directory.path().join("machines"), helper)).await.expect("machines can be had");

    let mut figures = Figures::default();
    for round in 0..ROUNDS {
        let id = format!("m{round}");
        let started = Instant::now();
        local.create(&wanted(&id, vec![])).await.expect("bubblewrap is installed");
        figures.add("create", started);
        execute(&local, &id, "execute", &mut figures).await;
        let launch = Launch { name: "run".to_owned(), argv: vec!["true".to_owned()], env: [].into(), secrets: [].into() };
        let started = Instant::now();
        local.launch(&id, &launch).await.expect("it is launched");
        figures.add("launch", started);
        let started = Instant::now();
        local.destroy(&id).await.expect("it is removed");
        figures.add("destroy", started);
    }
    local.create(&wanted("relayed", vec![Relay { port: 8080, to: "127.0.0.1:9".to_owned() }])).await.expect("it is made");
    for _ in 0..ROUNDS {
        execute(&local, "relayed", "execute behind a relay", &mut figures).await;
    }
    local.destroy("relayed").await.expect("it is removed");
    figures.print();
}

async fn execute(local: &Local, id: &str, what: &'static str, figures: &mut Figures) {
    let command = "true".to_owned();
    let execute = Execute { command, cwd: None, secrets: [].into(), env: [].into(), timeout: Duration::from_secs(10) };
    let started = Instant::now();
    local.execute(id, &execute, &mut |_, _: &[u8]| {}).await.expect("it runs");
    figures.add(what, started);
}

fn wanted(id: &str, relays: Vec<Relay>) -> Wanted {
    Wanted {
        house: HouseId::new("house").expect("an id"),
        sandbox: SandboxId::new(id).expect("an id"),
        environment: EnvironmentId::new("env").expect("an id"),
        thread: None,
        recipe: Recipe::default(),
        relays,
        tree: None,
        secrets: [].into(),
    }
}

#[derive(Default)]
struct Figures(std::collections::BTreeMap<&'static str, Vec<Duration>>);

impl Figures {
    fn add(&mut self, what: &'static str, started: Instant) {
        self.0.entry(what).or_default().push(started.elapsed());
    }

    fn print(&mut self) {
        for (what, times) in &mut self.0 {
            times.sort_unstable();
            let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1000.0;
            println!("{what:24} p50 {:6.1} ms  p90 {:6.1} ms  most {:6.1} ms", at(50), at(90), at(100));
        }
    }
}
