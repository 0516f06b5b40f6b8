//! Texts in the lines of playlists.

/// A name without what would end its line.
pub(crate) fn one_line(name: &str) -> String {
    let is_break = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    name.chars().map(|c| if is_break(c) { ' ' } else { c }).collect()
}
