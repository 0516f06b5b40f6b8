//! `cargo xtask check [--all] [--base COMMIT]`: what a change needs while one works on it.
//!
//! Everything is compiled, since cargo knows what a change does not concern. Tests run of the
//! changed crates and of those that use them directly; of programs that test the whole server, only
//! the quick part that their manifests name.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::suite::{self, TestProgram};
use crate::workspace::{self, Package};
use crate::{changes, results, tidy, words};

/// The part of the repository that is checked with other tools.
const PAGES: &str = "web/";
/// A change of these may concern every crate.
const DEPENDENCIES: [&str; 2] = ["Cargo.toml", "Cargo.lock"];
/// A selection of crates would have dependencies with other features, and compile those once more.
const EVERYTHING: [&str; 3] = ["--workspace", "--all-targets", "--locked"];

/// What to check.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// All crates, changed or not.
    all: bool,
    /// The commit from which changes count.
    base: Option<String>,
}

/// What has been checked, and when that began.
struct Steps {
    begun: Instant,
    failed: Vec<&'static str>,
}

/// Runs every step, and fails if one has failed.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let options = Options::of(arguments)?;
    let packages = workspace::packages(root)?;
    let paths = changes::paths(root, options.base.as_deref())?;
    let changed = changes::changed(&packages, &paths);
    let tested = if options.all {
        packages.iter().map(|package| package.name.as_str()).collect()
    } else {
        changes::with_users(&packages, &changed)
    };
    println!("changed: {}\ntested: {}", list(&changed), list(&tested));
    if !options.all && paths.iter().any(|path| DEPENDENCIES.contains(&path.as_str())) {
        println!("note: the workspace has changed; `make check ALL=1` tests all crates");
    }
    let mut steps = Steps { begun: Instant::now(), failed: Vec::new() };
    steps.step("format", || passes(workspace::cargo(root).args(["fmt", "--all", "--check"])));
    let mut programs = Vec::new();
    steps.step("build", || {
        programs = suite::build(root, &EVERYTHING.map(str::to_owned))?;
        Ok(true)
    });
    if steps.failed.is_empty() {
        programs.retain(|program| tested.contains(program.package.as_str()));
        // Clippy takes the processors while most of the tests wait.
        let mut clippy = clippy(root).spawn().context("cannot run clippy")?;
        steps.step("tests", || suite::run_all(programs, |program| quick_tests(program, &packages)));
        steps.step("clippy", || Ok(clippy.wait().context("cannot wait for clippy")?.success()));
    }
    steps.step("tidy", || Ok(tidy::run(root)? == ExitCode::SUCCESS));
    steps.step("words", || Ok(words::run(root)? == ExitCode::SUCCESS));
    steps.step("results", || Ok(results::run(root, true)? == ExitCode::SUCCESS));
    if options.all || paths.iter().any(|path| path.starts_with(PAGES)) {
        steps.step("pages", || passes(Command::new("scripts/web").arg("quick").current_dir(root)));
    }
    Ok(steps.end())
}

impl Options {
    fn of(arguments: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            match (argument, rest.len()) {
                ("--all", _) => options.all = true,
                ("--base", 1..) => options.base = rest.next().map(str::to_owned),
                _ => bail!("usage: cargo xtask check [--all] [--base COMMIT]"),
            }
        }
        Ok(options)
    }
}

impl Steps {
    /// Runs one step, and says how it ended and what it took. An error fails the step alone.
    fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<bool>) {
        println!("=== {name}");
        let begun = Instant::now();
        let passed = run().unwrap_or_else(|error| {
            println!("error: {error:#}");
            false
        });
        if !passed {
            self.failed.push(name);
        }
        let verdict = if passed { "ok" } else { "FAILED" };
        println!("{name}: {verdict} in {:.1} s", begun.elapsed().as_secs_f64());
    }

    fn end(self) -> ExitCode {
        let seconds = self.begun.elapsed().as_secs_f64();
        if self.failed.is_empty() {
            println!("checked in {seconds:.1} s; `make test` also tests what uses this indirectly");
            return ExitCode::SUCCESS;
        }
        println!("FAILED after {seconds:.1} s: {}", self.failed.join(", "));
        ExitCode::FAILURE
    }
}

/// The filters of a program of which only a part is quick; none for all others.
fn quick_tests(program: &TestProgram, packages: &[Package]) -> Vec<String> {
    let package = packages.iter().find(|package| package.name == program.package);
    let quick = package.into_iter().flat_map(|package| &package.quick);
    quick.filter(|quick| quick.program == program.target).flat_map(|quick| quick.filters.clone()).collect()
}

fn clippy(root: &Path) -> Command {
    let mut clippy = workspace::cargo(root);
    clippy.arg("clippy").args(EVERYTHING).args(["--quiet", "--", "--deny", "warnings"]).stdin(Stdio::null());
    clippy
}

fn passes(command: &mut Command) -> Result<bool> {
    let status = command.stdin(Stdio::null()).status();
    Ok(status.with_context(|| format!("cannot run {:?}", command.get_program()))?.success())
}

fn list(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        "no crate".to_owned()
    } else {
        names.iter().copied().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let of = |text: &str| Options::of(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("").unwrap(), Options::default());
        let both = Options { all: true, base: Some("main".into()) };
        assert_eq!(of("--all --base main").unwrap(), both);
        assert!(of("--base").is_err() && of("everything").is_err());
    }

    #[test]
    fn only_programs_with_a_quick_part_are_filtered() {
        let packages = workspace::packages(&crate::repository().unwrap()).unwrap();
        let filters =
            |package: &str, target: &str| quick_tests(&TestProgram::named(package, target), &packages);
        assert!(!filters("reel", "reel").is_empty() && !filters("reel-sim", "runs").is_empty());
        assert!(filters("reel-sim", "cli").is_empty() && filters("reel-http", "reel_http").is_empty());
    }
}
