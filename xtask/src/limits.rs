//! `cargo xtask limits`: the page of all limits, of tuning and of configuration, written from the
//! crates' own `limits.rs`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::files::{self, TextFile, crate_of};
use crate::finding::Finding;

const PAGE: &str = "docs/limits.md";

const HEAD: &str = "\
# Limits, tuning and configuration

Each crate keeps its constants in `src/limits.rs`, with the reason for each, under one of three headings. This page is made
from them by `cargo xtask limits`.
";

/// A heading comment of a `limits.rs` starts with this, and ends with the name of a part.
const MARK: &str = "// ---- ";

/// What a constant is: a part of the page.
struct Part {
    name: &'static str,
    about: &'static str,
}

const PARTS: [Part; 3] = [
    Part {
        name: "Limits",
        about: "Everything that a file, a peer, a device or an operator can ask for or claim has a bound, and so has every resource
that a client can take.",
    },
    Part {
        name: "Tuning",
        about: "These constants set when and how the product itself acts. Where a value was measured, its reason says by what.",
    },
    Part {
        name: "Configuration",
        about: "These are ranges and defaults of configuration keys and of options of commands. All keys, with their defaults, are in
[reel.toml](../reel.toml).",
    },
];

/// Writes the page.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let files = files::text_files(root)?;
    let misplaced = misplaced(&files);
    for finding in &misplaced {
        println!("{finding}");
    }
    if !misplaced.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    fs::write(root.join(PAGE), page(&files)).with_context(|| format!("cannot write {PAGE}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether every constant has its part, and the page is the one that would be written.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = misplaced(files);
    let written = files.iter().find(|file| file.path == PAGE).map_or("", |file| &file.text);
    if written != page(files) {
        findings.push(Finding::at(PAGE, 0, "is not what the crates say; run `cargo xtask limits`"));
    }
    findings
}

/// Constants without a part, which would not be on the page.
fn misplaced(files: &[TextFile]) -> Vec<Finding> {
    let names = PARTS.map(|part| format!("`{MARK}{}`", part.name)).join(", ");
    let mut findings = Vec::new();
    for (_, file) in sources(files) {
        for constant in constants(&file.text) {
            if !PARTS.iter().any(|part| part.name == constant.part) {
                let text = format!("`{}` stands under none of the headings {names}", constant.name);
                findings.push(Finding::at(&file.path, constant.line, text));
            }
        }
    }
    findings
}

fn page(files: &[TextFile]) -> String {
    let mut page = HEAD.to_owned();
    for part in PARTS {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {}\n\n{}\n", part.name, part.about);
        for (heading, file) in sources(files) {
            let mut constants = constants(&file.text);
            constants.retain(|constant| constant.part == part.name);
            if constants.is_empty() {
                continue;
            }
            let _ = write!(page, "\n### {heading}\n\n| constant | value | why |\n|---|---|---|\n");
            for constant in constants {
                let _ = writeln!(page, "| `{}` | `{}` | {} |", constant.name, constant.value, constant.why);
            }
        }
    }
    page
}

/// All `limits.rs`, each with its heading on the page: its crate, and its module if it has one.
fn sources(files: &[TextFile]) -> impl Iterator<Item = (String, &TextFile)> {
    files.iter().filter(|file| file.path.ends_with("/limits.rs")).filter_map(|file| {
        let (crate_name, inside) = crate_of(&file.path)?;
        let module = inside.trim_start_matches("src/").trim_end_matches("limits.rs").trim_end_matches('/');
        let heading =
            if module.is_empty() { crate_name.to_owned() } else { format!("{crate_name}, {module}") };
        Some((heading, file))
    })
}

struct Constant {
    line: usize,
    /// What the last heading comment says; empty before the first one.
    part: String,
    name: String,
    value: String,
    why: String,
}

/// Constants with their comments and headings, as rustfmt lays them out.
fn constants(source: &str) -> Vec<Constant> {
    let mut constants = Vec::new();
    let mut part = String::new();
    let mut why = String::new();
    let mut lines = source.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("///") {
            why = format!("{why} {}", comment.trim());
            continue;
        }
        if let Some(name) = line.strip_prefix(MARK) {
            part = name.to_owned();
        }
        if let Some(start) =
            line.strip_prefix("pub const ").or_else(|| line.strip_prefix("pub(crate) const "))
        {
            let mut declaration = start.to_owned();
            while !declaration.ends_with(';') {
                let Some((more, _)) = lines.next() else { break };
                declaration.push_str(more.trim());
            }
            if let Some((name, rest)) = declaration.split_once(':')
                && let Some((_, value)) = rest.split_once(" = ").or_else(|| rest.split_once(" ="))
                && !name.contains('(')
            {
                let value = value.trim_end_matches(';').replace('|', "\\|");
                let why = plain(why.trim()).replace('|', "\\|");
                constants.push(Constant {
                    line: number,
                    part: part.clone(),
                    name: name.to_owned(),
                    value,
                    why,
                });
            }
        }
        why.clear();
    }
    constants
}

/// Links to items of the documentation lead nowhere on a page: their text is kept.
fn plain(comment: &str) -> String {
    comment.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    #[test]
    fn constants_become_rows() {
        let text = "// ---- Limits\n\n/// Longest head. See [`OTHER`].\n/// Two lines.\npub const HEAD_BYTES_MAX: usize = 16 * 1024;\n\n\
            /// Pair.\npub const PAIR: (u8, u8) =\n    (1, 2);\n\nconst HIDDEN: u8 = 1;\n";
        let page = page(&[file("crates/reel-http/src/limits.rs", text)]);
        assert!(page.contains("\n### reel-http\n"), "{page}");
        assert!(
            page.contains("| `HEAD_BYTES_MAX` | `16 * 1024` | Longest head. See `OTHER`. Two lines. |\n"),
            "{page}"
        );
        assert!(page.contains("| `PAIR` | `(1, 2)` | Pair. |\n"), "{page}");
        assert!(!page.contains("HIDDEN"));
    }

    #[test]
    fn each_part_has_its_constants_of_every_crate_in_their_order() {
        let http = "// ---- Limits\n\n/// Why.\npub const B: u8 = 1;\n\n/// Why.\npub const A: u8 = 1;\n\n\
            // ---- Tuning\n\n/// Why.\npub(crate) const C: u8 = 1;\n";
        let reel = "// ---- Tuning\n\n/// Why.\npub const D: u8 = 1;\n\n// ---- Configuration\n\n/// Why.\npub const E: u8 = 1;\n";
        let files = [file("crates/reel-http/src/limits.rs", http), file("crates/reel/src/limits.rs", reel)];
        assert!(misplaced(&files).is_empty());
        let page = page(&files);
        let order: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with('#') || line.starts_with("| `"))
            .map(|line| line.split(" | ").next().unwrap())
            .collect();
        assert_eq!(
            order[1..],
            [
                "## Limits",
                "### reel-http",
                "| `B`",
                "| `A`",
                "## Tuning",
                "### reel-http",
                "| `C`",
                "### reel",
                "| `D`",
                "## Configuration",
                "### reel",
                "| `E`",
            ]
        );
    }

    #[test]
    fn a_constant_without_a_known_heading_is_found() {
        let found = |text: &str| {
            let limits = file("crates/reel-http/src/limits.rs", text);
            let current = page(std::slice::from_ref(&limits));
            check(&[limits, file(PAGE, &current)]).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found("// ---- Tuning\n\n/// Why.\npub const A: u8 = 1;\n").is_empty());
        let before =
            found("/// Why.\npub const A: u8 = 1;\n\n// ---- Tuning\n\n/// Why.\npub const B: u8 = 1;\n");
        assert_eq!(before.len(), 1);
        assert!(
            before[0].starts_with("crates/reel-http/src/limits.rs:2: `A` stands under none"),
            "{before:?}"
        );
        let unknown = found("// ---- Other\n\n/// Why.\npub const A: u8 = 1;\n");
        assert_eq!(unknown.len(), 1, "{unknown:?}");
    }

    #[test]
    fn an_old_page_is_found() {
        let limits =
            file("crates/reel-http/src/limits.rs", "// ---- Limits\n\n/// Why.\npub const A: u8 = 1;\n");
        let current = page(std::slice::from_ref(&limits));
        assert!(check(&[limits, file(PAGE, &current)]).is_empty());
        let limits =
            file("crates/reel-http/src/limits.rs", "// ---- Limits\n\n/// Why.\npub const A: u8 = 2;\n");
        assert_eq!(check(&[limits, file(PAGE, &current)]).len(), 1);
    }
}
