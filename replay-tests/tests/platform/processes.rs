//! Real servers, killed while they work and rebuilt while they serve.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use replay_tests::sim::rng::Rng;

use crate::pair::{Pair, Told};

const WRITERS: usize = 6;

/// Runs writers beside `work`, and gives back what they were told.
fn while_writing(pair: &Pair, work: impl FnOnce() + Send) -> Vec<Told> {
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|n| scope.spawn(move || pair.write(n))).collect();
        work();
        pair.stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

/// Two looks at one server with one at the other between them.
fn one_at_a_time(pair: &Pair, kills: &AtomicU64) {
    while !pair.stop.load(Ordering::Relaxed) {
        let before = kills.load(Ordering::SeqCst);
        let active = |server| pair.state(server).as_deref() == Some("active");
        let both = active(0) && active(1) && active(0);
        assert!(!both || kills.load(Ordering::SeqCst) != before, "both servers feed the rows");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn kill_9_of_either_of_two_servers_loses_and_doubles_no_command_and_the_rows_stay_those_of_the_log() {
    let Some(pair) = Pair::start() else { return };
    let (mut rng, kills, mut of_active) = (Rng::new(3), AtomicU64::new(0), 0);
    let told = std::thread::scope(|scope| {
        scope.spawn(|| one_at_a_time(&pair, &kills));
        while_writing(&pair, || {
            let deadline = Instant::now() + Duration::from_secs(10);
            while Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(rng.within(100, 900)));
                let active = pair.active().filter(|_| rng.chance(600));
                let victim = active.unwrap_or_else(|| rng.below(2) as usize);
                of_active += u64::from(active.is_some());
                kills.fetch_add(1, Ordering::SeqCst);
                pair.kill_and_restart(victim, Duration::from_millis(rng.below(400)));
                kills.fetch_add(1, Ordering::SeqCst);
            }
        })
    });
    pair.holds(&told);
    let verified = pair.verb("verify");
    assert_eq!(verified["equal"], true, "{verified}");
    let mut states = [0, 1].map(|server| pair.state(server).unwrap());
    states.sort_unstable();
    assert_eq!(states, ["active", "passive"]);
    let said: usize = told.iter().map(|one| one.said.len()).sum();
    assert!(of_active >= 2 && kills.into_inner() >= 10 && said > 100, "{of_active} of the active one, {said} said");
    no_errors(&pair);
}

#[test]
fn rows_are_rebuilt_while_writes_go_on_and_every_read_is_served() {
    let Some(pair) = Pair::start() else { return };
    let rebuilt = AtomicU64::new(0);
    let (told, reads) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|n| {
                scope.spawn({
                    let pair = &pair;
                    move || read(pair, n)
                })
            })
            .collect();
        let told = while_writing(&pair, || {
            for _ in 0..6 {
                std::thread::sleep(Duration::from_millis(300));
                let done = pair.verb("rebuild");
                assert_eq!(done["live"], true, "{done}");
                rebuilt.fetch_max(done["position"].as_u64().unwrap(), Ordering::Relaxed);
            }
        });
        (told, readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>())
    });
    pair.holds(&told);
    let verified = pair.verb("verify");
    assert_eq!(verified["equal"], true, "{verified}");
    assert!(verified["position"].as_u64().unwrap() >= rebuilt.into_inner());
    assert!(reads > 100, "only {reads} reads");
    no_errors(&pair);
}

/// Every read is answered, through both servers in turn, and never with less than the one before.
fn read(pair: &Pair, reader: u64) -> u64 {
    let (mut last, mut reads) = (0, 0);
    while !pair.stop.load(Ordering::Relaxed) {
        let server = (reads + reader) as usize % 2;
        let page = pair.get(server, "/api/threads?limit=50").expect("a read that is served");
        let position = page["position"].as_u64().unwrap();
        assert!(position >= last, "the rows went back from {last} to {position}");
        (last, reads) = (position, reads + 1);
    }
    reads
}

fn no_errors(pair: &Pair) {
    for server in &pair.servers {
        let log = server.lock().log();
        let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}
