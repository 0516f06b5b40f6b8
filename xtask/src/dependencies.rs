//! Every dependency has its row in `docs/dependencies.md`, and every row its dependency.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::files::TextFile;
use crate::finding::Finding;
use crate::rust_text::{RustText, has_word};

/// The tables of a manifest that name dependencies.
const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

const TABLE: &str = "docs/dependencies.md";

/// Compares the manifests of Cargo and npm with the table.
pub(crate) fn check(files: &[TextFile]) -> Result<Vec<Finding>> {
    let mut used = BTreeSet::new();
    for file in files {
        match file.path.rsplit('/').next() {
            Some("Cargo.toml") => used.extend(cargo_dependencies(file)?),
            Some("package.json") => used.extend(npm_dependencies(file)?),
            _ => {}
        }
    }
    let mut findings = unmentioned(files)?;
    let listed = files
        .iter()
        .filter(|file| file.path == "Cargo.toml")
        .map(workspace_list)
        .collect::<Result<Vec<_>>>()?;
    for name in listed.iter().flatten().filter(|name| !used.contains(*name)) {
        findings.push(Finding::at(
            "Cargo.toml",
            0,
            format!("`{name}` is in the workspace's list and no crate uses it"),
        ));
    }
    let table = files.iter().find(|file| file.path == TABLE).map_or("", |file| &file.text);
    let rows: BTreeSet<String> = table.lines().filter_map(row_name).map(str::to_owned).collect();
    for name in used.difference(&rows) {
        findings.push(Finding::at(TABLE, 0, format!("`{name}` is used and has no row")));
    }
    for name in rows.difference(&used) {
        findings.push(Finding::at(TABLE, 0, format!("`{name}` has a row and is not used")));
    }
    Ok(findings)
}

/// Dependencies that no source file of their crate mentions.
fn unmentioned(files: &[TextFile]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in files {
        let Some(home) = file.path.strip_suffix("Cargo.toml").filter(|home| !home.is_empty()) else {
            continue;
        };
        let sources: Vec<RustText> = files
            .iter()
            .filter(|source| source.path.starts_with(home) && source.path.ends_with(".rs"))
            .map(|source| RustText::new(&source.text))
            .collect();
        let manifest: toml::Table =
            file.text.parse().with_context(|| format!("{} is no manifest", file.path))?;
        for kind in KINDS {
            let table = manifest.get(kind).and_then(toml::Value::as_table);
            for name in table.into_iter().flat_map(|table| table.keys()) {
                let word = name.replace('-', "_");
                if !sources.iter().any(|source| source.code.iter().any(|line| has_word(line, &word))) {
                    findings.push(Finding::at(&file.path, 0, format!("`{name}` is listed and not used")));
                }
            }
        }
    }
    Ok(findings)
}

/// The name in the first cell of a table's row; none in its head.
fn row_name(line: &str) -> Option<&str> {
    let name = line.strip_prefix("| ")?.split(" | ").next()?.trim_matches('`');
    (name != "crate" && name != "package").then_some(name)
}

/// Packages of a registry; crates of this repository (by path) are no dependencies.
fn cargo_dependencies(file: &TextFile) -> Result<Vec<String>> {
    let manifest: toml::Table = file.text.parse().with_context(|| format!("{} is no manifest", file.path))?;
    let mut tables = Vec::new();
    let mut holders = vec![&manifest];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        holders.extend(targets.values().filter_map(toml::Value::as_table));
    }
    for holder in holders {
        for kind in KINDS {
            tables.extend(holder.get(kind).and_then(toml::Value::as_table));
        }
    }
    let mut names = Vec::new();
    for (name, value) in tables.into_iter().flatten() {
        // `workspace = true` names what the root manifest lists; crates of this workspace begin
        // with `reel` or `lab-`.
        let by_path = value.get("path").is_some();
        let own = value.get("workspace").is_some()
            && (name == "reel" || ["reel-", "lab-"].iter().any(|own| name.starts_with(own)));
        if !by_path && !own {
            let package = value.get("package").and_then(toml::Value::as_str);
            names.push(package.unwrap_or(name).to_owned());
        }
    }
    Ok(names)
}

/// What the root manifest offers to its crates, our own crates left out.
fn workspace_list(file: &TextFile) -> Result<Vec<String>> {
    let manifest: toml::Table = file.text.parse().with_context(|| format!("{} is no manifest", file.path))?;
    let list = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let list = list.and_then(toml::Value::as_table).into_iter().flatten();
    Ok(list.filter(|(_, value)| value.get("path").is_none()).map(|(name, _)| name.clone()).collect())
}

fn npm_dependencies(file: &TextFile) -> Result<Vec<String>> {
    let manifest: serde_json::Value =
        serde_json::from_str(&file.text).with_context(|| format!("{} is no JSON", file.path))?;
    let kinds = ["dependencies", "devDependencies", "optionalDependencies"];
    let names =
        kinds.iter().filter_map(|kind| manifest[kind].as_object()).flat_map(|table| table.keys().cloned());
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(manifest: &str, table: &str) -> usize {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let source = file("a/src/lib.rs", "use reel_arena::Arena;\nuse serde::Serialize;\nuse b::B;");
        check(&[file("a/Cargo.toml", manifest), source, file(TABLE, table)]).unwrap().len()
    }

    #[test]
    fn both_ways_are_checked() {
        let manifest = "[dependencies]\nreel-arena.workspace = true\nserde = \"1\"\n[dev-dependencies]\nb = { path = \"../b\" }";
        assert_eq!(findings(manifest, "| crate | why |\n| `serde` | x |"), 0);
        assert_eq!(findings(manifest, "| crate | why |"), 1);
        assert_eq!(findings(manifest, "| `serde` | x |\n| `tokio` | y |"), 1);
    }

    #[test]
    fn what_no_source_mentions_is_found() {
        assert_eq!(
            findings("[dependencies]\nserde = \"1\"\ntokio = \"1\"", "| `serde` | x |\n| `tokio` | y |"),
            1
        );
    }

    #[test]
    fn npm_counts_too() {
        let file = TextFile {
            path: "web/package.json".into(),
            text: "{\"devDependencies\": {\"vite\": \"7\"}}".into(),
        };
        assert_eq!(npm_dependencies(&file).unwrap(), ["vite"]);
    }
}
