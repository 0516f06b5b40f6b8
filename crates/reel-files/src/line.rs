//! Values as lines.

use crate::limits::VALUE_BYTES_MAX;

/// A value as one line, whatever the server said: a script reads a line, and a terminal shows it.
pub(crate) fn one_line(value: &str) -> String {
    let mut line = String::new();
    for c in value.chars() {
        if line.len() + c.len_utf8() >= VALUE_BYTES_MAX {
            break;
        }
        line.push(if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
    }
    line.push('\n');
    line
}
