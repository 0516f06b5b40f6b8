//! The cover among the metadata for players (`moov/udta/meta/ilst/covr`, iTunes' extension of the
//! QuickTime File Format).

use super::atom::Atom;
use crate::cover::{CoverPlace, PictureFormat};
use crate::limits;

/// Type and locale before the picture in a `data` box.
const DATA_HEAD_BYTES: usize = 8;

/// The first picture of the cover; `Err` says why there is a cover that cannot be used. Damage in
/// the metadata means no cover, because they are no part of the film.
pub(super) fn place(moov: &Atom<'_>) -> Result<Option<CoverPlace>, String> {
    let Some(covr) = covr(moov) else { return Ok(None) };
    let mut pictures = covr.children().filter_map(Result::ok).filter(|atom| atom.kind.0 == *b"data");
    let usable = pictures.find_map(|data| {
        let picture = data.body.get(DATA_HEAD_BYTES..)?;
        let format = PictureFormat::of(picture)?;
        let (offset, bytes) = (data.offset + DATA_HEAD_BYTES as u64, picture.len());
        (bytes <= limits::COVER_BYTES).then_some(CoverPlace::Picture { format, offset, bytes })
    });
    usable.map(Some).ok_or_else(|| {
        let limit = limits::COVER_BYTES >> 20;
        format!(
            "the cover in the metadata (`covr`) is left out: it is no JPEG or PNG picture of at most {limit} MiB"
        )
    })
}

fn covr<'a>(moov: &Atom<'a>) -> Option<Atom<'a>> {
    let udta = moov.child(b"udta").ok()??;
    let meta = udta.child(b"meta").ok()??;
    // Version and flags come before the children, but not in QuickTime.
    let ilst = meta.children_after(4).ok().and_then(|children| children.find(b"ilst").ok()?);
    let ilst = ilst.or_else(|| meta.child(b"ilst").ok()?)?;
    ilst.child(b"covr").ok()?
}
