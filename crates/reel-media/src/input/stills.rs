//! Still pictures beside a film: covers and title pictures, which are not the film.

use crate::cover::CoverPlace;
use crate::{Track, limits};

/// Says that track `number` is one picture, and what becomes of it. `position` is its place among
/// the video tracks of the file: it becomes the cover if there is none yet.
pub(crate) fn described(
    number: u64,
    track: &Track,
    position: usize,
    cover: &mut Option<CoverPlace>,
) -> String {
    let name = track.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    let size = track.video.as_ref().map(|video| format!(" of {} x {}", video.width, video.height));
    let size = size.unwrap_or_default();
    let fate = if becomes(position, cover) { "it becomes the poster" } else { "it is left out" };
    format!("track {number} is one still picture{name}{size} beside a film: {fate}")
}

/// The same for a track in a codec that is not stored. `why` names the track.
pub(crate) fn of_other_codec(why: &str, position: usize, cover: &mut Option<CoverPlace>) -> String {
    let becomes = becomes(position, cover);
    if becomes { format!("{why}; its one picture becomes the poster") } else { why.to_owned() }
}

/// Makes the track the cover, unless there is one.
fn becomes(position: usize, cover: &mut Option<CoverPlace>) -> bool {
    let first = cover.is_none();
    cover.get_or_insert(CoverPlace::Track(position));
    first
}

/// Names of attached files, as one warning; `None` if there are none. `count` is the number of all
/// of them, of which `names` are the first.
pub(crate) fn attached(names: &[String], count: u64) -> Option<String> {
    let shown = &names[..names.len().min(limits::NAMED_ATTACHMENTS)];
    if shown.is_empty() {
        return None;
    }
    let more = count.saturating_sub(shown.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("attached files are not stored: {}{more}", shown.join(", ")))
}
