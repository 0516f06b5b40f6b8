//! The sample tables of the classic MP4 form, built while samples pass.
//!
//! A progressive file is served without memory for each sample. Its sample tables are finished
//! boxes in the title's Tables object, and the header of the file refers to slices of it.

use super::Boxes;

/// Where the sample tables of a track lie in the title's Tables object: the complete boxes `stts`,
/// `ctts` (when needed), `stss` (when not every sample is a key frame) and `stsz`, one after
/// another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableRange {
    /// The number of that Tables object: 0, except for the sound of a merged title
    /// ([`TitleIndex::merged`](crate::TitleIndex::merged)).
    pub object: u32,
    /// First byte in the Tables object.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// The unfinished tables of one track: run lengths for times, four bytes a sample for sizes.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    durations: Runs,
    compositions: Runs,
    syncs: Vec<u8>,
    sizes: Vec<u8>,
    samples: u32,
    negative: bool,
    composed: bool,
}

impl Tables {
    /// Adds a sample: ticks until the next one, presentation time minus decoding time, size, and
    /// whether it is a key frame.
    pub(crate) fn push(&mut self, duration: u32, composition: i32, bytes: u32, sync: bool) {
        self.samples += 1;
        self.durations.push(duration);
        self.compositions.push(composition as u32);
        self.composed |= composition != 0;
        self.negative |= composition < 0;
        self.sizes.extend_from_slice(&bytes.to_be_bytes());
        if sync {
            self.syncs.extend_from_slice(&self.samples.to_be_bytes());
        }
    }

    /// Memory used, for the limit on it.
    pub(crate) fn bytes(&self) -> usize {
        self.durations.bytes.len() + self.compositions.bytes.len() + self.syncs.len() + self.sizes.len()
    }

    /// The boxes (ISO/IEC 14496-12, 8.6 and 8.7.3).
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.durations.flush();
        self.compositions.flush();
        let mut boxes = Boxes::default();
        boxes.full(b"stts", 0, 0, |b| {
            b.u32(self.durations.count);
            b.raw(&self.durations.bytes);
        });
        if self.composed {
            boxes.full(b"ctts", u8::from(self.negative), 0, |b| {
                b.u32(self.compositions.count);
                b.raw(&self.compositions.bytes);
            });
        }
        let syncs = (self.syncs.len() / 4) as u32;
        if syncs != self.samples {
            boxes.full(b"stss", 0, 0, |b| {
                b.u32(syncs);
                b.raw(&self.syncs);
            });
        }
        boxes.full(b"stsz", 0, 0, |b| {
            b.u32(0);
            b.u32(self.samples);
            b.raw(&self.sizes);
        });
        boxes.into_vec()
    }
}

/// (count, value) pairs as in `stts` and `ctts`.
#[derive(Debug, Default)]
struct Runs {
    bytes: Vec<u8>,
    count: u32,
    open: Option<(u32, u32)>,
}

impl Runs {
    fn push(&mut self, value: u32) {
        match &mut self.open {
            Some((length, open)) if *open == value => *length += 1,
            _ => {
                self.flush();
                self.open = Some((1, value));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((length, value)) = self.open.take() {
            self.bytes.extend_from_slice(&length.to_be_bytes());
            self.bytes.extend_from_slice(&value.to_be_bytes());
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_optional_boxes() {
        let mut video = Tables::default();
        for (i, composition) in [2, 4, 4, 0].into_iter().enumerate() {
            video.push(512, composition, 100 + i as u32, i == 0);
        }
        let mut expected = Vec::new();
        expected.extend_from_slice(b"\0\0\0\x18stts\0\0\0\0\0\0\0\x01\0\0\0\x04\0\0\x02\0");
        expected.extend_from_slice(
            b"\0\0\0\x28ctts\0\0\0\0\0\0\0\x03\0\0\0\x01\0\0\0\x02\0\0\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\0",
        );
        expected.extend_from_slice(b"\0\0\0\x14stss\0\0\0\0\0\0\0\x01\0\0\0\x01");
        expected.extend_from_slice(
            b"\0\0\0\x24stsz\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x64\0\0\0\x65\0\0\0\x66\0\0\0\x67",
        );
        assert_eq!(video.finish(), expected);

        let mut audio = Tables::default();
        audio.push(1024, 0, 7, true);
        audio.push(1000, 0, 9, true);
        let boxes = audio.finish();
        assert!(!boxes.windows(4).any(|w| w == b"ctts" || w == b"stss"));
    }

    #[test]
    fn negative_offsets_need_version_one() {
        let mut tables = Tables::default();
        tables.push(1, -1, 1, true);
        let boxes = tables.finish();
        let ctts = boxes.windows(4).position(|w| w == b"ctts").expect("a ctts");
        assert_eq!(boxes[ctts + 4], 1);
    }
}
