//! Metadata of high dynamic range of a Matroska track (RFC 9559 sections 5.1.4.1.28.24 to 38, and
//! 5.1.4.1.17).

use super::ebml::{elements, float, unsigned};
use super::ids;
use crate::Hdr;
use crate::hdr::{self, Mastering};

/// BlockAddIDType of the records of Dolby Vision: `dvcC`, `dvvC` and `dvwC` as numbers.
const DOLBY_VISION: [u64; 3] = [0x6476_6343, 0x6476_7643, 0x6476_7743];

/// Reads the body of a Colour element. Also returns whether it states impossible values.
pub(crate) fn colour(body: &[u8]) -> (Hdr, bool) {
    let mut found = Hdr::default();
    let mut is_damaged = false;
    let number = |wanted: u32| elements(body).find(|(id, _)| *id == wanted).map(|(_, body)| unsigned(body));
    match (number(ids::MAX_CLL), number(ids::MAX_FALL)) {
        (None, None) => {}
        (content, frame) => {
            // One that is left out is unknown, which is 0.
            let value =
                |stated: Option<Option<u64>>| stated.map_or(Some(0), |value| u16::try_from(value?).ok());
            found.light = value(content).zip(value(frame));
            is_damaged |= found.light.is_none();
        }
    }
    if let Some((_, body)) = elements(body).find(|(id, _)| *id == ids::MASTERING_METADATA) {
        found.mastering = mastering(body).and_then(|display| display.mdcv());
        is_damaged |= found.mastering.is_none();
    }
    (found, is_damaged)
}

/// All values must be stated: `mdcv` has no way to say that one is unknown.
fn mastering(body: &[u8]) -> Option<Mastering> {
    let value = |wanted: u32| elements(body).find(|(id, _)| *id == wanted).and_then(|(_, body)| float(body));
    let mut display = Mastering::default();
    // x and y of red, green, blue and white are numbered one after another.
    for (id, target) in (ids::PRIMARY_RED_X..).zip(display.points.iter_mut().flatten()) {
        *target = value(id)?;
    }
    display.max = value(ids::LUMINANCE_MAX)?;
    display.min = value(ids::LUMINANCE_MIN)?;
    Some(display)
}

/// The record of Dolby Vision in the body of a BlockAdditionMapping element.
pub(crate) fn dolby_vision(body: &[u8]) -> Option<[u8; 24]> {
    let child = |wanted: u32| elements(body).find(|(id, _)| *id == wanted).map(|(_, body)| body);
    let kind = child(ids::BLOCK_ADD_ID_TYPE).and_then(unsigned)?;
    DOLBY_VISION.contains(&kind).then(|| child(ids::BLOCK_ADD_ID_EXTRA_DATA).and_then(hdr::record))?
}
