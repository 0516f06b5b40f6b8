//! Texts in XML, in pages and in addresses.

use std::fmt::Write as _;

/// Stands for a character that XML cannot have.
const REPLACEMENT: char = '\u{fffd}';

/// Adds a text so that XML 1.0 and HTML read it as what it is, in an element and in a quoted
/// attribute. A character that XML cannot have is replaced.
pub(super) fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            // Readers of attributes take these for spaces.
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            c if is_xml_char(c) => out.push(c),
            _ => out.push(REPLACEMENT),
        }
    }
}

/// Adds a segment of a path, percent-encoded but for the unreserved characters (RFC 3986 section
/// 2.3).
pub(super) fn push_segment(out: &mut String, segment: &str) {
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let written = write!(out, "%{byte:02X}");
            written.expect("a string takes everything");
        }
    }
}

/// Whether XML 1.0 can have the character (section 2.2).
pub(super) fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Whether the text is the name of an element without a prefix (an NCName).
pub(super) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(starts_name) && chars.all(continues_name)
}

/// XML 1.0 section 2.3, `NameStartChar` without the colon.
fn starts_name(c: char) -> bool {
    matches!(
        c,
        'A'..='Z' | '_' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
            | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}' | '\u{200d}' | '\u{2070}'..='\u{218f}'
            | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}'
            | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}'
    )
}

/// The same, `NameChar`.
fn continues_name(c: char) -> bool {
    starts_name(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}' | '\u{2040}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_end_what_they_are_in() {
        let mut out = String::new();
        push_escaped(&mut out, "a<b>&\"'\r\u{1}\u{ffff}é七");
        assert_eq!(out, "a&lt;b&gt;&amp;&#34;&#39;&#13;\u{fffd}\u{fffd}é七");
        out.clear();
        push_segment(&mut out, "a b/é%.mp4");
        assert_eq!(out, "a%20b%2F%C3%A9%25.mp4");
    }

    #[test]
    fn names_of_elements() {
        for name in ["a", "_", "getetag", "é", "a-b.c1", "七"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "1a", "-", "a:b", "a b", "a\"", "a&", "a\0", "×"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
