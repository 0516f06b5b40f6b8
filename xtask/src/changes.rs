//! Which crates a change touches, and which use those.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::Package;

/// The branch on which what is finished lies.
const MAIN: &str = "main";

/// Paths that differ from the commit `base`, changes that are not committed included. Without a
/// `base`: from where the branch left `main`; on `main` from HEAD, or if nothing differs from that,
/// from the commit before.
pub(crate) fn paths(root: &Path, base: Option<&str>) -> Result<Vec<String>> {
    if let Some(base) = base {
        return since(root, base);
    }
    let left_at = lines(root, &["merge-base", MAIN, "HEAD"]).unwrap_or_default();
    let left_at = left_at.first().map_or("HEAD", String::as_str);
    let paths = since(root, left_at)?;
    if paths.is_empty() { since(root, "HEAD~1") } else { Ok(paths) }
}

/// The crates in which one of the `paths` lies.
pub(crate) fn changed<'a>(packages: &'a [Package], paths: &[String]) -> BTreeSet<&'a str> {
    let lies_in = |package: &&Package| paths.iter().any(|path| path.starts_with(package.directory()));
    packages.iter().filter(lies_in).map(|package| package.name.as_str()).collect()
}

/// The crates that use one of the `changed` directly, or are one of them.
pub(crate) fn with_users<'a>(packages: &'a [Package], changed: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let concerned = |package: &&Package| {
        changed.contains(package.name.as_str())
            || package.uses.iter().any(|used| changed.contains(used.name.as_str()))
    };
    packages.iter().filter(concerned).map(|package| package.name.as_str()).collect()
}

fn since(root: &Path, base: &str) -> Result<Vec<String>> {
    let mut paths = lines(root, &["diff", "--name-only", "--relative", base])?;
    paths.extend(lines(root, &["ls-files", "--others", "--exclude-standard"])?);
    Ok(paths)
}

/// What `git` prints.
fn lines(root: &Path, arguments: &[&str]) -> Result<Vec<String>> {
    let output = Command::new("git").args(arguments).current_dir(root).output().context("cannot run git")?;
    let command = arguments.join(" ");
    ensure!(output.status.success(), "git {command} failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Use;

    fn package(name: &str, uses: &[&str]) -> Package {
        let uses = uses.iter().map(|name| Use { name: (*name).to_owned(), for_tests: false }).collect();
        let manifest = format!("crates/{name}/Cargo.toml");
        Package { name: name.to_owned(), manifest, layer: None, uses, quick: Vec::new() }
    }

    #[test]
    fn a_change_concerns_its_crate_and_those_that_use_it_directly() {
        let packages = [
            package("disk", &[]),
            package("disks", &[]),
            package("volume", &["disk"]),
            package("play", &["volume"]),
        ];
        let paths = ["crates/disk/src/lib.rs", "docs/disk.md"].map(str::to_owned);
        let changed = changed(&packages, &paths);
        assert_eq!(changed, BTreeSet::from(["disk"]));
        assert_eq!(with_users(&packages, &changed), BTreeSet::from(["disk", "volume"]));
    }

    #[test]
    fn changes_are_those_of_the_branch_or_else_of_the_last_commit() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let git = |arguments: &[&str]| {
            let user = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
            let status = Command::new("git").current_dir(root).args(user).args(arguments).output().unwrap();
            assert!(status.status.success(), "{arguments:?}");
        };
        let write = |name: &str| std::fs::write(root.join(name), name).unwrap();
        let commit = |name: &str| {
            write(name);
            git(&["add", name]);
            git(&["commit", "--quiet", "--message", name]);
        };
        git(&["init", "--quiet", "--initial-branch", MAIN]);
        commit("first");
        commit("second");
        assert_eq!(paths(root, None).unwrap(), ["second"]);
        write("third");
        assert_eq!(paths(root, None).unwrap(), ["third"]);
        git(&["checkout", "--quiet", "-b", "branch"]);
        commit("third");
        write("fourth");
        assert_eq!(paths(root, None).unwrap(), ["third", "fourth"]);
        assert_eq!(paths(root, Some("HEAD")).unwrap(), ["fourth"]);
        assert!(paths(root, Some("nothing")).is_err());
    }
}
