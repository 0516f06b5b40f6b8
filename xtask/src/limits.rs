//! `cargo xtask limits`: the page of all limits, written from the crates' own `limits.rs`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::files::{self, TextFile, crate_of};
use crate::finding::Finding;

const PAGE: &str = "docs/limits.md";

const HEAD: &str = "\
# Limits

Everything that a file, a peer or an operator can ask for has a bound. Each crate keeps its bounds in `src/limits.rs`, with
the reason for each; this page is made from them by `cargo xtask limits`.
";

/// Writes the page.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let page = page(&files::text_files(root)?);
    fs::write(root.join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the page is the one that would be written.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let written = files.iter().find(|file| file.path == PAGE).map_or("", |file| &file.text);
    if written == page(files) {
        return Vec::new();
    }
    vec![Finding::at(PAGE, 0, "is not what the crates say; run `cargo xtask limits`")]
}

fn page(files: &[TextFile]) -> String {
    let mut page = HEAD.to_owned();
    for file in files {
        let Some((crate_name, inside)) = crate_of(&file.path) else { continue };
        let limits = limits(&file.text);
        if !file.path.ends_with("/limits.rs") || limits.is_empty() {
            continue;
        }
        let module = inside.trim_start_matches("src/").trim_end_matches("limits.rs").trim_end_matches('/');
        let heading =
            if module.is_empty() { crate_name.to_owned() } else { format!("{crate_name}, {module}") };
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {heading}\n\n| limit | value | why |\n|---|---|---|\n");
        for limit in limits {
            let _ = writeln!(page, "| `{}` | `{}` | {} |", limit.name, limit.value, limit.why);
        }
    }
    page
}

struct Limit {
    name: String,
    value: String,
    why: String,
}

/// Constants with their comments, as rustfmt lays them out.
fn limits(source: &str) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut why = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("///") {
            why = format!("{why} {}", comment.trim());
            continue;
        }
        if let Some(start) =
            line.strip_prefix("pub const ").or_else(|| line.strip_prefix("pub(crate) const "))
        {
            let mut declaration = start.to_owned();
            while !declaration.ends_with(';') {
                let Some(more) = lines.next() else { break };
                declaration.push_str(more.trim());
            }
            if let Some((name, rest)) = declaration.split_once(':')
                && let Some((_, value)) = rest.split_once(" = ").or_else(|| rest.split_once(" ="))
                && !name.contains('(')
            {
                let value = value.trim_end_matches(';').replace('|', "\\|");
                let why = plain(why.trim()).replace('|', "\\|");
                limits.push(Limit { name: name.to_owned(), value, why });
            }
        }
        why.clear();
    }
    limits
}

/// Links to items of the documentation lead nowhere on a page: their text is kept.
fn plain(comment: &str) -> String {
    comment.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_become_rows() {
        let text = "/// Longest head. See [`OTHER`].\n/// Two lines.\npub const HEAD_BYTES_MAX: usize = 16 * 1024;\n\n\
            /// Pair.\npub const PAIR: (u8, u8) =\n    (1, 2);\n\nconst HIDDEN: u8 = 1;\n";
        let page = page(&[TextFile { path: "crates/reel-http/src/limits.rs".into(), text: text.into() }]);
        assert!(page.contains("\n## reel-http\n"), "{page}");
        assert!(
            page.contains("| `HEAD_BYTES_MAX` | `16 * 1024` | Longest head. See `OTHER`. Two lines. |\n"),
            "{page}"
        );
        assert!(page.contains("| `PAIR` | `(1, 2)` | Pair. |\n"), "{page}");
        assert!(!page.contains("HIDDEN"));
    }

    #[test]
    fn an_old_page_is_found() {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let limits = file("crates/reel-http/src/limits.rs", "/// Why.\npub const A: u8 = 1;\n");
        let current = page(std::slice::from_ref(&limits));
        assert!(check(&[limits, file(PAGE, &current)]).is_empty());
        let limits = file("crates/reel-http/src/limits.rs", "/// Why.\npub const A: u8 = 2;\n");
        assert_eq!(check(&[limits, file(PAGE, &current)]).len(), 1);
    }
}
