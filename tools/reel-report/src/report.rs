//! What an experiment found: a table for people, JSON for programs, lines for pages.

use crate::{Claim, CommonOptions, Machine, spread, svg};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The part of the experiment, for example `streams held`.
    pub case: String,
    /// What was measured, for example `reel` or `nginx`.
    pub system: String,
    /// The quantity that was set, for example the number of streams.
    pub at: f64,
    /// Number of the run.
    pub run: usize,
    /// The measured values by name, the unit last.
    #[serde(flatten)]
    pub values: BTreeMap<&'static str, f64>,
}

/// One value of one case as a picture.
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    /// The case of its rows.
    pub case: &'static str,
    /// The name of the quantity that was set.
    pub at: &'static str,
    /// The value that is drawn.
    pub value: &'static str,
}

/// A whole experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of the experiment; also of its files.
    pub bench: &'static str,
    /// The machine it ran on.
    pub machine: Machine,
    /// How it was done: devices, films, the choices for rivals, what was skipped.
    pub notes: Vec<String>,
    /// All measurements.
    pub rows: Vec<Row>,
    /// What the rows show.
    pub claims: Vec<Claim>,
    /// The pictures of the SVG.
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

impl Report {
    /// An empty report of this machine.
    pub fn new(bench: &'static str) -> Self {
        let machine = Machine::here();
        Self { bench, machine, notes: Vec::new(), rows: Vec::new(), claims: Vec::new(), charts: Vec::new() }
    }

    /// Keeps a note, and prints it at once because runs are long.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        eprintln!("{note}");
        self.notes.push(note);
    }

    /// Keeps a measurement, and prints it at once.
    pub fn row(&mut self, case: &str, system: &str, at: f64, run: usize, values: &[(&'static str, f64)]) {
        let values: BTreeMap<_, _> = values.iter().copied().collect();
        let row = Row { case: case.to_owned(), system: system.to_owned(), at, run, values };
        eprintln!("{}", line(&row));
        self.rows.push(row);
    }

    /// Keeps a claim.
    pub fn claim(&mut self, claim: Claim) {
        self.claims.push(claim);
    }

    /// The median of a value over the runs, for a case, a system and a quantity; `None` if it
    /// was not measured.
    pub fn median(&self, case: &str, system: &str, at: f64, value: &str) -> Option<f64> {
        let rows = self.rows.iter().filter(|row| row.case == case && row.system == system && row.at == at);
        let mut values: Vec<f64> = rows.filter_map(|row| row.values.get(value).copied()).collect();
        (!values.is_empty()).then(|| spread(&mut values).1)
    }

    /// The same; NaN if it was not measured, which satisfies no bar.
    pub fn median_or_nan(&self, case: &str, system: &str, at: f64, value: &str) -> f64 {
        self.median(case, system, at, value).unwrap_or(f64::NAN)
    }

    /// Measures, and publishes what was measured even if it ended early.
    ///
    /// # Errors
    /// Those of `measure` and of publishing.
    pub fn fill(
        mut self,
        options: &CommonOptions,
        measure: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let measured = measure(&mut self);
        if let Err(error) = &measured {
            self.note(format!("ended early: {error:#}"));
        }
        fs::create_dir_all(&options.dir)?;
        self.publish(&options.dir, options.json)?;
        measured
    }

    /// Writes `BENCH.json` and `BENCH.svg` into `dir` and prints the table, or the JSON.
    fn publish(&self, dir: &Path, json: bool) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        let keep = |ending: &str, text: &str| {
            let path = dir.join(format!("{}.{ending}", self.bench));
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
        };
        keep("json", &text)?;
        keep("svg", &svg::draw(self))?;
        println!("{}", if json { text } else { self.table() });
        Ok(())
    }

    fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.machine.line());
        for note in &self.notes {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {note}");
        }
        text.push('\n');
        for claim in &self.claims {
            let _ = writeln!(text, "{}", claim.line());
        }
        text.push('\n');
        for row in &self.rows {
            let _ = writeln!(text, "{}", line(row));
        }
        text
    }
}

fn line(row: &Row) -> String {
    let values: Vec<_> =
        row.values.iter().map(|(name, value)| format!("{name} {}", figure(*value))).collect();
    format!(
        "{:<22} {:<20} at {:<6} run {}  {}",
        row.case,
        row.system,
        figure(row.at),
        row.run,
        values.join("  ")
    )
}

pub(crate) fn figure(value: f64) -> String {
    match value {
        _ if value == value.trunc() && value.abs() < 1e9 => format!("{value}"),
        _ if value.abs() >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_medians_in_order() {
        let mut report = Report::new("test");
        for (at, run, late) in [(4.0, 0, 0.5), (2.0, 0, 0.1), (4.0, 1, 0.7), (4.0, 2, 0.6)] {
            report.row("held", "reel", at, run, &[("late_share", late)]);
        }
        report.row("held", "nginx", 2.0, 0, &[("other", 1.0)]);
        let chart = Chart { case: "held", at: "streams", value: "late_share" };
        let lines = svg::lines(&report, &chart);
        assert_eq!(lines.len(), 1, "a system without the value has no line");
        assert_eq!(report.median("held", "reel", 4.0, "late_share"), Some(0.6));
        assert_eq!(report.median("held", "reel", 3.0, "late_share"), None);
        assert_eq!(lines["reel"], [(2.0, 0.1), (4.0, 0.6)]);
        report.charts.push(chart);
        assert!(svg::draw(&report).contains("held: late_share"));
        assert!(report.table().contains("late_share 0.5"));
    }
}
