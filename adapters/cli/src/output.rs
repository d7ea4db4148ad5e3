//! What people and scripts see: JSON on stdout, logs and progress on stderr.

use std::io::{IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// Ends the process with the exit code for "not found".
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotFound(pub(crate) String);

pub(crate) fn tracing(config: &Config) {
    let filter = EnvFilter::try_new(&config.log_level).unwrap_or_else(|_| EnvFilter::new("info"));
    let logger =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    match config.log_format {
        LogFormat::Human => logger.with_target(false).init(),
        LogFormat::Json => logger.json().init(),
    }
}

pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_ref()).and_then(|()| out.flush()).context("stdout")
}

pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(format!("{}\n", serde_json::to_string(value)?))
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
