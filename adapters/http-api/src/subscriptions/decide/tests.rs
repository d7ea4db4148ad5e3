use std::cell::RefCell;

use event_log::Offset;

use super::*;
use crate::subscriptions::event::{Delivery, Recorded};
use crate::subscriptions::glob::Pattern;

#[derive(Default)]
struct Fixture {
    state: State,
    streams: Fake,
    now: u64,
    wakes: u32,
}

#[derive(Default)]
struct Fake(RefCell<BTreeMap<Arc<str>, Sight>>);

impl Streams for Fake {
    fn look(&self, path: &str) -> Option<Sight> {
        self.0.borrow().get(path).copied()
    }

    fn named(&self, prefix: &str) -> Vec<Arc<str>> {
        self.0.borrow().keys().filter(|path| path.starts_with(prefix)).cloned().collect()
    }
}

fn token(generation: u64, position: u64) -> Mark {
    Mark::at(Offset { generation, position })
}

const S: &str = "sub";

impl Fixture {
    fn stream(&self, path: &str, incarnation: u64, position: u64) {
        let tail = Offset { generation: incarnation, position };
        let sight = Sight { incarnation, tail, forked: false, open_json: true };
        self.streams.0.borrow_mut().insert(path.into(), sight);
    }

    fn gone(&self, path: &str) {
        self.streams.0.borrow_mut().remove(path);
    }

    fn decide(&mut self, command: Command) -> Result<Decision, Refusal> {
        self.wakes += 1;
        let chance = Chance { wake_id: format!("w_{}", self.wakes).into(), jitter: u32::MAX / 2 };
        let around = Around { streams: &self.streams, now: self.now, chance: &chance };
        let decision = decide(&self.state, &S.into(), &command, around)?;
        for event in &decision.events {
            self.state.apply(&Recorded::new(self.now, S.into(), event.clone()));
        }
        Ok(decision)
    }

    fn events(&mut self, command: Command) -> Vec<&'static str> {
        self.decide(command).unwrap().events.iter().map(name).collect()
    }

    fn create(&mut self, delivery: Delivery, pattern: &str) -> Vec<&'static str> {
        self.events(Command::Create { config: config(delivery, pattern), base_url: "http://x".into() })
    }

    fn tend(&mut self, paths: &[&str]) -> Vec<&'static str> {
        self.events(Command::Tend { paths: paths.iter().map(|path| (*path).into()).collect() })
    }

    fn claim(&mut self, worker: &str) -> WakeRef {
        let answer = self.decide(Command::Claim { worker: worker.into() }).unwrap().answer;
        let Answer::Claimed(wake) = answer else { panic!("{answer:?}") };
        wake
    }

    fn current(&self) -> WakeRef {
        Draft::of(self.state.get(S).unwrap()).wake_ref().unwrap()
    }

    fn ack(&mut self, wake: &WakeRef, acks: &[(&str, Mark)], done: bool) -> Result<Answer, Refusal> {
        let acks = acks.iter().map(|(path, mark)| ((*path).into(), *mark)).collect();
        self.decide(Command::Ack { wake: wake.clone(), acks, done }).map(|decision| decision.answer)
    }

    fn acked(&self, path: &str) -> Mark {
        self.state.get(S).unwrap().links[path].acked
    }
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Created { .. } => "created",
        Event::Deleted {} => "deleted",
        Event::Linked { .. } => "linked",
        Event::Unlinked { .. } => "unlinked",
        Event::Woken { .. } => "woken",
        Event::Delivered { .. } => "delivered",
        Event::DeliveryFailed { .. } => "delivery failed",
        Event::DeliveryRetried { .. } => "delivery retried",
        Event::Claimed { .. } => "claimed",
        Event::Acked { .. } => "acked",
        Event::Released { .. } => "released",
        Event::LeaseExpired { .. } => "lease expired",
        Event::Withdrawn { .. } => "withdrawn",
    }
}

fn webhook() -> Delivery {
    Delivery::Webhook { url: "https://worker.example/".into() }
}

fn pull() -> Delivery {
    Delivery::PullWake { wake_stream: "wake".into() }
}

fn config(delivery: Delivery, pattern: &str) -> Config {
    let pattern = (!pattern.is_empty()).then(|| Pattern::try_from(pattern.to_owned()).unwrap());
    Config { delivery, pattern, streams: BTreeSet::new(), lease_ttl_ms: 1_000, description: None }
}

/// A pull-wake subscription to `e/*` with one message in `e/a`, and its wake stream.
fn pulling() -> Fixture {
    let mut f = Fixture::default();
    f.stream("wake", 1, 0);
    f.create(pull(), "e/*");
    f.stream("e/a", 5, 1);
    assert_eq!(f.tend(&["e/a"]), ["linked", "woken"]);
    f
}

fn pushing() -> Fixture {
    let mut f = Fixture::default();
    f.create(webhook(), "e/*");
    f.stream("e/a", 5, 1);
    assert_eq!(f.tend(&["e/a"]), ["linked", "woken"]);
    f
}

#[test]
fn what_was_there_before_the_subscription_is_not_replayed() {
    let mut f = Fixture::default();
    f.stream("e/old", 3, 9);
    f.stream("other", 4, 9);
    assert_eq!(f.create(webhook(), "e/*"), ["created", "linked"]);
    assert_eq!(f.acked("e/old"), token(3, 9));
    assert!(!f.state.get(S).unwrap().links.contains_key("other"));
    assert_eq!(f.tend(&["e/old"]), [""; 0]);
    f.stream("e/old", 3, 10);
    assert_eq!(f.tend(&["e/old"]), ["woken"]);
}

#[test]
fn the_same_configuration_confirms_and_another_is_refused() {
    let mut f = Fixture::default();
    assert_eq!(f.create(webhook(), "e/*"), ["created"]);
    let again = |pattern| Command::Create { config: config(webhook(), pattern), base_url: "http://y".into() };
    assert_eq!(f.decide(again("e/*")).unwrap().answer, Answer::Confirmed);
    assert_eq!(f.decide(again("f/*")), Err(Refusal::Exists));
}

#[test]
fn a_stream_first_seen_later_is_pending_from_its_first_byte() {
    let f = pulling();
    assert_eq!(f.acked("e/a"), Mark::START);
    assert_eq!(f.state.get(S).unwrap().generation, 1);
}

#[test]
fn a_pattern_links_neither_reserved_streams_nor_its_own_wake_stream() {
    let mut f = Fixture::default();
    f.stream("wake", 1, 5);
    f.stream("__ds/subscriptions", 2, 5);
    assert_eq!(f.create(pull(), "**"), ["created"]);
    assert_eq!(f.tend(&["wake", "__ds/subscriptions"]), [""; 0]);
}

#[test]
fn a_claim_holds_off_others_until_it_is_done() {
    let mut f = pulling();
    let wake = f.claim("worker-1");
    let refused = f.decide(Command::Claim { worker: "worker-2".into() });
    assert_eq!(refused, Err(Refusal::AlreadyClaimed { holder: "worker-1".into(), generation: 1 }));
    assert_eq!(f.ack(&wake, &[("e/a", token(5, 1))], true), Ok(Answer::Acked { next_wake: false }));
    assert_eq!(f.acked("e/a"), token(5, 1));
    assert_eq!(f.ack(&wake, &[], true), Err(Refusal::Fenced));
}

#[test]
fn a_claim_sees_work_that_no_wake_has_told_of() {
    let mut f = pulling();
    let wake = f.claim("w");
    f.ack(&wake, &[("e/a", token(5, 1))], true).unwrap();
    f.stream("e/a", 5, 2);
    let next = f.claim("w");
    assert_eq!(next.generation, 2);
    assert_ne!(next.id, wake.id);
}

#[test]
fn done_with_work_left_wakes_again_and_release_too() {
    let mut f = pulling();
    let wake = f.claim("w");
    f.stream("e/a", 5, 3);
    assert_eq!(f.ack(&wake, &[("e/a", token(5, 1))], true), Ok(Answer::Acked { next_wake: true }));
    let wake = f.claim("w");
    assert_eq!(f.events(Command::Release { wake: wake.clone() }), ["released", "woken"]);
    assert_eq!(f.decide(Command::Release { wake }), Err(Refusal::Fenced));
}

#[test]
fn a_claim_for_nothing_withdraws_the_offer_so_that_later_work_is_told() {
    let mut f = pulling();
    f.gone("e/a");
    let decision = f.decide(Command::Claim { worker: "w".into() }).unwrap();
    assert_eq!(decision.answer, Answer::NothingPending);
    f.stream("e/b", 6, 1);
    assert_eq!(f.tend(&["e/b"]), ["linked", "woken"]);
}

#[test]
fn heartbeats_extend_a_lease_and_silence_ends_it() {
    let mut f = pulling();
    let wake = f.claim("w");
    f.now = 900;
    f.ack(&wake, &[], false).unwrap();
    f.now = 1_899;
    assert_eq!(f.tend(&[]), [""; 0]);
    f.now = 1_900;
    assert_eq!(f.ack(&wake, &[], false), Err(Refusal::Fenced));
    assert_eq!(f.tend(&[]), ["lease expired", "woken"]);
    assert_eq!(f.current().generation, 2);
}

#[test]
fn a_claim_takes_over_an_expired_lease_that_nobody_has_noticed() {
    let mut f = pulling();
    f.claim("w1");
    f.now = 1_000;
    let events = f.events(Command::Claim { worker: "w2".into() });
    assert_eq!(events, ["lease expired", "woken", "claimed"]);
}

#[test]
fn acks_stay_between_what_was_acked_and_the_tail() {
    let mut f = pulling();
    f.stream("e/a", 5, 4);
    let wake = f.claim("w");
    f.ack(&wake, &[("e/a", token(5, 2))], false).unwrap();
    let bad = [("e/a", token(5, 1)), ("e/a", token(5, 5)), ("e/a", token(4, 3)), ("e/a", Mark::START), ("e/x", token(5, 2))];
    for (path, mark) in bad {
        assert!(matches!(f.ack(&wake, &[(path, mark)], true), Err(Refusal::Offset(_))), "{path} {mark}");
    }
    assert_eq!(f.acked("e/a"), token(5, 2), "one bad ack and none counts");
}

#[test]
fn a_webhook_that_is_done_acks_what_it_was_told_and_not_more() {
    let mut f = pushing();
    let wake = f.current();
    f.stream("e/a", 5, 7);
    assert_eq!(f.events(Command::Delivered { wake: wake.clone(), done: true }), ["acked", "woken"]);
    assert_eq!(f.acked("e/a"), token(5, 1));
    assert_eq!(f.events(Command::Delivered { wake, done: true }), [""; 0], "a late report of an old wake says nothing");
}

#[test]
fn a_webhook_that_accepts_has_its_lease_to_call_back() {
    let mut f = pushing();
    let wake = f.current();
    f.now = 5_000;
    assert_eq!(f.events(Command::Delivered { wake: wake.clone(), done: false }), ["delivered"]);
    f.now = 5_999;
    assert_eq!(f.ack(&wake, &[("e/a", token(5, 1))], true), Ok(Answer::Acked { next_wake: false }));
    assert_eq!(f.ack(&wake, &[("e/a", token(5, 1))], true), Err(Refusal::Fenced));
}

#[test]
fn a_callback_may_overtake_the_reply_to_its_delivery() {
    let mut f = pushing();
    let wake = f.current();
    f.ack(&wake, &[], false).unwrap();
    assert_eq!(f.events(Command::DeliveryFailed { wake: wake.clone() }), [""; 0], "it is plainly being worked on");
    f.ack(&wake, &[("e/a", token(5, 1))], true).unwrap();
    assert_eq!(f.events(Command::Delivered { wake, done: false }), [""; 0]);
}

#[test]
fn failed_deliveries_back_off_and_retry_the_same_wake() {
    let mut f = pushing();
    let wake = f.current();
    assert_eq!(f.events(Command::DeliveryFailed { wake: wake.clone() }), ["delivery failed"]);
    assert_eq!(f.state.get(S).unwrap().due(), Some(backoff(1, u32::MAX / 2)));
    f.now = f.state.next_due_except(|_| false).unwrap();
    assert_eq!(f.tend(&[]), ["delivery retried"]);
    assert_eq!(f.current(), wake);
    f.decide(Command::DeliveryFailed { wake: wake.clone() }).unwrap();
    assert_eq!(f.state.get(S).unwrap().failures, 2);
    f.ack(&wake, &[("e/a", token(5, 1))], true).unwrap();
    assert_eq!(f.state.get(S).unwrap().failures, 0, "a receiver that calls back is not failing");
}

#[test]
fn backoff_doubles_from_one_second_to_a_minute_give_or_take_a_fifth() {
    assert_eq!((backoff(1, 0), backoff(1, u32::MAX)), (800, 1_200));
    assert_eq!((backoff(4, 0), backoff(4, u32::MAX)), (6_400, 9_600));
    for attempt in [7, 20, 64, u32::MAX] {
        assert_eq!((backoff(attempt, 0), backoff(attempt, u32::MAX)), (48_000, 72_000));
    }
}

#[test]
fn a_delivery_lost_with_its_server_is_made_again() {
    let mut f = pushing();
    f.now = DELIVERY_WINDOW_MS;
    assert_eq!(f.tend(&[]), ["lease expired", "woken"]);
}

#[test]
fn a_deleted_stream_is_unlinked_and_its_successor_starts_over() {
    let mut f = pushing();
    let wake = f.current();
    f.gone("e/a");
    assert_eq!(f.tend(&["e/a"]), ["unlinked"]);
    f.stream("e/a", 9, 2);
    assert_eq!(f.tend(&["e/a"]), ["linked"]);
    assert_eq!(f.events(Command::Delivered { wake, done: true }), ["acked", "woken"], "what was told was of another stream");
    assert_eq!(f.acked("e/a"), Mark::START);
}

#[test]
fn an_explicit_stream_is_waited_for_and_outlives_its_deletion() {
    let mut f = Fixture::default();
    let mut config = config(webhook(), "");
    config.streams = ["m".into()].into();
    f.decide(Command::Create { config, base_url: "http://x".into() }).unwrap();
    assert_eq!(f.acked("m"), token(0, 0));
    f.stream("m", 2, 1);
    assert_eq!(f.tend(&["m"]), ["linked", "woken"]);
    f.gone("m");
    assert_eq!(f.tend(&["m"]), ["linked"]);
    assert_eq!(f.acked("m"), token(0, 0));
}

#[test]
fn links_are_added_at_the_tail_and_removed_down_to_the_pattern() {
    let mut f = pulling();
    f.stream("m", 8, 3);
    let link = |path: &str| Command::Link { paths: vec![path.into(), path.into()] };
    assert_eq!(f.events(link("m")), ["linked"]);
    assert_eq!(f.acked("m"), token(8, 3));
    assert_eq!(f.events(link("m")), [""; 0]);
    assert_eq!(f.events(link("e/a")), ["linked"]);
    assert_eq!(f.acked("e/a"), Mark::START, "a link that was there keeps its place");
    assert_eq!(f.events(Command::Unlink { path: "e/a".into() }), ["linked"], "the pattern still matches");
    assert_eq!(f.events(Command::Unlink { path: "m".into() }), ["unlinked"]);
    assert_eq!(f.events(Command::Unlink { path: "m".into() }), [""; 0]);
}

#[test]
fn a_wake_waits_for_its_wake_stream_and_is_told_again_in_a_new_one() {
    let mut f = pulling();
    f.gone("wake");
    assert_eq!(f.tend(&["wake"]), ["withdrawn"]);
    f.stream("wake", 12, 0);
    assert_eq!(f.tend(&["wake"]), ["woken"]);
    f.stream("wake", 13, 0);
    assert_eq!(f.tend(&["wake"]), ["withdrawn", "woken"]);
}

#[test]
fn a_deleted_subscription_is_gone_for_its_holders_and_for_the_indexes() {
    let mut f = pulling();
    let wake = f.claim("w");
    assert_eq!(f.events(Command::Delete), ["deleted"]);
    assert_eq!(f.ack(&wake, &[], true), Err(Refusal::NotFound));
    assert_eq!(f.events(Command::Delete), [""; 0]);
    assert_eq!(f.state.next_due_except(|_| false), None);
    assert_eq!(f.state.concerned("e/a").chain(f.state.concerned("wake")).chain(f.state.covering("e/z")).count(), 0);
}

#[test]
fn what_a_stream_concerns_is_found_by_link_wake_stream_and_pattern() {
    let f = pulling();
    let one: Vec<Arc<str>> = vec![S.into()];
    assert_eq!(f.state.concerned("e/a").cloned().collect::<Vec<_>>(), one);
    assert_eq!(f.state.concerned("wake").cloned().collect::<Vec<_>>(), one);
    assert_eq!(f.state.covering("e/new").cloned().collect::<Vec<_>>(), one);
    assert_eq!(f.state.covering("f/new").count(), 0);
}

#[test]
fn links_are_bounded() {
    let mut f = Fixture::default();
    f.create(webhook(), "e/*");
    let paths = |n: usize| (0..n).map(|i| format!("m/{i}").into()).collect();
    assert!(matches!(f.decide(Command::Link { paths: paths(LINKS_MAX + 1) }), Err(Refusal::Limit(_))));
    f.decide(Command::Link { paths: paths(LINKS_MAX) }).unwrap();
    f.stream("e/a", 1, 1);
    assert_eq!(f.tend(&["e/a"]), [""; 0]);
}
