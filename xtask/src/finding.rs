//! What a check found.

use std::fmt;

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    place: String,
    text: String,
}

impl Finding {
    /// A breach in `file`, on `line` (from 1; 0 for the file as a whole).
    pub(crate) fn at(file: &str, line: usize, text: impl Into<String>) -> Self {
        let place = if line == 0 { file.to_owned() } else { format!("{file}:{line}") };
        Self { place, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.text)
    }
}
