//! Rules for every text file: length, unfinished work, places of one machine.

use crate::files::TextFile;
use crate::finding::Finding;
use crate::rust_text::{RustText, has_word};

/// Lines of code a file may have at most; a longer one has more than one job.
const CODE_LINES_MAX: usize = 700;

/// From here on a file is named, so that it is split before it must be.
const CODE_LINES_NOTED: usize = 450;

/// The beginning of files that are written by a program: no person has to read them as a whole.
const GENERATED: &str = "// Written by `cargo xtask ";

/// Marks of unfinished work.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/tm", "p/w/")];

/// Where lock files may say packages come from.
const LOCK_SOURCES: [&str; 2] =
    ["registry+https://github.com/rust-lang/crates.io-index", "https://registry.npmjs.org/"];

/// The mark of a test of the night.
const NIGHT: &str = r#"#[ignore = "night"]"#;

/// Checks every text file.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(unfinished(file));
        findings.extend(machine_paths(file));
        findings.extend(foreign_sources(file));
        findings.extend(night_tests(file));
        let lines = code_lines(file).unwrap_or(0);
        if lines > CODE_LINES_MAX {
            let text = format!("{lines} lines of code, at most {CODE_LINES_MAX}: give each job its file");
            findings.push(Finding::at(&file.path, 0, text));
        }
    }
    findings
}

/// Tests of the night that the day would run, and the other way round. `make nightly` finds them by
/// the name of their module.
fn night_tests(file: &TextFile) -> Vec<Finding> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let is_night = file.path.ends_with("/night.rs");
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let tests = lines.windows(2).enumerate().filter(|(_, pair)| pair[0] == "#[test]");
    let wrong = tests.filter(|(_, pair)| (pair[1] == NIGHT) != is_night);
    wrong
        .map(|(at, _)| {
            Finding::at(&file.path, at + 1, format!("a test in night.rs is marked {NIGHT}, and no other"))
        })
        .collect()
}

/// Files that are becoming long.
pub(crate) fn long_files(files: &[TextFile]) -> Vec<Finding> {
    let lines_of = |file| code_lines(file).map(|lines| (file, lines));
    let long = files.iter().filter_map(lines_of).filter(|&(_, lines)| lines > CODE_LINES_NOTED);
    long.map(|(file, lines)| Finding::at(&file.path, 0, format!("{lines} lines of code"))).collect()
}

/// Lines of code, in files that hold code.
fn code_lines(file: &TextFile) -> Option<usize> {
    if file.text.starts_with(GENERATED) {
        return None;
    }
    let extension = file.path.rsplit_once('.')?.1;
    match extension {
        "rs" => Some(RustText::new(&file.text).code_lines()),
        "ts" | "css" | "mjs" | "js" | "sh" | "py" => {
            Some(file.text.lines().filter(|line| !line.trim().is_empty()).count())
        }
        _ => None,
    }
}

fn unfinished(file: &TextFile) -> Vec<Finding> {
    if is_lock(&file.path) || file.path.ends_with(".svg") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let macros = [concat!("to", "do!"), concat!("unimple", "mented!")];
    let rust = file.path.ends_with(".rs").then(|| RustText::new(&file.text));
    for (index, line) in file.text.lines().enumerate() {
        let spoken = rust.as_ref().map_or(line, |rust| &rust.comments[index]);
        let code = rust.as_ref().map_or("", |rust| &rust.code[index]);
        if UNFINISHED.iter().any(|mark| has_word(spoken, mark))
            || macros.iter().any(|name| code.contains(name))
        {
            findings.push(Finding::at(
                &file.path,
                index + 1,
                "unfinished work: finish it, or write down what is missing",
            ));
        }
    }
    findings
}

fn machine_paths(file: &TextFile) -> Vec<Finding> {
    let found = |line: &str| {
        MACHINE_PATHS.iter().any(|path| {
            line.match_indices(path).any(|(at, _)| {
                // Only at the beginning of a path: `user/home/x` and `https://host/work/x` are no
                // such paths.
                !line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || "._-})$".contains(c))
            })
        })
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| found(line));
    lines.map(|(index, _)| Finding::at(&file.path, index + 1, "a path of one machine")).collect()
}

/// Packages a lock file would fetch from elsewhere than the public registries.
fn foreign_sources(file: &TextFile) -> Vec<Finding> {
    if !is_lock(&file.path) {
        return Vec::new();
    }
    let value = |line: &str| {
        let (key, value) = line.trim().split_once([':', '='])?;
        let key = key.trim().trim_matches('"');
        (key == "source" || key == "resolved").then(|| value.trim().trim_matches([',', '"', ' ']).to_owned())
    };
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if let Some(source) =
            value(line).filter(|source| !LOCK_SOURCES.iter().any(|known| source.starts_with(known)))
        {
            // A link to a directory of this repository has no host.
            if source.contains("://") {
                findings.push(Finding::at(&file.path, index + 1, "a package from a private registry"));
            }
        }
    }
    findings
}

fn is_lock(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("Cargo.lock" | "package-lock.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&[TextFile { path: path.into(), text: text.into() }]).len()
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(findings("crates/a/src/lib.rs", &"f();\n// why\n\n".repeat(700)), 0);
        assert_eq!(findings("crates/a/src/lib.rs", &"f();\n".repeat(701)), 1);
        assert_eq!(findings("web/src/app.ts", &"f();\n".repeat(701)), 1);
        assert_eq!(findings("docs/a.md", &"f();\n".repeat(701)), 0);
        let generated = format!("{GENERATED}api-types`\n{}", "f();\n".repeat(701));
        assert_eq!(findings("web/src/types.ts", &generated), 0);
    }

    #[test]
    fn unfinished_work_is_found() {
        assert_eq!(findings("a.rs", concat!("// TO", "DO: later")), 1);
        assert_eq!(findings("a.rs", concat!("fn f() { to", "do!() }")), 1);
        assert_eq!(findings("a.rs", concat!("let x = \"TO", "DO\";")), 0);
        assert_eq!(findings("a.md", concat!("FIX", "ME")), 1);
        assert_eq!(findings("a.md", "TODOS are ducks"), 0);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        assert_eq!(findings("a.md", concat!("see /wo", "rk/x")), 1);
        assert_eq!(findings("a.sh", concat!("cd \"/ho", "me/me\"")), 1);
        assert_eq!(findings("a.md", concat!("https://host/wo", "rk/x")), 0);
    }

    #[test]
    fn private_registries_are_found() {
        let lock = "\"resolved\": \"https://registry.npmjs.org/a/-/a-1.tgz\",";
        assert_eq!(findings("web/package-lock.json", lock), 0);
        let lock = "\"resolved\": \"https://npm.example.com/a/-/a-1.tgz\",";
        assert_eq!(findings("web/package-lock.json", lock), 1);
        assert_eq!(
            findings("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\""),
            0
        );
        assert_eq!(findings("Cargo.lock", "source = \"sparse+https://crates.example.com/\""), 1);
    }

    #[test]
    fn tests_of_the_night_lie_in_its_modules() {
        let (night, day) = (concat!("#[test]\n#[ignore = \"ni", "ght\"]\nfn a() {}"), "#[test]\nfn a() {}");
        assert_eq!(findings("a/night.rs", night), 0);
        assert_eq!(findings("a/night.rs", day), 1);
        assert_eq!(findings("a/day.rs", day), 0);
        assert_eq!(findings("a/day.rs", night), 1);
    }
}
