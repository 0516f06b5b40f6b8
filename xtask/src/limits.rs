//! `cargo xtask limits`: prints all constants of limits, tuning and configuration with their
//! reasons, from the crates' own `limits.rs`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::files::{self, TextFile, crate_of};
use crate::finding::Finding;

const HEAD: &str = "# Limits, tuning and configuration\n";

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
reel.toml.",
    },
];

/// Prints the page.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    io::stdout().write_all(page(&files::text_files(root)?).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Constants under no known heading, which would not be on the page, and those without a reason.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let names = PARTS.map(|part| format!("`{MARK}{}`", part.name)).join(", ");
    let mut findings = Vec::new();
    for (_, file) in sources(files) {
        for constant in constants(&file.text) {
            if !PARTS.iter().any(|part| part.name == constant.part) {
                let text = format!("`{}` stands under none of the headings {names}", constant.name);
                findings.push(Finding::at(&file.path, constant.line, text));
            }
            if constant.why.is_empty() {
                let text = format!("`{}` has no reason: write it above, after `///`", constant.name);
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
        assert!(check(&files).is_empty());
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
            check(&[limits]).iter().map(ToString::to_string).collect::<Vec<_>>()
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
    fn a_constant_without_a_reason_is_found() {
        let found = |above: &str| {
            let text = format!("// ---- Limits\n\n{above}pub(crate) const A: u8 = 1;\n");
            check(&[file("crates/reel-http/src/limits.rs", &text)]).len()
        };
        assert_eq!((found("/// Why.\n"), found("///\n"), found("")), (0, 1, 1));
    }
}
