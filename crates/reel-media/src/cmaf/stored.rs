//! Reads the header of a stored fragment: the inverse of `fragment::header`.

use crate::limits;

/// One sample of a stored fragment, in ticks of the track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredSample {
    /// Decoding time in the stored form, which counts from `TrackIndex::media_offset` before 0.
    pub(crate) decode_time: u64,
    /// Presentation time less decoding time.
    pub(crate) composition: i32,
    /// Time until the next sample in decoding order.
    pub(crate) duration: u32,
    /// Size of the sample.
    pub(crate) bytes: u32,
    /// Decoding can start here.
    pub(crate) sync: bool,
}

/// sample_is_non_sync_sample (ISO/IEC 14496-12, 8.8.3.1).
const NON_SYNC: u32 = 0x0001_0000;

/// What the header of a fragment says about its samples, whose sizes add up to `payload_bytes`.
/// `None` if the header is not one that Reel writes. Any bytes are safe.
pub(crate) fn samples(header: &[u8], payload_bytes: usize) -> Option<Vec<StoredSample>> {
    let mut fragment = Fields(Fields(header).child(b"moof")?);
    fragment.child(b"mfhd")?;
    let mut track = Fields(fragment.child(b"traf")?);
    let mut defaults = Fields(track.child(b"tfhd")?);
    defaults.skip(8)?;
    let (duration, bytes, flags) = (defaults.u32()?, defaults.u32()?, defaults.u32()?);
    let mut time = Fields(track.child(b"tfdt")?);
    time.skip(4)?;
    let mut decode_time = u64::from(time.u32()?) << 32 | u64::from(time.u32()?);
    let mut run = Fields(track.child(b"trun")?);
    let stated = run.u32()?;
    let count = run.u32()? as usize;
    run.skip(4)?;
    if count > limits::STORED_FRAGMENT_SAMPLES {
        return None;
    }
    let mut first_flags = if stated & 0x004 != 0 { Some(run.u32()?) } else { None };
    let mut samples = Vec::with_capacity(count.min(payload_bytes));
    let mut left = payload_bytes;
    for _ in 0..count {
        let mut field = |bit: u32, default: u32| if stated & bit != 0 { run.u32() } else { Some(default) };
        let duration = field(0x100, duration)?;
        let bytes = field(0x200, bytes)?;
        let flags = field(0x400, first_flags.take().unwrap_or(flags))?;
        let composition = field(0x800, 0)?.cast_signed();
        left = left.checked_sub(bytes as usize)?;
        samples.push(StoredSample { decode_time, composition, duration, bytes, sync: flags & NON_SYNC == 0 });
        decode_time = decode_time.checked_add(u64::from(duration))?;
    }
    (left == 0).then_some(samples)
}

/// Takes fields from the front of bytes, never past their end.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*head))
    }

    /// The contents of the next box, which must be of this kind.
    fn child(&mut self, kind: &[u8; 4]) -> Option<&'a [u8]> {
        let bytes = self.0;
        let length = self.u32()? as usize;
        let (found, _) = self.0.split_first_chunk::<4>()?;
        let contents = bytes.get(8..length).filter(|_| found == kind)?;
        self.0 = bytes.get(length..)?;
        Some(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fragment::{Entry, header};
    use super::*;
    use proptest::prelude::*;

    fn any_entry() -> impl Strategy<Value = Entry> {
        (0_u32..3, 0_u32..5, any::<bool>(), -2_i32..3)
            .prop_map(|(duration, bytes, sync, composition)| Entry { duration, bytes, sync, composition })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(entries in prop::collection::vec(any_entry(), 1..40), start in 0_u64..1 << 40) {
            let payload = entries.iter().map(|entry| entry.bytes).sum::<u32>();
            let header = header(7, start, &entries, payload);
            let read = samples(&header, payload as usize).expect("a header");
            let mut decode_time = start;
            prop_assert_eq!(read.len(), entries.len());
            for (read, entry) in read.iter().zip(&entries) {
                let Entry { duration, bytes, sync, composition } = *entry;
                prop_assert_eq!(*read, StoredSample { decode_time, composition, duration, bytes, sync });
                decode_time += u64::from(duration);
            }
            prop_assert_eq!(samples(&header, payload as usize + 1), None);
        }

        #[test]
        fn damage_is_safe(entries in prop::collection::vec(any_entry(), 1..10), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let payload = entries.iter().map(|entry| entry.bytes).sum::<u32>();
            let mut bytes = header(7, 9, &entries, payload);
            let place = at.index(bytes.len());
            bytes[place] = byte;
            bytes.truncate(cut.index(bytes.len() + 1));
            let _ = samples(&bytes, payload as usize);
        }
    }
}
