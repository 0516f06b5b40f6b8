//! What a track is made of.

/// The kind of media that a track holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
    /// Subtitles, requested once and whole.
    Text,
}

impl MediaKind {
    /// The number of kinds.
    pub const COUNT: usize = 3;

    /// The index of this kind in an array with one entry for each kind.
    pub fn index(self) -> usize {
        match self {
            MediaKind::Video => 0,
            MediaKind::Audio => 1,
            MediaKind::Text => 2,
        }
    }
}
