//! `arbe export` and `arbe import`: the sessions of a house as one compact file, which any other house can take in.
//!
//! An archive is JSON Lines in zstd: a head, each session followed by its messages, and at the end how many there were with the
//! checksum of all lines before. It holds what the log holds and not what is derived from it, so that taking it in is recording it:
//! what is there already stays as it is. The same sessions make the same archive.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use events::SessionEvent;
use events::session::{Message, Session, SessionId};
use serde::{Deserialize, Serialize};

use super::{Library, progress};
use crate::args::Export;
use crate::config::Config;
use crate::output::{self, Refused};

mod taking;

pub(super) use taking::{Taken, check, take};

const VERSION: u32 = 1;
const LEVEL: i32 = 6;
/// Bytes of a line: a message with everything its files hold.
const LINE_MAX: u64 = 1 << 30;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Archive(Head),
    Session(Session),
    /// Of the session above it.
    Message(Message),
    End(Sum),
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sum {
    pub(super) sessions: u64,
    pub(super) messages: u64,
    /// BLAKE3 of every line before this one.
    pub(super) checksum: String,
}

impl Sum {
    fn count(&mut self, line: &Line) {
        match line {
            Line::Session(_) => self.sessions += 1,
            Line::Message(_) => self.messages += 1,
            Line::Archive(_) | Line::End(_) => {}
        }
    }
}

struct Archive<W: Write> {
    out: zstd::Encoder<'static, W>,
    hash: blake3::Hasher,
    sum: Sum,
}

impl<W: Write> Archive<W> {
    fn begin(out: W) -> io::Result<Self> {
        let mut archive = Self { out: zstd::Encoder::new(out, LEVEL)?, hash: blake3::Hasher::new(), sum: Sum::default() };
        archive.put(&Line::Archive(Head { version: VERSION }))?;
        Ok(archive)
    }

    fn put(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        if text.len() as u64 > LINE_MAX {
            return Err(io::Error::other(format!("a message of {} bytes is more than an archive holds", text.len())));
        }
        self.sum.count(line);
        self.hash.update(&text);
        self.out.write_all(&text)
    }

    fn finish(mut self) -> io::Result<(W, Sum)> {
        let sum = Sum { checksum: self.hash.finalize().to_hex().to_string(), ..self.sum.clone() };
        self.put(&Line::End(sum.clone()))?;
        Ok((self.out.finish()?, sum))
    }
}

pub(super) async fn export(args: Export, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let library = Library::open(config, args.house.as_deref()).await?;
    let written = if args.file == Path::new("-") {
        match write(&library, &args, BufWriter::new(io::stdout())).await {
            Ok((mut out, sum)) => out.flush().map(|()| sum).context("stdout"),
            Err(error) => Err(error),
        }
    } else {
        to_file(&library, &args).await
    };
    library.close().await;
    let sum = written?;
    let file = args.file.display();
    if args.file == Path::new("-") {
        output::note(format_args!("{} sessions, {} messages", sum.sessions, sum.messages));
    } else if json {
        let bytes = std::fs::metadata(&args.file)?.len();
        output::print_json(&serde_json::json!({ "file": args.file, "bytes": bytes, "archive": sum }))?;
    } else {
        output::print(format!("{file}: {} sessions, {} messages, checksum {}\n", sum.sessions, sum.messages, sum.checksum))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An archive is there whole or not at all.
async fn to_file(library: &Library, args: &Export) -> anyhow::Result<Sum> {
    let context = || args.file.display().to_string();
    if args.file.exists() {
        return Err(Refused(format!("{} is there already", args.file.display())).into());
    }
    let directory = args.file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = tempfile::NamedTempFile::new_in(directory).with_context(context)?;
    let (out, sum) = write(library, args, BufWriter::new(part)).await?;
    let part = out.into_inner().map_err(io::IntoInnerError::into_error).with_context(context)?;
    part.as_file().sync_all().with_context(context)?;
    part.persist_noclobber(&args.file).map_err(|error| error.error).with_context(context)?;
    File::open(directory).and_then(|it| it.sync_all()).with_context(context)?;
    Ok(sum)
}

async fn write<W: Write>(library: &Library, args: &Export, out: W) -> anyhow::Result<(W, Sum)> {
    let mut sessions = super::chosen(library.sessions.list(&library.house).await?, &args.which)?;
    sessions.sort_by(|one, two| (one.created_at, &one.id).cmp(&(two.created_at, &two.id)));
    let bar = progress("exporting", sessions.len() as u64);
    let mut archive = Archive::begin(out)?;
    for session in &sessions {
        put(library, &session.id, &mut archive).await.with_context(|| format!("session {}", session.id))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(archive.finish()?)
}

async fn put<W: Write>(library: &Library, id: &SessionId, archive: &mut Archive<W>) -> anyhow::Result<()> {
    let mut at = 0;
    while let Some((events, next)) = library.sessions.read_from(&library.house, id, at).await? {
        for event in events {
            let line = match event {
                SessionEvent::Recorded(it) => Line::Session(it.session),
                SessionEvent::MessageRecorded(mut it) => {
                    library.sessions.load(&mut it.message).await?;
                    Line::Message(it.message)
                }
            };
            archive.put(&line)?;
        }
        at = next;
    }
    Ok(())
}

/// The lines of an archive, read one at a time and believed only as far as they have been seen to be right.
struct Lines {
    from: BufReader<zstd::Decoder<'static, BufReader<File>>>,
    number: u64,
    hash: blake3::Hasher,
    sum: Sum,
    within: bool,
}

impl Lines {
    fn open(path: &Path) -> anyhow::Result<Self> {
        codecs::source::metadata(path)?;
        let decoder = zstd::Decoder::new(File::open(path)?)?;
        let mut lines =
            Self { from: BufReader::new(decoder), number: 0, hash: blake3::Hasher::new(), sum: Sum::default(), within: false };
        match lines.read().context("this is not an archive of sessions")? {
            Some((_, Line::Archive(Head { version: VERSION }))) => Ok(lines),
            Some((_, Line::Archive(Head { version }))) => bail!("an archive of version {version}; this arbe reads {VERSION}"),
            _ => bail!("this is not an archive of sessions"),
        }
    }

    /// `None` after the last line, when everything that was promised has come.
    fn next(&mut self) -> anyhow::Result<Option<Line>> {
        let read = self.read().with_context(|| format!("line {}", self.number))?;
        let Some((before, line)) = read else { bail!("it ends after line {}, before its end", self.number) };
        match &line {
            Line::Archive(_) => bail!("line {}: a second head", self.number),
            Line::Message(_) => ensure!(self.within, "line {}: a message of no session", self.number),
            Line::Session(_) => self.within = true,
            Line::End(promised) => {
                let seen = Sum { checksum: before.finalize().to_hex().to_string(), ..self.sum.clone() };
                ensure!(*promised == seen, "it was changed since it was made: it says {promised:?} and has {seen:?}");
                ensure!(self.read().ok().is_some_and(|more| more.is_none()), "something follows its end");
                return Ok(None);
            }
        }
        Ok(Some(line))
    }

    /// A line, and the checksum of those before it.
    fn read(&mut self) -> anyhow::Result<Option<(blake3::Hasher, Line)>> {
        let mut text = Vec::new();
        self.from.by_ref().take(LINE_MAX).read_until(b'\n', &mut text)?;
        if text.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        ensure!(text.ends_with(b"\n"), "it is cut off, or longer than {LINE_MAX} bytes");
        let before = self.hash.clone();
        self.hash.update(&text);
        let line = serde_json::from_slice(&text)?;
        self.sum.count(&line);
        Ok(Some((before, line)))
    }
}
