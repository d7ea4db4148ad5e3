//! What distant machines have in common. A job is a file that is uploaded, read by a shell in the machine and deleted; what became of
//! a process is written down in the machine itself, so that any server can ask.

pub(crate) mod http;
pub(crate) mod script;
mod setup;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use commands::ports::{Execute, Exit, Launch, MachineError, OutputSink, ProcessState, Recipe};
use commands::secrets::is_reserved;
use events::dispatch::OutputStream;

pub(crate) use self::script::{Hold, Layout};
pub(crate) use self::setup::set_up;
use crate::local::redact::Redactor;

const HIGHEST_SIGNAL: i32 = 64;
const PATIENCE: Duration = Duration::from_secs(30);
/// Packing and unpacking of a working tree.
const PATIENCE_WITH_TREES: Duration = Duration::from_secs(600);
/// What was begun and not heard of may take a moment to be seen.
const LOOKS: u32 = 5;
const A_MOMENT: Duration = Duration::from_millis(200);
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
pub(crate) const PRIVATE: &str = "600";
const COMPRESSION: i32 = 3;

/// How a script of ours ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) printed: String,
}

/// The few things that a provider must be able to do for all of this.
#[async_trait]
pub(crate) trait Reach: Clone + Send + Sync + 'static {
    async fn layout(&self, machine: &str) -> Result<Layout, MachineError>;

    /// A short script that holds no secret.
    async fn run(&self, machine: &str, script: &str, patience: Duration) -> Result<Ran, MachineError>;

    /// `mode` as `chmod` takes it, with three digits.
    async fn put(&self, machine: &str, path: &str, mode: &str, contents: Bytes) -> Result<(), MachineError>;

    async fn get(&self, machine: &str, path: &str, largest: usize) -> Result<Bytes, MachineError>;

    /// Runs an uploaded script to its end.
    async fn follow(&self, machine: &str, id: &str, file: &str, output: OutputSink<'_>) -> Result<i32, MachineError>;

    /// What `follow` left with the provider.
    async fn tidy(&self, machine: &str, id: &str) -> Result<(), MachineError>;
}

/// Whether a command ended, took too long or is not waited for any more: nothing that it began goes on.
struct Followed<R: Reach> {
    reach: R,
    machine: String,
    id: String,
}

impl<R: Reach> Drop for Followed<R> {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (reach, machine, id) = (self.reach.clone(), std::mem::take(&mut self.machine), std::mem::take(&mut self.id));
        runtime.spawn(async move {
            let ended = async {
                let layout = reach.layout(&machine).await?;
                reach.run(&machine, &script::end(&layout, &id, Duration::ZERO)?, PATIENCE).await?;
                reach.tidy(&machine, &id).await
            };
            if let Err(error) = ended.await {
                tracing::warn!(machine, job = id, %error, "something of a command may be left in a machine");
            }
        });
    }
}

/// Chance, for names that must not coincide.
#[expect(clippy::disallowed_methods, reason = "the home of chance in this crate")]
pub(crate) fn unique() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system has entropy");
    format!("x{:016x}", u64::from_le_bytes(bytes))
}

/// Those of a recipe, but for the names that are not a recipe's to give.
pub(crate) fn variables(recipe: &Recipe) -> BTreeMap<String, String> {
    recipe.env.clone().into_iter().filter(|(name, _)| !is_reserved(name)).collect()
}

/// A shell tells of a signal by a code above 128, and so do we read it.
pub(crate) fn exit(code: i32) -> Exit {
    let signal = code - 128;
    if (1..=HIGHEST_SIGNAL).contains(&signal) { Exit::Signal(signal) } else { Exit::Code(code) }
}

pub(crate) async fn execute(
    reach: &impl Reach,
    machine: &str,
    execute: &Execute,
    output: OutputSink<'_>,
) -> Result<Exit, MachineError> {
    execute_as(reach, machine, &unique(), execute, output).await
}

async fn execute_as(
    reach: &impl Reach,
    machine: &str,
    id: &str,
    execute: &Execute,
    output: OutputSink<'_>,
) -> Result<Exit, MachineError> {
    let layout = reach.layout(machine).await?;
    let script = script::inline(&layout, id, execute)?;
    let file = layout.inbox(id);
    upload(reach, machine, &file, &script).await?;
    let _followed = Followed { reach: reach.clone(), machine: machine.to_owned(), id: id.to_owned() };
    let mut redacted = Redacted::new(execute, output);
    let mut pass = |stream, bytes: &[u8]| redacted.pass(stream, bytes);
    let ended = tokio::time::timeout(execute.timeout, reach.follow(machine, id, &file, &mut pass)).await;
    redacted.finish();
    match ended {
        Ok(Ok(code)) => Ok(exit(code)),
        Ok(Err(error)) => {
            discard(reach, machine, &file).await;
            Err(error)
        }
        Err(_) => {
            let ended = reach.run(machine, &script::end(&layout, id, Duration::ZERO)?, PATIENCE).await?;
            if ended.code == 0 {
                Ok(Exit::TimedOut)
            } else {
                Err(MachineError::Unknown("it could not be ended in time".to_owned()))
            }
        }
    }
}

/// Output on its way, without values of secrets.
struct Redacted<'a> {
    stdout: Redactor,
    stderr: Redactor,
    output: OutputSink<'a>,
}

impl<'a> Redacted<'a> {
    fn new(execute: &Execute, output: OutputSink<'a>) -> Self {
        Self { stdout: Redactor::new(&execute.secrets), stderr: Redactor::new(&execute.secrets), output }
    }

    fn pass(&mut self, stream: OutputStream, bytes: &[u8]) {
        let Self { stdout, stderr, output } = self;
        let redactor = match stream {
            OutputStream::Stdout => stdout,
            OutputStream::Stderr => stderr,
        };
        redactor.push(bytes, &mut |bytes| output(stream, bytes));
    }

    fn finish(&mut self) {
        let Self { stdout, stderr, output } = self;
        stdout.finish(&mut |bytes| output(OutputStream::Stdout, bytes));
        stderr.finish(&mut |bytes| output(OutputStream::Stderr, bytes));
    }
}

/// Uploads what begins a process; the caller runs the words that it gets.
pub(crate) async fn prepare_launch(
    reach: &impl Reach,
    machine: &str,
    launch: &Launch,
    hold: Option<&Hold>,
) -> Result<(Vec<String>, String), MachineError> {
    let layout = reach.layout(machine).await?;
    let script = script::detached(&layout, launch, hold)?;
    let file = layout.inbox(&unique());
    let words = script::claim(&layout, &launch.name, &file)?;
    upload(reach, machine, &file, &script).await?;
    Ok((words, file))
}

/// A copy of the script goes into the body of a request, which cannot be wiped.
async fn upload(reach: &impl Reach, machine: &str, file: &str, script: &script::Script) -> Result<(), MachineError> {
    let uploaded = reach.put(machine, file, PRIVATE, Bytes::copy_from_slice(script)).await;
    if matches!(uploaded, Err(MachineError::Unknown(_))) {
        discard(reach, machine, file).await;
    }
    uploaded
}

/// A script that did not run still holds its secrets. What a file was being compressed into goes with it.
pub(crate) async fn discard(reach: &impl Reach, machine: &str, file: &str) {
    if let Err(error) = reach.run(machine, &format!("rm -f -- {0} {0}.zst", script::quote(file)), PATIENCE).await {
        tracing::warn!(machine, %error, "a script may be left in a machine");
    }
}

pub(crate) fn taken(name: &str) -> MachineError {
    MachineError::Refused(format!("there is a process {name:?} already"))
}

/// What a machine knows of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Running,
    Exited(i32),
    /// It was begun, and nobody saw how it ended.
    Lost,
    Never,
}

async fn known(reach: &impl Reach, machine: &str, name: &str) -> Result<Known, MachineError> {
    let layout = reach.layout(machine).await?;
    let ran = reach.run(machine, &script::state(&layout, name)?, PATIENCE).await?;
    let mut words = ran.printed.split_whitespace();
    match (words.next(), words.next().map(str::parse)) {
        (Some("running"), None) => Ok(Known::Running),
        (Some("lost"), None) => Ok(Known::Lost),
        (Some("absent"), None) => Ok(Known::Never),
        (Some("exited"), Some(Ok(code))) => Ok(Known::Exited(code)),
        (_, _) => Err(MachineError::Unavailable("the machine's answer is not understood".to_owned())),
    }
}

pub(crate) async fn process(reach: &impl Reach, machine: &str, name: &str) -> Result<ProcessState, MachineError> {
    Ok(match known(reach, machine, name).await? {
        Known::Running => ProcessState::Running,
        Known::Exited(code) => ProcessState::Exited(exit(code)),
        Known::Lost | Known::Never => ProcessState::Absent,
    })
}

/// Of one whose provider was told to begin it: it may not have come to that yet.
pub(crate) async fn process_of_accepted(reach: &impl Reach, machine: &str, name: &str) -> Result<ProcessState, MachineError> {
    Ok(match known(reach, machine, name).await? {
        Known::Running | Known::Never => ProcessState::Running,
        Known::Exited(code) => ProcessState::Exited(exit(code)),
        Known::Lost => ProcessState::Absent,
    })
}

/// A name is used once, also after its process was lost.
pub(crate) async fn require_free(reach: &impl Reach, machine: &str, name: &str) -> Result<(), MachineError> {
    match known(reach, machine, name).await? {
        Known::Never => Ok(()),
        Known::Running | Known::Exited(_) | Known::Lost => Err(taken(name)),
    }
}

/// After a lost answer: whether the process was begun. If not, its script is taken away.
pub(crate) async fn begun_after_all(
    reach: &impl Reach,
    machine: &str,
    name: &str,
    file: &str,
    error: MachineError,
) -> Result<(), MachineError> {
    let looks = if matches!(error, MachineError::Unknown(_)) { LOOKS } else { 0 };
    for _ in 0..looks {
        match known(reach, machine, name).await {
            Ok(Known::Running | Known::Exited(_)) => return Ok(()),
            Ok(Known::Lost) | Err(_) => break,
            Ok(Known::Never) => tokio::time::sleep(A_MOMENT).await,
        }
    }
    discard(reach, machine, file).await;
    Err(error)
}

pub(crate) async fn tree(reach: &impl Reach, machine: &str) -> Result<String, MachineError> {
    Ok(reach.layout(machine).await?.tree())
}

/// What is beside the working tree is private and can be run; what is in it is as other files are.
pub(crate) async fn write(reach: &impl Reach, machine: &str, path: &str, contents: Bytes) -> Result<(), MachineError> {
    let layout = reach.layout(machine).await?;
    let path = layout.path(path)?;
    let mode = if path.starts_with(&format!("{}/", layout.tree())) { "644" } else { "700" };
    reach.put(machine, &path, mode, contents).await
}

pub(crate) async fn read(reach: &impl Reach, machine: &str, path: &str, largest: usize) -> Result<Bytes, MachineError> {
    let path = reach.layout(machine).await?.path(path)?;
    reach.get(machine, &path, largest).await
}

/// Whoever works in a machine can delete what is written down there, so everything that bears the name ends, whatever is known of it.
pub(crate) async fn stop(reach: &impl Reach, machine: &str, name: &str, patience: Duration) -> Result<(), MachineError> {
    let known = known(reach, machine, name).await?;
    let layout = reach.layout(machine).await?;
    let ran = reach.run(machine, &script::end(&layout, name, patience)?, patience + PATIENCE).await?;
    match (ran.code, known) {
        (0, Known::Never) => Err(MachineError::Gone(format!("no process {name:?}"))),
        (0, Known::Running | Known::Exited(_) | Known::Lost) => Ok(()),
        (_, _) => Err(MachineError::Unknown(format!("{name:?} could not be ended"))),
    }
}

pub(crate) async fn snapshot(reach: &impl Reach, machine: &str, largest: usize) -> Result<Bytes, MachineError> {
    let layout = reach.layout(machine).await?;
    let file = layout.inbox(&unique());
    let packed = async {
        let ran = reach.run(machine, &script::pack(&layout, &file), PATIENCE_WITH_TREES).await?;
        if ran.code != 0 {
            return Err(MachineError::Unavailable(format!("the working tree cannot be packed: {}", ran.code)));
        }
        let fits = ran.printed.trim().parse::<usize>().is_ok_and(|size| size <= largest);
        if fits { reach.get(machine, &file, largest).await } else { Err(too_large(largest)) }
    };
    let packed = packed.await;
    discard(reach, machine, &file).await;
    let packed = packed?;
    if packed.starts_with(&ZSTD_MAGIC) {
        return Ok(packed);
    }
    let compress = tokio::task::spawn_blocking(move || zstd::encode_all(&packed[..], COMPRESSION));
    let compressed = compress.await.map_err(|error| MachineError::Unavailable(error.to_string()))?;
    compressed.map(Bytes::from).map_err(|error| MachineError::Unavailable(error.to_string()))
}

fn too_large(largest: usize) -> MachineError {
    MachineError::Refused(format!("the working tree is larger than {largest} bytes"))
}
