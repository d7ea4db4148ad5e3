//! What a thread stands in: its house, its recipe, its model.

use std::collections::BTreeMap;

use commands::ports::Recipe;
use commands::{CommandError, Thread, World};
use events::{AgentId, EnvironmentId, ThreadId};

use crate::desk::turn_id;
use crate::dispatcher::{Inner, Later};
use crate::model::{ModelConfig, Rules};
use crate::sayable::sayable;
use crate::trigger;

/// Final: said on the thread, and tried again by nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Trouble {
    pub(crate) class: &'static str,
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn new(class: &'static str, message: impl ToString) -> Self {
        Self { class, message: sayable(&message.to_string()) }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Halt {
    #[error(transparent)]
    Final(#[from] Trouble),
    #[error(transparent)]
    Later(#[from] Later),
}

impl From<CommandError> for Halt {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Rejected(rejection) => Trouble::new(rejection.code(), rejection).into(),
            CommandError::IdempotencyKeyReused => Trouble::new("idempotency_key_reused", error).into(),
            CommandError::Conflict | CommandError::Unavailable(_) | CommandError::Unknown(_) | CommandError::Stopped(_) => {
                Self::Later(error.into())
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) thread: Thread,
    pub(crate) environment: Option<EnvironmentId>,
    pub(crate) recipe: Recipe,
}

/// The recipe of the thread's machine if it has one, else its own environment's, else the house's.
fn environment(world: &World, thread: &Thread) -> Option<EnvironmentId> {
    let machine = thread.sandbox_id.as_ref().and_then(|id| world.sandbox(id)).map(|sandbox| sandbox.environment_id.clone());
    let own = || thread.environment_id.clone();
    let of_house = || world.house(&thread.house_id).and_then(|house| house.default_environment_id.clone());
    machine.or_else(own).or_else(of_house)
}

fn recipe(world: &World, environment: Option<&EnvironmentId>) -> Result<Recipe, Trouble> {
    let Some(environment) = environment.and_then(|id| world.environment(id)) else { return Ok(Recipe::default()) };
    let read = serde_json::from_str(environment.config.get());
    read.map_err(|error| Trouble::new("bad_recipe", format_args!("the environment {}: {error}", environment.name)))
}

/// Where a machine for the thread is made, if its recipe says so.
pub(crate) fn wanted_provider(world: &World, thread: &Thread) -> Result<Option<String>, Trouble> {
    recipe(world, environment(world, thread).as_ref()).map(|recipe| recipe.runtime)
}

impl Inner {
    pub(crate) fn surroundings(&self, id: &ThreadId) -> Result<Surroundings, Trouble> {
        self.outside.commands.with_world(|world| {
            let thread = world.thread(id).ok_or_else(|| Trouble::new("not_found", "no such thread"))?.clone();
            let environment = environment(world, &thread);
            let recipe = recipe(world, environment.as_ref())?;
            Ok(Surroundings { thread, environment, recipe })
        })
    }

    /// `None`: neither the environment nor the server names one.
    pub(crate) fn model(&self, recipe: &Recipe) -> Result<Option<ModelConfig>, Trouble> {
        let named = recipe.model.as_ref().or(self.options.model.as_ref());
        let bad = |error| Trouble::new("bad_recipe", format_args!("the model's configuration: {error}"));
        named.map(|config| ModelConfig::parse(config).map_err(bad)).transpose()
    }

    pub(crate) fn name_of(&self, agent: AgentId) -> String {
        let name = self.outside.commands.with_world(|world| world.agent(agent).and_then(|agent| agent.name.clone()));
        name.unwrap_or_else(|| agent.to_string())
    }

    /// Looks at what was said in chats, and puts those who are to answer on the desk.
    pub(crate) fn hear(&self) {
        let unheard = self.desk.lock().unheard();
        for (id, said) in unheard {
            let Some(bots) = self.answering(&id, &said) else { continue };
            self.desk.lock().heard(&id, &said.id, &bots);
        }
        self.hear_late();
    }

    /// In each thread each bot that was spoken to while nobody was there says so once, to the last such words.
    fn hear_late(&self) {
        let (late, over) = self.desk.lock().take_late();
        let mut last = BTreeMap::new();
        for (id, said) in late {
            for bot in self.answering(&id, &said).unwrap_or_default() {
                let turn = turn_id(&id, &said.id, bot);
                if !over.contains(&turn) {
                    last.insert((id.clone(), bot), (turn, said.clone()));
                }
            }
        }
        for ((id, bot), (turn, said)) in last {
            self.desk.lock().too_late(&id, turn, bot, said);
        }
    }

    /// A recipe that cannot be read asks nobody but those who are named; their answer says what is wrong.
    fn answering(&self, id: &ThreadId, said: &crate::desk::Said) -> Option<Vec<AgentId>> {
        let surroundings = self.surroundings(id);
        let rules = surroundings.ok().and_then(|it| self.model(&it.recipe).ok()).flatten();
        let desk = self.desk.lock();
        let room = desk.room(id)?;
        self.outside.commands.with_world(|world| {
            let thread = world.thread(id)?;
            Some(trigger::answering(world, thread, room, said, &Rules(rules), &self.options.manners))
        })
    }
}
