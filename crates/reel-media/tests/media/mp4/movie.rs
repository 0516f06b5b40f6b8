//! A small movie built by hand; a test can change every part of it.

use super::boxes::{boxed, full, words};

/// One track. Its samples lie where `chunks` says, one chunk each.
pub(crate) struct Trak {
    pub(crate) id: u32,
    pub(crate) enabled: bool,
    pub(crate) handler: [u8; 4],
    pub(crate) timescale: u32,
    /// As `mdhd` packs it.
    pub(crate) language: u16,
    /// The sample entry.
    pub(crate) entry: Vec<u8>,
    pub(crate) samples: Vec<Vec<u8>>,
    /// Ticks of each sample.
    pub(crate) duration: u32,
    /// Composition offsets; empty for none.
    pub(crate) reorder: Vec<i32>,
    /// Numbers of the sync samples, from 1; `None` for all.
    pub(crate) syncs: Option<Vec<u32>>,
    /// Edit durations (of a movie timescale of 1000) and media times.
    pub(crate) edits: Vec<(u32, i32)>,
    /// Boxes to add to `trak`, `mdia` and `minf`.
    pub(crate) in_trak: Vec<u8>,
    pub(crate) in_mdia: Vec<u8>,
    pub(crate) in_minf: Vec<u8>,
    /// Bits of each size in `stz2`; `stsz` if `None`.
    pub(crate) small_sizes: Option<u8>,
    /// Samples at the end that the table of places leaves out.
    pub(crate) unplaced: u32,
}

/// Language `und`.
pub(crate) const UNDETERMINED: u16 = 0x55c4;

impl Trak {
    /// A picture track with this many pictures, 25 a second in ticks of 1/1000, all key frames.
    pub(crate) fn video(id: u32, pictures: usize) -> Self {
        Self::new(id, b"vide", avc_entry(b"avc1", &AVCC), 1000, 40, pictures)
    }

    /// A sound track with this many frames of 1024 samples at 48 kHz.
    pub(crate) fn audio(id: u32, frames: usize) -> Self {
        Self::new(id, b"soun", aac_entry(), 48_000, 1024, frames)
    }

    pub(crate) fn new(
        id: u32,
        handler: &[u8; 4],
        entry: Vec<u8>,
        timescale: u32,
        ticks: u32,
        count: usize,
    ) -> Self {
        // Every sample has another length and other bytes.
        let samples = (0..count).map(|at| vec![(id as usize * 16 + at) as u8; 3 + at % 5]).collect();
        Self {
            id,
            enabled: true,
            handler: *handler,
            timescale,
            language: UNDETERMINED,
            entry,
            samples,
            duration: ticks,
            reorder: Vec::new(),
            syncs: None,
            edits: Vec::new(),
            in_trak: Vec::new(),
            in_mdia: Vec::new(),
            in_minf: Vec::new(),
            small_sizes: None,
            unplaced: 0,
        }
    }

    fn build(&self, places: &[u32]) -> Vec<u8> {
        let unity = words(&[0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000]);
        let tkhd =
            [words(&[0, 0, self.id, 0, 0, 0, 0, 0, 0]), unity, words(&[320 << 16, 180 << 16])].concat();
        let mut trak = full(b"tkhd", 0, u32::from(self.enabled), &tkhd);
        if !self.edits.is_empty() {
            let list = self.edits.iter().flat_map(|(ticks, from)| words(&[*ticks, *from as u32, 0x1_0000]));
            let elst = [words(&[self.edits.len() as u32]), list.collect()].concat();
            trak.extend(boxed(b"edts", &full(b"elst", 0, 0, &elst)));
        }
        let language = [self.language.to_be_bytes(), [0, 0]].concat();
        let mdhd = full(b"mdhd", 0, 0, &[words(&[0, 0, self.timescale, 0]), language].concat());
        let hdlr = full(b"hdlr", 0, 0, &[&[0; 4], self.handler.as_slice(), &[0; 13]].concat());
        let minf = boxed(b"minf", &[self.in_minf.clone(), boxed(b"stbl", &self.tables(places))].concat());
        trak.extend(boxed(b"mdia", &[mdhd, hdlr, self.in_mdia.clone(), minf].concat()));
        trak.extend(&self.in_trak);
        boxed(b"trak", &trak)
    }

    fn tables(&self, places: &[u32]) -> Vec<u8> {
        let count = self.samples.len() as u32;
        let placed = count - self.unplaced;
        let sizes: Vec<u32> = self.samples.iter().map(|sample| sample.len() as u32).collect();
        let sizes = match self.small_sizes {
            None => full(b"stsz", 0, 0, &[words(&[0, count]), words(&sizes)].concat()),
            Some(bits) => {
                let packed: Vec<u8> = match bits {
                    4 => sizes.chunks(2).map(|two| (two[0] << 4 | two.get(1).unwrap_or(&0)) as u8).collect(),
                    8 => sizes.iter().map(|size| *size as u8).collect(),
                    _ => sizes.iter().flat_map(|size| (*size as u16).to_be_bytes()).collect(),
                };
                full(b"stz2", 0, 0, &[words(&[bits.into(), count]), packed].concat())
            }
        };
        let mut stbl = [
            full(b"stsd", 0, 0, &[words(&[1]), self.entry.clone()].concat()),
            full(b"stts", 0, 0, &words(&[1, count, self.duration])),
            full(b"stsc", 0, 0, &words(&[1, 1, 1, 1])),
            full(b"stco", 0, 0, &[words(&[placed]), words(&places[..placed as usize])].concat()),
            sizes,
        ]
        .concat();
        if !self.reorder.is_empty() {
            let list = self.reorder.iter().flat_map(|offset| words(&[1, *offset as u32]));
            stbl.extend(full(b"ctts", 1, 0, &[words(&[self.reorder.len() as u32]), list.collect()].concat()));
        }
        if let Some(syncs) = &self.syncs {
            stbl.extend(full(b"stss", 0, 0, &[words(&[syncs.len() as u32]), words(syncs)].concat()));
        }
        stbl
    }
}

/// The file: `ftyp`, `mdat` with all samples of one track after the other, `moov`.
pub(crate) fn movie(brand: &[u8; 4], traks: &[Trak]) -> Vec<u8> {
    let mut file = boxed(b"ftyp", &[brand.as_slice(), &[0; 4], brand].concat());
    let mut media = Vec::new();
    let mut moov = full(b"mvhd", 0, 0, &[words(&[0, 0, 1000, 0]), vec![0; 80]].concat());
    for trak in traks {
        let mut places = Vec::new();
        for sample in &trak.samples {
            places.push((file.len() + 8 + media.len()) as u32);
            media.extend(sample);
        }
        moov.extend(trak.build(&places));
    }
    file.extend(boxed(b"mdat", &media));
    file.extend(boxed(b"moov", &moov));
    file
}

/// Baseline, one SPS and one PPS.
pub(crate) const AVCC: [u8; 19] =
    [1, 66, 192, 11, 0xff, 0xe1, 0, 4, 0x67, 0x42, 0xc0, 0x0b, 1, 0, 4, 0x68, 0xce, 0x3c, 0x80];

/// A picture of 320 by 180.
pub(crate) fn avc_entry(kind: &[u8; 4], avcc: &[u8]) -> Vec<u8> {
    visual_entry(kind, &boxed(b"avcC", avcc))
}

/// Any visual sample entry.
pub(crate) fn visual_entry(kind: &[u8; 4], boxes: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 78];
    body[7] = 1;
    body[24..26].copy_from_slice(&320u16.to_be_bytes());
    body[26..28].copy_from_slice(&180u16.to_be_bytes());
    boxed(kind, &[body, boxes.to_vec()].concat())
}

/// AAC-LC, 48 kHz, stereo.
pub(crate) fn aac_entry() -> Vec<u8> {
    sound_entry(b"mp4a", 0, &[], &esds(0x40, &[0x11, 0x90]))
}

/// A sound sample entry of a QuickTime version, with its further fields.
pub(crate) fn sound_entry(kind: &[u8; 4], version: u16, fields: &[u8], boxes: &[u8]) -> Vec<u8> {
    let head = [&[0, 0, 0, 0, 0, 0, 0, 1], version.to_be_bytes().as_slice(), &[0; 6]].concat();
    let sound = [0, 2, 0, 16, 0, 0, 0, 0, 0xbb, 0x80, 0, 0];
    boxed(kind, &[&head, &sound[..], fields, boxes].concat())
}

/// An `esds` box.
pub(crate) fn esds(object_type: u8, config: &[u8]) -> Vec<u8> {
    let specific = if config.is_empty() { Vec::new() } else { [&[5, config.len() as u8], config].concat() };
    let decoder = [&[object_type, 0x15], [0; 11].as_slice(), &specific].concat();
    let es = [&[0, 1, 0, 4, decoder.len() as u8], decoder.as_slice()].concat();
    full(b"esds", 0, 0, &[&[3, es.len() as u8], es.as_slice()].concat())
}
