//! Metadata of high dynamic range in a video sample entry.

use super::atom::{Atom, Children, Fields};
use crate::hdr::{self, Mastering};
use crate::{Hdr, MediaError};

/// Fixed-point parts of the boxes of VP9 (VP Codec ISO Media File Format Binding).
const CHROMATICITY_PARTS: f64 = 65_536.0;
/// See [`CHROMATICITY_PARTS`].
const MAX_PARTS: f64 = 256.0;
/// See [`CHROMATICITY_PARTS`].
const MIN_PARTS: f64 = 16_384.0;

/// Reads `mdcv` and `clli` (ISO/IEC 14496-12, 12.1), what VP9 had instead (`SmDm`, `CoLL`), and the
/// record of Dolby Vision. Also returns the name of a box whose values are impossible.
pub(super) fn read(boxes: Children<'_>) -> Result<(Hdr, Option<String>), MediaError> {
    let mut found = Hdr::default();
    let mut damaged = None;
    for atom in boxes {
        let atom = atom?;
        let is_read = match &atom.kind.0 {
            b"mdcv" => set(&mut found.mastering, atom.body.first_chunk().copied()),
            b"SmDm" => set(&mut found.mastering, vp9_mastering(&atom)),
            b"clli" => set(&mut found.light, light(atom.fields())),
            b"CoLL" => set(&mut found.light, atom.full().ok().and_then(|(.., fields)| light(fields))),
            b"dvcC" | b"dvvC" | b"dvwC" => set(&mut found.dolby_vision, hdr::record(atom.body)),
            _ => true,
        };
        if !is_read {
            damaged = Some(atom.kind.to_string());
        }
    }
    Ok((found, damaged))
}

/// Whether there was a value.
fn set<T>(target: &mut Option<T>, value: Option<T>) -> bool {
    let is_some = value.is_some();
    *target = target.take().or(value);
    is_some
}

fn light(mut fields: Fields<'_>) -> Option<(u16, u16)> {
    Some((fields.u16().ok()?, fields.u16().ok()?))
}

fn vp9_mastering(atom: &Atom<'_>) -> Option<[u8; 24]> {
    let (.., mut fields) = atom.full().ok()?;
    let mut display = Mastering::default();
    for point in &mut display.points {
        for value in point {
            *value = f64::from(fields.u16().ok()?) / CHROMATICITY_PARTS;
        }
    }
    display.max = f64::from(fields.u32().ok()?) / MAX_PARTS;
    display.min = f64::from(fields.u32().ok()?) / MIN_PARTS;
    display.mdcv()
}
