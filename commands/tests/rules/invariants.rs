//! Every CHECK, foreign key and unique of the rows, checked on the world without a look at how it came about.

use std::collections::BTreeSet;

use commands::World;
use events::{AgentKind, Role, ThreadStatus};

pub fn check(world: &World) {
    agents(world);
    houses(world);
    environments_and_secrets(world);
    sandboxes(world);
    threads(world);
    lookups(world);
}

fn agents(world: &World) {
    for (id, agent) in world.agents() {
        assert!(agent.kind == AgentKind::Bot || agent.runtime.is_none(), "human {id} has a runtime");
        assert!(agent.kind != AgentKind::Bot || agent.runtime.is_some(), "bot {id} has no runtime");
    }
    let hashes: Vec<_> = world.agents().flat_map(|(_, agent)| agent.keys.values().map(|key| &key.hash)).collect();
    assert_eq!(hashes.len(), hashes.iter().collect::<BTreeSet<_>>().len(), "a key is used twice");
}

fn houses(world: &World) {
    for (id, house) in world.houses() {
        assert!(house.members.keys().all(|agent| world.agent(*agent).is_some()), "house {id} has an unknown member");
        assert!(house.members.values().any(|role| *role == Role::Owner), "house {id} has no owner");
        if let Some(environment) = &house.default_environment_id {
            let environment = world.environment(environment).unwrap();
            assert_eq!(environment.house_id, *id, "the default environment of another house");
        }
    }
}

fn environments_and_secrets(world: &World) {
    for (_, environment) in world.environments() {
        assert!(world.house(&environment.house_id).is_some());
    }
    let mut names = BTreeSet::new();
    for (_, secret) in world.secrets() {
        assert!(world.house(&secret.house_id).is_some());
        assert!(names.insert((&secret.house_id, &secret.name)), "two secrets {} in one house", secret.name);
    }
}

fn sandboxes(world: &World) {
    for (id, sandbox) in world.sandboxes() {
        let environment = world.environment(&sandbox.environment_id);
        let environment = environment.unwrap_or_else(|| panic!("the environment of sandbox {id} is gone"));
        assert_eq!(environment.house_id, sandbox.house_id, "sandbox {id} is from another house's environment");
    }
}

fn threads(world: &World) {
    for (id, thread) in world.threads() {
        let house = world.house(&thread.house_id).unwrap();
        assert!(thread.parent_thread_id.is_none() || thread.parent_agent_id.is_none(), "thread {id} has two parents");
        if let Some(parent) = &thread.parent_thread_id {
            assert_eq!(world.thread(parent).unwrap().house_id, thread.house_id, "the parent of {id} is elsewhere");
        }
        assert!(thread.parent_agent_id.is_none_or(|agent| world.agent(agent).is_some()));
        if let Some(environment) = &thread.environment_id {
            let environment = world.environment(environment).unwrap_or_else(|| panic!("the environment of {id} is gone"));
            assert_eq!(environment.house_id, thread.house_id, "the environment of {id} is elsewhere");
        }
        if let Some(sandbox) = &thread.sandbox_id {
            assert_eq!(world.sandbox(sandbox).unwrap().house_id, thread.house_id, "the sandbox of {id} is elsewhere");
        }
        assert!(thread.agent_id.is_none_or(|bot| house.members.contains_key(&bot)), "the driver of {id} is no member");
        let allowed: &[ThreadStatus] = match thread.agent_id {
            None => &[ThreadStatus::Open, ThreadStatus::Closed],
            Some(_) => &[
                ThreadStatus::Idle,
                ThreadStatus::Running,
                ThreadStatus::Completed,
                ThreadStatus::Failed,
                ThreadStatus::Cancelled,
            ],
        };
        assert!(allowed.contains(&thread.status), "thread {id} is {}", thread.status);
        assert!(thread.tags.is_sorted_by(|a, b| a < b), "the tags of {id} are no set");
    }
}

/// The lookups say what a scan of everything says.
fn lookups(world: &World) {
    for (id, _) in world.sandboxes() {
        let scanned: Vec<_> = world.threads().filter(|(_, t)| t.sandbox_id.as_ref() == Some(id)).map(|(id, _)| id).collect();
        assert_eq!(world.threads_on(id).collect::<Vec<_>>(), scanned);
    }
    for (id, _) in world.environments() {
        let of_thread = world.threads().any(|(_, thread)| thread.environment_id.as_ref() == Some(id));
        let of_sandbox = world.sandboxes().any(|(_, sandbox)| sandbox.environment_id == *id);
        assert_eq!(world.environment_is_referred_to(id), of_thread || of_sandbox);
    }
    for (agent, _) in world.agents() {
        let scanned: Vec<_> = world.houses().filter(|(_, h)| h.members.contains_key(agent)).map(|(id, _)| id).collect();
        assert_eq!(world.houses_of(*agent).collect::<Vec<_>>(), scanned);
        for (house, _) in world.houses() {
            let driven = |t: &commands::Thread| t.house_id == *house && t.agent_id == Some(*agent);
            let scanned: Vec<_> = world.threads().filter(|(_, thread)| driven(thread)).map(|(id, _)| id).collect();
            assert_eq!(world.driven_by(house, *agent).collect::<Vec<_>>(), scanned);
        }
    }
    for (id, secret) in world.secrets() {
        assert_eq!(world.secret_named(&secret.house_id, &secret.name), Some(id));
    }
}
