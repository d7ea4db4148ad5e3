//! One run, from its variables to its last word on the thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::desk::{self, Desk, Stop};
use crate::drive::{Drive, Driven};
use crate::heard;
use crate::last::{LastWords, leave};
use crate::outcome::{Evidence, Exit, Mirrored, Outcome, class, decide_outcome, not_installed};
use crate::permissions::{Answers, Permissions};
use crate::pi::Pi;
use crate::prepare::{Prepared, prepare, start};
use crate::processes;
use crate::session::{self, Line};
use crate::settings::Settings;
use crate::thread::{Page, SayError, Thread, insist};
use crate::told::Told;

/// For the stream to be reached before anything is started.
const REACHING: Duration = Duration::from_secs(30);
/// After so much silence of the mirror the runner says that there is life.
const SILENCE: Duration = Duration::from_secs(6);
/// A quarter of a token's life.
const RENEWAL: Duration = Duration::from_secs(30 * 60);
const PAUSE: Duration = Duration::from_secs(2);

/// How it went, and whether the thread knows.
#[derive(Debug)]
pub struct Report {
    pub outcome: Outcome,
    /// Why it could not be said, if so. Whoever asks for the process has to say it then.
    pub unsaid: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Nothing was started.
    #[error("{0}")]
    Stream(#[source] SayError),
    #[error("signals cannot be heard: {0}")]
    Signals(#[source] io::Error),
    /// Another runner has it, or had it.
    #[error("the run was begun before")]
    Begun,
}

pub async fn run(settings: Settings) -> Result<Report, RunError> {
    processes::adopt_orphans();
    let (stop, stopped) = mpsc::channel(4);
    // From here on nobody ends the runner but itself.
    let signals = signals(stop.clone()).map_err(RunError::Signals)?;
    let thread =
        Thread::new(&settings.stream, settings.thread.clone(), settings.run.clone(), settings.token.clone(), &settings.secrets);
    let mut told = Told::default();
    let page = reach(&thread, &settings, &mut told).await.map_err(RunError::Stream)?;
    if told.started || told.ended {
        return Err(RunError::Begun);
    }
    let (pulse, beats) = watch::channel(Instant::now());
    let (answers, answered) = watch::channel(Answers::default());
    let tasks = [
        tokio::spawn(tail(thread.clone(), settings.run.clone(), page, stop.clone(), answers)),
        tokio::spawn(beat(thread.clone(), beats, pulse.clone())),
        tokio::spawn(renew(thread.clone())),
        signals,
    ];
    let permissions = Permissions::new(settings.run.clone(), answered);
    let desk = Arc::new(Desk { thread: thread.clone(), pulse, mirror: watch::Sender::new(None), stop, permissions });
    let mut last = LastWords::new(stopped);
    let outcome = if told.cancelled { Outcome::Cancelled } else { work(&settings, desk, &mut told, &mut last).await };
    // Whoever looks into the machine before the thread knows, knows it from here.
    leave(&settings, &outcome, Some("it has not been told yet"));
    let unsaid = match last.insist(|| thread.finish(&outcome)).await {
        // Said before, or settled by somebody who knew more.
        Ok(()) | Err(SayError::Settled { .. }) => None,
        Err(error @ (SayError::Unreachable(_) | SayError::Refused { .. })) => Some(error.to_string()),
    };
    tasks.into_iter().for_each(|task| task.abort());
    leave(&settings, &outcome, unsaid.as_deref());
    Ok(Report { outcome, unsaid })
}

async fn work(settings: &Settings, desk: Arc<Desk>, told: &mut Told, last: &mut LastWords) -> Outcome {
    let failed = |class, message| Outcome::Failed { class, message, exit_code: None };
    let prepared = match prepare(settings, told) {
        Ok(prepared) => prepared,
        Err(error) => return failed(error.class(), error.to_string()),
    };
    let socket = desk::socket(&settings.sessions, settings.run.as_str());
    if let Err(error) = desk::open(desk.clone(), &socket) {
        return failed(class::START, format!("{} cannot be opened: {error}", socket.display()));
    }
    let how = start(settings, &prepared, &socket);
    let program = how.program.display().to_string();
    let driven = match Pi::start(how) {
        Ok(pi) => drive(settings, &desk, &prepared, pi, last.stops()).await,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return failed(class::START, not_installed(&format!("there is no {program} in this machine")));
        }
        Err(error) => return failed(class::START, format!("the harness cannot be started: {program}: {error}")),
    };
    last.begin();
    processes::sweep().await;
    drop(std::fs::remove_file(&socket));
    desk.permissions.withdraw_all(&desk.thread).await;
    let mirrored = match written(&driven) {
        Ok(lines) => mend(settings, &desk.thread, told, &lines, in_order(&driven), last).await,
        Err(why) => Mirrored::Missing { entries: None, why },
    };
    outcome(driven, mirrored)
}

async fn drive(settings: &Settings, desk: &Desk, prepared: &Prepared, pi: Pi, stopped: &mut mpsc::Receiver<Stop>) -> Driven {
    let pid = pi.pid();
    let reaping = tokio::spawn(async move {
        loop {
            tokio::time::sleep(PAUSE).await;
            processes::reap(pid);
        }
    });
    let listening = tokio::spawn(heard::watch(desk.thread.clone(), settings.run.clone(), desk.mirror.subscribe()));
    let driven = Drive::new(pi, desk, settings, &prepared.prompt, prepared.messages).to_its_end(stopped).await;
    [reaping, listening].into_iter().for_each(|task| task.abort());
    driven
}

fn outcome(driven: Driven, mirrored: Mirrored) -> Outcome {
    let cancelled = driven.stopped.is_some();
    match driven.verdict {
        Some(verdict) if !cancelled => verdict,
        Some(_) | None => decide_outcome(&Evidence {
            spoke: driven.facts.spoke,
            prompt: driven.facts.prompt,
            end: driven.facts.end,
            exit: driven.exit,
            cancelled,
            timed_out: driven.timed_out,
            mirrored,
            last_words: driven.last_words,
        }),
    }
}

/// The whole thread, before anything is started.
async fn reach(thread: &Thread, settings: &Settings, told: &mut Told) -> Result<Page, SayError> {
    let mut offset = "-1".to_owned();
    loop {
        let page = insist(REACHING, || thread.read(&offset, None)).await?;
        page.entries.iter().for_each(|entry| told.note(&settings.run, entry));
        if page.up_to_date {
            return Ok(page);
        }
        offset.clone_from(&page.next);
    }
}

/// The same at the end, with all the time that there is for last words.
async fn catch_up(thread: &Thread, settings: &Settings, told: &mut Told, last: &mut LastWords) -> Result<(), SayError> {
    let mut offset = "-1".to_owned();
    loop {
        let page = last.insist(|| thread.read(&offset, None)).await?;
        page.entries.iter().for_each(|entry| told.note(&settings.run, entry));
        if page.up_to_date {
            return Ok(());
        }
        offset.clone_from(&page.next);
    }
}

/// The lines of pi's own file. One that came to no end may have written none; else they are the only witness of what was said.
fn written(driven: &Driven) -> Result<Vec<Line>, String> {
    let read = match &driven.file {
        Some(file) => std::fs::read(file).map_err(|error| format!("pi's own file cannot be read: {file}: {error}")),
        None => Err("pi did not say where its own file is".to_owned()),
    };
    let lines = read.map(|text| session::lines(&String::from_utf8_lossy(&text)));
    let lines = lines.and_then(|lines| if lines.is_empty() { Err("pi's own file is empty".to_owned()) } else { Ok(lines) });
    if driven.facts.end.is_some() { lines } else { Ok(lines.unwrap_or_default()) }
}

/// Its mirror had all the time that it takes.
fn in_order(driven: &Driven) -> bool {
    driven.facts.end.is_some() && driven.exit == Exit::Code(0)
}

/// What pi has in its file and the thread has not is posted here, in order.
async fn mend(
    settings: &Settings,
    thread: &Thread,
    told: &mut Told,
    lines: &[Line],
    in_order: bool,
    last: &mut LastWords,
) -> Mirrored {
    if lines.is_empty() {
        return Mirrored::Whole;
    }
    if let Err(error) = catch_up(thread, settings, told, last).await {
        let entries = lines.iter().filter(|line| !told.has(&line.id)).count();
        return Mirrored::Missing { entries: Some(entries), why: error.to_string() };
    }
    let missing: Vec<_> = lines.iter().filter(|line| !told.has(&line.id)).collect();
    let (mut lost, mut why) = (0, String::new());
    for (done, line) in missing.iter().enumerate() {
        match last.insist(|| thread.tell(line)).await {
            Ok(()) | Err(SayError::Settled { .. }) => {}
            Err(error @ SayError::Refused { .. }) => (lost, why) = (lost + 1, error.to_string()),
            Err(error @ SayError::Unreachable(_)) => {
                return Mirrored::Missing { entries: Some(lost + missing.len() - done), why: error.to_string() };
            }
        }
    }
    if lost > 0 {
        return Mirrored::Missing { entries: Some(lost), why };
    }
    if in_order && !missing.is_empty() {
        heard::mended(thread, settings.run.clone(), missing.len(), last).await;
    }
    Mirrored::Whole
}

/// Whoever can write to the thread can stop the run and allow what it asks for, without a way into the machine.
async fn tail(
    thread: Arc<Thread>,
    run: events::RunId,
    mut page: Page,
    stop: mpsc::Sender<Stop>,
    answers: watch::Sender<Answers>,
) {
    loop {
        match thread.read(&page.next, Some(&page)).await {
            Ok(next) => page = next,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        }
        let mut told = Told::default();
        page.entries.iter().for_each(|entry| told.note(&run, entry));
        answers.send_modify(|answers| page.entries.iter().for_each(|entry| answers.note(entry)));
        let why = match (told.ended, told.cancelled) {
            (true, _) => Stop::Over,
            (false, true) => Stop::Cancel,
            (false, false) => continue,
        };
        let _ = stop.send(why).await;
    }
}

async fn beat(thread: Arc<Thread>, beats: watch::Receiver<Instant>, pulse: watch::Sender<Instant>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let last = *beats.borrow();
        if last.elapsed() > SILENCE && thread.heartbeat().await.is_ok() {
            pulse.send_replace(Instant::now());
        }
    }
}

async fn renew(thread: Arc<Thread>) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        // There is time for more than one failure.
        drop(thread.renew().await);
    }
}

fn signals(stop: mpsc::Sender<Stop>) -> io::Result<JoinHandle<()>> {
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = interrupt.recv() => {}
            }
            let _ = stop.send(Stop::Cancel).await;
        }
    }))
}
