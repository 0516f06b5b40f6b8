//! Functions that a document names as `crate::module::function` exist.

use crate::files::TextFile;
use crate::finding::Finding;

/// The document that lists the hops of a request.
const DOCUMENT: &str = "docs/life-of-a-request.md";
/// Fewer hops than this would mean that the table was not found.
const HOPS_MIN: usize = 20;

/// Every function named in the document that no source has.
pub(crate) fn check(files: &[TextFile]) -> Vec<Finding> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![Finding::at(DOCUMENT, 0, "is missing")];
    };
    let (mut findings, mut hops) = (Vec::new(), 0);
    for (number, line) in document.text.lines().enumerate() {
        let Some(name) = hop(line) else { continue };
        hops += 1;
        if !exists(name, files) {
            findings.push(Finding::at(DOCUMENT, number + 1, format!("there is no function `{name}`")));
        }
    }
    if hops < HOPS_MIN {
        findings.push(Finding::at(DOCUMENT, 0, format!("has {hops} hops, and {HOPS_MIN} are expected")));
    }
    findings
}

/// The function that a row of the table begins with.
fn hop(line: &str) -> Option<&str> {
    let name = line.strip_prefix("| `")?.split_once("` |")?.0;
    name.contains("::").then_some(name)
}

/// Whether a source file of that crate and module defines the function.
fn exists(name: &str, files: &[TextFile]) -> bool {
    let parts: Vec<&str> = name.split("::").collect();
    let [package, modules @ .., function] = parts.as_slice() else { return false };
    let stem = format!("crates/{}/src/{}", package.replace('_', "-"), modules.join("/"));
    let definitions = [format!("fn {function}("), format!("fn {function}<")];
    files.iter().any(|file| {
        let is_module = file.path == format!("{stem}.rs") || file.path.starts_with(&format!("{stem}/"));
        is_module && definitions.iter().any(|definition| file.text.contains(definition))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn functions_are_found_in_their_modules_only() {
        let files = [
            file("crates/reel-play/src/engine/mod.rs", "impl Engine { pub fn fill(&mut self) {} }"),
            file("crates/reel-http/src/service.rs", "fn begin<T>() {}"),
        ];
        assert!(exists("reel_play::engine::fill", &files));
        assert!(exists("reel_http::service::begin", &files));
        assert!(!exists("reel_http::service::fill", &files));
        assert!(!exists("reel_play::engine::fil", &files));
        assert!(!exists("fill", &files));
    }

    #[test]
    fn a_function_that_is_gone_and_a_missing_table_are_found() {
        assert_eq!(check(&[]).len(), 1);
        let document = file(DOCUMENT, "| `reel_x::y::gone` | serve | text |\n");
        let found: Vec<String> = check(&[document]).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].ends_with("life-of-a-request.md:1: there is no function `reel_x::y::gone`"));
    }
}
