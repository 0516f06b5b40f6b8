//! Layers: a crate uses only crates of lower layers; tools and laboratories, all on the highest,
//! also each other.

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
    /// Where its manifest is, from the root.
    manifest: String,
    layer: Option<u64>,
    uses: Vec<Use>,
}

#[derive(Debug, Clone)]
struct Use {
    name: String,
    /// Only its tests use it.
    for_tests: bool,
}

/// Checks the layers of all crates of the workspace.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    Ok(findings(&rooms(&metadata, root)))
}

fn rooms(metadata: &Value, root: &Path) -> Vec<Room> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list(&metadata["packages"])
        .iter()
        .map(|package| Room {
            name: text(&package["name"]),
            manifest: Path::new(&text(&package["manifest_path"]))
                .strip_prefix(root)
                .map_or_else(|_| text(&package["manifest_path"]), |path| path.to_string_lossy().into_owned()),
            layer: package["metadata"]["reel"]["layer"].as_u64(),
            uses: list(&package["dependencies"])
                .iter()
                .map(|used| Use { name: text(&used["name"]), for_tests: used["kind"] == "dev" })
                .collect(),
        })
        .collect()
}

impl Room {
    /// Whether it is no part of the product: a tool, a laboratory, the simulator or the chores.
    fn is_tool(&self) -> bool {
        ["tools/", "labs/", "xtask/", "crates/reel-sim/"].iter().any(|home| self.manifest.starts_with(home))
    }
}

fn findings(rooms: &[Room]) -> Vec<Finding> {
    let by_name: BTreeMap<&str, &Room> = rooms.iter().map(|room| (room.name.as_str(), room)).collect();
    let mut findings = Vec::new();
    for room in rooms {
        let manifest = &room.manifest;
        let Some(layer) = room.layer else {
            findings.push(Finding::at(manifest, 0, "has no [package.metadata.reel] layer"));
            continue;
        };
        for used in &room.uses {
            let Some(other) = by_name.get(used.name.as_str()) else { continue };
            let Some(below) = other.layer else { continue };
            // Tests may also use a neighbour, and the crate itself; so may tools and laboratories.
            let is_neighbour_allowed = used.for_tests || (room.is_tool() && other.is_tool());
            let is_allowed = if is_neighbour_allowed { below <= layer } else { below < layer };
            if !is_allowed {
                let text = format!(
                    "layer {layer} uses {} on layer {below}; only lower layers may be used",
                    used.name
                );
                findings.push(Finding::at(manifest, 0, text));
            } else if !used.for_tests && other.is_tool() && !room.is_tool() {
                let text = format!("uses {}, a tool; only the tests of a product crate may", used.name);
                findings.push(Finding::at(manifest, 0, text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(name: &str, layer: Option<u64>, uses: &[(&str, bool)]) -> Room {
        room_in("crates", name, layer, uses)
    }

    fn room_in(home: &str, name: &str, layer: Option<u64>, uses: &[(&str, bool)]) -> Room {
        let uses = uses.iter().map(|&(name, for_tests)| Use { name: name.into(), for_tests }).collect();
        Room { name: name.into(), manifest: format!("{home}/{name}/Cargo.toml"), layer, uses }
    }

    #[test]
    fn lower_layers_may_be_used() {
        let rooms = [room("a", Some(1), &[("b", false), ("serde", false)]), room("b", Some(0), &[])];
        assert_eq!(findings(&rooms), []);
    }

    #[test]
    fn same_and_higher_layers_may_not() {
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
    fn tools_may_use_each_other_and_are_used_by_no_product_crate() {
        let load = || room_in("tools", "load", Some(7), &[]);
        let rooms = [room_in("labs", "lab", Some(7), &[("load", false)]), load()];
        assert_eq!(findings(&rooms), []);
        let server = |for_tests| room("server", Some(7), &[("load", for_tests)]);
        assert_eq!(findings(&[server(false), load()]).len(), 1);
        assert_eq!(findings(&[server(true), load()]), []);
        // Not even where its layer is low.
        let kit = room_in("tools", "kit", Some(0), &[]);
        assert_eq!(findings(&[room("server", Some(7), &[("kit", false)]), kit.clone()]).len(), 1);
        assert_eq!(findings(&[room("server", Some(0), &[("kit", true)]), kit]), []);
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        assert_eq!(findings(&[room("a", None, &[])]).len(), 1);
    }
}
