//! Floors: a crate uses only crates of lower floors.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::finding::Finding;

/// One crate of the workspace.
#[derive(Debug, Clone)]
struct Room {
    name: String,
    floor: Option<u64>,
    uses: Vec<Use>,
}

#[derive(Debug, Clone)]
struct Use {
    name: String,
    /// Only its tests use it.
    for_tests: bool,
}

/// Checks the floors of all crates of the workspace.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    Ok(findings(&rooms(&metadata)))
}

fn rooms(metadata: &Value) -> Vec<Room> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list(&metadata["packages"])
        .iter()
        .map(|package| Room {
            name: text(&package["name"]),
            floor: package["metadata"]["reel"]["floor"].as_u64(),
            uses: list(&package["dependencies"])
                .iter()
                .map(|used| Use { name: text(&used["name"]), for_tests: used["kind"] == "dev" })
                .collect(),
        })
        .collect()
}

fn findings(rooms: &[Room]) -> Vec<Finding> {
    let floors: BTreeMap<&str, Option<u64>> =
        rooms.iter().map(|room| (room.name.as_str(), room.floor)).collect();
    let mut findings = Vec::new();
    for room in rooms {
        let manifest = format!("{}/Cargo.toml", room.name);
        let Some(floor) = room.floor else {
            findings.push(Finding::at(&manifest, 0, "has no [package.metadata.reel] floor"));
            continue;
        };
        for used in &room.uses {
            let Some(Some(below)) = floors.get(used.name.as_str()) else { continue };
            // Tests may also use a neighbour, and the crate itself.
            let allowed = if used.for_tests { *below <= floor } else { *below < floor };
            if !allowed {
                let text = format!(
                    "floor {floor} uses {} on floor {below}; only lower floors may be used",
                    used.name
                );
                findings.push(Finding::at(&manifest, 0, text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(name: &str, floor: Option<u64>, uses: &[(&str, bool)]) -> Room {
        let uses = uses.iter().map(|&(name, for_tests)| Use { name: name.into(), for_tests }).collect();
        Room { name: name.into(), floor, uses }
    }

    #[test]
    fn lower_floors_may_be_used() {
        let rooms = [room("a", Some(1), &[("b", false), ("serde", false)]), room("b", Some(0), &[])];
        assert_eq!(findings(&rooms), []);
    }

    #[test]
    fn same_and_higher_floors_may_not() {
        let rooms = [room("a", Some(0), &[("b", false)]), room("b", Some(0), &[]), room("c", Some(1), &[])];
        assert_eq!(findings(&rooms).len(), 1);
        let rooms = [room("a", Some(0), &[("c", false)]), room("c", Some(1), &[])];
        assert_eq!(findings(&rooms).len(), 1);
    }

    #[test]
    fn tests_may_use_neighbours_but_nothing_higher() {
        let rooms = [room("a", Some(0), &[("b", true)]), room("b", Some(0), &[])];
        assert_eq!(findings(&rooms), []);
        let rooms = [room("a", Some(0), &[("c", true)]), room("c", Some(1), &[])];
        assert_eq!(findings(&rooms).len(), 1);
    }

    #[test]
    fn a_crate_without_a_floor_is_found() {
        assert_eq!(findings(&[room("a", None, &[])]).len(), 1);
    }
}
