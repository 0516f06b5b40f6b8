//! What a viewer sees.

/// What is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    /// Waits for pictures and sound of this media time, after a start or a seek.
    Waits { media_ns: u64 },
    /// Media time `media_ns` was shown at `since_ns`.
    Plays { since_ns: u64, media_ns: u64 },
    /// Stands still.
    Paused { media_ns: u64 },
}

impl Screen {
    /// The media time on the screen.
    pub(super) fn position_ns(&self, now_ns: u64) -> u64 {
        match *self {
            Screen::Waits { media_ns } | Screen::Paused { media_ns } => media_ns,
            Screen::Plays { since_ns, media_ns } => media_ns + (now_ns - since_ns),
        }
    }
}
