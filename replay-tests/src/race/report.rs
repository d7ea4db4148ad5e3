use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::case::Case;
use super::contestant::{Absent, BASELINE, Contestant};
use super::machine::Machine;
use super::options::Workload;

const ERROR_WIDTH: usize = 120;

pub(super) type Values = Vec<(&'static str, f64)>;

#[derive(Serialize)]
pub(super) struct Report {
    machine: Machine,
    servers: BTreeMap<&'static str, Option<String>>,
    absent: Vec<Absent>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
pub(super) struct Row {
    workload: Workload,
    case: String,
    server: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<&'static str, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

enum Better {
    Higher,
    Lower,
}

struct Layout {
    title: &'static str,
    columns: &'static [(&'static str, &'static str, usize)],
    ranked_by: (&'static str, Better),
}

impl Row {
    pub(super) fn new(case: Case, server: &'static str, outcome: anyhow::Result<Values>) -> Self {
        let (values, error) = match outcome {
            Ok(values) => (values.into_iter().collect(), None),
            Err(error) => (BTreeMap::new(), Some(format!("{error:#}"))),
        };
        Self { workload: case.workload(), case: case.name(), server, values, error }
    }
}

impl Report {
    pub(super) fn new(machine: Machine, contestants: &[Contestant], absent: Vec<Absent>) -> Self {
        let servers = contestants.iter().map(|one| (one.name(), one.version.clone())).collect();
        Self { machine, servers, absent, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Leaves one row for each server and case; a failed run outweighs the others.
    pub(super) fn keep_medians(&mut self) {
        let mut groups: BTreeMap<_, (usize, Vec<Row>)> = BTreeMap::new();
        for (index, row) in self.rows.drain(..).enumerate() {
            let key = (row.workload, row.case.clone(), row.server);
            groups.entry(key).or_insert((index, Vec::new())).1.push(row);
        }
        let mut kept: Vec<_> = groups.into_values().collect();
        kept.sort_by_key(|(index, _)| *index);
        self.rows = kept.into_iter().filter_map(|(_, rows)| median(rows)).collect();
    }

    pub(super) fn write_heading(&self, out: &mut impl Write) -> io::Result<()> {
        let machine = &self.machine;
        writeln!(out, "machine   {} cores, {}", machine.cores, machine.processor)?;
        writeln!(out, "load      {}", machine.load)?;
        writeln!(out, "files     {} may be open", machine.open_files)?;
        writeln!(
            out,
            "fdatasync p50 of 4 KiB: {:.3} ms overwriting, {:.3} ms appending",
            machine.overwrite_fdatasync_p50, machine.append_fdatasync_p50
        )?;
        for (server, version) in &self.servers {
            writeln!(out, "{server:<9} {}", version.as_deref().unwrap_or("prints no version"))?;
        }
        for Absent { server, reason } in &self.absent {
            writeln!(out, "{server:<9} absent: {reason}")?;
        }
        Ok(())
    }

    pub(super) fn write_table(&self, workload: Workload, out: &mut impl Write) -> io::Result<()> {
        let layout = layout(workload);
        let mut lines = vec![heading(&layout)];
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.workload == workload).collect();
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{}", layout.title)?;
        lines.extend(rows.iter().map(|row| self.cells(row, &layout)));
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|column| lines.iter().filter_map(|line| line.get(column)).map(String::len).max())
            .map(Option::unwrap_or_default)
            .collect();
        for (index, line) in lines.iter().enumerate() {
            let error = index.checked_sub(1).and_then(|row| rows[row].error.as_deref());
            let shown: String = error.unwrap_or_default().chars().take(ERROR_WIDTH).collect();
            writeln!(out, "{}{shown}", aligned(line, &widths))?;
        }
        out.flush()
    }

    fn cells(&self, row: &Row, layout: &Layout) -> Vec<String> {
        let mut cells = vec![row.case.clone(), row.server.to_owned()];
        if row.error.is_some() {
            return cells;
        }
        for (key, _, decimals) in layout.columns {
            let value = row.values.get(key).copied().unwrap_or(f64::NAN);
            cells.push(format!("{value:.decimals$}"));
        }
        let speed = self.speed(row, layout);
        cells.push(speed.map_or_else(|| "-".to_owned(), |speed| format!("{speed:.2}x")));
        cells
    }

    /// Above one: better than the baseline by that factor.
    fn speed(&self, row: &Row, layout: &Layout) -> Option<f64> {
        let same = |other: &&Row| other.workload == row.workload && other.case == row.case && other.server == BASELINE;
        let baseline = self.rows.iter().find(same)?;
        let (key, better) = &layout.ranked_by;
        let ratio = row.values.get(key)? / baseline.values.get(key)?;
        Some(match better {
            Better::Higher => ratio,
            Better::Lower => 1.0 / ratio,
        })
    }
}

fn median(mut rows: Vec<Row>) -> Option<Row> {
    if let Some(failed) = rows.iter().position(|row| row.error.is_some()) {
        return Some(rows.swap_remove(failed));
    }
    let key = layout(rows.first()?.workload).ranked_by.0;
    let value = |row: &Row| row.values.get(key).copied().unwrap_or(f64::NAN);
    rows.sort_by(|one, other| value(one).total_cmp(&value(other)));
    let middle = rows.len() / 2;
    Some(rows.swap_remove(middle))
}

fn heading(layout: &Layout) -> Vec<String> {
    let columns = layout.columns.iter().map(|(_, title, _)| (*title).to_owned());
    let first = ["case", "server"].map(str::to_owned);
    first.into_iter().chain(columns).chain([format!("vs {BASELINE}")]).collect()
}

fn aligned(cells: &[String], widths: &[usize]) -> String {
    let pad = |(index, (cell, width)): (usize, (&String, &usize))| match index {
        0 | 1 => format!("{cell:<width$}  "),
        _ => format!("{cell:>width$}  "),
    };
    cells.iter().zip(widths).enumerate().map(pad).collect()
}

fn layout(workload: Workload) -> Layout {
    match workload {
        Workload::Append => Layout {
            title: "Durable appends, closed loop, a connection and a stream for each writer (ms)",
            columns: &[
                ("appends", "appends/s", 0),
                ("p50", "p50", 2),
                ("p99", "p99", 2),
                ("p999", "p999", 2),
                ("server_us", "server us/op", 1),
                ("client_us", "client us/op", 1),
                ("other", "other cores", 2),
            ],
            ranked_by: ("appends", Better::Higher),
        },
        Workload::LongPoll => Layout {
            title: "From append to long-poll reader, idle server (ms)",
            columns: &[
                ("commit_p50", "commit p50", 2),
                ("commit_p99", "commit p99", 2),
                ("delivery_p50", "delivery p50", 2),
                ("delivery_p99", "delivery p99", 2),
                ("difference", "difference", 2),
            ],
            ranked_by: ("delivery_p50", Better::Lower),
        },
        Workload::FanOut => Layout {
            title: "Fan-out over SSE, open loop (ms)",
            columns: &[
                ("events", "events/s", 0),
                ("p50", "p50", 2),
                ("p99", "p99", 2),
                ("p999", "p999", 2),
                ("server_us", "server us/event", 1),
                ("client_us", "client us/event", 1),
            ],
            ranked_by: ("p50", Better::Lower),
        },
        Workload::CatchUp => Layout {
            title: "Catch-up from the start of a stream (MB/s)",
            columns: &[
                ("build", "build", 0),
                ("one", "1 reader", 0),
                ("four", "4 readers", 0),
                ("server_ms", "server ms/MB", 2),
                ("client_ms", "client ms/MB", 2),
            ],
            ranked_by: ("one", Better::Higher),
        },
        Workload::ColdStart => Layout {
            title: "Cold start with idle streams (ms until a known stream is read, RSS in MiB)",
            columns: &[
                ("creates", "creates/s", 0),
                ("rss", "rss", 0),
                ("after_kill", "after SIGKILL", 0),
                ("rss_after_kill", "rss", 0),
                ("stopping", "SIGTERM", 0),
                ("after_stop", "after SIGTERM", 0),
                ("rss_after_stop", "rss", 0),
            ],
            ranked_by: ("after_kill", Better::Lower),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(appends: f64) -> Row {
        Row::new(Case::Append { bytes: 256, streams: 1 }, BASELINE, Ok(vec![("appends", appends)]))
    }

    #[test]
    fn the_median_run_is_kept() {
        let kept = median([30.0, 10.0, 20.0].map(run).into()).unwrap();
        assert_eq!(kept.values["appends"], 20.0);
    }

    #[test]
    fn a_failed_run_fails_the_row() {
        let failed = Row::new(Case::LongPoll, BASELINE, Err(anyhow::anyhow!("lost")));
        let kept = median(vec![run(30.0), failed, run(10.0)]).unwrap();
        assert_eq!(kept.error.as_deref(), Some("lost"));
    }
}
