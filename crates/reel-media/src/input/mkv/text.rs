//! Text of subtitle blocks (Matroska codec specification, subtitles) as WebVTT cue text.

use crate::subtitle::{ass, srt, webvtt};

/// The text format of a track.
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
    /// Cue text of a block; `None` if it shows nothing.
    pub(crate) fn cue(self, block: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(block);
        let text = text.trim_matches('\0');
        match self {
            Self::SubRip => srt::text(text),
            Self::Ass => ass::block(text),
            Self::WebVtt => webvtt::cue_text(text),
        }
    }
}
