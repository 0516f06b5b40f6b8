//! Files, tests, items and examples that documents name exist.

use std::collections::BTreeSet;

use crate::files::TextFile;
use crate::finding::Finding;
use crate::workspace::Package;

/// Functions of the kernel that look like names of tests.
const FOREIGN: [&str; 2] = ["bpf_skb_change_tail", "zerocopy_fill_skb_from_iter"];
/// What a name in code has at least so many words of is the name of a test or a metric.
const NAME_WORDS_MIN: usize = 4;
/// The package whose name also begins commands: `reel volume`.
const COMMAND: &str = "reel";

/// Checks the code spans of documents; `paths` are all files of the repository.
pub(crate) fn check(files: &[TextFile], paths: &[String], packages: &[Package]) -> Vec<Finding> {
    let known = Known::new(files, paths, packages);
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_document(&file.path)) {
        let mut fenced = false;
        for (index, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            let faults: Vec<(&str, &str)> = if fenced {
                // Only files of diagrams: the rest may be the output of a program.
                let words = line.split(|c: char| c.is_whitespace() || "(),;".contains(c));
                let gone = words.filter(|word| word.ends_with(".rs") && !known.has_place(word));
                gone.map(|word| (word, "there is no such file")).collect()
            } else {
                let spans = line.split('`').skip(1).step_by(2);
                spans.filter_map(|span| Some((span, known.fault(span)?))).collect()
            };
            for (span, fault) in faults {
                findings.push(Finding::at(&file.path, index + 1, format!("`{span}`: {fault}")));
            }
        }
    }
    findings
}

fn is_document(path: &str) -> bool {
    ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].contains(&path)
        || path.ends_with(".md") && path.starts_with("docs/")
        || path.ends_with("/README.md") && path.starts_with("labs/")
}

/// What there is to name.
struct Known<'a> {
    packages: &'a [Package],
    /// Files and directories.
    places: BTreeSet<&'a str>,
    /// Names of directories at the root and of the packages' own directories.
    tops: BTreeSet<&'a str>,
    sources: Vec<&'a TextFile>,
    /// Every word of the sources that may be a name.
    words: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn new(files: &'a [TextFile], paths: &'a [String], packages: &'a [Package]) -> Self {
        let parents = |path: &'a String| path.match_indices('/').map(|(at, _)| &path[..at]);
        let roots = paths.iter().filter_map(|path| Some(path.split_once('/')?.0));
        let homes = packages.iter().map(|package| package.directory().trim_end_matches('/'));
        let is_source = |file: &&TextFile| {
            [".rs", ".ts", ".c", ".h", ".toml"].iter().any(|ending| file.path.ends_with(ending))
        };
        let sources: Vec<&TextFile> = files.iter().filter(is_source).collect();
        Self {
            packages,
            places: paths.iter().flat_map(parents).chain(paths.iter().map(String::as_str)).collect(),
            tops: roots.chain(homes.filter_map(|home| home.rsplit('/').next())).collect(),
            words: sources.iter().flat_map(|file| words(&file.text)).collect(),
            sources,
        }
    }

    fn fault(&self, span: &str) -> Option<&'static str> {
        if span.starts_with("cargo ") {
            return self.command_fault(span);
        }
        if let Some((place, test)) = span.split_once(": ") {
            let (package, modules) = place.split_once(' ')?;
            let package = self.package(package)?;
            let is_there = self.has(package, modules, |file| words(&file.text).any(|word| word == test));
            return (!is_there).then_some("there is no such test");
        }
        if let Some((package, modules)) = span.split_once(' ') {
            let is_module = modules.chars().all(|c| is_name(c) || c == ':')
                && (package != COMMAND || modules.contains("::"));
            let package = self.package(package).filter(|_| is_module)?;
            return (!self.has(package, modules, |_| true)).then_some("there is no such file");
        }
        if self.is_path(span) {
            return (!self.has_place(span.trim_end_matches('/'))).then_some("there is no such file");
        }
        if let Some((package, item)) = span.split_once("::") {
            let package = self.package(&package.replace('_', "-"))?;
            let name = item.rsplit("::").next()?.trim_end_matches("()");
            let is_there = self.has(package, "", |file| words(&file.text).any(|word| word == name));
            return (!is_there).then_some("its crate has no such item");
        }
        let is_long = span.chars().all(|c| is_name(c) && !c.is_uppercase())
            && span.split('_').count() >= NAME_WORDS_MIN;
        (is_long && !self.words.contains(span) && !FOREIGN.contains(&span))
            .then_some("no source has this name")
    }

    /// Of a command of cargo, its package and its example.
    fn command_fault(&self, command: &str) -> Option<&'static str> {
        let words: Vec<&str> = command.split(' ').collect();
        let after = |option: &str| {
            let at = words.iter().position(|word| *word == option)?;
            words.get(at + 1).copied().filter(|word| word.contains(char::is_lowercase))
        };
        let Some(package) = self.package(after("-p")?) else { return Some("there is no such package") };
        let place = format!("{}examples/{}", package.directory(), after("--example")?);
        let is_there =
            self.places.contains(place.as_str()) || self.places.contains(format!("{place}.rs").as_str());
        (!is_there).then_some("the package has no such example")
    }

    fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Whether a source of `package` that lies in all of `modules` passes `test`. Unit tests lie in
    /// the file that they test.
    fn has(&self, package: &Package, modules: &str, test: impl Fn(&TextFile) -> bool) -> bool {
        self.sources.iter().any(|file| {
            let Some(inside) = file.path.strip_prefix(package.directory()) else { return false };
            let parts: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
            let mut modules = modules.split([' ', ':']).filter(|module| !["", "tests"].contains(module));
            modules.all(|module| parts.contains(&module)) && test(file)
        })
    }

    /// Whether a span means a file or directory of this repository: a source, or below a known
    /// directory.
    fn is_path(&self, span: &str) -> bool {
        let is_plain = span.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c));
        let top = span.split_once('/').is_some_and(|(top, _)| self.tops.contains(top));
        is_plain && !span.starts_with(['/', '.']) && (top || span.contains('/') && span.ends_with(".rs"))
    }

    /// Whether `place` is one, from the root or from any directory.
    fn has_place(&self, place: &str) -> bool {
        let ending = format!("/{place}");
        self.places.contains(place) || self.places.iter().any(|known| known.ends_with(&ending))
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_name(c)).filter(|word| !word.is_empty())
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: [(&str, &str); 4] = [
        ("crates/reel-play/src/engine.rs", "pub struct Engine;\n#[test]\nfn it_works() {}\n"),
        ("crates/reel-play/tests/play/network.rs", "fn viewers_go_before_bulk() {}\n"),
        ("crates/reel/tests/reel/server/misuse.rs", "fn a_key_gives_no_access() {}\n"),
        ("labs/lbap/examples/flow/main.rs", "fn main() { \"reel_sessions_ended_total\" }\n"),
    ];

    fn faults(document: &str) -> Vec<String> {
        let file = |(path, text): (&str, &str)| TextFile { path: path.into(), text: text.into() };
        let files: Vec<TextFile> = SOURCES.into_iter().chain([("docs/a.md", document)]).map(file).collect();
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        let package = |name: &str, home: &str| Package {
            name: name.into(),
            manifest: format!("{home}/Cargo.toml"),
            ..Package::default()
        };
        let packages = [
            package("reel-play", "crates/reel-play"),
            package("reel", "crates/reel"),
            package("lab-lbap", "labs/lbap"),
        ];
        check(&files, &paths, &packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_of_what_is_there_pass() {
        let document = "`crates/reel-play/src/engine.rs`, `reel-play/src`, `engine.rs`, `reel_play::Engine`\n\
            `reel-play engine::tests: it_works`, `reel-play network`, `reel server::misuse: a_key_gives_no_access`\n\
            `viewers_go_before_bulk` `reel_sessions_ended_total` `cargo run -p lab-lbap --example flow`\n\
            ```\nlike engine.rs (see engine.rs)\n```\n";
        assert!(faults(document).is_empty(), "{:?}", faults(document));
    }

    #[test]
    fn names_of_what_is_gone_are_found() {
        for gone in [
            "crates/reel-play/src/gone.rs",
            "crates/gone",
            "tests/network.rs",
            "reel_play::Gone",
            "reel-play engine::tests: it_fails",
            "reel-play network: it_works",
            "reel-play gone",
            "reel server::gone",
            "viewers_go_after_bulk",
            "cargo run -p lab-gone --example flow",
            "cargo run -p lab-lbap --example gone",
        ] {
            assert_eq!(faults(&format!("# A\n\nsee `{gone}`\n")).len(), 1, "{gone}");
        }
        assert_eq!(faults("```\nin gone.rs\n```\n").len(), 1);
        assert!(
            faults("see `a/gone.rs`\n")[0].starts_with("docs/a.md:1: `a/gone.rs`: there is no such file")
        );
    }

    #[test]
    fn what_is_no_name_of_this_repository_passes() {
        let document = "`reel volume check` `reel serve` `block/blk-throttle.c` `/etc/reel.toml` `std::fs::read`\n\
            `bpf_skb_change_tail` `a_short_name` `other.rs` `cargo xtask test -p NAME` `media: a film` `target/x.log`\n";
        assert!(faults(document).is_empty(), "{:?}", faults(document));
    }
}
