//! `unsafe` stays in its five rooms, and says there why it is sound.

use crate::files::{TextFile, crate_of};
use crate::finding::Finding;
use crate::rust_text::{RustText, has_word, word_positions};

/// Directories of the crates that may hold `unsafe`.
const ROOMS: [&str; 5] = [
    "crates/reel-arena/",
    "crates/reel-code/",
    "crates/reel-ring/",
    "crates/reel-rt/",
    "labs/shared-processor/",
];

/// Checks every Rust file.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let text = RustText::new(&file.text);
        if ROOMS.iter().any(|room| file.path.starts_with(room)) {
            findings.extend(unexplained(&file.path, &text));
        } else {
            findings.extend(misplaced(&file.path, &text));
            if is_crate_root(&file.path)
                && !text.code.iter().any(|line| line.contains("#![forbid(unsafe_code)]"))
            {
                findings.push(Finding::at(
                    &file.path,
                    1,
                    "a crate without unsafe says #![forbid(unsafe_code)]",
                ));
            }
        }
    }
    findings
}

fn misplaced(path: &str, text: &RustText) -> Vec<Finding> {
    let found = text.code.iter().enumerate().filter(|(_, line)| has_word(line, "unsafe"));
    found
        .map(|(index, _)| {
            Finding::at(
                path,
                index + 1,
                "unsafe belongs in reel-arena, -code, -ring, -rt and labs/shared-processor",
            )
        })
        .collect()
}

/// Blocks and impls of `unsafe` without a `SAFETY:` comment before them.
fn unexplained(path: &str, text: &RustText) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.code.iter().enumerate() {
        for at in word_positions(line, "unsafe") {
            let after = line[at + "unsafe".len()..].trim_start();
            let next = text.code.get(index + 1).map_or("", |next| next.trim_start());
            let opens = after.starts_with('{')
                || after.starts_with("impl")
                || (after.is_empty() && next.starts_with('{'));
            if opens && !explained(text, index) {
                findings.push(Finding::at(path, index + 1, "unsafe without a `// SAFETY:` reason"));
            }
        }
    }
    findings
}

/// Whether a `SAFETY:` comment stands on `line` or above it within the same statement.
fn explained(text: &RustText, line: usize) -> bool {
    if text.comments[line].contains("SAFETY:") {
        return true;
    }
    for above in (0..line).rev() {
        if text.comments[above].contains("SAFETY:") {
            return true;
        }
        let code = text.code[above].trim_end();
        let ends_statement = code.ends_with([';', '{', '}']);
        let blank = code.is_empty() && text.comments[above].is_empty();
        if ends_statement || blank {
            return false;
        }
    }
    false
}

fn is_crate_root(path: &str) -> bool {
    match crate_of(path) {
        Some((_, inside)) => matches!(inside, "src/lib.rs" | "src/main.rs"),
        None => path == "xtask/src/main.rs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&[TextFile { path: path.into(), text: text.into() }]).len()
    }

    #[test]
    fn unsafe_elsewhere_is_found() {
        assert_eq!(findings("crates/reel-disk/src/member.rs", "unsafe { x() }"), 1);
        assert_eq!(findings("crates/reel-disk/src/member.rs", "// unsafe { x() }\nlet y = \"unsafe\";"), 0);
        assert_eq!(findings("crates/reel-disk/tests/member.rs", "unsafe impl Send for X {}"), 1);
    }

    #[test]
    fn crate_roots_forbid_it() {
        assert_eq!(findings("crates/reel-disk/src/lib.rs", "//! Disks.\n"), 1);
        assert_eq!(findings("tools/reel-load/src/main.rs", "//! Load.\n"), 1);
        assert_eq!(findings("labs/a/src/lib.rs", "//! A.\n"), 1);
        assert_eq!(findings("crates/reel-disk/src/lib.rs", "//! Disks.\n#![forbid(unsafe_code)]\n"), 0);
        assert_eq!(findings("crates/reel-ring/src/lib.rs", "//! Rings.\n"), 0);
        assert_eq!(findings("labs/other/src/lib.rs", "//! Measures.\n"), 1);
        assert_eq!(findings("labs/shared-processor/src/lib.rs", "//! Shares.\n"), 0);
    }

    #[test]
    fn unsafe_needs_its_reason() {
        let path = "crates/reel-ring/src/driver.rs";
        assert_eq!(findings(path, "let x = unsafe { y() };"), 1);
        assert_eq!(findings(path, "// SAFETY: y is sound.\nlet x = unsafe { y() };"), 0);
        assert_eq!(findings(path, "// SAFETY: y is sound.\nlet x =\n    unsafe { y() };"), 0);
        assert_eq!(findings(path, "// SAFETY: z is sound.\nz();\nlet x = unsafe { y() };"), 1);
        assert_eq!(findings(path, "// SAFETY: no pointers inside.\nunsafe impl Send for X {}"), 0);
        assert_eq!(findings(path, "unsafe fn y() {}"), 0);
    }
}
