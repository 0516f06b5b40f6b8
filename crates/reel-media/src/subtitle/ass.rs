//! SubStation Alpha (`.ass`, `.ssa`) events: text with override codes.

use super::{Style, Styled, bytes_behind_braces};

/// Fields before the text of an event as Matroska stores it: ReadOrder, Layer, Style, Name, three
/// margins, Effect.
const FIELDS_BEFORE_TEXT: usize = 8;

/// The cue text of a Matroska `S_TEXT/ASS` or `S_TEXT/SSA` block. `None` if it shows nothing.
pub fn block(event: &str) -> Option<String> {
    text(event.splitn(FIELDS_BEFORE_TEXT + 1, ',').nth(FIELDS_BEFORE_TEXT)?)
}

/// The text field of an event as cue text. Bold, italic and underline are kept, other overrides
/// dropped, drawings left out. `None` if it shows nothing.
pub fn text(field: &str) -> Option<String> {
    let mut styled = Styled::default();
    let mut drawing = false;
    let behind_braces = bytes_behind_braces(field);
    let mut rest = field;
    while let Some(c) = rest.chars().next() {
        if rest.len() > behind_braces
            && let Some((codes, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'))
        {
            for code in codes.split('\\').skip(1) {
                override_code(code.trim(), &mut styled, &mut drawing);
            }
            rest = after;
            continue;
        }
        let escape = [("\\N", '\n'), ("\\n", '\n'), ("\\h", '\u{a0}')];
        let (c, after) = escape
            .iter()
            .find_map(|(code, c)| Some((*c, rest.strip_prefix(code)?)))
            .unwrap_or((c, &rest[c.len_utf8()..]));
        if !drawing {
            styled.push(c);
        }
        rest = after;
    }
    styled.finish()
}

fn override_code(code: &str, styled: &mut Styled, drawing: &mut bool) {
    let name = code.trim_end_matches(|c: char| c.is_ascii_digit());
    let value = code[name.len()..].parse::<u32>();
    match (name, value) {
        // The value may also be a weight from 100 to 900; 400 is regular.
        ("b", value) => styled.set(Style::Bold, value.is_ok_and(|weight| weight == 1 || weight > 400)),
        ("i", value) => styled.set(Style::Italic, value == Ok(1)),
        ("u", value) => styled.set(Style::Underline, value == Ok(1)),
        ("p", value) => *drawing = value.is_ok_and(|scale| scale > 0),
        _ if name.starts_with('r') => styled.reset(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides() {
        let cases = [
            ("Plain\\Ntwo", Some("Plain\ntwo")),
            ("{\\i1}It{\\i0} {\\b700\\u1}b{\\r}c", Some("<i>It</i> <b><u>b</u></b>c")),
            ("{\\pos(1,2)\\fad(1,2)}x{comment}y", Some("xy")),
            ("{\\p1}m 0 0 l 1 1{\\p0}", None),
            ("a\\hb & <c>", Some("a\u{a0}b &amp; &lt;c&gt;")),
            ("{open", Some("{open")),
        ];
        for (field, expected) in cases {
            assert_eq!(text(field).as_deref(), expected, "{field:?}");
        }
    }

    #[test]
    fn braces_that_never_close_are_read_once() {
        // This would take minutes if each brace caused a search to the end.
        let field = "{".repeat(4 << 20);
        assert_eq!(text(&field), Some(field));
    }

    #[test]
    fn matroska_block() {
        assert_eq!(block("0,0,Default,,0,0,0,,Yes, with commas").as_deref(), Some("Yes, with commas"));
        assert_eq!(block("0,0,Default"), None);
    }
}
