//! `cargo xtask words`: finds words that are not used, in documents, comments, messages and names
//! of tests.
//!
//! The list is the last table of the glossary. Files under a prefix of [`PENDING`] are not checked
//! yet.

mod prose;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::files::{self, TextFile};
use crate::finding::Finding;
use prose::{Language, Prose, Token};

const GLOSSARY: &str = "docs/glossary.md";
/// Prefixes of paths that are not converted yet, one a line.
const PENDING: &str = "xtask/words-pending.txt";
/// Where the words themselves are the subject.
const EXEMPT: [&str; 2] = [GLOSSARY, "xtask/src/words"];
const CHANGELOG: &str = "CHANGELOG.md";
/// The heading of the changelog's table of old and new names, which is not checked.
const RENAMED: &str = "### Renamed";
const COMMENT_COLUMNS_MAX: usize = 100;

/// Prints every use of a word that is not to be used, and every comment that is too wide.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let files = files::text_files(root)?;
    let pending = pending(root)?;
    let list = List::read(&files)?;
    let mut found = 0;
    let mut uses_under: BTreeMap<&str, usize> = pending.iter().map(|prefix| (prefix.as_str(), 0)).collect();
    for file in files.iter().filter(|file| !EXEMPT.iter().any(|exempt| file.path.starts_with(exempt))) {
        let findings = list.check(file);
        match pending.iter().find(|prefix| file.path.starts_with(prefix.as_str())) {
            Some(prefix) => *uses_under.entry(prefix).or_default() += findings.len(),
            None => {
                found += findings.len();
                findings.iter().for_each(|finding| println!("{finding}"));
            }
        }
    }
    for (prefix, uses) in uses_under {
        match uses {
            0 => println!("note: {PENDING}: {prefix} is clean; remove it from the list"),
            uses => println!("note: {prefix} is not converted yet: {uses}"),
        }
    }
    if found == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{found} found; {GLOSSARY} says what to write instead");
    Ok(ExitCode::FAILURE)
}

/// The prefixes of [`PENDING`], without empty lines and comments.
fn pending(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(PENDING)).with_context(|| format!("cannot read {PENDING}"))?;
    let lines = text.lines().map(str::trim);
    Ok(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

/// Words and phrases that are not used, each with what to write instead.
struct List {
    entries: Vec<Entry>,
}

struct Entry {
    phrase: String,
    words: Vec<String>,
    instead: String,
}

impl List {
    /// Reads the list from the glossary among `files`.
    ///
    /// # Errors
    /// If there is no glossary, or no table `not | use` with rows in it.
    fn read(files: &[TextFile]) -> Result<Self> {
        let glossary = files.iter().find(|file| file.path == GLOSSARY);
        Self::parse(&glossary.with_context(|| format!("there is no {GLOSSARY}"))?.text)
    }

    fn parse(glossary: &str) -> Result<Self> {
        let table = glossary.lines().skip_while(|line| line.trim() != "| not | use |").skip(2);
        let rows = table.take_while(|line| line.starts_with('|'));
        let entries: Vec<Entry> = rows
            .filter_map(|row| {
                let (phrase, instead) = row.trim().trim_matches('|').split_once('|')?;
                let phrase = phrase.trim().to_lowercase();
                let words = phrase.split_whitespace().map(str::to_owned).collect();
                Some(Entry { phrase, words, instead: instead.trim().to_owned() })
            })
            .collect();
        ensure!(!entries.is_empty(), "{GLOSSARY} has no table with the columns `not` and `use`");
        Ok(Self { entries })
    }

    /// Every use in `file`, and its comments that are too wide; nothing for files without prose.
    fn check(&self, file: &TextFile) -> Vec<Finding> {
        let Some(language) = Language::of(&file.path) else { return Vec::new() };
        let prose = match file.path.as_str() {
            CHANGELOG => Prose::new(&without_renames(&file.text), language),
            _ => Prose::new(&file.text, language),
        };
        let mut findings = Vec::new();
        for at in 0..prose.tokens.len() {
            let rest = &prose.tokens[at..];
            if let Some(entry) = self.entries.iter().find(|entry| begins_with(rest, &entry.words)) {
                let text = format!("\"{}\" is not used: {}", entry.phrase, entry.instead);
                findings.push(Finding::at(&file.path, rest[0].line() + 1, text));
            }
        }
        for (line, text) in file.text.lines().enumerate() {
            let columns = text.chars().count();
            if columns > COMMENT_COLUMNS_MAX && prose.comment_lines.contains(&line) {
                let text = format!("a comment reaches column {columns}; {COMMENT_COLUMNS_MAX} is the most");
                findings.push(Finding::at(&file.path, line + 1, text));
            }
        }
        findings
    }
}

/// The changelog with empty lines from each [`RENAMED`] to the next heading, so that the other lines
/// keep their numbers.
fn without_renames(changelog: &str) -> String {
    let mut inside = false;
    let lines = changelog.lines().map(|line| {
        if line.starts_with('#') {
            inside = line.trim_end() == RENAMED;
        }
        if inside { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether `tokens` begin with `words`, without a break between them.
fn begins_with(tokens: &[Token], words: &[String]) -> bool {
    let is = |token: &Token, word: &str| match token {
        Token::Word { text, .. } => text == word || text.split('\'').next() == Some(word),
        Token::Break { .. } => false,
    };
    tokens.len() >= words.len() && tokens.iter().zip(words).all(|(token, word)| is(token, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY_TEXT: &str = "# Glossary\n\n| word | meaning |\n|---|---|\n| he | no row of the list |\n\n\
        ## Words not to use\n\n| not | use |\n|---|---|\n| his | its |\n| he | the client |\n| way of an arm | seek |\n\
        | let in | admitted |\n| --give-up | --replace-healthy |\n| the configuration's | overrides |\n\nEnd.\n";

    fn lines(path: &str, text: &str) -> Vec<String> {
        let list = List::parse(GLOSSARY_TEXT).unwrap();
        let file = TextFile { path: path.into(), text: text.into() };
        list.check(&file).iter().map(ToString::to_string).collect()
    }

    fn count(path: &str, text: &str) -> usize {
        lines(path, text).len()
    }

    #[test]
    fn the_list_is_the_table_with_its_two_columns() {
        let list = List::parse(GLOSSARY_TEXT).unwrap();
        assert_eq!(list.entries.len(), 6);
        assert_eq!(list.entries[2].words, ["way", "of", "an", "arm"]);
        assert_eq!(list.entries[2].instead, "seek");
        assert!(List::parse("# Glossary\n\n| not | use |\n|---|---|\n").is_err());
        assert!(List::parse("# Glossary\n").is_err());
    }

    #[test]
    fn the_list_of_this_repository_can_be_read() {
        let files = files::text_files(&crate::repository().unwrap()).unwrap();
        assert!(List::read(&files).unwrap().entries.len() > 20);
    }

    #[test]
    fn whole_words_are_found_in_any_case() {
        assert_eq!(lines("a.md", "# A\n\nHe reads.\n"), ["a.md:3: \"he\" is not used: the client"]);
        assert_eq!(count("a.md", "He's, he, (he) \"he\" **he** _x_ he.\n"), 6);
        assert_eq!(count("a.md", "the history, hex, HE-AAC, she'd, shelf\n"), 0);
        assert_eq!(count("a.md", "the configuration's key\n"), 1);
    }

    #[test]
    fn phrases_go_over_line_ends_and_not_over_punctuation() {
        assert_eq!(count("a.md", "one way  of\nan arm each\n"), 1);
        assert_eq!(count("a.md", "> a way of\n> an arm\n"), 1);
        assert_eq!(count("a.md", "who let, in time\n\nway of\n\nan arm\n"), 0);
        assert_eq!(
            lines("a.rs", "// was let\n// in at once\n")[0],
            "a.rs:1: \"let in\" is not used: admitted"
        );
        assert_eq!(count("a.rs", "// was let\nlet a = 1; // in\n"), 0);
    }

    #[test]
    fn code_is_not_prose_but_options_in_it_are() {
        assert_eq!(count("a.md", "`he` is\n\n```\nhe is let in\n```\n"), 0);
        assert_eq!(count("a.md", "say `reel x --give-up`\n\n```\nreel x --give-up # why\n```\n"), 2);
        assert_eq!(count("a.rs", "let he = his; /// `he`\n"), 0);
    }

    #[test]
    fn the_table_of_renames_is_not_checked_in_the_changelog_alone() {
        let text = "# A\n\nhe\n\n### Renamed\n\n| old | new |\n|---|---|\n| his `x --give-up` | its |\n\n### Fixed\n- He.\n";
        let found = |lines: Vec<String>| {
            let number = |line: &String| line.split(':').nth(1).map(str::to_owned);
            lines.iter().filter_map(number).collect::<Vec<_>>()
        };
        assert_eq!(found(lines("CHANGELOG.md", text)), ["3", "12"]);
        assert_eq!(found(lines("docs/a.md", text)), ["3", "9", "9", "12"]);
    }

    #[test]
    fn comments_messages_and_names_of_rust_are_read() {
        assert_eq!(count("a.rs", "/// He is.\n//! he\nlet a = 1; /* his */\n"), 3);
        assert_eq!(count("a.rs", "bail!(\"what he asked\"); let b = \"he\"; let c = 'h';\n"), 1);
        assert_eq!(count("a.rs", "const A: &str = r#\"a \"he\"\nis his\"#; fn f<'a>(x: &'a str) {}\n"), 2);
        assert_eq!(count("a.rs", "#[test]\nfn a_client_gets_his_own_stream() {}\n"), 1);
        assert_eq!(count("a.rs", "let a = \"\\\"he is\"; // it's his\n"), 2);
    }

    #[test]
    fn typescript_html_and_settings_are_read() {
        assert_eq!(count("a.ts", "const a = 'what he asked' + `his ${he} key`; // let in\n"), 3);
        assert_eq!(count("a.ts", "const don = /'/; // he\nconst b = he;\n"), 1);
        assert_eq!(count("a.html", "<p class=\"he\">He is</p>\n"), 1);
        assert_eq!(count("reel.toml", "# his share\nhe = \"his\"\n"), 1);
        assert_eq!(count("a.css", "/* his */\n.he { color: red; }\n"), 1);
        assert_eq!(count("scripts/a", "he # his\n# he\n"), 2);
        assert_eq!(count("a.bin", "he\n"), 0);
    }

    #[test]
    fn wide_comments_are_found_and_wide_code_is_not() {
        let wide = format!("// {}\n", "x".repeat(98));
        assert_eq!(count("a.rs", &wide), 1);
        assert_eq!(count("a.ts", &wide), 1);
        assert_eq!(count("a.rs", &wide.replace("// ", "   ")), 0);
        assert_eq!(count("a.md", &wide), 0);
        assert_eq!(count("a.rs", &format!("// {}\n", "x".repeat(97))), 0);
    }
}
