//! Where the elements of a file end (RFC 9559 section 4.5, RFC 8794 section 6), and what follows.

use super::ebml::{HEAD_BYTES, Head};
use super::ids;
use crate::input::Ending;
use crate::input::window::Window;
use crate::{MediaError, Source, limits};
use std::io;

/// Looks at the length of the segment and, if that was left open, at its elements.
pub(in crate::input) fn ending(source: &mut dyn Source) -> io::Result<Ending> {
    let bytes = source.bytes();
    let mut at = 0;
    for _ in 0..limits::ENDING_PIECES {
        let Some(head) = head(source, at)? else {
            // The file may end inside of the head of an element.
            let in_head = bytes - at < HEAD_BYTES as u64;
            return Ok(if in_head && at < bytes { Ending::Cut } else { Ending::Unsaid });
        };
        let body = at + head.head_bytes;
        at = match (head.id, head.size.map(|size| body.saturating_add(size))) {
            (_, Some(end)) if end > bytes => return Ok(Ending::Cut),
            (ids::SEGMENT, Some(_)) => return Ok(Ending::Whole),
            (ids::SEGMENT, None) => body,
            (_, Some(end)) => end,
            (_, None) => return Ok(Ending::Unsaid),
        };
    }
    Ok(Ending::Unsaid)
}

/// Where another film begins if nothing but padding is between it and `from`, the end of a film.
pub(super) fn film_after(window: &mut Window, from: u64) -> Result<Option<u64>, MediaError> {
    let mut at = from;
    for _ in 0..limits::ENDING_PIECES {
        let Some(head) = Head::parse(window.peek(at, HEAD_BYTES)?) else { return Ok(None) };
        let end = head.size.and_then(|size| size.checked_add(at + head.head_bytes));
        match (head.id, end) {
            (ids::SEGMENT, _) => return Ok(Some(at)),
            (ids::EBML, Some(end)) => {
                let next = Head::parse(window.peek(end, HEAD_BYTES)?);
                return Ok(next.filter(|next| next.id == ids::SEGMENT).map(|_| at));
            }
            (ids::VOID, Some(end)) => at = end,
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// The head of the element at `at`; `None` if none can begin there.
fn head(source: &mut dyn Source, at: u64) -> io::Result<Option<Head>> {
    let mut head = [0; HEAD_BYTES];
    let length = source.bytes().saturating_sub(at).min(HEAD_BYTES as u64) as usize;
    source.read_at(at, &mut head[..length])?;
    Ok(Head::parse(&head[..length]))
}
