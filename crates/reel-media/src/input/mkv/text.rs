//! Text of subtitle blocks (RFC 9559 sections 5.1.4 and 12.7) as WebVTT cue text.

/// How a track writes its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    /// `S_TEXT/UTF8`: SubRip without numbers and times.
    SubRip,
    /// `S_TEXT/ASS` and `S_TEXT/SSA`: one Dialogue line without its times.
    Ass,
    /// `S_TEXT/WEBVTT`: cue text.
    WebVtt,
}

impl TextFormat {
    /// Cue text of a block; empty if it shows nothing.
    pub(crate) fn cue(self, block: &[u8]) -> String {
        let text = String::from_utf8_lossy(block);
        let text = text.trim_matches('\0');
        let plain = match self {
            Self::SubRip => from_subrip(text),
            Self::Ass => from_ass(text),
            Self::WebVtt => text.to_owned(),
        };
        without_blank_lines(&plain)
    }
}

/// Keeps the tags WebVTT knows (b, i, u), drops others and override blocks, escapes the rest.
fn from_subrip(text: &str) -> String {
    let mut cue = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (kept, used) = match next {
            '<' => match rest.find('>').map(|end| &rest[..=end]).filter(|tag| is_tag(tag)) {
                Some(tag) => (plain_tag(tag), tag.len()),
                None => ("&lt;".to_owned(), 1),
            },
            '>' => ("&gt;".to_owned(), 1),
            '&' if is_entity(rest) => ("&".to_owned(), 1),
            '&' => ("&amp;".to_owned(), 1),
            '{' if rest.starts_with("{\\") => {
                (String::new(), rest.find('}').map_or(rest.len(), |end| end + 1))
            }
            other => (other.to_string(), other.len_utf8()),
        };
        cue.push_str(&kept);
        rest = &rest[used..];
    }
    cue
}

/// The dialogue of `ReadOrder,Layer,Style,Name,MarginL,MarginR,MarginV,Effect,Text`, without overrides and drawings.
fn from_ass(line: &str) -> String {
    const FIELDS_BEFORE_TEXT: usize = 8;
    let text = line.splitn(FIELDS_BEFORE_TEXT + 1, ',').nth(FIELDS_BEFORE_TEXT).unwrap_or("");
    let mut cue = String::with_capacity(text.len());
    let mut drawing = false;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (kept, used) = match next {
            '{' => {
                let end = rest.find('}').map_or(rest.len(), |end| end + 1);
                drawing = draws(&rest[..end]).unwrap_or(drawing);
                ("", end)
            }
            '\\' if rest.starts_with("\\N") || rest.starts_with("\\n") => ("\n", 2),
            '\\' if rest.starts_with("\\h") => (" ", 2),
            '<' => ("&lt;", 1),
            '>' => ("&gt;", 1),
            '&' => ("&amp;", 1),
            other => (&rest[..other.len_utf8()], other.len_utf8()),
        };
        if !drawing {
            cue.push_str(kept);
        }
        rest = &rest[used..];
    }
    cue
}

/// `\p1` begins a drawing, `\p0` ends it; `None` if the overrides say nothing of it.
fn draws(overrides: &str) -> Option<bool> {
    let after = overrides.rsplit("\\p").next().filter(|after| after.len() < overrides.len())?;
    after.chars().next().filter(char::is_ascii_digit).map(|digit| digit != '0')
}

fn is_tag(tag: &str) -> bool {
    let name = tag.trim_start_matches('<').trim_start_matches('/');
    name.starts_with(|first: char| first.is_ascii_alphabetic())
}

fn plain_tag(tag: &str) -> String {
    match tag.to_ascii_lowercase().as_str() {
        plain @ ("<b>" | "<i>" | "<u>" | "</b>" | "</i>" | "</u>") => plain.to_owned(),
        _ => String::new(),
    }
}

fn is_entity(rest: &str) -> bool {
    ["&amp;", "&lt;", "&gt;", "&nbsp;", "&lrm;", "&rlm;"].iter().any(|entity| rest.starts_with(entity))
}

/// A blank line would end a WebVTT cue.
fn without_blank_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn subrip() {
        let text = "<I>Tom</I> & <font color=\"red\">Jerry</font>\r\n\r\n{\\an8}1 < 2 --> x&nbsp;\0";
        let cue = TextFormat::SubRip.cue(text.as_bytes());
        assert_eq!(cue, "<i>Tom</i> &amp; Jerry\n1 &lt; 2 --&gt; x&nbsp;");
    }

    #[test]
    fn ass() {
        let line = "0,0,Default,,0,0,0,,{\\i1}Hello,{\\i0} you\\Nthere{\\p1}m 0 0 l 1 1{\\p0}!";
        assert_eq!(TextFormat::Ass.cue(line.as_bytes()), "Hello, you\nthere!");
        assert_eq!(TextFormat::Ass.cue(b"0,0,Default"), "");
    }

    proptest! {
        #[test]
        fn cues_never_hold_what_would_end_them(text in "\\PC*", kind in 0usize..2) {
            let cue = [TextFormat::SubRip, TextFormat::Ass][kind].cue(text.as_bytes());
            prop_assert!(!cue.contains("-->") && !cue.contains("\n\n"));
        }
    }
}
