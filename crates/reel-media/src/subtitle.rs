//! Subtitles: the formats of all containers become the text of WebVTT cues.

pub mod ass;
pub mod srt;
pub(crate) mod tx3g;
pub mod webvtt;
pub(crate) mod wvtt;

/// Bytes after the last closing brace of a text; all of them if there is none. A position with no
/// more bytes left than this has no closing brace after it. This avoids a search to the end from
/// each brace of a text of opening braces.
fn bytes_behind_braces(text: &str) -> usize {
    text.rfind('}').map_or(text.len(), |at| text.len() - at - 1)
}

/// Collects the text of a cue while its formatting is switched on and off, and keeps the markup
/// well formed.
#[derive(Default)]
struct Styled {
    text: String,
    /// Styles that are open, outermost first.
    open: Vec<Style>,
}

/// The formatting that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Bold,
    Italic,
    Underline,
}

impl Style {
    const ALL: [Self; 3] = [Self::Bold, Self::Italic, Self::Underline];

    fn tag(self) -> char {
        match self {
            Self::Bold => 'b',
            Self::Italic => 'i',
            Self::Underline => 'u',
        }
    }

    fn from_tag(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|style| name.chars().eq([style.tag()]))
    }
}

impl Styled {
    /// Adds a character of text.
    fn push(&mut self, c: char) {
        match c {
            '&' => self.text.push_str("&amp;"),
            '<' => self.text.push_str("&lt;"),
            // Escaped, so that no arrow can appear, which would end the cue's text.
            '>' => self.text.push_str("&gt;"),
            c => self.text.push(c),
        }
    }

    /// Switches a style on or off.
    fn set(&mut self, style: Style, on: bool) {
        match (self.open.iter().position(|open| *open == style), on) {
            (None, true) => {
                self.tag(style, true);
                self.open.push(style);
            }
            (Some(place), false) => {
                // Tags must nest, so the inner ones are closed and opened again.
                let inside: Vec<Style> = self.open.drain(place..).collect();
                inside.iter().rev().for_each(|style| self.tag(*style, false));
                for style in &inside[1..] {
                    self.tag(*style, true);
                    self.open.push(*style);
                }
            }
            _ => {}
        }
    }

    /// Switches every style off.
    fn reset(&mut self) {
        while let Some(style) = self.open.pop() {
            self.tag(style, false);
        }
    }

    /// The text of the cue; `None` if nothing is visible.
    fn finish(mut self) -> Option<String> {
        self.reset();
        webvtt::cue_text(&self.text)
    }

    fn tag(&mut self, style: Style, on: bool) {
        self.text.push_str(if on { "<" } else { "</" });
        self.text.push(style.tag());
        self.text.push('>');
    }
}
