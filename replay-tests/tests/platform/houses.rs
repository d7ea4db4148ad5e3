//! Houses are strangers to each other. What somebody outside a house may do, is told and sees is what it would be if the house did not
//! exist.

use commands::command::{IssueKey, RenameAgent, RevokeKey};
use commands::{Actor, Command, Decision, Rejection, World, decide};
use events::{AgentId, Entry, HouseId, StreamName};
use proptest::prelude::*;

use crate::draw::{AGENTS, Draw, HOUSES, draws};
use crate::dump::seen_by;
use crate::play::{acted, memory, on_drawn, write};
use crate::postgres::database;
use crate::running::run;
use crate::scene::{Scene, house, scene};

fn house_of(world: &World, stream: &StreamName) -> Option<HouseId> {
    match stream {
        StreamName::House(id) | StreamName::Session(id, _) => Some(id.clone()),
        StreamName::Thread(id) => world.thread(id).map(|thread| thread.house_id.clone()),
        StreamName::Agents => None,
    }
}

/// The log as if a house had never been.
fn without(scene: &Scene, house: &HouseId) -> Vec<(StreamName, u64, Entry)> {
    let elsewhere = |stream: &StreamName| house_of(&scene.world, stream).as_ref() != Some(house);
    scene.log.iter().filter(|(stream, ..)| elsewhere(stream)).cloned().collect()
}

fn folded(log: &[(StreamName, u64, Entry)]) -> World {
    let mut world = World::default();
    for (stream, seq, entry) in log {
        world.apply(stream, *seq, entry).unwrap();
    }
    world
}

/// An id that is taken says that it is taken. No request names one: see `a_column_that_is_never_null…` of the API.
fn same(with: &Result<Decision, Rejection>, without: &Result<Decision, Rejection>) -> bool {
    matches!(with, Err(Rejection::IdTaken)) || with == without
}

/// Who owns every house that a bot is in may speak for it, so that other houses bear on what is told of their members.
fn is_about_a_member(world: &World, house: &HouseId, command: &Command) -> bool {
    let (Command::RenameAgent(RenameAgent { agent_id, .. })
    | Command::IssueKey(IssueKey { agent_id, .. })
    | Command::RevokeKey(RevokeKey { agent_id, .. })) = command
    else {
        return false;
    };
    world.is_member(house, *agent_id)
}

fn stays_at_home(world: &World, agent: AgentId, decision: &Decision) -> bool {
    decision.appends.iter().all(|append| match house_of(world, &append.stream) {
        Some(house) => world.house(&house).is_none() || world.is_member(&house, agent),
        None => true,
    })
}

fn strangers_change_nothing(draws: &[Draw]) {
    let mut scene = scene();
    let mut worlds = HOUSES.map(|id| folded(&without(&scene, &house(id))));
    for draw in draws {
        let command = draw.command();
        for (id, world) in HOUSES.map(house).into_iter().zip(&worlds) {
            let outside =
                AGENTS.into_iter().filter(|agent| scene.world.house(&id).is_some() && !scene.world.is_member(&id, *agent));
            let outside: Vec<_> = outside.collect();
            for agent in outside {
                let decided = decide(&scene.world, &Actor::Agent(agent), &command);
                let alone = decide(world, &Actor::Agent(agent), &command);
                let bears = is_about_a_member(&scene.world, &id, &command);
                assert!(bears || same(&decided, &alone), "{agent} outside {id}: {command:?} gives {decided:?}, not {alone:?}");
                if let Ok(decision) = decided {
                    assert!(stays_at_home(&scene.world, agent, &decision), "{agent}: {command:?} gives {decision:?}");
                }
            }
        }
        if scene.ask(draw.actor(), &command).is_ok_and(|events| !events.is_empty()) {
            worlds = HOUSES.map(|id| folded(&without(&scene, &house(id))));
        }
    }
}

/// The rows of every house but one, with and without it.
async fn rows_show_nothing_of_another_house(draws: &[Draw]) {
    let scene = acted(draws);
    let (db, less) = (database().await.unwrap(), database().await.unwrap());
    let log = memory().await;
    run(&log, &db.rows).reaches(write(&log, &scene.log).await).await;
    let gone = house("h");
    let rest = memory().await;
    run(&rest, &less.rows).reaches(write(&rest, &without(&scene, &gone)).await).await;
    for id in HOUSES.map(house).into_iter().filter(|id| *id != gone) {
        let seen = seen_by(&db.rows, &id).await;
        assert_eq!(seen, seen_by(&less.rows, &id).await);
        assert_eq!(seen.contains("{"), scene.world.house(&id).is_some(), "{seen}");
    }
    assert!(!seen_by(&less.rows, &gone).await.contains('{'));
    db.rows.close().await;
    less.rows.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn to_a_stranger_a_house_is_as_if_it_did_not_exist(draws in draws(1..600)) {
        strangers_change_nothing(&draws);
    }
}

#[test]
fn the_rows_of_a_house_do_not_depend_on_another() {
    on_drawn(12, draws(300..1_000), async |draws| rows_show_nothing_of_another_house(&draws).await);
}
