//! Pure decisions: a command against the subscriptions and streams as they stand becomes events, or a refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::event::{Config, Event, Linked};
use super::mark::Mark;
use super::sight::{Sight, Streams};
use super::state::{Stage, State, Subscription};

mod draft;

use draft::{Draft, Wording};

pub(super) const SUBSCRIPTIONS_MAX: usize = 10_000;
pub(super) const LINKS_MAX: usize = 10_000;
/// A delivery that has not reported back by then was lost with its server. Longer than the courier takes for one.
const DELIVERY_WINDOW_MS: u64 = 20_000;
const BACKOFF_MIN_MS: u64 = 1_000;
const BACKOFF_MAX_MS: u64 = 60_000;

#[derive(Clone, Debug)]
pub(super) enum Command {
    Create {
        config: Config,
        base_url: Arc<str>,
    },
    Delete,
    Link {
        paths: Vec<Arc<str>>,
    },
    Unlink {
        path: Arc<str>,
    },
    Claim {
        worker: Arc<str>,
    },
    Ack {
        wake: WakeRef,
        acks: Vec<(Arc<str>, Mark)>,
        done: bool,
    },
    Release {
        wake: WakeRef,
    },
    /// Do whatever is due, and look again at `paths`.
    Tend {
        paths: BTreeSet<Arc<str>>,
    },
    /// The webhook took it; `done` says that it also finished it.
    Delivered {
        wake: WakeRef,
        done: bool,
    },
    DeliveryFailed {
        wake: WakeRef,
    },
}

/// Names one wake of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WakeRef {
    pub(super) generation: u64,
    pub(super) id: Arc<str>,
}

/// What a decision cannot know of itself.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) streams: &'a dyn Streams,
    pub(super) now: u64,
    pub(super) chance: &'a Chance,
}

#[derive(Clone, Debug)]
pub(super) struct Chance {
    pub(super) wake_id: Arc<str>,
    pub(super) jitter: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Created,
    /// It was there already, with the same configuration.
    Confirmed,
    Claimed(WakeRef),
    /// Nothing to claim. What was offered may have had to be withdrawn, so this is not a refusal.
    NothingPending,
    Acked {
        next_wake: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) events: Vec<Event>,
    pub(super) answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("there is no such subscription")]
    NotFound,
    #[error("a subscription of this name exists with another configuration")]
    Exists,
    #[error("{0}")]
    Limit(&'static str),
    #[error("the subscription is not pull-wake")]
    NotPullWake,
    #[error("another worker holds the lease")]
    AlreadyClaimed { holder: Arc<str>, generation: u64 },
    #[error("this wake is over")]
    Fenced,
    #[error("{0}")]
    Offset(&'static str),
}

pub(super) fn decide(state: &State, id: &Arc<str>, command: &Command, around: Around<'_>) -> Result<Decision, Refusal> {
    if let Command::Create { config, base_url } = command {
        return create(state, id, config, base_url, around);
    }
    let Some(subscription) = state.get(id) else {
        return if matches!(command, Command::Delete) { Ok(done(Vec::new())) } else { Err(Refusal::NotFound) };
    };
    match command {
        Command::Create { .. } => Err(Refusal::Exists),
        Command::Delete => Ok(done(vec![Event::Deleted {}])),
        Command::Link { paths } => link(subscription, paths, around),
        Command::Unlink { path } => Ok(unlink(subscription, path)),
        Command::Claim { worker } => claim(subscription, worker, around),
        Command::Ack { wake, acks, done } => ack(subscription, wake, acks, *done, around),
        Command::Release { wake } => release(subscription, wake, around),
        Command::Tend { paths } => {
            let mut draft = Draft::of(subscription);
            draft.tend(around, paths);
            Ok(done(draft.events))
        }
        Command::Delivered { wake, done } => Ok(delivered(subscription, wake, *done, around)),
        Command::DeliveryFailed { wake } => Ok(delivery_failed(subscription, wake, around)),
    }
}

fn done(events: Vec<Event>) -> Decision {
    Decision { events, answer: Answer::Done }
}

fn create(state: &State, id: &Arc<str>, config: &Config, base_url: &Arc<str>, around: Around<'_>) -> Result<Decision, Refusal> {
    if let Some(existing) = state.get(id) {
        let same = existing.config == *config;
        return if same { Ok(Decision { events: Vec::new(), answer: Answer::Confirmed }) } else { Err(Refusal::Exists) };
    }
    if state.len() >= SUBSCRIPTIONS_MAX {
        return Err(Refusal::Limit("there are 10000 subscriptions already"));
    }
    let born = Subscription::born(id.clone(), around.now, config.clone(), base_url.clone());
    let named = config.pattern.as_ref().map(|pattern| around.streams.named(&pattern.prefix())).unwrap_or_default();
    let covered: BTreeSet<Arc<str>> = named.into_iter().filter(|path| born.covers(path)).collect();
    let explicit = config.streams.iter().map(|path| at_tail(path, true, around));
    let by_pattern = covered.difference(&config.streams).map(|path| at_tail(path, false, around));
    let links: Vec<Linked> = explicit.chain(by_pattern).collect();
    if links.len() > LINKS_MAX {
        return Err(Refusal::Limit("more than 10000 streams match"));
    }
    let mut events = vec![Event::Created { config: config.clone(), base_url: base_url.clone() }];
    if !links.is_empty() {
        events.push(Event::Linked { links });
    }
    Ok(Decision { events, answer: Answer::Created })
}

/// A new link to what may already be there does not replay it.
fn at_tail(path: &Arc<str>, explicit: bool, around: Around<'_>) -> Linked {
    let sight = around.streams.look(path);
    Linked {
        path: path.clone(),
        explicit,
        incarnation: sight.map_or(0, |sight| sight.incarnation),
        acked: Mark::at(sight.map(|sight| sight.tail).unwrap_or_default()),
    }
}

fn link(subscription: &Subscription, paths: &[Arc<str>], around: Around<'_>) -> Result<Decision, Refusal> {
    let paths: BTreeSet<_> = paths.iter().collect();
    let wanted = paths.iter().filter(|path| subscription.links.get(**path).is_none_or(|link| !link.explicit));
    let links: Vec<Linked> = wanted
        .map(|path| match subscription.links.get(*path) {
            Some(link) => Linked { path: (*path).clone(), explicit: true, incarnation: link.incarnation, acked: link.acked },
            None => at_tail(path, true, around),
        })
        .collect();
    if subscription.links.len() + links.len() > LINKS_MAX {
        return Err(Refusal::Limit("a subscription has at most 10000 streams"));
    }
    Ok(done(if links.is_empty() { Vec::new() } else { vec![Event::Linked { links }] }))
}

fn unlink(subscription: &Subscription, path: &Arc<str>) -> Decision {
    let Some(link) = subscription.links.get(path).filter(|link| link.explicit) else { return done(Vec::new()) };
    if subscription.covers(path) {
        let kept = Linked { path: path.clone(), explicit: false, incarnation: link.incarnation, acked: link.acked };
        return done(vec![Event::Linked { links: vec![kept] }]);
    }
    done(vec![Event::Unlinked { paths: vec![path.clone()] }])
}

fn claim(subscription: &Subscription, worker: &Arc<str>, around: Around<'_>) -> Result<Decision, Refusal> {
    subscription.wake_stream().ok_or(Refusal::NotPullWake)?;
    let mut draft = Draft::of(subscription);
    draft.relink(around, subscription.links.keys());
    draft.lapse(around);
    if let Some(Stage::Held { worker: Some(holder), .. }) = draft.stage() {
        return Err(Refusal::AlreadyClaimed { holder: holder.clone(), generation: subscription.generation });
    }
    if draft.pending(around).is_empty() {
        // Whoever read this wake has been here now; the next work needs a new one.
        draft.withdraw();
        return Ok(Decision { events: draft.events, answer: Answer::NothingPending });
    }
    draft.wake(around, Wording::Silent);
    let generation = draft.subscription.generation;
    draft.record(Event::Claimed { generation, worker: worker.clone(), lease_until: around.now + draft.lease() });
    let claimed = draft.wake_ref().ok_or(Refusal::Fenced)?;
    Ok(Decision { events: draft.events, answer: Answer::Claimed(claimed) })
}

/// The wake that a holder names must be the current one, and still its own.
fn fence(subscription: &Subscription, wake: &WakeRef, now: u64) -> Result<(), Refusal> {
    let current =
        subscription.wake.as_ref().filter(|current| current.id == wake.id && subscription.generation == wake.generation);
    let alive = current.is_some_and(|current| match current.stage {
        Stage::Offered { .. } => false,
        Stage::Delivering { until } | Stage::Held { until, .. } => now < until,
        Stage::Retrying { .. } => true,
    });
    if alive { Ok(()) } else { Err(Refusal::Fenced) }
}

fn ack(
    subscription: &Subscription,
    wake: &WakeRef,
    acks: &[(Arc<str>, Mark)],
    finished: bool,
    around: Around<'_>,
) -> Result<Decision, Refusal> {
    fence(subscription, wake, around.now)?;
    let mut offsets = BTreeMap::new();
    for (path, mark) in acks {
        check_ack(subscription, path, *mark, around)?;
        offsets.insert(path.clone(), *mark);
    }
    let mut draft = Draft::of(subscription);
    let lease_until = (!finished).then(|| around.now + draft.lease());
    draft.record(Event::Acked { generation: wake.generation, offsets, lease_until });
    let next_wake = finished && draft.wake(around, Wording::Announced);
    Ok(Decision { events: draft.events, answer: Answer::Acked { next_wake } })
}

fn check_ack(subscription: &Subscription, path: &str, mark: Mark, around: Around<'_>) -> Result<(), Refusal> {
    let link = subscription.links.get(path).ok_or(Refusal::Offset("the stream is not one of this subscription's"))?;
    let offset = mark.offset().ok_or(Refusal::Offset("-1 cannot be acknowledged"))?;
    if offset.position < link.acked.position() {
        return Err(Refusal::Offset("a later offset was acknowledged before"));
    }
    let sight: Option<Sight> = around.streams.look(path).filter(|sight| sight.incarnation == link.incarnation);
    let held = sight.is_some_and(|sight| sight.holds(offset));
    if held { Ok(()) } else { Err(Refusal::Offset("the stream does not reach this offset")) }
}

fn release(subscription: &Subscription, wake: &WakeRef, around: Around<'_>) -> Result<Decision, Refusal> {
    subscription.wake_stream().ok_or(Refusal::NotPullWake)?;
    fence(subscription, wake, around.now)?;
    let mut draft = Draft::of(subscription);
    draft.record(Event::Released { generation: wake.generation });
    draft.wake(around, Wording::Announced);
    Ok(done(draft.events))
}

fn is_delivering(subscription: &Subscription, wake: &WakeRef) -> bool {
    let current =
        subscription.wake.as_ref().filter(|current| current.id == wake.id && subscription.generation == wake.generation);
    current.is_some_and(|current| matches!(current.stage, Stage::Delivering { .. }))
}

fn delivered(subscription: &Subscription, wake: &WakeRef, finished: bool, around: Around<'_>) -> Decision {
    let mut draft = Draft::of(subscription);
    if finished && fence(subscription, wake, around.now).is_ok() {
        let offsets = draft.snapshot(around);
        draft.record(Event::Acked { generation: wake.generation, offsets, lease_until: None });
        draft.wake(around, Wording::Announced);
    } else if !finished && is_delivering(subscription, wake) {
        let lease_until = around.now + draft.lease();
        draft.record(Event::Delivered { generation: wake.generation, lease_until });
    }
    done(draft.events)
}

fn delivery_failed(subscription: &Subscription, wake: &WakeRef, around: Around<'_>) -> Decision {
    if !is_delivering(subscription, wake) {
        return done(Vec::new());
    }
    let attempt = subscription.failures.saturating_add(1);
    let next_try = around.now + backoff(attempt, around.chance.jitter);
    done(vec![Event::DeliveryFailed { generation: wake.generation, attempt, next_try }])
}

/// Doubles with every attempt, give or take a fifth, so that receivers that came back together are not asked together.
fn backoff(attempt: u32, jitter: u32) -> u64 {
    let base = BACKOFF_MIN_MS.checked_shl(attempt.saturating_sub(1).min(16)).unwrap_or(BACKOFF_MAX_MS).min(BACKOFF_MAX_MS);
    let swing = base * 2 / 5;
    base - swing / 2 + swing * u64::from(jitter) / u64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
