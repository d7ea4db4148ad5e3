//! A subscription while a decision is being made about it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Around, DELIVERY_WINDOW_MS, LINKS_MAX, WakeRef};
use crate::subscriptions::event::{Delivery, Event, Linked};
use crate::subscriptions::mark::Mark;
use crate::subscriptions::state::{Stage, Subscription};

pub(super) struct Draft<'a> {
    pub(super) subscription: Cow<'a, Subscription>,
    pub(super) events: Vec<Event>,
}

/// Whether a wake is told to anybody, or made for the one who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wording {
    Announced,
    Silent,
}

impl<'a> Draft<'a> {
    pub(super) fn of(subscription: &'a Subscription) -> Self {
        Self { subscription: Cow::Borrowed(subscription), events: Vec::new() }
    }

    pub(super) fn record(&mut self, event: Event) {
        self.subscription.to_mut().evolve(&event);
        self.events.push(event);
    }

    pub(super) fn lease(&self) -> u64 {
        self.subscription.config.lease_ttl_ms
    }

    pub(super) fn stage(&self) -> Option<&Stage> {
        self.subscription.wake.as_ref().map(|wake| &wake.stage)
    }

    pub(super) fn wake_ref(&self) -> Option<WakeRef> {
        let wake = self.subscription.wake.as_ref()?;
        Some(WakeRef { generation: self.subscription.generation, id: wake.id.clone() })
    }

    pub(super) fn tend<'p>(&mut self, around: Around<'_>, paths: impl IntoIterator<Item = &'p Arc<str>>) {
        self.relink(around, paths);
        self.lapse(around);
        self.wake(around, Wording::Announced);
    }

    /// Streams that came, went or came again since they were linked.
    pub(super) fn relink<'p>(&mut self, around: Around<'_>, paths: impl IntoIterator<Item = &'p Arc<str>>) {
        let (mut links, mut unlinked) = (Vec::new(), Vec::new());
        for path in paths {
            let sight = around.streams.look(path);
            let from_start = |explicit, incarnation| Linked { path: path.clone(), explicit, incarnation, acked: Mark::START };
            match (self.subscription.links.get(path), sight) {
                (None, Some(sight)) => {
                    let room = self.subscription.links.len() + links.len() < LINKS_MAX;
                    if room && sight.tail.position > 0 && self.subscription.covers(path) {
                        links.push(from_start(false, sight.incarnation));
                    }
                }
                (Some(link), Some(sight)) if link.incarnation != sight.incarnation => {
                    links.push(from_start(link.explicit, sight.incarnation));
                }
                (Some(link), None) if link.incarnation != 0 && link.explicit => {
                    links.push(Linked { acked: Mark::at(Default::default()), ..from_start(true, 0) });
                }
                (Some(link), None) if link.incarnation != 0 => unlinked.push(path.clone()),
                (Some(_), _) | (None, None) => {}
            }
        }
        if !links.is_empty() {
            self.record(Event::Linked { links });
        }
        if !unlinked.is_empty() {
            self.record(Event::Unlinked { paths: unlinked });
        }
    }

    /// What has run out by now.
    pub(super) fn lapse(&mut self, around: Around<'_>) {
        let generation = self.subscription.generation;
        match self.stage() {
            Some(Stage::Held { until, .. } | Stage::Delivering { until }) if *until <= around.now => {
                self.record(Event::LeaseExpired { generation });
            }
            Some(Stage::Retrying { at }) if *at <= around.now => {
                self.record(Event::DeliveryRetried { generation, deliver_until: around.now + DELIVERY_WINDOW_MS });
            }
            // The message went with the wake stream that held it.
            Some(Stage::Offered { wake_stream }) if self.wake_stream(around) != *wake_stream => self.withdraw(),
            Some(_) | None => {}
        }
    }

    pub(super) fn withdraw(&mut self) {
        if matches!(self.stage(), Some(Stage::Offered { .. })) {
            self.record(Event::Withdrawn { generation: self.subscription.generation });
        }
    }

    fn wake_stream(&self, around: Around<'_>) -> Option<u64> {
        let sight = self.subscription.wake_stream().and_then(|wake_stream| around.streams.look(wake_stream));
        sight.map(|sight| sight.incarnation)
    }

    pub(super) fn pending(&self, around: Around<'_>) -> BTreeMap<Arc<str>, Mark> {
        let tails = self.subscription.links.iter().filter_map(|(path, link)| {
            let sight = around.streams.look(path).filter(|sight| link.is_pending(sight))?;
            Some((path.clone(), Mark::at(sight.tail)))
        });
        tails.collect()
    }

    /// Begins a wake if there is work and nobody on it.
    pub(super) fn wake(&mut self, around: Around<'_>, wording: Wording) -> bool {
        if self.subscription.wake.is_some() {
            return false;
        }
        let (mut deliver_until, mut wake_stream) = (None, None);
        match (&self.subscription.config.delivery, wording) {
            (Delivery::Webhook { .. }, _) => deliver_until = Some(around.now + DELIVERY_WINDOW_MS),
            (Delivery::PullWake { .. }, Wording::Silent) => {}
            (Delivery::PullWake { wake_stream: told }, Wording::Announced) => {
                // Without a wake stream the work waits for one, or for a worker that asks anyway.
                let Some(sight) = around.streams.look(told).filter(|sight| sight.open_json) else { return false };
                wake_stream = Some(sight.incarnation);
            }
        }
        let snapshot = self.pending(around);
        let Some(stream) = snapshot.keys().next().cloned() else { return false };
        self.record(Event::Woken {
            generation: self.subscription.generation + 1,
            wake_id: around.chance.wake_id.clone(),
            stream,
            snapshot,
            deliver_until,
            wake_stream,
        });
        true
    }

    /// The tails a webhook was told, as far as they can still be acknowledged.
    pub(super) fn snapshot(&self, around: Around<'_>) -> BTreeMap<Arc<str>, Mark> {
        let Some(wake) = &self.subscription.wake else { return BTreeMap::new() };
        let reached = |(path, mark): &(&Arc<str>, &Mark)| {
            let Some(link) = self.subscription.links.get(*path) else { return false };
            let sight = around.streams.look(path).filter(|sight| sight.incarnation == link.incarnation);
            let held = mark.offset().is_some_and(|offset| sight.is_some_and(|sight| sight.holds(offset)));
            held && mark.position() > link.acked.position()
        };
        wake.snapshot.iter().filter(reached).map(|(path, mark)| (path.clone(), *mark)).collect()
    }
}
