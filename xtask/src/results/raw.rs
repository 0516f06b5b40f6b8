//! Raw results: what a file under `bench/results` says, looked up and checked.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// All results by name, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Results {
    names: Vec<String>,
    files: BTreeMap<String, Value>,
}

/// Middle, least and greatest of some runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

/// A claim as the table shows it.
#[derive(Default)]
pub(crate) struct Claim {
    pub(crate) result: String,
    pub(crate) claim: String,
    pub(crate) shown: String,
    pub(crate) bar: String,
    pub(crate) verdict: String,
    pub(crate) reason: Option<String>,
    /// Date and commit.
    pub(crate) measured: String,
    /// Of the run that shows it; none if it was never measured.
    pub(crate) date: Option<String>,
    /// Commits that the run names.
    pub(crate) commits: Vec<String>,
}

impl Results {
    /// Adds the result `name`.
    ///
    /// # Errors
    /// If `text` is not JSON, or a row of a table has not as many cells as the table has columns.
    pub(crate) fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let file: Value = serde_json::from_str(text).context("is not JSON")?;
        for table in array(&file, "tables") {
            let columns = array(table, "columns").len();
            let fits = |row: &Value| row.as_array().is_some_and(|cells| cells.len() == columns);
            ensure!(
                array(table, "rows").iter().all(fits),
                "a row of {} has not {columns} cells",
                table["name"]
            );
        }
        self.names.push(name.to_owned());
        self.files.insert(name.to_owned(), file);
        Ok(())
    }

    /// All claims, each held against its own value and bar.
    ///
    /// # Errors
    /// If a claim lacks a part, names a run that is not there, or has a verdict against its
    /// value.
    pub(crate) fn claims(&self) -> Result<Vec<Claim>> {
        let mut claims = Vec::new();
        for name in &self.names {
            let file = &self.files[name];
            for claim in array(file, "claims") {
                let read = read_claim(name, file, claim);
                claims.push(read.with_context(|| format!("{name}: claim {}", claim["claim"]))?);
            }
        }
        Ok(claims)
    }

    /// The cell of `row` and `column`; a row is named by its first cell.
    ///
    /// # Errors
    /// If there is no such cell, or it holds no number.
    pub(crate) fn spread(&self, result: &str, table: &str, row: &str, column: &str) -> Result<Spread> {
        let file = self.files.get(result).with_context(|| format!("there is no result {result}"))?;
        let tables = array(file, "tables");
        let found = tables.iter().find(|found| found["name"] == table);
        let found = found.with_context(|| format!("{result} has no table {table}"))?;
        let at = array(found, "columns").iter().position(|name| name == column);
        let at = at.with_context(|| format!("{table} has no column {column}"))?;
        let cells = array(found, "rows").iter().find(|cells| cells[0] == row);
        let cell = &cells.with_context(|| format!("{table} has no row {row}"))?[at];
        spread(cell).with_context(|| format!("{table}, {row}, {column} is not a number: {cell}"))
    }
}

/// The string `key` of `value`.
pub(crate) fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

/// The list of strings `key` of `value`.
pub(crate) fn texts(value: &Value, key: &str) -> Option<Vec<String>> {
    value[key].as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn read_claim(result: &str, file: &Value, claim: &Value) -> Result<Claim> {
    let values = match &claim["value"] {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().filter_map(Value::as_f64).collect(),
        value => vec![value.as_f64().context("`value` is not a number")?],
    };
    let (word, bar) = match (claim["at_least"].as_f64(), claim["at_most"].as_f64()) {
        (Some(bar), None) => ("at least", bar),
        (None, Some(bar)) => ("at most", bar),
        _ => bail!("needs one of `at_least` and `at_most`"),
    };
    let reached = values.iter().all(|&value| if word == "at least" { value >= bar } else { value <= bar });
    let verdict = text(claim, "verdict").context("no `verdict`")?;
    let right = match verdict.as_str() {
        "holds" | "marginal" => reached && !values.is_empty(),
        "does not hold" => !reached,
        "not shown" => values.is_empty(),
        _ => bail!("an unknown verdict: {verdict}"),
    };
    ensure!(right, "the verdict \"{verdict}\" contradicts {values:?}, bar {word} {bar}");
    let unit = text(claim, "unit").map(|unit| format!(" {unit}")).unwrap_or_default();
    let numbers: Vec<String> = values.iter().map(f64::to_string).collect();
    let numbers = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") + &unit };
    // A value that stands for several cells is shown as the result says.
    let shown = text(claim, "shown").unwrap_or(numbers);
    let run = run(file, claim)?;
    Ok(Claim {
        result: result.to_owned(),
        claim: text(claim, "claim").context("no `claim`")?,
        shown,
        bar: format!("{word} {bar}{unit}"),
        verdict,
        reason: text(claim, "reason"),
        measured: run.map_or_else(|| Ok("not measured".into()), measured)?,
        date: run.and_then(|run| text(run, "date")),
        commits: run.and_then(|run| text(run, "commit")).map(|text| commits(&text)).unwrap_or_default(),
    })
}

/// The run that a claim goes back to.
fn run<'a>(file: &'a Value, claim: &Value) -> Result<Option<&'a Value>> {
    let Some(id) = text(claim, "run") else { return Ok(None) };
    let run = array(file, "runs").iter().find(|run| run["id"] == id.as_str());
    run.with_context(|| format!("there is no run {id}")).map(Some)
}

/// Date and commit of a run.
fn measured(run: &Value) -> Result<String> {
    let date = text(run, "date").context("a run without `date`")?;
    Ok(match text(run, "commit") {
        Some(commit) => format!("{date}, {commit}"),
        None => date,
    })
}

/// The commits in a text like `79e4d12 and 6bcacb2`.
fn commits(text: &str) -> Vec<String> {
    let is_commit = |word: &&str| word.len() >= 7 && word.chars().all(|c| c.is_ascii_hexdigit());
    text.split_whitespace().filter(is_commit).map(str::to_owned).collect()
}

/// A number; several runs as a list; or median, least and greatest as an object.
fn spread(cell: &Value) -> Option<Spread> {
    if let Some(value) = cell.as_f64() {
        return Some(Spread { median: value, least: value, greatest: value });
    }
    if let Some(runs) = cell.as_array() {
        let mut runs: Vec<f64> = runs.iter().map(Value::as_f64).collect::<Option<_>>()?;
        runs.sort_by(f64::total_cmp);
        let (least, greatest) = (*runs.first()?, *runs.last()?);
        let median = (runs[(runs.len() - 1) / 2] + runs[runs.len() / 2]) / 2.0;
        return Some(Spread { median, least, greatest });
    }
    let part = |key: &str| cell[key].as_f64();
    Some(Spread { median: part("median")?, least: part("least")?, greatest: part("greatest")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_found_between_words() {
        assert_eq!(commits("79e4d12 and 6bcacb2"), ["79e4d12", "6bcacb2"]);
        assert_eq!(commits("before 177925c"), ["177925c"]);
        assert!(commits("not recorded").is_empty());
    }

    #[test]
    fn a_cell_is_a_number_some_runs_or_a_spread() {
        let of = |text: &str| {
            spread(&serde_json::from_str(text).unwrap()).map(|s| (s.least, s.median, s.greatest))
        };
        assert_eq!(of("2"), Some((2.0, 2.0, 2.0)));
        assert_eq!(of("[4, 1, 2]"), Some((1.0, 2.0, 4.0)));
        assert_eq!(of("[1, 2]"), Some((1.0, 1.5, 2.0)));
        assert_eq!(of(r#"{"median": 2, "least": 1, "greatest": 5}"#), Some((1.0, 2.0, 5.0)));
        assert_eq!(of("\"fast\""), None);
        assert_eq!(of("[]"), None);
    }
}
