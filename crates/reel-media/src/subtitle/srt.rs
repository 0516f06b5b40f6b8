//! SubRip text: some HTML, and position codes from SubStation Alpha.

use super::{Style, Styled, bytes_behind_braces};

/// The text of an event as cue text. Bold, italic and underline are kept, other tags and codes
/// dropped. `None` if it shows nothing.
pub fn text(event: &str) -> Option<String> {
    let mut styled = Styled::default();
    let behind_braces = bytes_behind_braces(event);
    let mut rest = event;
    while let Some(c) = rest.chars().next() {
        if let Some((tag, after)) = tag(rest) {
            let (name, on) = match tag.strip_prefix('/') {
                Some(name) => (name, false),
                None => (tag, true),
            };
            let name = name.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
            if let Some(style) = Style::from_tag(&name) {
                styled.set(style, on);
            } else if name == "br" || name == "br/" {
                styled.push('\n');
            }
            rest = after;
        } else if rest.len() > behind_braces
            && let Some(after) = code(rest)
        {
            rest = after;
        } else {
            styled.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    styled.finish()
}

/// A `<...>` that is a tag; in `5 < 6` and `<3` it is text.
fn tag(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('<')?;
    // The search ends where a tag must end. Otherwise a text of brackets would be searched to its
    // end from each of them.
    let (tag, after) = text.split_at(text.find(['<', '>', '\n'])?);
    let begins = tag.strip_prefix('/').unwrap_or(tag).starts_with(|c: char| c.is_ascii_alphabetic());
    after.strip_prefix('>').filter(|_| begins).map(|after| (tag, after))
}

/// `{\an8}` and the like; braces without a backslash are text.
fn code(text: &str) -> Option<&str> {
    text.strip_prefix("{\\")?.split_once('}').map(|(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::text;
    use proptest::prelude::*;

    #[test]
    fn tags_and_codes() {
        let cases = [
            ("Plain", Some("Plain")),
            ("<i>It</i>\r\n<B>bo</B>", Some("<i>It</i>\n<b>bo</b>")),
            ("{\\an8}<font color=\"#ff0000\">red</font>", Some("red")),
            ("5 < 6 & 7 > 2 <3", Some("5 &lt; 6 &amp; 7 &gt; 2 &lt;3")),
            ("<b>a<i>b</b>c</i>", Some("<b>a<i>b</i></b><i>c</i>")),
            ("<i>never closed", Some("<i>never closed</i>")),
            ("{not a code}", Some("{not a code}")),
            ("one<br/>two", Some("one\ntwo")),
            ("<i></i>", None),
            ("", None),
        ];
        for (event, expected) in cases {
            assert_eq!(text(event).as_deref(), expected, "{event:?}");
        }
    }

    #[test]
    fn brackets_that_never_close_are_read_once() {
        // This would take minutes if each bracket caused a search to the end.
        for (event, bytes) in [("<".repeat(4 << 20), 4), ("{\\".repeat(2 << 20), 1)] {
            assert_eq!(text(&event).map(|cue| cue.len()), Some(event.len() * bytes));
        }
    }

    proptest! {
        #[test]
        fn result_is_clean(event in "\\PC*|(<|>|/|b|i|u|\\{|\\\\|\\}|\n|&| )*") {
            if let Some(cue) = text(&event) {
                prop_assert!(!cue.contains("-->") && !cue.contains("\n\n") && !cue.is_empty());
                prop_assert_eq!(cue.matches("<b>").count(), cue.matches("</b>").count());
                prop_assert_eq!(cue.matches("<i>").count(), cue.matches("</i>").count());
            }
        }
    }
}
