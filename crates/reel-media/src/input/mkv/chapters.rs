//! Chapters of Matroska (RFC 9559 section 5.1.7).

use super::ebml::{elements, text, unsigned};
use super::ids;
use crate::input::chapters::Chapters;

/// The chapters in the body of a Chapters element: those of the default edition, else of the first
/// that is not hidden. Chapters within chapters are not read. Times count from zero of the file.
pub(crate) fn read(body: &[u8]) -> Chapters {
    let editions = || elements(body).filter(|(id, _)| *id == ids::EDITION_ENTRY).map(|(_, body)| body);
    let shown = || editions().filter(|edition| !flag(edition, ids::EDITION_FLAG_HIDDEN, false));
    let edition = shown().find(|edition| flag(edition, ids::EDITION_FLAG_DEFAULT, false));
    let mut chapters = Chapters::default();
    for (id, atom) in elements(edition.or_else(|| shown().next()).unwrap_or_default()) {
        let is_shown = id == ids::CHAPTER_ATOM
            && !flag(atom, ids::CHAPTER_FLAG_HIDDEN, false)
            && flag(atom, ids::CHAPTER_FLAG_ENABLED, true)
            // A chapter of another file.
            && child(atom, ids::CHAPTER_SEGMENT_UUID).is_none();
        let start = child(atom, ids::CHAPTER_TIME_START).and_then(unsigned);
        let Some(start) = start.and_then(|ns| i64::try_from(ns).ok()).filter(|_| is_shown) else { continue };
        let name = child(atom, ids::CHAPTER_DISPLAY).and_then(|display| child(display, ids::CHAP_STRING));
        if !chapters.add(start, &name.map(text).unwrap_or_default()) {
            break;
        }
    }
    chapters
}

fn child(body: &[u8], wanted: u32) -> Option<&[u8]> {
    elements(body).find(|(id, _)| *id == wanted).map(|(_, body)| body)
}

fn flag(body: &[u8], wanted: u32, default: bool) -> bool {
    child(body, wanted).and_then(unsigned).map_or(default, |value| value != 0)
}
