//! The names of poured streams: `live/NAME` is what a program pours as NAME. Pure.

/// What such a name begins with. The id of a title has no slash.
const LIVE: &str = "live/";

/// The name of the poured stream that is written as a title; `None` for a title.
pub(crate) fn poured_name(title: &str) -> Option<&str> {
    title.strip_prefix(LIVE)
}
