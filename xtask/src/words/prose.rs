//! What people read of a file: words with their lines, and breaks that no phrase goes over.

use std::collections::BTreeSet;

/// How a file's prose is told from its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// All but code spans and fenced blocks.
    Markdown,
    /// All but tags.
    Html,
    /// Comments, string literals with a space in them, names of functions.
    Rust,
    /// Comments, and string literals with a space in them. CSS is read so, too.
    TypeScript,
    /// Comments. Shell scripts are read so, too.
    Toml,
}

impl Language {
    /// The language of the file at `path`; none if it holds no prose.
    pub(crate) fn of(path: &str) -> Option<Self> {
        if path.starts_with("scripts/") || path == "Makefile" {
            return Some(Self::Toml);
        }
        let (_, ending) = path.rsplit_once('.')?;
        Some(match ending {
            "md" => Self::Markdown,
            "html" => Self::Html,
            "rs" => Self::Rust,
            "ts" | "css" => Self::TypeScript,
            "toml" => Self::Toml,
            _ => return None,
        })
    }
}

/// A word in lower case, or the end of what a phrase may span. Lines count from 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word { line: usize, text: String },
    Break { line: usize },
}

impl Token {
    pub(crate) fn line(&self) -> usize {
        match self {
            Self::Word { line, .. } | Self::Break { line } => *line,
        }
    }
}

/// The prose of a file.
#[derive(Debug, Default)]
pub(crate) struct Prose {
    pub(crate) tokens: Vec<Token>,
    /// Lines that hold a comment, in languages that have them.
    pub(crate) comment_lines: BTreeSet<usize>,
}

impl Prose {
    pub(crate) fn new(text: &str, language: Language) -> Self {
        let mut prose = Self::default();
        match language {
            Language::Markdown => prose.markdown(text),
            Language::Html => prose.html(text),
            Language::Toml => prose.toml(text),
            Language::Rust | Language::TypeScript => {
                let rest = text.chars().collect();
                Source { rest, at: 0, line: 0, rust: language == Language::Rust, prose: &mut prose }.run();
            }
        }
        prose
    }

    fn markdown(&mut self, text: &str) {
        let mut fenced = false;
        for (line, text) in text.lines().enumerate() {
            let text = text.trim_start().trim_start_matches(['>', '#']);
            if text.trim_start().starts_with("```") {
                fenced = !fenced;
                self.pause(line);
            } else if fenced {
                self.code(line, text);
            } else {
                if text.trim().is_empty() || text.starts_with("- ") {
                    self.pause(line);
                }
                self.spans(line, text);
            }
        }
    }

    fn html(&mut self, text: &str) {
        let mut in_tag = false;
        for (line, text) in text.lines().enumerate() {
            let mut outside = String::new();
            for c in text.chars() {
                match c {
                    '<' => in_tag = true,
                    '>' => in_tag = false,
                    _ if !in_tag => outside.push(c),
                    _ => {}
                }
            }
            self.words(line, &outside);
        }
    }

    fn toml(&mut self, text: &str) {
        for (line, text) in text.lines().enumerate() {
            let comment =
                text.strip_prefix('#').or_else(|| text.split_once(" # ").map(|(_, comment)| comment));
            match comment {
                Some(comment) => self.spans(line, comment),
                None => self.pause(line),
            }
        }
    }

    /// Words of a line, without what stands between backticks.
    fn spans(&mut self, line: usize, text: &str) {
        for (index, span) in text.split('`').enumerate() {
            if index % 2 == 0 {
                self.words(line, span);
            } else {
                self.code(line, span);
            }
        }
    }

    /// Of code only options are read.
    fn code(&mut self, line: usize, text: &str) {
        self.pause(line);
        for word in text.split_whitespace().filter(|word| word.starts_with("--")) {
            self.words(line, word);
            self.pause(line);
        }
    }

    fn pause(&mut self, line: usize) {
        self.tokens.push(Token::Break { line });
    }

    fn words(&mut self, line: usize, text: &str) {
        let mut word = String::new();
        // A space at the end closes the last word.
        for c in text.chars().chain([' ']) {
            if c.is_alphanumeric() || "_-'".contains(c) {
                word.extend(c.to_lowercase());
                continue;
            }
            let ended = word.trim_end_matches(['-', '\'', '_']).trim_start_matches(['\'', '_']);
            if ended.contains(char::is_alphanumeric) {
                self.tokens.push(Token::Word { line, text: ended.to_owned() });
            }
            word.clear();
            if ".,;:!?()|".contains(c) {
                self.pause(line);
            }
        }
    }
}

/// Rust or TypeScript, read character by character.
struct Source<'a> {
    rest: Vec<char>,
    at: usize,
    line: usize,
    rust: bool,
    prose: &'a mut Prose,
}

impl Source<'_> {
    fn run(&mut self) {
        let mut code = String::new();
        let mut had_comment = false;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('/')) => {
                    // Lines of comments with nothing else on them are one text.
                    if !code.trim().is_empty() {
                        self.prose.pause(self.line);
                    }
                    had_comment = true;
                    self.line_comment();
                }
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string('"'),
                ('\'' | '`', _) if !self.rust => self.string(c),
                ('\'', _) => self.quote(),
                ('r', Some('"' | '#')) if self.rust && !code.ends_with(is_part) => self.raw_string(),
                ('\n', _) => {
                    if !had_comment || !code.trim().is_empty() {
                        self.prose.pause(self.line);
                    }
                    self.function_name(&code);
                    (code, had_comment) = (String::new(), false);
                    self.take();
                }
                _ => {
                    code.push(c);
                    self.take();
                }
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn line_comment(&mut self) {
        let mut text = String::new();
        while let Some(c) = self.peek(0).filter(|&c| c != '\n') {
            text.push(c);
            self.at += 1;
        }
        self.prose.comment_lines.insert(self.line);
        self.prose.spans(self.line, text.trim_start_matches(['/', '!']));
    }

    fn block_comment(&mut self) {
        let (mut depth, mut text) = (0, String::new());
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) if self.rust || depth == 0 => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    if c == '\n' {
                        self.comment_part(&mut text);
                    } else {
                        text.push(c);
                    }
                    self.take();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                break;
            }
        }
        self.comment_part(&mut text);
        self.prose.pause(self.line);
    }

    fn comment_part(&mut self, text: &mut String) {
        self.prose.comment_lines.insert(self.line);
        self.prose.spans(self.line, text.trim_start().trim_start_matches('*'));
        text.clear();
    }

    /// A string literal. In TypeScript `'` and `"` end with their line at the latest, so a quote in
    /// a regular expression does no harm beyond it.
    fn string(&mut self, quote: char) {
        let many_lines = self.rust || quote == '`';
        self.at += 1;
        let (mut text, mut ended) = (String::new(), false);
        while let Some(c) = self.peek(0).filter(|&c| many_lines || c != '\n') {
            let line = self.line;
            self.take();
            match c {
                '\\' => {
                    self.take();
                    text.push(' ');
                }
                '\n' => self.message(line, &mut text),
                c if c == quote => {
                    ended = true;
                    break;
                }
                c => text.push(c),
            }
        }
        if ended {
            self.message(self.line, &mut text);
        } else {
            // No literal after all: what follows the quote is read as code.
            self.at -= text.chars().count();
        }
        self.prose.pause(self.line);
    }

    fn raw_string(&mut self) {
        self.at += 1;
        let mut hashes = 0;
        while self.peek(0) == Some('#') {
            hashes += 1;
            self.at += 1;
        }
        if self.peek(0) != Some('"') {
            return;
        }
        self.at += 1;
        let mut text = String::new();
        while let Some(c) = self.peek(0) {
            let line = self.line;
            self.take();
            match c {
                '\n' => self.message(line, &mut text),
                '"' if (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) => {
                    self.at += hashes;
                    break;
                }
                c => text.push(c),
            }
        }
        self.message(self.line, &mut text);
        self.prose.pause(self.line);
    }

    /// A line of a literal: a message has spaces, a key or a path has none. What stands in braces is
    /// code.
    fn message(&mut self, line: usize, text: &mut String) {
        if text.trim().contains(' ') {
            for part in text.split('{') {
                self.prose.spans(line, part.split_once('}').map_or(part, |(_, after)| after));
            }
        }
        text.clear();
    }

    /// A character literal, or a lifetime.
    fn quote(&mut self) {
        let literal = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        self.at += match (literal, self.peek(1)) {
            (true, Some('\\')) => 3,
            (true, _) => 2,
            (false, _) => 1,
        };
        while literal && self.take().is_some_and(|c| c != '\'') {}
    }

    fn function_name(&mut self, code: &str) {
        let Some((_, rest)) = code.split_once("fn ").filter(|_| self.rust) else { return };
        let name: String = rest.chars().take_while(|&c| is_part(c)).collect();
        self.prose.words(self.line, &name.replace('_', " "));
        self.prose.pause(self.line);
    }
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
