//! What people and scripts see: JSON on stdout, logs and progress on stderr.

use std::io::{IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;
use serde_json::value::RawValue;
use tracing_subscriber::EnvFilter;

use crate::client::CallError;
use crate::config::{Config, LogFormat};
use crate::exit;

/// Ends the process with the exit code for "not found".
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotFound(pub(crate) String);

/// Ends it with the one for "refused".
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// Ends it with the one for "usage".
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Ends it with the one for "damage found".
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Damage(pub(crate) String);

/// Ends it as the command ended that it was asked to run.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandEnded {
    pub(crate) code: u8,
    pub(crate) message: String,
}

pub(crate) fn code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<CallError>() {
        return error.exit_code();
    }
    if let Some(ended) = error.downcast_ref::<CommandEnded>() {
        return ended.code;
    }
    if error.is::<NotFound>() {
        exit::NOT_FOUND
    } else if error.is::<Refused>() {
        exit::REFUSED
    } else if error.is::<Usage>() {
        exit::USAGE
    } else if error.is::<Damage>() {
        exit::DAMAGE
    } else {
        exit::FAILED
    }
}

/// Whoever read our output has seen enough.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

pub(crate) fn tracing(config: &Config) -> anyhow::Result<()> {
    let level = &config.log_level;
    let filter = EnvFilter::try_new(format!("sqlx=warn,lance=warn,rmcp=warn,tantivy=warn,{level}"));
    let filter = filter.map_err(|_| Usage(format!("log_level {level:?} is not a filter such as info or event_log=debug")))?;
    let logger =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    match config.log_format {
        LogFormat::Human => logger.with_target(false).init(),
        LogFormat::Json => logger.json().init(),
    }
    Ok(())
}

pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_ref()).and_then(|()| out.flush()).context("stdout")
}

pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(format!("{}\n", serde_json::to_string(value)?))
}

/// For people, beside the output.
pub(crate) fn note(text: impl std::fmt::Display) {
    eprintln!("{text}");
}

/// JSON as it came, on one line: a line break in JSON is never inside a string, so a space says the same.
pub(crate) fn print_raw(json: &RawValue) -> anyhow::Result<()> {
    print(json.get().replace(['\n', '\r'], " ") + "\n")
}

/// Texts of others cannot move the cursor, colour the screen or turn the reading direction.
pub(crate) fn clean(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() || turns(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// One value to a line.
pub(crate) fn list(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

/// Columns as wide as their widest cell; numbers to the right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut out = String::new();
    let head: Vec<String> = header.iter().map(|title| (*title).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            let number = !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
            if number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_exit_code() {
        for (error, expected) in [
            (anyhow::Error::new(NotFound("x".into())), 3),
            (anyhow::Error::new(Refused("x".into())).context("deeper"), 4),
            (Usage("x".into()).into(), 2),
            (Damage("x".into()).into(), 5),
            (CommandEnded { code: 137, message: "x".into() }.into(), 137),
            (anyhow::anyhow!("x"), 1),
        ] {
            assert_eq!(code(&error), expected);
        }
    }

    #[test]
    fn texts_of_others_cannot_steer_a_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\nc\u{202e}d"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d");
        assert_eq!(clean("grüße 👋"), "grüße 👋");
    }
}
