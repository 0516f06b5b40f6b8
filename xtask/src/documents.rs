//! Documents: one title each, and no link that leads nowhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::TextFile;
use crate::finding::Finding;

/// Checks every Markdown file; `paths` are all files of the repository.
pub(crate) fn check(files: &[TextFile], paths: &[String]) -> Vec<Finding> {
    let documents: BTreeMap<&str, Document> = files
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .map(|file| (file.path.as_str(), Document::new(&file.text)))
        .collect();
    let mut places: BTreeSet<String> = paths.iter().cloned().collect();
    for path in paths {
        let mut parent = path.as_str();
        while let Some((above, _)) = parent.rsplit_once('/') {
            places.insert(above.to_owned());
            parent = above;
        }
    }
    let mut findings = Vec::new();
    for (path, document) in &documents {
        if document.titles != 1 {
            let text = format!("{} lines begin with `# `; a document has one title", document.titles);
            findings.push(Finding::at(path, 0, text));
        }
        for (line, target) in &document.links {
            if let Some(fault) = link_fault(path, target, &documents, &places) {
                findings.push(Finding::at(path, *line, fault));
            }
        }
    }
    findings
}

struct Document {
    titles: usize,
    /// Anchors of its headings.
    anchors: BTreeSet<String>,
    /// Line (from 1) and target of each link.
    links: Vec<(usize, String)>,
}

impl Document {
    fn new(text: &str) -> Self {
        let mut document = Self { titles: 0, anchors: BTreeSet::new(), links: Vec::new() };
        let mut fenced = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            if fenced {
                continue;
            }
            let heading = line.trim_start_matches('#');
            let level = line.len() - heading.len();
            if level > 0 && heading.starts_with(' ') {
                document.titles += usize::from(level == 1);
                document.anchors.insert(anchor(heading));
            }
            document.links.extend(links(line).map(|target| (index + 1, target.to_owned())));
        }
        document
    }
}

/// The anchor a heading gets on the usual forges.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|&c| c.is_alphanumeric() || " -_".contains(c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Targets of `[text](target)` and `![text](target)` outside code spans.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').step_by(2);
    spans.flat_map(|span| {
        span.match_indices("](").filter_map(|(at, _)| {
            let target = &span[at + 2..];
            target.split_once(')').map(|(target, _)| target.split(' ').next().unwrap_or(target))
        })
    })
}

fn link_fault(
    path: &str,
    target: &str,
    documents: &BTreeMap<&str, Document>,
    places: &BTreeSet<String>,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let place = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
    if !places.contains(&place) {
        return Some(format!("link to {target}: there is no {place}"));
    }
    let known = documents.get(place.as_str()).is_none_or(|document| document.anchors.contains(anchor));
    (!anchor.is_empty() && !known).then(|| format!("link to {target}: {place} has no such heading"))
}

/// `target` as seen from the directory of `path`.
fn resolve(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        let files = [
            TextFile { path: "docs/a.md".into(), text: text.into() },
            TextFile { path: "README.md".into(), text: "# Reel\n\n## Two words, one `code`\n".into() },
        ];
        let paths = ["docs/a.md".into(), "README.md".into(), "docs/images/b.png".into()];
        check(&files, &paths).len()
    }

    #[test]
    fn one_title_a_document() {
        assert_eq!(findings("# A\n\n```\n# not a title\n```\n"), 0);
        assert_eq!(findings("# A\n# B\n"), 1);
        assert_eq!(findings("## A\n"), 1);
    }

    #[test]
    fn links_lead_somewhere() {
        assert_eq!(
            findings("# A\n[r](../README.md) ![b](images/b.png) [d](images) [w](https://x.y/z) [me](#a)"),
            0
        );
        assert_eq!(findings("# A\n[r](../README.md#two-words-one-code)"), 0);
        assert_eq!(findings("# A\n[r](../README.md#three)"), 1);
        assert_eq!(findings("# A\n[r](README.md) `[not](a link)`"), 1);
    }
}
