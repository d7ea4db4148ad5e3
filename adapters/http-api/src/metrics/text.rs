//! The exposition format: a family is named once, with its samples below.

use std::fmt::{Display, Write as _};

#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
    family: String,
}

impl Text {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.family = format!("arbe_{name}");
        let _ = writeln!(self.out, "# HELP {0} {help}\n# TYPE {0} {kind}", self.family);
    }

    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// A sample of one of the series that a histogram is made of.
    pub(super) fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.out, "{}{suffix}{labels} {value}", self.family);
    }

    /// A family of one sample.
    pub(super) fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}
