//! Seeded runs of a whole cluster. `sim --seeds A..B` runs more of them, `--trace` shows one in full.

use std::ops::Range;

use event_log::sabotage::Sabotage;
use replay_tests::sim;

fn all_hold(seeds: Range<u64>) {
    for seed in seeds {
        let run = sim::run(seed, false);
        assert!(run.problems.is_empty(), "{}\n{}", run.line, run.problems.join("\n"));
    }
}

#[test]
fn two_thousand_seeds_hold_first_quarter() {
    all_hold(0..500);
}

#[test]
fn two_thousand_seeds_hold_second_quarter() {
    all_hold(500..1_000);
}

#[test]
fn two_thousand_seeds_hold_third_quarter() {
    all_hold(1_000..1_500);
}

#[test]
fn two_thousand_seeds_hold_last_quarter() {
    all_hold(1_500..2_000);
}

#[test]
fn a_seed_run_twice_prints_the_same_bytes() {
    for seed in 0..40 {
        let (once, twice) = (sim::run(seed, true), sim::run(seed, true));
        assert_eq!(once.trace, twice.trace, "seed {seed}");
        assert_eq!(once.line, twice.line);
    }
}

#[test]
fn a_crash_at_any_await_point_loses_nothing_acknowledged() {
    for depth in [1, 4] {
        let mut step = 0;
        loop {
            let (run, died) = sim::run_with_death_at(step, depth);
            assert!(run.problems.is_empty(), "{}\n{}", run.line, run.problems.join("\n"));
            if !died {
                break;
            }
            step += 1;
        }
        assert!(step > 100, "the server had only {step} await points");
    }
}

fn is_noticed(fault: Sabotage, seeds: Range<u64>) -> bool {
    seeds.into_iter().any(|seed| !sim::run_sabotaged(seed, fault).problems.is_empty())
}

#[test]
fn breaking_the_chain_check_is_noticed() {
    assert!(is_noticed(Sabotage::ChainCheck, 0..200));
}

#[test]
fn breaking_the_dedupe_is_noticed() {
    assert!(is_noticed(Sabotage::CommandDedupe, 0..200));
}
