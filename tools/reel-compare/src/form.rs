//! The forms in which a title is served.

use std::fmt;

/// A form in which a title is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One MP4 file.
    Progressive,
    /// HTTP live streaming (RFC 8216).
    Hls,
    /// MPEG-DASH (ISO/IEC 23009-1).
    Dash,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 3] = [Form::Progressive, Form::Hls, Form::Dash];

    /// The address of a title in this form, on a server with the address `base`.
    pub fn url(self, base: &str, title: &str) -> String {
        match self {
            Form::Progressive => format!("{base}/watch/{title}/{title}.mp4"),
            Form::Hls => format!("{base}/watch/{title}/master.m3u8"),
            Form::Dash => format!("{base}/watch/{title}/manifest.mpd"),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Progressive => "progressive",
            Form::Hls => "HLS",
            Form::Dash => "DASH",
        })
    }
}
