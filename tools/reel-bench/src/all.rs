//! `all`: every experiment in turn, and one table of what all of them claim.

use crate::rival::Against;
use anyhow::{Context, Result, bail};
use reel_report::{Claim, CommonOptions};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The options of `all`.
#[derive(clap::Args)]
pub(crate) struct AllArguments {
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    against: Against,
    /// Only these experiments, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(names()))]
    only: Vec<String>,
}

/// One experiment, as the command line names it.
struct Experiment {
    name: &'static str,
    /// What it is told beyond the common options.
    words: &'static [&'static str],
    /// Whether it runs rivals.
    has_rivals: bool,
}

const fn alone(name: &'static str) -> Experiment {
    Experiment { name, words: &[], has_rivals: false }
}

const fn beside_rivals(name: &'static str, words: &'static [&'static str]) -> Experiment {
    Experiment { name, words, has_rivals: true }
}

/// Checks of the instruments first, then servers, then laboratories.
const EXPERIMENTS: [Experiment; 17] = [
    alone("devices"),
    beside_rivals("wire", &[]),
    beside_rivals("peers", &["--parts", "hls,ingest,file,tls"]),
    alone("scaling"),
    beside_rivals("viewers", &[]),
    beside_rivals("classes", &["--parts", "held,admitted,growth,shares,carried"]),
    beside_rivals("priority", &[]),
    alone("degraded"),
    beside_rivals("siege", &[]),
    alone("capacity"),
    alone("onecopy"),
    alone("programs"),
    beside_rivals("transfers", &[]),
    alone("nfs"),
    alone("cast"),
    alone("fec"),
    alone("framing"),
];

/// What came of one experiment.
#[derive(Serialize)]
struct Outcome {
    experiment: &'static str,
    /// Why it ended early, if it did.
    failure: Option<String>,
    claims: Vec<Claim>,
    /// What was not measured here, and why.
    skipped: Vec<String>,
}

/// The part of an experiment's report that goes into the table.
#[derive(Deserialize)]
struct Reported {
    claims: Vec<Claim>,
    notes: Vec<String>,
}

fn names() -> Vec<&'static str> {
    EXPERIMENTS.iter().map(|experiment| experiment.name).collect()
}

/// Runs them, each as a process of its own: one that fails does not keep the others from running.
pub(crate) fn run(arguments: &AllArguments) -> Result<()> {
    let dir = &arguments.common.dir;
    if !arguments.against.rivals.is_empty() {
        arguments.against.rivals.installed()?;
    }
    fs::create_dir_all(dir)?;
    let wanted = |experiment: &&Experiment| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == experiment.name)
    };
    let mut outcomes = Vec::new();
    for experiment in EXPERIMENTS.iter().filter(wanted) {
        eprintln!("=== {}", experiment.name);
        outcomes.push(experiment.run(arguments)?);
    }
    let json = serde_json::to_string_pretty(&outcomes)?;
    let path = dir.join("all.json");
    fs::write(&path, &json).with_context(|| format!("writing {}", path.display()))?;
    println!("{}", if arguments.common.json { json } else { table(&outcomes) });
    let failed: Vec<_> =
        outcomes.iter().filter(|one| one.failure.is_some()).map(|one| one.experiment).collect();
    if !failed.is_empty() {
        bail!("{} ended early; the table says why", failed.join(", "));
    }
    Ok(())
}

impl Experiment {
    fn run(&self, arguments: &AllArguments) -> Result<Outcome> {
        let AllArguments { common, against, .. } = arguments;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(self.name).args(self.words).arg("--dir").arg(&common.dir);
        if let Some(reel) = &common.reel {
            command.arg("--reel").arg(reel);
        }
        if common.quick {
            command.arg("--quick");
        }
        for (option, number) in
            [("--seconds", common.seconds), ("--runs", common.runs.map(|runs| runs as u64))]
        {
            command.args(number.map(|number| format!("{option}={number}")));
        }
        if self.has_rivals {
            command.arg("--against").arg(against.rivals.to_string());
        }
        let path = common.dir.join(format!("{}.json", self.name));
        // What an earlier run left says nothing of this one.
        if path.exists() {
            fs::remove_file(&path)?;
        }
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        let status = status.with_context(|| format!("starting {command:?}"))?;
        let Reported { claims, notes } = reported(&path);
        let failure = (!status.success()).then(|| {
            let early = notes.iter().find_map(|note| note.strip_prefix("ended early: "));
            // The last line says what; a server's log may come before it.
            let last = early.and_then(|early| early.lines().last());
            last.map_or_else(
                || format!("{status}, without a report"),
                |line| line.trim_start_matches(": ").to_owned(),
            )
        });
        let skipped = notes.into_iter().filter(|note| note.starts_with("skipped")).collect();
        Ok(Outcome { experiment: self.name, failure, claims, skipped })
    }
}

/// The report that an experiment wrote; empty if it ended before.
fn reported(path: &Path) -> Reported {
    let read = fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    read.unwrap_or(Reported { claims: Vec::new(), notes: Vec::new() })
}

fn table(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    for Outcome { experiment, failure, claims, skipped } in outcomes {
        lines.extend(claims.iter().map(|claim| format!("{experiment:<10} {}", claim.line())));
        lines.extend(skipped.iter().map(|note| format!("{experiment:<10} {note}")));
        lines.extend(failure.iter().map(|why| format!("{experiment:<10} ended early: {why}")));
        if claims.is_empty() && skipped.is_empty() && failure.is_none() {
            lines.push(format!("{experiment:<10} claims nothing in a run of this length"));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_experiment_has_its_lines() {
        let outcome = |experiment, failure: Option<&str>, claims, skipped: &[&str]| Outcome {
            experiment,
            failure: failure.map(str::to_owned),
            claims,
            skipped: skipped.iter().map(|note| (*note).to_owned()).collect(),
        };
        let claim = Claim::at_least("reel / nginx".to_owned(), 2.0, 1.5);
        let table = table(&[
            outcome("peers", None, vec![claim], &[]),
            outcome("devices", None, Vec::new(), &["skipped: no root"]),
            outcome("viewers", Some("no reel"), Vec::new(), &[]),
            outcome("cast", None, Vec::new(), &[]),
        ]);
        let lines: Vec<_> = table.lines().collect();
        assert!(lines[0].starts_with("peers      reel / nginx") && lines[0].ends_with("bar   1.500  holds"));
        assert_eq!(lines[1], "devices    skipped: no root");
        assert_eq!(lines[2], "viewers    ended early: no reel");
        assert_eq!(lines[3], "cast       claims nothing in a run of this length");
    }
}
