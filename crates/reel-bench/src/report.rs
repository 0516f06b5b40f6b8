//! Results: a table for people, JSON for programs, an SVG for pages.

use crate::machine::Machine;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// One measured run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// What was measured, for example `serve, 64 connections`.
    pub(crate) case: String,
    /// Who did it.
    pub(crate) who: String,
    /// Number of the run.
    pub(crate) run: usize,
    pub(crate) mb_per_s: f64,
    /// Processor seconds per GB: the server's own processes. Not measured for programs that end with their work.
    pub(crate) server_cpu_s_per_gb: Option<f64>,
    /// Processor seconds per GB: the whole system less the client.
    pub(crate) system_cpu_s_per_gb: Option<f64>,
}

/// Something the rows show, and the bar it was held against.
#[derive(Debug, Serialize)]
pub(crate) struct Claim {
    pub(crate) claim: String,
    pub(crate) value: f64,
    pub(crate) bar: f64,
    pub(crate) holds: bool,
}

/// A whole experiment.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) bench: &'static str,
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
    pub(crate) claims: Vec<Claim>,
}

impl Claim {
    /// A claim that `value` reaches `bar`.
    pub(crate) fn at_least(claim: String, value: f64, bar: f64) -> Self {
        Self { claim, value, bar, holds: value >= bar }
    }

    /// A claim that `value` does not exceed `bar`.
    pub(crate) fn at_most(claim: String, value: f64, bar: f64) -> Self {
        Self { claim, value, bar, holds: value <= bar }
    }

    /// A claim that `value` is `bar`, give or take `share` of it.
    pub(crate) fn within(claim: String, value: f64, bar: f64, share: f64) -> Self {
        Self { claim, value, bar, holds: (value - bar).abs() <= bar * share }
    }
}

impl Report {
    /// Writes `NAME.json` and `NAME.svg` into `dir` and prints the table, or the JSON.
    pub(crate) fn publish(&self, dir: &Path, json: bool) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(dir.join(format!("{}.json", self.bench)), &text)?;
        fs::write(dir.join(format!("{}.svg", self.bench)), self.svg())?;
        println!("{}", if json { text } else { self.table() });
        Ok(())
    }

    fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.machine.line());
        for claim in &self.claims {
            let verdict = if claim.holds { "holds" } else { "does not hold" };
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "{:<64} {:>6.2}  bar {:>5.2}  {verdict}", claim.claim, claim.value, claim.bar);
        }
        let _ = writeln!(
            text,
            "\n{:<24} {:<16} {:>26} {:>22} {:>22}",
            "", "", "MB/s median (min-max)", "server CPU s/GB", "system-client s/GB"
        );
        for (case, who) in self.groups() {
            let rate = self.spread(&case, &who, |row| Some(row.mb_per_s));
            let of = |value: fn(&Row) -> Option<f64>| match self.spread(&case, &who, value) {
                (_, 0.0, _) => "-".to_owned(),
                (least, median, greatest) => format!("{median:.3} ({least:.3}-{greatest:.3})"),
            };
            let (server, system) = (of(|row| row.server_cpu_s_per_gb), of(|row| row.system_cpu_s_per_gb));
            let _ = writeln!(
                text,
                "{case:<24} {who:<16} {:>9.0} ({:>6.0}-{:>6.0}) {server:>22} {system:>22}",
                rate.1, rate.0, rate.2
            );
        }
        text
    }

    /// Bars of the median throughput with whiskers from least to most.
    fn svg(&self) -> String {
        let groups = self.groups();
        let most = self.rows.iter().map(|row| row.mb_per_s).fold(1.0, f64::max);
        let height = 40 + groups.len() * 30;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/><text x=\"10\" y=\"20\">{}: MB/s, median with least and most</text>",
            self.bench
        );
        for (index, (case, who)) in groups.iter().enumerate() {
            let (least, median, greatest) = self.spread(case, who, |row| Some(row.mb_per_s));
            let (y, x) = (40 + index * 30, |value: f64| 280.0 + value / most * 480.0);
            let colour = if who == "reel" { "#2563eb" } else { "#9ca3af" };
            let _ = write!(
                svg,
                "<text x=\"10\" y=\"{}\">{case}, {who}</text><rect x=\"280\" y=\"{y}\" width=\"{:.1}\" height=\"18\" fill=\"{colour}\"/>\
                 <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{mid}\" y2=\"{mid}\" stroke=\"#111\"/><text x=\"{:.1}\" y=\"{}\">{median:.0}</text>",
                y + 14,
                x(median) - 280.0,
                x(least),
                x(greatest),
                x(greatest) + 8.0,
                y + 14,
                mid = y + 9
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn groups(&self) -> Vec<(String, String)> {
        let mut groups = Vec::new();
        for row in &self.rows {
            let group = (row.case.clone(), row.who.clone());
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    fn spread(&self, case: &str, who: &str, value: fn(&Row) -> Option<f64>) -> (f64, f64, f64) {
        let rows = self.rows.iter().filter(|row| row.case == case && row.who == who);
        let mut values: Vec<_> = rows.filter_map(value).collect();
        spread(&mut values)
    }
}

/// Least, median and greatest.
pub(crate) fn spread(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match &*values {
        [] => (0.0, 0.0, 0.0),
        [only] => (*only, *only, *only),
        [least, .., greatest] if values.len() % 2 == 1 => (*least, values[middle], *greatest),
        [least, .., greatest] => (*least, (values[middle - 1] + values[middle]) / 2.0, *greatest),
    }
}
