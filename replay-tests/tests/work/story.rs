//! A thread as its stream tells it.

use serde_json::Value;

#[derive(Debug)]
pub struct Story(pub Vec<Value>);

impl Story {
    /// The entries of a kind.
    pub fn entries(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|entry| entry["type"] == kind).collect()
    }

    /// What they say.
    pub fn of(&self, kind: &str) -> Vec<&Value> {
        self.entries(kind).into_iter().map(|entry| &entry["payload"]).collect()
    }

    /// What it was warned of, but for silence: on a busy machine any run may be silent for a while.
    pub fn warned(&self) -> Vec<&Value> {
        self.of("signal.dispatch.warned").into_iter().filter(|told| told["warning"] != "mirror_silent").collect()
    }

    pub fn statuses(&self) -> Vec<&str> {
        self.of("signal.thread.status_changed").into_iter().filter_map(|told| told["status"].as_str()).collect()
    }

    /// How its runs have ended so far.
    pub fn ends(&self) -> Vec<&str> {
        self.statuses().into_iter().filter(|status| *status != "running").collect()
    }

    /// The last run.
    pub fn run(&self) -> &str {
        let told = self.of("signal.thread.status_changed");
        told.iter().rev().find_map(|told| told["run_id"].as_str()).unwrap()
    }

    pub fn sandbox(&self) -> Option<&str> {
        let told = |entry: &Value| {
            let kinds = ["signal.thread.created", "signal.thread.sandbox_set", "signal.thread.sandbox_resumed"];
            kinds.iter().any(|kind| entry["type"] == *kind)
        };
        self.0.iter().rev().filter(|entry| told(entry)).find_map(|entry| entry["payload"]["sandbox_id"].as_str())
    }

    /// pi's session, line by line.
    pub fn transcript(&self) -> Vec<Value> {
        let is = |entry: &&Value| entry["type"].as_str().is_some_and(|kind| kind.starts_with("pi.") && kind != "pi.chunk");
        self.0.iter().filter(is).map(|entry| entry["payload"].clone()).collect()
    }

    /// Why each of the failed runs failed.
    pub fn causes(&self) -> Vec<&Value> {
        self.of("signal.thread.pi_failed")
    }

    /// How each message of the model ended.
    pub fn stops(&self) -> Vec<&str> {
        self.of("pi.assistant").into_iter().filter_map(|told| told["message"]["stopReason"].as_str()).collect()
    }

    /// What each call of a tool gave.
    pub fn results(&self) -> Vec<&str> {
        self.of("pi.tool_result").into_iter().filter_map(|told| told["message"]["content"][0]["text"].as_str()).collect()
    }

    /// The kinds in their order, for whoever wonders what happened.
    pub fn told(&self) -> String {
        let line = |entry: &Value| {
            let payload: String = entry["payload"].to_string().chars().take(160).collect();
            format!("{} {payload}", entry["type"].as_str().unwrap())
        };
        let shown = self.0.iter().filter(|entry| entry["type"] != "pi.chunk" && entry["type"] != "signal.dispatch.heartbeat");
        shown.map(line).collect::<Vec<_>>().join("\n")
    }
}
