//! The entity tags of the files of titles, which every protocol tells alike.

/// Incremented when the texts or headers made from an index change, so that no cache mixes old and
/// new.
const FORMAT: u32 = 1;

/// The entity tag (RFC 9110 section 8.8.3) of the file `file` of the title with this stamp
/// ([`Title::stamp`](crate::Title::stamp)). As one MP4 file, a title is the file `mp4`.
pub fn entity_tag(stamp: &str, file: &str) -> String {
    format!("\"{stamp}-{FORMAT}-{file}\"")
}
