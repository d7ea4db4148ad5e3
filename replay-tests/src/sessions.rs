//! Many sessions at once, and one session again and again: `make sessions-scale`.
//!
//! `arbe` runs as a process of its own, on a home that is made up here and on directories that are named, and fails past the limits
//! below.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

mod client;
mod corpus;
mod get;
mod index;
mod process;
mod search;
pub(crate) mod words;

use process::{Measured, Sync};

use crate::servers::ArbeServer;

/// Messages a second, to a durable log.
const RATE: f64 = 20_000.0;
/// And to rows that can be queried.
const ROW_RATE: f64 = 10_000.0;
/// Of a run that finds nothing new.
const NO_OP_SECONDS: f64 = 1.0;
const PEAK_MIB: f64 = 600.0;
/// Of the log, for each byte of the source.
const ON_DISK: f64 = 1.0;
/// Of the datasets.
const DATASETS_ON_DISK: f64 = 1.5;
/// Of the index of words, for each byte of the texts that are searched.
const INDEX_ON_DISK: f64 = 0.35;
/// For each byte of the source, whatever was written and wherever.
const WRITTEN: f64 = 3.0;
const SMALL_MESSAGES: u64 = 4;
/// Of one message, from a server that is warm.
const GET_MS: f64 = 20.0;
/// Of a search, from a server that is warm: half of them, and all but one in twenty.
const KEYWORD_MS: [f64; 2] = [20.0, 60.0];
const HYBRID_MS: [f64; 2] = [60.0, 150.0];
/// Of a process that is started for one search.
const ALONE_MS: f64 = 400.0;
/// Of the questions in words of the sessions, those that get an answer.
const ANSWERED: f64 = 0.9;

#[derive(Debug, Parser)]
pub struct Options {
    /// Sessions that are made up, a quarter of them for each client
    #[arg(long, default_value_t = 2_000)]
    sessions: u64,
    /// Where they go, to be looked at or used again; otherwise they are removed in the end
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Make them up and do nothing else
    #[arg(long, requires = "home")]
    only_generate: bool,
    /// Further directories: homes, or such that hold `claude`, `codex`, `opencode` and `pi`
    #[arg(long, value_name = "DIR")]
    corpus: Vec<PathBuf>,
    /// Syncs after one session grew by a few messages
    #[arg(long, default_value_t = 1_000)]
    small: u64,
    /// Search by meaning too, with this model
    #[arg(long, value_name = "DIR")]
    embed_model: Option<String>,
}

pub fn scale(options: &Options) -> anyhow::Result<ExitCode> {
    let scratch = tempfile::tempdir()?;
    let home = options.home.clone().unwrap_or_else(|| scratch.path().join("home"));
    if !home.exists() {
        corpus::write(&home, options.sessions)?;
    }
    if options.only_generate {
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = Report::default();
    for (number, directory) in options.corpus.iter().enumerate() {
        let home = process::as_home(directory, &scratch.path().join(format!("home-{number}")))?;
        let sync = Sync::new(&home, &scratch.path().join(format!("data-{number}")))?;
        report.first(&directory.display().to_string(), &sync)?;
    }
    let site = tempfile::tempdir()?;
    let sync = Sync::new(&home, &site.path().join("data"))?;
    let made = report.first("made up", &sync)?;
    if made.sessions != options.sessions || made.messages != options.sessions * corpus::MEAN {
        report.over.push(format!("{} sessions with {} messages were made up", made.sessions, made.messages));
    }
    report.small(&home, &sync, options)?;
    report.amplification()?;
    let mut server = ArbeServer::platform_in(site, &[])?;
    report.served(&mut server, options, None)?;
    report.alone(&home, &sync, options, None)?;
    if let Some(model) = &options.embed_model {
        let embedded = sync.embed(model)?;
        let kept = sync.vector_bytes()? as f64 / 1e6;
        say(&format!("vectors: {:.1} s, peak {:.0} MiB, {kept:.0} MB kept\n", embedded.seconds, embedded.peak_mib))?;
        server.restart_with(&["--embed-model", model])?;
        report.served(&mut server, options, Some(model))?;
        report.alone(&home, &sync, options, Some(model))?;
    }
    report.finish()
}

#[derive(Debug, Default)]
struct Report {
    over: Vec<String>,
    /// Bytes of all sources, and what was written for them.
    source: u64,
    written: u64,
    /// Times that a session grew.
    grown: u64,
    /// Questions that a server answered.
    answered: Vec<String>,
}

impl Report {
    /// A first run, stage by stage, and one that finds nothing new.
    fn first(&mut self, name: &str, sync: &Sync) -> anyhow::Result<Measured> {
        let source = sync.source_bytes()?;
        let first = sync.run(&["--skip", "update-indexes"])?;
        let rows = sync.run(&["--only", "update-indexes"])?;
        let (log, datasets) = (sync.log_bytes()?, sync.dataset_bytes()?);
        let (index, searched) = (sync.index_bytes()?, index::searched_bytes(sync.data())?);
        let again = sync.run(&[])?;
        self.source += source;
        self.written += first.written + rows.written;
        let of_source = |bytes: u64| bytes as f64 / source as f64;
        let [rate, row_rate] = [&first, &rows].map(|run| first.new_messages as f64 / run.seconds);
        say(&format!(
            "{name}: {} sessions, {} messages, {:.0} MB\n  log          {:.2} s, {rate:.0} messages/s, peak {:.0} MiB, \
             {:.2} of the source's bytes, {:.2} written for each\n  datasets     {:.2} s, {row_rate:.0} messages/s, peak {:.0} MiB, \
             {:.2} of the source's bytes, {:.2} written for each\n  nothing new  {:.2} s, peak {:.0} MiB, {} bytes written\n",
            first.sessions,
            first.messages,
            source as f64 / 1e6,
            first.seconds,
            first.peak_mib,
            of_source(log),
            of_source(first.written),
            rows.seconds,
            rows.peak_mib,
            of_source(datasets),
            of_source(rows.written),
            again.seconds,
            again.peak_mib,
            again.written,
        ))?;
        self.limit(rate >= RATE, format!("{name}: {rate:.0} messages/s to the log are fewer than {RATE}"));
        self.limit(row_rate >= ROW_RATE, format!("{name}: {row_rate:.0} messages/s to the datasets are fewer than {ROW_RATE}"));
        self.limit(again.seconds < NO_OP_SECONDS, format!("{name}: a sync without news took {:.2} s", again.seconds));
        self.limit(again.new_messages == 0, format!("{name}: a sync without news appended {}", again.new_messages));
        self.indexed(name, index, searched)?;
        let peak = first.peak_mib.max(rows.peak_mib).max(again.peak_mib);
        self.limit(peak <= PEAK_MIB, format!("{name}: {peak:.0} MiB are more than {PEAK_MIB}"));
        self.limit(of_source(log) <= ON_DISK, format!("{name}: the log is {:.2} times its source", of_source(log)));
        let size = of_source(datasets);
        self.limit(size <= DATASETS_ON_DISK, format!("{name}: the datasets are {size:.2} times their source"));
        Ok(first)
    }

    /// The index of words beside what it indexes.
    fn indexed(&mut self, name: &str, index: u64, searched: u64) -> anyhow::Result<()> {
        let share = index as f64 / searched as f64;
        let [index, searched] = [index, searched].map(|bytes| bytes as f64 / 1e6);
        say(&format!("  index        {index:.0} MB of {searched:.0} MB of text: {share:.2}\n"))?;
        self.limit(share <= INDEX_ON_DISK, format!("{name}: the index is {share:.2} times the text that it indexes"));
        Ok(())
    }

    /// One session has a few messages more; returns their bytes.
    fn grow(&mut self, home: &Path, options: &Options) -> anyhow::Result<u64> {
        let (growing, round) = ((options.sessions / 4).clamp(1, 25), self.grown);
        self.grown += 1;
        corpus::grow(home, round % growing, round, SMALL_MESSAGES)
    }

    /// Many runs, each of which finds a few messages more.
    fn small(&mut self, home: &Path, sync: &Sync, options: &Options) -> anyhow::Result<()> {
        let (mut ingested, mut written, mut seconds, mut peak) = (0, 0, 0.0, 0.0_f64);
        for round in 0..options.small {
            ingested += self.grow(home, options)?;
            let run = sync.run(&[])?;
            anyhow::ensure!(run.new_messages == SMALL_MESSAGES, "round {round} found {} new messages", run.new_messages);
            (written, seconds, peak) = (written + run.written, seconds + run.seconds, peak.max(run.peak_mib));
        }
        self.source += ingested;
        self.written += written;
        if options.small > 0 {
            say(&format!(
                "{} small syncs of {SMALL_MESSAGES} messages\n  {:.0} ms each, peak {peak:.0} MiB, {} bytes in, {} written: {:.2} for each\n",
                options.small,
                seconds / options.small as f64 * 1e3,
                ingested / options.small,
                written / options.small,
                written as f64 / ingested as f64,
            ))?;
        }
        self.limit(peak <= PEAK_MIB, format!("small syncs: {peak:.0} MiB are more than {PEAK_MIB}"));
        Ok(())
    }

    /// Whatever was written, in whatever pieces it came.
    fn amplification(&mut self) -> anyhow::Result<()> {
        let ratio = self.written as f64 / self.source as f64;
        say(&format!("{:.0} MB ingested, {ratio:.2} bytes written for each\n", self.source as f64 / 1e6))?;
        self.limit(ratio <= WRITTEN, format!("{ratio:.2} bytes were written for each that was ingested"));
        Ok(())
    }

    /// What a server answers.
    fn served(&mut self, server: &mut ArbeServer, options: &Options, model: Option<&str>) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let got = runtime.block_on(get::ask(server));
        let searched = runtime.block_on(search::ask(server, options.sessions));
        server.stop()?;
        let [cold, p50, p99] = got?;
        say(&format!("get of a message by its id: first {cold:.1} ms, then p50 {p50:.1} ms, p99 {p99:.1} ms\n"))?;
        self.limit(p50 <= GET_MS, format!("get: p50 of {p50:.1} ms is more than {GET_MS}"));
        let searched = searched?;
        self.searched(&searched, model)?;
        self.answered = searched.answered;
        Ok(())
    }

    /// What a process answers that is started for one question, also when it has to take in a few messages first.
    fn alone(&mut self, home: &Path, sync: &Sync, options: &Options, model: Option<&str>) -> anyhow::Result<()> {
        let questions = std::mem::take(&mut self.answered);
        let still = search::alone(sync.data(), &questions, model, || Ok(()))?;
        let grown = search::alone(sync.data(), &questions, model, || {
            self.grow(home, options)?;
            sync.run(&["--only", "import"]).map(drop)
        })?;
        say(&format!("search by a process of its own: {still:.0} ms, after {SMALL_MESSAGES} new messages {grown:.0} ms\n"))?;
        for (ms, when) in [(still, ""), (grown, " after a few new messages")] {
            self.limit(ms <= ALONE_MS, format!("a search by a process of its own{when}: {ms:.0} ms are more than {ALONE_MS}"));
        }
        Ok(())
    }

    fn searched(&mut self, searched: &search::Searched, model: Option<&str>) -> anyhow::Result<()> {
        let search::Searched { mode, first, all, said, fragments, names, absent, .. } = searched;
        say(&format!("{mode} search: first {first:.1} ms, then p50 {:.1} ms, p95 {:.1} ms\n", all.p50, all.p95))?;
        for (kind, times) in [("as said", said), ("fragments", fragments), ("names", names), ("absent", absent)] {
            let search::Times { p50, p95, asked, answered } = times;
            say(&format!("  {kind:<11}  p50 {p50:.1} ms, p95 {p95:.1} ms; {answered} of {asked} answered\n"))?;
        }
        let (expected, [p50, p95]) = if model.is_some() { ("hybrid", HYBRID_MS) } else { ("keyword", KEYWORD_MS) };
        self.limit(mode == expected, format!("the search is by {mode} and not by {expected}"));
        self.limit(all.p50 <= p50, format!("{mode} search: p50 of {:.1} ms is more than {p50}", all.p50));
        self.limit(all.p95 <= p95, format!("{mode} search: p95 of {:.1} ms is more than {p95}", all.p95));
        for (kind, search::Times { asked, answered, .. }) in [("questions", said), ("names", names)] {
            let enough = *answered as f64 >= *asked as f64 * ANSWERED;
            self.limit(enough, format!("{mode} search: {answered} of {asked} {kind} are answered"));
        }
        self.limit(absent.answered == 0, format!("{mode} search: {} questions about nothing are answered", absent.answered));
        Ok(())
    }

    fn limit(&mut self, kept: bool, otherwise: String) {
        if !kept {
            self.over.push(otherwise);
        }
    }

    fn finish(self) -> anyhow::Result<ExitCode> {
        for over in &self.over {
            say(&format!("past its limit: {over}\n"))?;
        }
        Ok(if self.over.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("stdout")
}
