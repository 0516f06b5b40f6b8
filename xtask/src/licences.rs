//! Licences and sources of every crate in `Cargo.lock`, by the lists of `deny.toml`.
//!
//! `cargo deny` checks the same and more; this part needs no tool that a fresh machine would have
//! to build.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::finding::Finding;
use crate::workspace;

/// Checks what `cargo metadata` says of every crate that is built.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?;
    let allowed = allow_list(&text)?;
    let metadata = || {
        let offline = ["metadata", "--format-version", "1", "--locked", "--offline"];
        workspace::cargo(root).args(offline).output().context("cannot run cargo metadata")
    };
    // A registry is asked only for crates that were never downloaded.
    let mut output = metadata()?;
    if !output.status.success() {
        let fetched = workspace::cargo(root).args(["fetch", "--quiet", "--locked"]).status();
        ensure!(fetched.context("cannot run cargo fetch")?.success(), "cargo fetch failed");
        output = metadata()?;
    }
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or("?");
        match package["license"].as_str() {
            Some(licence) if permits(licence, &allowed) => {}
            Some(licence) => {
                findings.push(Finding::at(
                    "Cargo.lock",
                    0,
                    format!("{name}: licence {licence} is not in deny.toml"),
                ));
            }
            None => findings.push(Finding::at("Cargo.lock", 0, format!("{name} names no licence"))),
        }
    }
    Ok(findings)
}

fn allow_list(text: &str) -> Result<BTreeSet<String>> {
    let table: toml::Table = text.parse().context("deny.toml is no TOML")?;
    let list =
        table.get("licenses").and_then(|licenses| licenses.get("allow")).and_then(toml::Value::as_array);
    let list = list.context("deny.toml has no licenses.allow")?;
    Ok(list.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
}

/// Whether an SPDX expression can be satisfied with licences of `allowed`; `/` is an old way to
/// write OR.
fn permits(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let holds = any_of(&words, &mut at, allowed);
    holds && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut holds = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= all_of(words, at, allowed);
    }
    holds
}

fn all_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut holds = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= one(words, at, allowed);
    }
    holds
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(&word) = words.get(*at) else { return false };
    *at += 1;
    if word == "(" {
        let holds = any_of(words, at, allowed);
        *at += 1;
        return holds;
    }
    if words.get(*at) == Some(&"WITH") {
        let whole = format!("{word} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
        return allowed.contains(&whole);
    }
    allowed.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read() {
        let allowed =
            ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "GPL-3.0 OR Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(permits(good, &allowed), "{good}");
        }
        for bad in
            ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "", "MIT MIT", "MIT WITH x"]
        {
            assert!(!permits(bad, &allowed), "{bad}");
        }
    }
}
