//! Layers: a crate uses only crates of lower layers; tools and laboratories also crates of their
//! own layer.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::finding::Finding;
use crate::workspace::{self, Package};

/// Checks the layers of all crates of the workspace.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    Ok(findings(&workspace::packages(root)?))
}

/// Whether a crate is no part of the product: a tool, a laboratory, the simulator or the chores.
fn is_tool(package: &Package) -> bool {
    ["tools/", "labs/", "xtask/", "crates/reel-sim/"].iter().any(|home| package.manifest.starts_with(home))
}

fn findings(packages: &[Package]) -> Vec<Finding> {
    let by_name: BTreeMap<&str, &Package> =
        packages.iter().map(|package| (package.name.as_str(), package)).collect();
    let mut findings = Vec::new();
    for package in packages {
        let manifest = &package.manifest;
        let Some(layer) = package.layer else {
            findings.push(Finding::at(manifest, 0, "has no [package.metadata.reel] layer"));
            continue;
        };
        for used in &package.uses {
            let Some(other) = by_name.get(used.name.as_str()) else { continue };
            let Some(below) = other.layer else { continue };
            // Tests may also use a neighbour, and the crate itself; so may tools and laboratories.
            let is_neighbour_allowed = used.for_tests || is_tool(package);
            let is_allowed = if is_neighbour_allowed { below <= layer } else { below < layer };
            if !is_allowed {
                let text = format!(
                    "layer {layer} uses {} on layer {below}; only lower layers may be used",
                    used.name
                );
                findings.push(Finding::at(manifest, 0, text));
            } else if !used.for_tests && is_tool(other) && !is_tool(package) {
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
    use crate::workspace::Use;

    fn package(name: &str, layer: Option<u64>, uses: &[(&str, bool)]) -> Package {
        package_in("crates", name, layer, uses)
    }

    fn package_in(home: &str, name: &str, layer: Option<u64>, uses: &[(&str, bool)]) -> Package {
        let uses = uses.iter().map(|&(name, for_tests)| Use { name: name.into(), for_tests }).collect();
        Package {
            name: name.into(),
            manifest: format!("{home}/{name}/Cargo.toml"),
            layer,
            uses,
            quick: Vec::new(),
        }
    }

    #[test]
    fn lower_layers_may_be_used() {
        let packages = [package("a", Some(1), &[("b", false), ("serde", false)]), package("b", Some(0), &[])];
        assert_eq!(findings(&packages), []);
    }

    #[test]
    fn same_and_higher_layers_may_not() {
        let packages =
            [package("a", Some(0), &[("b", false)]), package("b", Some(0), &[]), package("c", Some(1), &[])];
        assert_eq!(findings(&packages).len(), 1);
        let packages = [package("a", Some(0), &[("c", false)]), package("c", Some(1), &[])];
        assert_eq!(findings(&packages).len(), 1);
    }

    #[test]
    fn tests_may_use_neighbours_but_nothing_higher() {
        let packages = [package("a", Some(0), &[("b", true)]), package("b", Some(0), &[])];
        assert_eq!(findings(&packages), []);
        let packages = [package("a", Some(0), &[("c", true)]), package("c", Some(1), &[])];
        assert_eq!(findings(&packages).len(), 1);
    }

    #[test]
    fn tools_may_use_each_other_and_are_used_by_no_product_crate() {
        let load = || package_in("tools", "load", Some(7), &[]);
        let packages = [package_in("labs", "lab", Some(7), &[("load", false)]), load()];
        assert_eq!(findings(&packages), []);
        // A tool for tests stands on the layer of a crate that it uses, and whose tests use it.
        let cache = package("cache", Some(5), &[("fixture", true)]);
        assert_eq!(findings(&[package_in("tools", "fixture", Some(5), &[("cache", false)]), cache]), []);
        let server = |for_tests| package("server", Some(7), &[("load", for_tests)]);
        assert_eq!(findings(&[server(false), load()]).len(), 1);
        assert_eq!(findings(&[server(true), load()]), []);
        // Not even where its layer is low.
        let kit = package_in("tools", "kit", Some(0), &[]);
        assert_eq!(findings(&[package("server", Some(7), &[("kit", false)]), kit.clone()]).len(), 1);
        assert_eq!(findings(&[package("server", Some(0), &[("kit", true)]), kit]), []);
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        assert_eq!(findings(&[package("a", None, &[])]).len(), 1);
    }
}
