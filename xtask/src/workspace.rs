//! The crates of the workspace, as `cargo metadata` describes them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// One crate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Where its manifest is, from the root.
    pub(crate) manifest: String,
    /// `layer` of its `[package.metadata.reel]`.
    pub(crate) layer: Option<u64>,
    /// The crates that it uses, of the workspace and others.
    pub(crate) uses: Vec<Use>,
    /// `quick` of its `[package.metadata.reel]`: the tests that `cargo xtask check` selects in each
    /// of these test programs. It runs all tests of the other programs.
    pub(crate) quick: Vec<Quick>,
}

/// A crate that another one uses.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    /// Its name.
    pub(crate) name: String,
    /// Only the tests of the other crate use it.
    pub(crate) for_tests: bool,
}

/// The quick tests of a test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quick {
    /// The name of the program, without the package.
    pub(crate) program: String,
    /// Parts of the paths of tests, as libtest takes them.
    pub(crate) filters: Vec<String>,
}

/// `cargo`, as the one that started this program calls it.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo
}

/// All crates of the workspace.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>> {
    let output = cargo(root)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    Ok(list(&metadata["packages"]).iter().map(|package| Package::of(package, root)).collect())
}

impl Package {
    fn of(package: &Value, root: &Path) -> Self {
        let manifest = text(&package["manifest_path"]);
        let own = &package["metadata"]["reel"];
        let quick = own["quick"].as_object().into_iter().flatten();
        Self {
            name: text(&package["name"]),
            manifest: Path::new(&manifest)
                .strip_prefix(root)
                .map_or_else(|_| manifest.clone(), |path| path.to_string_lossy().into_owned()),
            layer: own["layer"].as_u64(),
            uses: list(&package["dependencies"])
                .iter()
                .map(|used| Use { name: text(&used["name"]), for_tests: used["kind"] == "dev" })
                .collect(),
            quick: quick
                .map(|(program, filters)| Quick {
                    program: program.clone(),
                    filters: list(filters).iter().map(text).collect(),
                })
                .collect(),
        }
    }

    /// Its directory, from the root, with `/` at the end.
    pub(crate) fn directory(&self) -> &str {
        self.manifest.strip_suffix("Cargo.toml").unwrap_or(&self.manifest)
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
