//! Still pictures beside a film: covers and title pictures, which are not the film.

use crate::Track;
use crate::limits;

/// Why a track of one picture is left out.
pub(crate) fn described(track: &Track) -> String {
    let name = track.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    let size = track.video.as_ref().map(|video| format!(" of {} x {}", video.width, video.height));
    format!("it is one still picture{name}{}, such as a cover, beside a film", size.unwrap_or_default())
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
