//! The header of one fragment: `moof` and the start of `mdat` (ISO/IEC 14496-12, 8.8).

use super::Boxes;

/// One sample of a fragment, in ticks of the track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Time until the next sample in decoding order.
    pub(crate) duration: u32,
    /// Size of the sample.
    pub(crate) bytes: u32,
    /// Decoding can start here.
    pub(crate) sync: bool,
    /// Presentation time less decoding time.
    pub(crate) composition: i32,
}

/// `moof` plus the eight bytes that start `mdat`. `entries` is not empty, and `payload_bytes` is
/// the sum of their sizes.
pub(crate) fn header(sequence: u32, decode_time: u64, entries: &[Entry], payload_bytes: u32) -> Vec<u8> {
    let first = entries[0];
    let same_duration = entries.iter().all(|e| e.duration == first.duration);
    let same_bytes = entries.iter().all(|e| e.bytes == first.bytes);
    let later_sync = entries.get(1).map_or(first.sync, |e| e.sync);
    let later_same = entries.iter().skip(1).all(|e| e.sync == later_sync);
    let negative = entries.iter().any(|e| e.composition < 0);
    let composed = entries.iter().any(|e| e.composition != 0);

    let mut flags = 0x001; // data-offset
    if later_same && first.sync != later_sync {
        flags |= 0x004; // first-sample-flags
    }
    if !same_duration {
        flags |= 0x100;
    }
    if !same_bytes {
        flags |= 0x200;
    }
    if !later_same {
        flags |= 0x400;
    }
    if composed {
        flags |= 0x800;
    }

    let mut boxes = Boxes::default();
    let mut data_offset_at = 0;
    boxes.plain(b"moof", |b| {
        b.full(b"mfhd", 0, 0, |b| b.u32(sequence));
        b.plain(b"traf", |b| {
            // default-base-is-moof, default duration, size and flags
            b.full(b"tfhd", 0, 0x02_0000 | 0x08 | 0x10 | 0x20, |b| {
                b.u32(1);
                b.u32(first.duration);
                b.u32(first.bytes);
                b.u32(sample_flags(later_sync));
            });
            b.full(b"tfdt", 1, 0, |b| b.u64(decode_time));
            b.full(b"trun", u8::from(negative), flags, |b| {
                b.u32(entries.len() as u32);
                data_offset_at = b.bytes();
                b.u32(0);
                if flags & 0x004 != 0 {
                    b.u32(sample_flags(first.sync));
                }
                for entry in entries {
                    if flags & 0x100 != 0 {
                        b.u32(entry.duration);
                    }
                    if flags & 0x200 != 0 {
                        b.u32(entry.bytes);
                    }
                    if flags & 0x400 != 0 {
                        b.u32(sample_flags(entry.sync));
                    }
                    if flags & 0x800 != 0 {
                        b.i32(entry.composition);
                    }
                }
            });
        });
    });
    let moof_bytes = boxes.bytes() as u32;
    boxes.patch_u32(data_offset_at, moof_bytes + 8);
    boxes.u32(payload_bytes + 8);
    boxes.raw(b"mdat");
    boxes.into_vec()
}

/// sample_depends_on and sample_is_non_sync_sample (ISO/IEC 14496-12, 8.8.3.1).
fn sample_flags(sync: bool) -> u32 {
    if sync { 0x0200_0000 } else { 0x0101_0000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(duration: u32, bytes: u32, sync: bool, composition: i32) -> Entry {
        Entry { duration, bytes, sync, composition }
    }

    #[test]
    fn uniform_audio_has_no_table() {
        let header = header(3, 7, &[entry(1024, 5, true, 0); 100], 500);
        // moof 8, mfhd 16, traf 8, tfhd 28, tfdt 20, trun 20, mdat 8
        assert_eq!(header.len(), 108);
        assert_eq!(header[..8], *b"\0\0\0\x64moof");
        assert_eq!(header[20..24], 3u32.to_be_bytes());
        assert_eq!(header[96..100], 108u32.to_be_bytes(), "data offset");
        assert_eq!(header[100..], *b"\0\0\x01\xfcmdat");
    }

    #[test]
    fn video_states_only_the_first_flags() {
        let entries = [entry(1, 9, true, 0), entry(1, 5, false, 2), entry(1, 4, false, -1)];
        let header = header(1, 0, &entries, 18);
        let trun = header.windows(4).position(|w| w == b"trun").expect("a trun") + 4;
        assert_eq!(header[trun..trun + 4], 0x0100_0a05u32.to_be_bytes());
        assert_eq!(header[trun + 12..trun + 16], 0x0200_0000u32.to_be_bytes());
        assert_eq!(header[trun + 36..trun + 40], (-1i32).to_be_bytes());
    }
}
