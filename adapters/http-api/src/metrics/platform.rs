//! How far the fold and the read models are, and the connections to Postgres.

use std::time::Duration;

use commands::ports::Load;
use event_log::Log;
use queries::{Projection, ProjectionState};

use super::Text;
use crate::api::Plane;

/// The fold passes slots without records when somebody waits for it.
const PATIENCE: Duration = Duration::from_millis(50);

const STATES: [(ProjectionState, &str); 7] = [
    (ProjectionState::Starting, "starting"),
    (ProjectionState::Active, "active"),
    (ProjectionState::Passive, "passive"),
    (ProjectionState::Rebuilding, "rebuilding"),
    (ProjectionState::Waiting, "waiting"),
    (ProjectionState::Stopped, "stopped"),
    (ProjectionState::Damaged, "damaged"),
];

pub(super) async fn render(log: &Log, plane: &Plane, out: &mut Text) {
    let head = log.position();
    let _ = tokio::time::timeout(PATIENCE, plane.commands.caught_up()).await;
    let folded = plane.commands.position();
    let stopped = u8::from(plane.commands.stopped().is_some());
    out.one("fold_position", "gauge", "Slots folded for commands.", folded);
    out.one("fold_lag_slots", "gauge", "Slots of the log that are not folded yet.", head.saturating_sub(folded));
    out.one("fold_stopped", "gauge", "1 if the fold met what it cannot apply: no command is taken any more.", stopped);
    projections(&plane.queries.projections(log).await, out);
    let connections = plane.queries.connections();
    out.family("postgres_connections", "gauge", "Connections of the pool that queries share.");
    out.sample(&[("state", "used")], connections.used);
    out.sample(&[("state", "idle")], connections.idle);
    out.one("postgres_connections_max", "gauge", "As many as there may be.", connections.max);
    if let Some(load) = plane.hands.as_ref().and_then(|hands| hands.load()) {
        work(&load, out);
    }
}

fn work(load: &Load, out: &mut Text) {
    out.family("dispatch_runs", "gauge", "Runs that have not ended, by how far they are.");
    for (state, count) in &load.runs {
        out.sample(&[("state", state)], count);
    }
    out.family("dispatch_drivers", "gauge", "What the drivers of this server do at this moment.");
    for (job, count) in &load.driving {
        out.sample(&[("job", job)], count);
    }
    out.family("dispatch_failures_total", "counter", "Failures that the log tells of.");
    for (class, count) in &load.failures {
        out.sample(&[("class", class)], count);
    }
    let oldest = load.oldest_waiting.unwrap_or_default().as_secs_f64();
    out.one(
        "dispatch_oldest_waiting_seconds",
        "gauge",
        "How long the first of what no server has begun has been waiting.",
        oldest,
    );
}

fn projections(all: &[Projection], out: &mut Text) {
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&Projection) -> f64| {
        out.family(name, kind, help);
        for one in all {
            out.sample(&[("projection", &one.name)], value(one));
        }
    };
    each("projection_version", "gauge", "Version of the read model.", &|one| f64::from(one.version));
    each("projection_position", "gauge", "Slots applied.", &|one| one.position as f64);
    each("projection_lag_slots", "gauge", "Slots of the log that are not applied yet.", &|one| one.lag as f64);
    each("projection_lag_seconds", "gauge", "How long the oldest of them has been waiting.", &|one| one.lag_seconds);
    each("projection_events_total", "counter", "Events this server applied.", &|one| one.events as f64);
    each("projection_events_per_second", "gauge", "Events per second, over the last ten.", &|one| one.rate);
    out.family("projection_state", "gauge", "1 for the state it is in.");
    for one in all {
        for (state, name) in STATES {
            out.sample(&[("projection", &one.name), ("state", name)], u8::from(one.state == state));
        }
    }
}
