//! Whatever is asked, in whatever order and on however old a view: the world stays one that the rows could hold.

use std::collections::BTreeSet;

use commands::{Actor, Command, World, decide};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::draw::{Draw, draws, races};
use crate::scene::*;

/// Every step keeps the invariants, and the log alone tells the same world again.
fn walk(draws: Vec<Draw>) {
    let mut scene = scene();
    let mut views: Vec<World> = Vec::new();
    for draw in draws {
        views.push(scene.world.clone());
        let view = views[views.len().saturating_sub(1 + draw.lag)].clone();
        if let Ok(decision) = decide(&view, &draw.actor(), &draw.command()) {
            scene.append_if_unmoved(&view, decision);
        }
    }
    let mut again = World::default();
    for (stream, seq, entry) in &scene.log {
        again.apply(stream, *seq, entry).unwrap();
    }
    assert_eq!(again, scene.world);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_commands_makes_a_world_that_breaks_a_rule(draws in draws(1..200)) {
        walk(draws);
    }

    #[test]
    fn no_race_of_deletions_and_references_makes_a_world_that_breaks_a_rule(draws in races()) {
        walk(draws);
    }

    #[test]
    fn an_agent_of_no_house_gets_nothing_into_one(draws in draws(1..200)) {
        let mut scene = scene();
        for draw in draws {
            if let Ok(decision) = decide(&scene.world, &Actor::Agent(NOBODY), &draw.command()) {
                panic!("{:?} gives {decision:?}", draw.command());
            }
            let joins = matches!(draw.command(), Command::AddMember(_) | Command::RegisterAgent(_));
            if !joins && let Ok(decision) = decide(&scene.world, &SYSTEM, &draw.command()) {
                scene.append(decision);
            }
        }
    }
}

#[test]
fn every_command_is_drawn() {
    let mut runner = TestRunner::deterministic();
    let drawn = (0..20).flat_map(|_| draws(1..400).new_tree(&mut runner).unwrap().current());
    let drawn: BTreeSet<_> = drawn.map(|draw| draw.command().name()).collect();
    assert_eq!(drawn.len(), Command::NAMES.len(), "{drawn:?}");
}
