//! Warnings for the person who ingests, each given once.

use crate::limits;

/// A bounded list of warnings.
#[derive(Default)]
pub(crate) struct Warnings {
    list: Vec<String>,
    said: Vec<&'static str>,
}

impl Warnings {
    /// Adds a warning.
    pub(crate) fn add(&mut self, text: String) {
        if self.list.len() < limits::WARNINGS {
            self.list.push(text);
        } else if self.list.len() == limits::WARNINGS {
            self.list.push("more warnings were left out".to_owned());
        }
    }

    /// Adds a warning unless there is one about the same `subject`.
    pub(crate) fn once(&mut self, subject: &'static str, text: impl FnOnce() -> String) {
        if !self.said.contains(&subject) {
            self.said.push(subject);
            self.add(text());
        }
    }

    /// All warnings, in order.
    pub(crate) fn all(&self) -> &[String] {
        &self.list
    }
}
