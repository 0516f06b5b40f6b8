//! Rust source taken apart just enough: code without its comments and literals, and the comments of
//! each line.

/// A source file taken apart. Lines count from 0 here.
#[derive(Debug)]
pub(crate) struct RustText {
    /// The code of each line; comments gone, string and character literals empty.
    pub(crate) code: Vec<String>,
    /// The comment text of each line.
    pub(crate) comments: Vec<String>,
}

impl RustText {
    /// Takes `source` apart. Source that does not compile comes out somehow.
    pub(crate) fn new(source: &str) -> Self {
        let mut splitter = Splitter {
            rest: source.chars().collect(),
            at: 0,
            text: Self { code: vec![String::new()], comments: vec![String::new()] },
        };
        splitter.run();
        splitter.text
    }

    /// Lines that hold code.
    pub(crate) fn code_lines(&self) -> usize {
        self.code.iter().filter(|line| !line.trim().is_empty()).count()
    }
}

/// Whether `code` holds `word` as a whole word.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    word_positions(code, word).next().is_some()
}

/// Byte offsets of `word` as a whole word in `code`.
pub(crate) fn word_positions<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).filter_map(move |(at, _)| {
        let before = code[..at].chars().next_back().is_some_and(is_part);
        let after = code[at + word.len()..].chars().next().is_some_and(is_part);
        (!before && !after).then_some(at)
    })
}

struct Splitter {
    rest: Vec<char>,
    at: usize,
    text: RustText,
}

impl Splitter {
    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(),
                ('r' | 'b' | 'c', _) if !self.after_word() && self.raw_or_prefixed() => {}
                ('\'', _) => self.quote(),
                _ => self.code(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    /// The character before this one belongs to a word.
    fn after_word(&self) -> bool {
        self.at > 0 && (self.rest[self.at - 1].is_alphanumeric() || self.rest[self.at - 1] == '_')
    }

    fn new_line(&mut self) {
        self.text.code.push(String::new());
        self.text.comments.push(String::new());
    }

    fn code(&mut self) {
        let Some(c) = self.peek(0) else { return };
        self.at += 1;
        match c {
            '\n' => self.new_line(),
            c => push_last(&mut self.text.code, c),
        }
    }

    fn line_comment(&mut self) {
        while let Some(c) = self.peek(0).filter(|&c| c != '\n') {
            push_last(&mut self.text.comments, c);
            self.at += 1;
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => {
                    depth += 1;
                    self.at += 2;
                }
                ('*', Some('/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return;
                    }
                }
                ('\n', _) => {
                    self.new_line();
                    self.at += 1;
                }
                _ => {
                    push_last(&mut self.text.comments, c);
                    self.at += 1;
                }
            }
        }
    }

    /// `r"`, `r#"`, `b"`, `br"`, `c"`, `b'`; false (nothing taken) if this is a plain word.
    fn raw_or_prefixed(&mut self) -> bool {
        let mut ahead = 0;
        while matches!(self.peek(ahead), Some('r' | 'b' | 'c')) && ahead < 2 {
            ahead += 1;
        }
        let raw = (0..ahead).any(|index| self.peek(index) == Some('r'));
        let mut hashes = 0;
        while raw && self.peek(ahead + hashes) == Some('#') {
            hashes += 1;
        }
        match self.peek(ahead + hashes) {
            Some('"') if raw => {
                self.at += ahead + hashes;
                self.raw_string(hashes);
                true
            }
            Some('"') if ahead == 1 => {
                self.at += ahead;
                self.string();
                true
            }
            Some('\'') if ahead == 1 && self.peek(0) == Some('b') => {
                self.at += 1;
                self.quote();
                true
            }
            _ => false,
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        push_last(&mut self.text.code, '"');
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == '\n' {
                self.new_line();
            }
            if c == '"' && (0..hashes).all(|index| self.peek(index) == Some('#')) {
                self.at += hashes;
                break;
            }
        }
        push_last(&mut self.text.code, '"');
    }

    fn string(&mut self) {
        push_last(&mut self.text.code, '"');
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '\\' => {
                    if self.peek(0) == Some('\n') {
                        self.new_line();
                    }
                    self.at += 1;
                }
                '\n' => self.new_line(),
                '"' => break,
                _ => {}
            }
        }
        push_last(&mut self.text.code, '"');
    }

    /// A character literal, or a lifetime (kept as code).
    fn quote(&mut self) {
        let literal = match self.peek(1) {
            Some('\\') => true,
            Some(_) => self.peek(2) == Some('\''),
            None => false,
        };
        if !literal {
            self.code();
            return;
        }
        self.at += if self.peek(1) == Some('\\') { 3 } else { 2 };
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == '\'' {
                break;
            }
        }
        self.text.code.last_mut().into_iter().for_each(|line| line.push_str("''"));
    }
}

fn push_last(lines: &mut [String], c: char) {
    if let Some(line) = lines.last_mut() {
        line.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_taken_out() {
        let text = RustText::new(
            "let a = \"unsafe // no\"; // yes \"x\"\n/* one\n/* two */ unsafe */ b('\"', '\\'', b'x')",
        );
        assert_eq!(text.code, ["let a = \"\"; ", "", " b('', '', '')"]);
        assert_eq!(text.comments[0], "// yes \"x\"");
        assert_eq!(text.comments[1], " one");
        assert!(text.comments[2].contains("unsafe"));
    }

    #[test]
    fn raw_strings_and_lifetimes_are_told_apart() {
        let text = RustText::new(
            "fn f<'a>(x: &'a str) { g(r#\"unsafe \" {\"#, br\"y\", c\"z\", br) }\nfor_r\"\\\"\"",
        );
        assert_eq!(text.code[0], "fn f<'a>(x: &'a str) { g(\"\", \"\", \"\", br) }");
        assert_eq!(text.code[1], "for_r\"\"");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("x = unsafe {", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }
}
