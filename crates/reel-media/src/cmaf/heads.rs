//! What the head of a fragment says of its samples (ISO/IEC 14496-12, 8.8.6 to 8.8.8).

use std::ops::Range;

/// Most samples of a fragment that are read from its head. A fragment of sound of 16 s, the longest
/// that is cut, has 750.
const SAMPLES_MAX: u32 = 1 << 16;

/// One sample of a fragment, in the order in which they lie there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSample {
    /// Its size.
    pub bytes: u32,
    /// Ticks of the track until the next one in decoding order.
    pub duration: u32,
    /// Presentation time less decoding time.
    pub composition: i64,
}

/// The samples of the one run of a fragment, from its `moof`. `None` if these bytes are no head
/// with one run, or one of more samples than any fragment has. Any bytes are safe.
pub fn samples_of_head(head: &[u8]) -> Option<Vec<HeadSample>> {
    let moof = inside(head, 0..head.len(), b"moof")?;
    let traf = inside(head, moof, b"traf")?;
    let mut tfhd = Fields { bytes: &head[inside(head, traf.clone(), b"tfhd")?] };
    let tfhd_flags = tfhd.u32()? & 0xff_ffff;
    tfhd.u32()?; // track_ID
    if tfhd_flags & 0x01 != 0 {
        tfhd.u32()?; // base_data_offset
        tfhd.u32()?;
    }
    if tfhd_flags & 0x02 != 0 {
        tfhd.u32()?; // sample_description_index
    }
    let duration = if tfhd_flags & 0x08 != 0 { tfhd.u32()? } else { 0 };
    let bytes = if tfhd_flags & 0x10 != 0 { tfhd.u32()? } else { 0 };

    let mut trun = Fields { bytes: &head[inside(head, traf, b"trun")?] };
    let (version, flags) = trun.u32().map(|word| (word >> 24, word & 0xff_ffff))?;
    let count = trun.u32().filter(|count| *count <= SAMPLES_MAX)?;
    for flag in [0x001, 0x004] {
        if flags & flag != 0 {
            trun.u32()?; // data_offset, first_sample_flags
        }
    }
    (0..count)
        .map(|_| {
            let mut field = |flag, otherwise| if flags & flag != 0 { trun.u32() } else { Some(otherwise) };
            let (duration, bytes) = (field(0x100, duration)?, field(0x200, bytes)?);
            field(0x400, 0)?; // sample_flags
            let composition = field(0x800, 0)?;
            // Of version 0 it is unsigned (8.8.8.2).
            let composition =
                if version == 0 { composition.into() } else { composition.cast_signed().into() };
            Some(HeadSample { bytes, duration, composition })
        })
        .collect()
}

/// The contents of the first box of this kind in `range`.
fn inside(bytes: &[u8], range: Range<usize>, kind: &[u8; 4]) -> Option<Range<usize>> {
    let mut at = range.start;
    while let Some(head) = bytes.get(at..range.end)?.first_chunk::<8>() {
        let [a, b, c, d, name @ ..] = *head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let end = at.checked_add(length).filter(|end| length >= 8 && *end <= range.end)?;
        if name == *kind {
            return Some(at + 8..end);
        }
        at = end;
    }
    None
}

struct Fields<'a> {
    bytes: &'a [u8],
}

impl Fields<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (field, rest) = self.bytes.split_first_chunk::<4>()?;
        self.bytes = rest;
        Some(u32::from_be_bytes(*field))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fragment::{Entry, header};
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn entries()(
            all in prop::collection::vec((0..3_u32, 0..3_u32, any::<bool>(), -2..3_i32), 1..40),
            varies in any::<[bool; 4]>(),
        ) -> Vec<Entry> {
            let [first, ..] = all[..] else { unreachable!("one at least") };
            let one = |(duration, bytes, sync, composition)| Entry {
                duration: if varies[0] { duration } else { first.0 },
                bytes: if varies[1] { bytes } else { first.1 },
                sync: if varies[2] { sync } else { first.2 },
                composition: if varies[3] { composition } else { 0 },
            };
            all.into_iter().map(one).collect()
        }
    }

    proptest! {
        #[test]
        fn a_head_says_what_was_written_into_it(entries in entries()) {
            let head = header(1, 7, &entries, entries.iter().map(|entry| entry.bytes).sum());
            let sample = |entry: &Entry| HeadSample {
                bytes: entry.bytes,
                duration: entry.duration,
                composition: entry.composition.into(),
            };
            let expected: Vec<_> = entries.iter().map(sample).collect();
            prop_assert_eq!(samples_of_head(&head), Some(expected));
        }

        #[test]
        fn any_bytes_are_read_or_not(
            entries in entries(), at in 0..200_usize, with in any::<u8>(), cut in 0..200_usize,
        ) {
            let mut head = header(1, 7, &entries, 100);
            let at = at % head.len();
            head[at] = with;
            head.truncate(head.len() - cut.min(head.len()));
            let _ = samples_of_head(&head);
        }
    }

    #[test]
    fn a_head_that_claims_millions_of_samples_is_not_read() {
        let mut head = header(1, 7, &[Entry { duration: 1, bytes: 5, sync: true, composition: 0 }; 3], 15);
        let count = head.windows(4).position(|window| window == b"trun").expect("a run") + 8;
        head[count..count + 4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(samples_of_head(&head), None);
    }
}
