//! Subscriptions as they stand: a fold of their events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::event::{Config, Delivery, Event, Linked, Recorded};
use super::mark::Mark;

#[derive(Debug, Default)]
pub(super) struct State {
    subscriptions: BTreeMap<Arc<str>, Subscription>,
    /// Whom a stream concerns: subscriptions that are linked to it or woken through it.
    by_stream: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Subscriptions with a pattern, by its first segment if that is literal.
    by_first: BTreeMap<Option<Arc<str>>, BTreeSet<Arc<str>>>,
    /// When something ends by itself: a lease, a delivery, the pause before a retry.
    due: BTreeSet<(u64, Arc<str>)>,
}

#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) id: Arc<str>,
    pub(super) config: Config,
    pub(super) base_url: Arc<str>,
    pub(super) created_at: u64,
    pub(super) links: BTreeMap<Arc<str>, Link>,
    pub(super) generation: u64,
    pub(super) wake: Option<Wake>,
    /// Deliveries that failed since the last that did not.
    pub(super) failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) explicit: bool,
    pub(super) incarnation: u64,
    pub(super) acked: Mark,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) id: Arc<str>,
    pub(super) snapshot: BTreeMap<Arc<str>, Mark>,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waiting for a worker to claim it.
    Offered {
        wake_stream: Option<u64>,
    },
    Delivering {
        until: u64,
    },
    Retrying {
        at: u64,
    },
    /// A worker, or the webhook if `None`, works on it.
    Held {
        worker: Option<Arc<str>>,
        until: u64,
    },
}

impl Subscription {
    pub(super) fn born(id: Arc<str>, created_at: u64, config: Config, base_url: Arc<str>) -> Self {
        Self { id, config, base_url, created_at, links: BTreeMap::new(), generation: 0, wake: None, failures: 0 }
    }

    pub(super) fn wake_stream(&self) -> Option<&Arc<str>> {
        match &self.config.delivery {
            Delivery::PullWake { wake_stream } => Some(wake_stream),
            Delivery::Webhook { .. } => None,
        }
    }

    /// Whether the pattern links this stream. A subscription that watched its own wake stream would wake itself for ever.
    pub(super) fn covers(&self, path: &str) -> bool {
        let matches = self.config.pattern.as_ref().is_some_and(|pattern| pattern.matches(path));
        matches && !is_reserved(path) && self.wake_stream().is_none_or(|wake_stream| **wake_stream != *path)
    }

    pub(super) fn due(&self) -> Option<u64> {
        match self.wake.as_ref()?.stage {
            Stage::Offered { .. } => None,
            Stage::Delivering { until } | Stage::Held { until, .. } => Some(until),
            Stage::Retrying { at } => Some(at),
        }
    }

    pub(super) fn evolve(&mut self, event: &Event) {
        match event {
            Event::Created { .. } | Event::Deleted {} => {}
            Event::Linked { links } => self.links.extend(links.iter().map(entry)),
            Event::Unlinked { paths } => {
                for path in paths {
                    self.links.remove(path);
                }
            }
            Event::Woken { generation, wake_id, snapshot, deliver_until, wake_stream, stream: _ } => {
                let stage = match deliver_until {
                    Some(until) => Stage::Delivering { until: *until },
                    None => Stage::Offered { wake_stream: *wake_stream },
                };
                self.generation = *generation;
                self.wake = Some(Wake { id: wake_id.clone(), snapshot: snapshot.clone(), stage });
            }
            Event::Delivered { lease_until, .. } => {
                self.failures = 0;
                self.enter(Stage::Held { worker: None, until: *lease_until });
            }
            Event::DeliveryFailed { attempt, next_try, .. } => {
                self.failures = *attempt;
                self.enter(Stage::Retrying { at: *next_try });
            }
            Event::DeliveryRetried { deliver_until, .. } => self.enter(Stage::Delivering { until: *deliver_until }),
            Event::Claimed { worker, lease_until, .. } => {
                self.enter(Stage::Held { worker: Some(worker.clone()), until: *lease_until });
            }
            Event::Acked { offsets, lease_until, .. } => self.acked(offsets, *lease_until),
            Event::Released { .. } | Event::LeaseExpired { .. } | Event::Withdrawn { .. } => self.wake = None,
        }
    }

    fn enter(&mut self, stage: Stage) {
        if let Some(wake) = &mut self.wake {
            wake.stage = stage;
        }
    }

    fn acked(&mut self, offsets: &BTreeMap<Arc<str>, Mark>, lease_until: Option<u64>) {
        for (path, mark) in offsets {
            if let Some(link) = self.links.get_mut(path) {
                link.acked = *mark;
            }
        }
        self.failures = 0;
        let Some(until) = lease_until else {
            self.wake = None;
            return;
        };
        let worker = self.wake.as_ref().and_then(|wake| match &wake.stage {
            Stage::Held { worker, .. } => worker.clone(),
            Stage::Offered { .. } | Stage::Delivering { .. } | Stage::Retrying { .. } => None,
        });
        self.enter(Stage::Held { worker, until });
    }
}

fn entry(linked: &Linked) -> (Arc<str>, Link) {
    let Linked { path, explicit, incarnation, acked } = linked.clone();
    (path, Link { explicit, incarnation, acked })
}

/// The server's own streams, and those of the platform, are nobody else's: a subscription would tell their names and tails.
pub(super) fn is_reserved(path: &str) -> bool {
    path.split('/').next() == Some("__ds") || events::is_platform(path)
}

impl State {
    pub(super) fn get(&self, id: &str) -> Option<&Subscription> {
        self.subscriptions.get(id)
    }

    pub(super) fn len(&self) -> usize {
        self.subscriptions.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Subscription> {
        self.subscriptions.values()
    }

    pub(super) fn concerned(&self, stream: &str) -> impl Iterator<Item = &Arc<str>> {
        self.by_stream.get(stream).into_iter().flatten()
    }

    /// Subscriptions whose pattern links this stream.
    pub(super) fn covering(&self, stream: &str) -> impl Iterator<Item = &Arc<str>> {
        let first: Option<Arc<str>> = stream.split('/').next().map(Into::into);
        let candidates = [first, None].map(|first| self.by_first.get(&first)).into_iter().flatten().flatten();
        candidates.filter(move |id| self.get(id).is_some_and(|subscription| subscription.covers(stream)))
    }

    pub(super) fn next_due_except(&self, known: impl Fn(&Arc<str>) -> bool) -> Option<u64> {
        self.due.iter().find(|(_, id)| !known(id)).map(|(at, _)| *at)
    }

    pub(super) fn due_by(&self, now: u64) -> impl Iterator<Item = &Arc<str>> {
        self.due.iter().take_while(move |(at, _)| *at <= now).map(|(_, id)| id)
    }

    pub(super) fn apply(&mut self, recorded: &Recorded) {
        let id = &recorded.subscription;
        match &recorded.event {
            Event::Created { config, base_url } => {
                let born = Subscription::born(id.clone(), recorded.at, config.clone(), base_url.clone());
                self.enlist(&born);
                self.subscriptions.insert(id.clone(), born);
            }
            Event::Deleted {} => self.forget(id),
            Event::Linked { .. }
            | Event::Unlinked { .. }
            | Event::Woken { .. }
            | Event::Delivered { .. }
            | Event::DeliveryFailed { .. }
            | Event::DeliveryRetried { .. }
            | Event::Claimed { .. }
            | Event::Acked { .. }
            | Event::Released { .. }
            | Event::LeaseExpired { .. }
            | Event::Withdrawn { .. } => self.change(id, &recorded.event),
        }
    }

    fn enlist(&mut self, born: &Subscription) {
        if let Some(wake_stream) = born.wake_stream() {
            self.by_stream.entry(wake_stream.clone()).or_default().insert(born.id.clone());
        }
        if let Some(pattern) = &born.config.pattern {
            self.by_first.entry(pattern.first().map(Into::into)).or_default().insert(born.id.clone());
        }
    }

    fn forget(&mut self, id: &Arc<str>) {
        let Some(gone) = self.subscriptions.remove(id) else { return };
        for path in gone.links.keys().chain(gone.wake_stream()) {
            self.unindex(path, id);
        }
        if let Some(pattern) = &gone.config.pattern {
            let first = pattern.first().map(Into::into);
            if let Some(ids) = self.by_first.get_mut(&first) {
                ids.remove(id);
            }
        }
        if let Some(at) = gone.due() {
            self.due.remove(&(at, id.clone()));
        }
    }

    fn unindex(&mut self, path: &str, id: &Arc<str>) {
        if let Some(ids) = self.by_stream.get_mut(path) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_stream.remove(path);
            }
        }
    }

    fn change(&mut self, id: &Arc<str>, event: &Event) {
        let Some(subscription) = self.subscriptions.get_mut(id) else { return };
        let before = subscription.due();
        subscription.evolve(event);
        let after = subscription.due();
        if before != after {
            before.map(|at| self.due.remove(&(at, id.clone())));
            after.map(|at| self.due.insert((at, id.clone())));
        }
        if let Event::Linked { links } = event {
            for link in links {
                self.by_stream.entry(link.path.clone()).or_default().insert(id.clone());
            }
        }
        if let Event::Unlinked { paths } = event {
            paths.iter().for_each(|path| self.unindex(path, id));
        }
    }
}
