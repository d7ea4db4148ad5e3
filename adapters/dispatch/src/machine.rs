//! A thread's machine: live is used, resumable is woken, dead is resumed together with all that share it, none is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use commands::command::{MarkSandboxDead, MarkSandboxLive, RequestSandbox, ResumeSandbox};
use commands::ports::{MachineError, Machines, Plain, RUNTIMES, Recipe, VaultError, Verdict, Wanted};
use commands::secrets::{self, ResolveError, Resolved, Scope};
use commands::{Actor, CommandError, Rejection, Sandbox, SandboxStatus, World};
use events::dispatch::Warned;
use events::{SandboxId, ThreadId};

use crate::dispatcher::{Inner, Later};
use crate::ports::Tree;
use crate::sayable::sayable;
use crate::surroundings::{Halt, Surroundings, Trouble};

/// Looks at the control plane until it shows a machine that lives.
const LOOKS: u32 = 8;

/// A machine that answered just now.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) machines: Arc<dyn Machines>,
    pub(crate) sandbox: SandboxId,
    pub(crate) provider_ref: String,
    pub(crate) surroundings: Surroundings,
    pub(crate) secrets: Resolved,
}

impl Inner {
    pub(crate) fn provider(&self, name: &str) -> Result<Arc<dyn Machines>, Trouble> {
        self.outside.machines.get(name).cloned().ok_or_else(|| no_provider(name))
    }

    /// A machine is of an environment, and gets what that binds.
    async fn secrets(&self, at: &Surroundings) -> Result<Resolved, Halt> {
        let environment = at.environment.clone().ok_or_else(|| CommandError::from(Rejection::NoEnvironment))?;
        let scope = Scope::Environment(environment);
        let resolved = secrets::resolve(&*self.outside.vault, &self.outside.commands, &at.thread.house_id, &scope).await;
        resolved.map_err(|error| match error {
            ResolveError::Missing(_) => Trouble::new("secret_missing", error).into(),
            ResolveError::NotFound(_) => Trouble::new("environment_not_found", error).into(),
            ResolveError::Value { source: VaultError::Unavailable(_), .. } => Later::of(error).into(),
            ResolveError::Value { .. } => Trouble::new("secret_unreadable", error).into(),
            ResolveError::Stopped(stopped) => Halt::Later(CommandError::from(stopped).into()),
        })
    }

    pub(crate) async fn ready(&self, thread: &ThreadId) -> Result<Ready, Halt> {
        for _ in 0..LOOKS {
            // The desk too: it alone knows which sandbox this one stands for, and so whose tree it begins with.
            self.caught_up().await?;
            let at = self.surroundings(thread)?;
            let secrets = self.secrets(&at).await?;
            let Some(id) = at.thread.sandbox_id.clone() else {
                self.request(thread, &at).await?;
                continue;
            };
            let making = self.making.lock().entry(id.clone()).or_default().clone();
            let _alone = making.lock().await;
            let Some(sandbox) = self.outside.commands.with_world(|world| world.sandbox(&id).cloned()) else { continue };
            let machines = self.provider(&sandbox.provider)?;
            if self.is_elsewhere(&sandbox) {
                return Err(Trouble::new(
                    "other_host",
                    "the thread's machine was not made by this server: it is another server's, or somebody's own",
                )
                .into());
            }
            match (sandbox.status, &sandbox.provider_ref) {
                // What runs on it fails when it is gone, and then its tree is kept as well as it can be.
                (SandboxStatus::Dead, _) if self.leaving(&sandbox).is_some() => {
                    return Err(Later::of("the thread's machine is being destroyed, as a member asked").into());
                }
                (SandboxStatus::Dead, _) => {
                    // Whoever found it dead may not have come to that: with the threads their runs would be looked for elsewhere.
                    self.fail_all_on(&id, "it was marked dead").await?;
                    self.resume(&id).await?;
                }
                (SandboxStatus::Live, Some(provider_ref)) => {
                    if self.lives(&*machines, &id, provider_ref).await? {
                        let provider_ref = provider_ref.clone();
                        return Ok(Ready { machines, sandbox: id, provider_ref, surroundings: at, secrets });
                    }
                }
                (SandboxStatus::Pending | SandboxStatus::Live, _) => {
                    self.make(&*machines, &id, &sandbox, &at, &secrets.values).await?;
                }
            }
        }
        Err(Later::of("the thread's machine keeps changing").into())
    }

    /// The pointer is set in the same commit, so that of two who ask one makes a machine.
    async fn request(&self, thread: &ThreadId, at: &Surroundings) -> Result<(), Halt> {
        let provider = at.recipe.runtime.clone().unwrap_or_else(|| self.options.provider.clone());
        self.provider(&provider)?;
        let (house_id, thread_id) = (at.thread.house_id.clone(), Some(thread.clone()));
        let request = RequestSandbox { house_id, sandbox_id: None, thread_id, environment_id: None, provider };
        match self.outside.commands.execute(Actor::System, request, None).await {
            Ok(_) | Err(CommandError::Rejected(Rejection::HasSandbox | Rejection::SandboxDead)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn resume(&self, dead: &SandboxId) -> Result<(), Halt> {
        let resume = ResumeSandbox { sandbox_id: dead.clone(), new_sandbox_id: None, provider: None };
        match self.outside.commands.execute(Actor::System, resume, Some(&format!("{dead}:resume"))).await {
            Ok(_) | Err(CommandError::Rejected(Rejection::SandboxNotDead | Rejection::NothingToResume)) => Ok(()),
            // Those that came upon it after it was resumed once.
            Err(CommandError::IdempotencyKeyReused) => Err(Later::of("the sandbox was resumed otherwise").into()),
            Err(error) => Err(error.into()),
        }
    }

    /// `false`: it is dead, and the log says so now.
    async fn lives(&self, machines: &dyn Machines, id: &SandboxId, provider_ref: &str) -> Result<bool, Halt> {
        match machines.probe(provider_ref).await {
            Verdict::Live => Ok(true),
            Verdict::Resumable => match machines.wake(provider_ref).await {
                Ok(()) => Ok(true),
                Err(error) => Err(Later::of(error).into()),
            },
            Verdict::Dead { why } => {
                self.machine_died(id, &why).await?;
                Ok(false)
            }
            Verdict::Unknown { why } => Err(Later::of(format_args!("the machine does not answer: {why}")).into()),
        }
    }

    pub(crate) async fn bury(&self, id: &SandboxId, why: &str) -> Result<(), Later> {
        let reason = Some(sayable(why));
        self.settle(MarkSandboxDead { sandbox_id: id.clone(), reason }, &format!("{id}:dead")).await
    }

    async fn make(
        &self,
        machines: &dyn Machines,
        id: &SandboxId,
        sandbox: &Sandbox,
        at: &Surroundings,
        secrets: &BTreeMap<String, Plain>,
    ) -> Result<(), Halt> {
        let former = self.former_tree(id, sandbox).await?;
        let (relays, egress) = self.ways_out(&sandbox.provider, &at.recipe)?;
        let wanted = Wanted {
            house: sandbox.house_id.clone(),
            sandbox: id.clone(),
            environment: sandbox.environment_id.clone(),
            thread: self.outside.commands.with_world(|world| world.threads_on(id).next().cloned()),
            recipe: Recipe { egress, ..at.recipe.clone() },
            relays,
            tree: former.as_ref().and_then(|former| former.tree.as_ref()).map(|tree| tree.bytes.clone()),
            secrets: secrets.clone(),
        };
        let created = match machines.create(&wanted).await {
            Ok(created) => created,
            Err(error @ (MachineError::Setup(_) | MachineError::Refused(_) | MachineError::Gone(_))) => {
                self.bury(id, &error.to_string()).await?;
                return Err(Trouble::new("sandbox_setup", error).into());
            }
            Err(error @ (MachineError::Unavailable(_) | MachineError::Unknown(_))) => return Err(Later::of(error).into()),
        };
        if let Some(former) = former {
            self.say_what_was_lost(id, sandbox, former).await?;
        }
        self.say_what_is_closed(id, &sandbox.provider, &at.recipe).await?;
        let live = MarkSandboxLive { sandbox_id: id.clone(), provider_ref: created.provider_ref.clone() };
        self.settle(live, &format!("{id}:live")).await?;
        self.take_back(machines, id, &created.provider_ref).await
    }

    /// A machine whose sandbox was given up while it was made would stand there for nobody.
    async fn take_back(&self, machines: &dyn Machines, id: &SandboxId, provider_ref: &str) -> Result<(), Halt> {
        let unwanted = |it: &Sandbox| it.status == SandboxStatus::Dead && it.machine().is_none();
        if self.outside.commands.with_world(|world| world.sandbox(id).is_some_and(unwanted)) {
            machines.destroy(provider_ref).await.map_err(Later::of)?;
        }
        Ok(())
    }

    /// `None` for a sandbox that stands for no other that was made. One that died before its machine was made has nothing to hand on but
    /// what it was to be given itself.
    async fn former_tree(&self, id: &SandboxId, sandbox: &Sandbox) -> Result<Option<Former>, Halt> {
        let mut at = id.clone();
        loop {
            let from = self.desk.lock().came_from(&at).cloned();
            let Some(from) = from else { return Ok(None) };
            let tree = self.outside.trees.last(&sandbox.house_id, &from).await.map_err(Later::of)?;
            let was_made = |world: &World| world.sandbox(&from).is_some_and(|it| it.provider_ref.is_some());
            let was_made = self.outside.commands.with_world(was_made);
            if tree.is_some() || was_made {
                return Ok(Some(Former { from, tree }));
            }
            at = from;
        }
    }

    async fn say_what_was_lost(&self, id: &SandboxId, sandbox: &Sandbox, former: Former) -> Result<(), Later> {
        let (warning, message) = match &former.tree {
            Some(tree) => {
                let ago = self.now().saturating_sub(tree.taken_ms) / 1_000;
                let message = format!(
                    "the working tree of {} was restored as it was {ago} seconds before; what changed in it since is lost",
                    former.from
                );
                ("tree_restored", message)
            }
            None => {
                let message = format!(
                    "no working tree of {} had been kept; this one was made anew and what was in it is lost",
                    former.from
                );
                ("tree_lost", message)
            }
        };
        if let Some(tree) = former.tree {
            let again = Tree { taken_ms: tree.taken_ms, bytes: tree.bytes };
            self.outside.trees.keep(&sandbox.house_id, id, again).await.map_err(Later::of)?;
        }
        self.warn_all_on(id, "tree", warning, &message).await
    }

    /// Every thread on a machine hears it, each once.
    pub(crate) async fn warn_all_on(&self, id: &SandboxId, what: &str, warning: &str, message: &str) -> Result<(), Later> {
        let threads: Vec<_> = self.outside.commands.with_world(|world| world.threads_on(id).cloned().collect());
        for thread in threads {
            let warned = Warned { run_id: None, warning: warning.to_owned(), message: message.to_owned() };
            self.tell(&thread, None, warned, &format!("{id}:{what}:{thread}")).await?;
        }
        Ok(())
    }
}

/// What to do about it is for whoever runs a server, or writes environments.
pub(crate) fn no_provider(name: &str) -> Trouble {
    let how = match name {
        "daytona" => "start one with `--daytona-token`, or let the environment name another `runtime`".to_owned(),
        "sprite" => "start one with `--sprites-token`, or let the environment name another `runtime`".to_owned(),
        "local" => "its log says why; or let the environment name another `runtime`".to_owned(),
        _ => format!("the runtimes that there are: {}", RUNTIMES.join(", ")),
    };
    Trouble::new("no_provider", format_args!("this server has no machines of {name}: {how}"))
}

/// The sandbox that a new one stands for, and what was kept of it.
struct Former {
    from: SandboxId,
    tree: Option<Tree>,
}
