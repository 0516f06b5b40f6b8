//! Results as figures over a quantity that grows: a table for people, JSON for programs, lines for pages.

use crate::ExperimentArguments;
use crate::machine::Machine;
use crate::report::{Claim, spread};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    /// Which part of the experiment, for example `streams held`.
    pub(crate) case: String,
    /// Who was measured.
    pub(crate) who: String,
    /// The quantity that was set, for example the number of streams.
    pub(crate) at: f64,
    pub(crate) run: usize,
    /// What was measured, by name, the unit last.
    #[serde(flatten)]
    pub(crate) values: BTreeMap<&'static str, f64>,
}

/// A picture of one value of one case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chart {
    pub(crate) case: &'static str,
    /// What grows to the right.
    pub(crate) at: &'static str,
    pub(crate) value: &'static str,
}

/// A whole experiment.
#[derive(Serialize)]
pub(crate) struct Sheet {
    pub(crate) bench: &'static str,
    pub(crate) machine: Machine,
    /// How it was done: devices, films, the rival's choices, what was skipped.
    pub(crate) notes: Vec<String>,
    pub(crate) rows: Vec<Measured>,
    pub(crate) claims: Vec<Claim>,
    #[serde(skip)]
    pub(crate) charts: Vec<Chart>,
}

impl Sheet {
    pub(crate) fn new(bench: &'static str) -> Self {
        let machine = Machine::here();
        Self { bench, machine, notes: Vec::new(), rows: Vec::new(), claims: Vec::new(), charts: Vec::new() }
    }

    /// Notes it, and says it at once: runs are long.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        eprintln!("{note}");
        self.notes.push(note);
    }

    /// Keeps a measurement, and says it at once.
    pub(crate) fn row(&mut self, case: &str, who: &str, at: f64, run: usize, values: &[(&'static str, f64)]) {
        let values: BTreeMap<_, _> = values.iter().copied().collect();
        let row = Measured { case: case.to_owned(), who: who.to_owned(), at, run, values };
        eprintln!("{}", line(&row));
        self.rows.push(row);
    }

    pub(crate) fn claim(&mut self, claim: Claim) {
        self.claims.push(claim);
    }

    /// Measures, and publishes what was measured even if it ended early.
    ///
    /// # Errors
    /// Those of `measure` and of publishing.
    pub(crate) fn fill(
        mut self,
        arguments: &ExperimentArguments,
        measure: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let measured = measure(&mut self);
        if let Err(error) = &measured {
            self.note(format!("ended early: {error:#}"));
        }
        fs::create_dir_all(&arguments.dir)?;
        self.publish(&arguments.dir, arguments.json)?;
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
        keep("svg", &self.svg())?;
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
            let verdict = if claim.holds { "holds" } else { "does not hold" };
            let Claim { claim, value, bar, .. } = claim;
            let _ = writeln!(text, "{claim:<88} {value:>8.3}  bar {bar:>7.3}  {verdict}");
        }
        text.push('\n');
        for row in &self.rows {
            let _ = writeln!(text, "{}", line(row));
        }
        text
    }

    /// One panel under the other, a line for each who.
    fn svg(&self) -> String {
        const WIDTH: usize = 860;
        const PANEL: usize = 260;
        let height = self.charts.len().max(1) * PANEL;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
             font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
        );
        for (number, chart) in self.charts.iter().enumerate() {
            self.panel(&mut svg, chart, (number * PANEL) as f64, PANEL as f64);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn panel(&self, svg: &mut String, chart: &Chart, top: f64, height: f64) {
        const COLOURS: [&str; 6] = ["#2563eb", "#9ca3af", "#d97706", "#059669", "#7c3aed", "#dc2626"];
        let lines = self.lines(chart);
        let points = || lines.values().flatten();
        let most_x = points().map(|point| point.0).fold(1e-9, f64::max);
        let most_y = points().map(|point| point.1).fold(1e-9, f64::max);
        let (left, right, base) = (70.0, 620.0, top + height - 40.0);
        let place = |(x, y): (f64, f64)| {
            (left + x / most_x * (right - left), base - y / most_y * (base - top - 40.0))
        };
        let Chart { case, at, value } = chart;
        let _ = write!(
            svg,
            "<text x=\"{left}\" y=\"{}\" font-size=\"14\">{case}: {value}</text>\
             <text x=\"{}\" y=\"{}\">{at}</text><text x=\"5\" y=\"{}\">{}</text><text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <path d=\"M{left} {} V{base} H{right}\" fill=\"none\" stroke=\"#111\"/>",
            top + 20.0,
            (left + right) / 2.0,
            base + 30.0,
            top + 45.0,
            figure(most_y),
            base + 15.0,
            figure(most_x),
            top + 35.0
        );
        for (number, (who, points)) in lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let path: Vec<_> =
                points.iter().map(|point| place(*point)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = write!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
                 <text x=\"640\" y=\"{}\" fill=\"{colour}\">{who}</text>",
                path.join(" "),
                top + 50.0 + number as f64 * 18.0
            );
            for point in points {
                let (x, y) = place(*point);
                let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
    }

    /// Medians over the runs, by who, in order of what grows.
    fn lines(&self, chart: &Chart) -> BTreeMap<String, Vec<(f64, f64)>> {
        let mut all: BTreeMap<String, Vec<(f64, Vec<f64>)>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.case == chart.case) {
            let Some(&value) = row.values.get(chart.value) else { continue };
            let line = all.entry(row.who.clone()).or_default();
            match line.iter_mut().find(|(at, _)| *at == row.at) {
                Some((_, values)) => values.push(value),
                None => line.push((row.at, vec![value])),
            }
        }
        let mut lines = BTreeMap::new();
        for (who, line) in all {
            let mut points: Vec<_> =
                line.into_iter().map(|(at, mut values)| (at, spread(&mut values).1)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            lines.insert(who, points);
        }
        lines
    }
}

fn line(row: &Measured) -> String {
    let values: Vec<_> =
        row.values.iter().map(|(name, value)| format!("{name} {}", figure(*value))).collect();
    format!(
        "{:<22} {:<20} at {:<6} run {}  {}",
        row.case,
        row.who,
        figure(row.at),
        row.run,
        values.join("  ")
    )
}

fn figure(value: f64) -> String {
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
        let mut sheet = Sheet::new("test");
        for (at, run, late) in [(4.0, 0, 0.5), (2.0, 0, 0.1), (4.0, 1, 0.7), (4.0, 2, 0.6)] {
            sheet.row("held", "reel", at, run, &[("late_share", late)]);
        }
        sheet.row("held", "nginx", 2.0, 0, &[("other", 1.0)]);
        let chart = Chart { case: "held", at: "streams", value: "late_share" };
        let lines = sheet.lines(&chart);
        assert_eq!(lines.len(), 1, "who lacks the value has no line");
        assert_eq!(lines["reel"], [(2.0, 0.1), (4.0, 0.6)]);
        sheet.charts.push(chart);
        assert!(sheet.svg().contains("held: late_share"));
        assert!(sheet.table().contains("late_share 0.5"));
    }
}
