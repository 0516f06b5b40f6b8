//! `cargo xtask properties [ARGUMENTS OF CARGO TEST]`: runs only the tests that draw their inputs,
//! with the seed in `PROPTEST_RNG_SEED`. The night does so with many seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::files;
use crate::rust_text::RustText;
use crate::suite;
use crate::workspace;

/// What the tests stand in that draw their inputs.
const MACRO: &str = "proptest! {";

/// Builds what the arguments of `cargo test` select, and runs the properties in it.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let names = of_packages(root)?;
    let programs: Vec<_> = suite::build(root, arguments)?
        .into_iter()
        .filter(|program| names.contains_key(&program.package))
        .collect();
    ensure!(!programs.is_empty(), "these arguments select no program with properties");
    let of =
        |package: &str| names.get(package).map(|names| names.iter().cloned().collect()).unwrap_or_default();
    let passed = suite::run_all(programs, |program| of(&program.package))?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The names of all properties, by package.
fn of_packages(root: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let packages = workspace::packages(root)?;
    for file in files::paths(root)?.iter().filter(|file| file.ends_with(".rs")) {
        let owner = packages.iter().filter(|package| file.starts_with(package.directory()));
        let Some(package) = owner.max_by_key(|package| package.directory().len()) else { continue };
        let source = fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
        let names = in_source(&source);
        if !names.is_empty() {
            all.entry(package.name.clone()).or_default().extend(names);
        }
    }
    Ok(all)
}

/// The names of the properties in a source file.
fn in_source(source: &str) -> Vec<String> {
    let (mut names, mut depth) = (Vec::new(), 0_usize);
    for line in RustText::new(source).code {
        let begins = depth == 0 && line.trim().ends_with(MACRO);
        if depth > 0
            && let Some(name) = line.trim_start().strip_prefix("fn ").and_then(|rest| rest.split('(').next())
        {
            names.push(name.trim().to_owned());
        }
        if begins || depth > 0 {
            depth += line.matches('{').count();
            depth = depth.saturating_sub(line.matches('}').count());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_told_from_other_tests() {
        let source = "#[test]\nfn before() {}\nproptest! {\n    #![proptest_config(few())]\n    #[test]\n    \
                      fn first(a in 0..9) {\n        let text = \"{{\";\n    }\n\n    #[test]\n    fn second(\n        b in any()\n    ) {}\n}\n\
                      // proptest! {\n#[test]\nfn after() {}\n";
        assert_eq!(in_source(source), ["first", "second"]);
    }
}
