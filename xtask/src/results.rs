//! `cargo xtask results`: the table of claims and the charts, made from the raw results under
//! `bench/results`.
//!
//! A claim's verdict is written by hand, since a value may be marginal. That it does not contradict
//! value and bar is checked here. A claim that was measured before the engine of `reel-play` is
//! marked in the table. How many commits ago a claim was measured is only printed.

mod age;
mod chart;
mod raw;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use chart::{Bar, Chart, Group};
use raw::{Claim, Results, text, texts};

const PAGE: &str = "docs/benchmarks.md";
const INDEX: &str = "bench/index.json";
const RESULTS: &str = "bench/results";
const BEGIN: &str = "<!-- made by `cargo xtask results`: begin -->\n";
const END: &str = "<!-- made by `cargo xtask results`: end -->\n";

/// Writes the table and the charts; with `check` only reports those that are not what would be
/// written.
///
/// # Errors
/// If a result, the index or the page cannot be read or contradicts itself.
pub(crate) fn run(root: &Path, check: bool) -> Result<ExitCode> {
    let mut stale = 0;
    let results = read_all(root)?;
    for (path, text) in made(root, &results)? {
        let there = fs::read_to_string(root.join(&path)).unwrap_or_default();
        if there == text {
            continue;
        }
        if check {
            println!("{path}: is not what {RESULTS} says; run `cargo xtask results`");
            stale += 1;
        } else {
            fs::write(root.join(&path), text).with_context(|| format!("cannot write {path}"))?;
        }
    }
    print_outdated(root, &results.claims()?, check);
    Ok(if stale == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints which claims were measured before the newest change of the code that decides them; if
/// `brief` only how many.
fn print_outdated(root: &Path, claims: &[Claim], brief: bool) {
    let outdated = age::outdated(root, claims);
    for line in outdated.iter().filter(|_| !brief) {
        println!("note: {line}");
    }
    println!(
        "note: {} of {} claims were measured before the newest change of the engine, its front end or what is below",
        outdated.len(),
        claims.len()
    );
}

fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

fn index(root: &Path) -> Result<serde_json::Value> {
    serde_json::from_str(&read(root, INDEX)?).with_context(|| format!("{INDEX} is not JSON"))
}

/// All results that the index lists.
fn read_all(root: &Path) -> Result<Results> {
    let names = texts(&index(root)?, "results").with_context(|| format!("{INDEX} has no list `results`"))?;
    let mut results = Results::default();
    for name in &names {
        let path = format!("{RESULTS}/{name}.json");
        results.add(name, &read(root, &path)?).with_context(|| path)?;
    }
    no_other_files(root, &names)?;
    Ok(results)
}

/// Path and text of every file that is made.
fn made(root: &Path, results: &Results) -> Result<Vec<(String, String)>> {
    let table = table(&results.claims()?, |claim| age::predates_engine(root, claim));
    let mut made = vec![(PAGE.to_owned(), page(&read(root, PAGE)?, &table)?)];
    for chart in index(root)?["charts"].as_array().into_iter().flatten() {
        let file = text(chart, "file").context("a chart of the index has no `file`")?;
        let svg = chart_of(chart, results).with_context(|| format!("chart {file}"))?.svg();
        made.push((format!("docs/images/{file}.svg"), svg));
    }
    Ok(made)
}

/// A result that is not in the index would not be shown.
fn no_other_files(root: &Path, names: &[String]) -> Result<()> {
    let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    for entry in fs::read_dir(root.join(RESULTS)).with_context(|| format!("cannot read {RESULTS}"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        ensure!(known.contains(name), "{} is not in the list `results` of {INDEX}", path.display());
    }
    Ok(())
}

/// `page` with `table` between the marks.
fn page(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE} has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no line {END}"))?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

/// All claims, counted and as a table; those that predate the engine are marked.
fn table(claims: &[Claim], predates_engine: impl Fn(&Claim) -> bool) -> String {
    let count = |verdict: &str| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let mut table = format!(
        "Of {} claims {} hold, {} are marginal, {} do not hold, {} is not shown.\n\n",
        claims.len(),
        count("holds"),
        count("marginal"),
        count("does not hold"),
        count("not shown")
    );
    let marked = claims.iter().filter(|claim| predates_engine(claim)).count();
    table.push_str(&age::legend(marked, claims.len()));
    table.push_str("| claim | value | bar | verdict | measured |\n|---|---|---|---|---|\n");
    for claim in claims {
        let mark = if predates_engine(claim) { age::MARK } else { "" };
        let verdict =
            if claim.verdict == "holds" { "holds".to_owned() } else { format!("**{}**", claim.verdict) };
        let reason = claim.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| {} | {} | {} | {verdict}{reason} | [{}](../{RESULTS}/{}.json){mark} |",
            claim.claim, claim.shown, claim.bar, claim.measured, claim.result
        );
    }
    table
}

/// A chart of the index, its bars looked up in the results.
fn chart_of(chart: &serde_json::Value, results: &Results) -> Result<Chart> {
    let mut groups = Vec::new();
    for group in chart["groups"].as_array().context("no `groups`")? {
        let mut bars = Vec::new();
        for cell in group["cells"].as_array().context("a group without `cells`")? {
            let cell: Vec<&str> =
                cell.as_array().into_iter().flatten().filter_map(|part| part.as_str()).collect();
            // Result, table, row, column, and the name of the series where it is not the column's.
            let (&[result, table, row, column], series) = match cell.split_at_checked(4) {
                Some((place, rest)) => {
                    (<&[&str; 4]>::try_from(place)?, rest.first().copied().unwrap_or(place[3]))
                }
                None => bail!("a cell is result, table, row, column: {cell:?}"),
            };
            let spread = results.spread(result, table, row, column)?;
            bars.push(Bar { series: series.to_owned(), spread });
        }
        let label = text(group, "label").context("a group without `label`")?;
        ensure!(label.len() <= chart::LABEL_CHARS_MAX, "the label \"{label}\" is too long for the chart");
        groups.push(Group { label, bars });
    }
    let title = text(chart, "title").context("no `title`")?;
    Ok(Chart { title, unit: text(chart, "unit").context("no `unit`")?, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{"title": "T", "runs": [{"id": "a", "date": "2026-11-22", "commit": "abc"}],
        "tables": [{"name": "t", "columns": ["who", "MB/s"], "rows": [["Reel", [1, 3]], ["x", {"median": 4, "least": 2, "greatest": 5}]]}],
        "claims": [{"claim": "More", "value": 1.5, "at_least": 1, "verdict": "holds", "run": "a"},
                   {"claim": "Late", "value": [2, 0.5], "at_most": 1, "unit": "%", "verdict": "does not hold", "reason": "slow", "run": "a"},
                   {"claim": "Nightly", "value": null, "at_least": 10, "verdict": "not shown"}]}"#;

    fn results(text: &str) -> Result<Results> {
        let mut results = Results::default();
        results.add("r", text)?;
        Ok(results)
    }

    #[test]
    fn claims_become_rows_between_the_marks() {
        let claims = results(RESULT).unwrap().claims().unwrap();
        let table = table(&claims, |claim| claim.claim == "Late");
        assert!(
            table.starts_with("Of 3 claims 1 hold, 0 are marginal, 1 do not hold, 1 is not shown.\n"),
            "{table}"
        );
        assert!(
            table.contains(
                "| More | 1.5 | at least 1 | holds | [2026-11-22, abc](../bench/results/r.json) |\n"
            )
        );
        assert!(
            table.contains("| Late | 2, 0.5 % | at most 1 % | **does not hold**: slow | [2026-11-22, abc](../bench/results/r.json) † |\n")
        );
        assert!(table.contains("†: measured before") && table.contains("1 of the 3 claims"), "{table}");
        assert!(table.contains("| Nightly | none | at least 10 | **not shown** | [not measured]"), "{table}");
        let old = format!("# B\n\n{BEGIN}old\n{END}after\n");
        assert_eq!(page(&old, "new\n").unwrap(), format!("# B\n\n{BEGIN}new\n{END}after\n"));
        assert!(page("# B\n", "new\n").is_err());
    }

    #[test]
    fn verdicts_that_contradict_their_value_are_refused() {
        let wrong =
            |from: &str, to: &str| results(&RESULT.replace(from, to)).and_then(|r| r.claims()).is_err();
        assert!(wrong("\"value\": 1.5", "\"value\": 0.5"));
        assert!(wrong("[2, 0.5]", "[1, 0.5]"));
        assert!(wrong("\"value\": null", "\"value\": 3"));
        assert!(wrong("\"not shown\"", "\"holds\""));
        assert!(wrong("\"not shown\"", "\"perhaps\""));
        assert!(wrong("\"run\": \"a\"", "\"run\": \"b\""));
        assert!(wrong("[\"Reel\", [1, 3]]", "[\"Reel\"]"));
        assert!(!wrong("\"verdict\": \"holds\"", "\"verdict\": \"marginal\""));
    }

    #[test]
    fn charts_are_made_of_cells() {
        let results = results(RESULT).unwrap();
        let index = |row: &str| {
            serde_json::json!({"file": "f", "title": "A < B", "unit": "MB/s",
                "groups": [{"label": "g", "cells": [["r", "t", row, "MB/s", "Reel"], ["r", "t", "x", "MB/s"]]}]})
        };
        let svg = chart_of(&index("Reel"), &results).unwrap().svg();
        assert!(svg.contains("A &lt; B") && svg.contains(">2</text>") && svg.contains(">4</text>"), "{svg}");
        assert!(chart_of(&index("unknown"), &results).is_err());
        let mut long = index("Reel");
        long["groups"][0]["label"] = "x".repeat(chart::LABEL_CHARS_MAX + 1).into();
        assert!(chart_of(&long, &results).is_err());
    }

    #[test]
    fn the_page_and_the_charts_of_this_repository_are_those_of_its_results() {
        let root = crate::repository().unwrap();
        for (path, text) in made(&root, &read_all(&root).unwrap()).unwrap() {
            assert!(
                fs::read_to_string(root.join(&path)).unwrap() == text,
                "{path}: run `cargo xtask results`"
            );
        }
    }
}
