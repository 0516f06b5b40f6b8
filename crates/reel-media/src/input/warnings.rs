//! Remarks for the person who ingests, each said once.

use crate::limits;

/// A bounded list of remarks.
#[derive(Default)]
pub(crate) struct Warnings {
    list: Vec<String>,
    said: Vec<&'static str>,
}

impl Warnings {
    /// Adds a remark.
    pub(crate) fn add(&mut self, text: String) {
        if self.list.len() < limits::WARNINGS {
            self.list.push(text);
        } else if self.list.len() == limits::WARNINGS {
            self.list.push("more remarks were left out".to_owned());
        }
    }

    /// Adds a remark unless one about the same `subject` was made.
    pub(crate) fn once(&mut self, subject: &'static str, text: impl FnOnce() -> String) {
        if !self.said.contains(&subject) {
            self.said.push(subject);
            self.add(text());
        }
    }

    /// All remarks, in order.
    pub(crate) fn all(&self) -> &[String] {
        &self.list
    }
}
