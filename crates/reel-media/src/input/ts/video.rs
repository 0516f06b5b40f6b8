//! Cuts a byte stream of H.264 or HEVC into access units (ITU-T H.264 section 7.4.1.2.3, H.265
//! section 7.4.2.4.4).

use super::marks::Marks;
use super::numbers::{FrameNumbers, Numbered};
use super::pes::Stamps;
use crate::MediaError;
use crate::codec::{h264, hevc, nal, sei};
use crate::input::parameter_sets::{Described, SetsInForce};
use crate::{Hdr, limits};

/// A picture with the units that belong to it.
#[derive(Debug, Default)]
pub(crate) struct AccessUnit {
    /// NAL units with four-byte lengths.
    pub(crate) data: Vec<u8>,
    /// Times, if a PES packet stated them.
    pub(crate) stamps: Option<Stamps>,
    /// Decoding can start here.
    pub(crate) sync: bool,
    /// Cannot be decoded if decoding starts at the random access point before it (HEVC RASL
    /// pictures).
    pub(crate) skipped_at_start: bool,
    /// How it and the following pictures are coded, if decoding can start here.
    pub(crate) described: Option<Described>,
    /// Pictures before it are missing.
    pub(crate) after_gap: bool,
    /// Its number (H.264).
    number: Option<Numbered>,
    /// Where it begins in the elementary stream.
    place: u64,
    /// pic_parameter_set_id of the first slice.
    pps: Option<u32>,
    /// A slice has been seen.
    has_picture: bool,
    /// frame_num and whether it is the bottom field, if the picture is a field.
    field: Option<(u32, bool)>,
}

/// The cutter of one stream.
#[derive(Debug)]
pub(crate) struct VideoCutter {
    hevc: bool,
    /// Bytes from the start code of the unfinished unit on.
    pending: Vec<u8>,
    /// Position of `pending` in the elementary stream.
    base: u64,
    /// Where to search for the next start code.
    scan: usize,
    started: bool,
    marks: Marks,
    unit: AccessUnit,
    /// A first field waiting for its second.
    first_field: Option<AccessUnit>,
    sets: SetsInForce,
    sps: Option<h264::Sps>,
    /// Metadata of high dynamic range, up to the first key frame.
    hdr: Hdr,
    /// A key frame has been seen.
    begun: bool,
    numbers: FrameNumbers,
    /// What begins in this range need not follow the pictures before.
    apart: Option<(u64, u64)>,
}

impl VideoCutter {
    /// For HEVC or H.264.
    pub(crate) fn new(hevc: bool) -> Self {
        Self {
            hevc,
            pending: Vec::new(),
            base: 0,
            scan: 0,
            started: false,
            marks: Marks::default(),
            unit: AccessUnit::default(),
            first_field: None,
            sets: SetsInForce::new(hevc),
            sps: None,
            hdr: Hdr::default(),
            begun: false,
            numbers: FrameNumbers::default(),
            apart: None,
        }
    }

    /// Takes payload; returns the access units that it completes.
    pub(crate) fn push(
        &mut self,
        stamps: Option<Stamps>,
        payload: &[u8],
        complete: &mut Vec<AccessUnit>,
    ) -> Result<(), MediaError> {
        if let Some(stamps) = stamps {
            self.marks.add(self.base + self.pending.len() as u64, stamps);
        }
        self.pending.extend_from_slice(payload);
        let mut from = 0;
        while let Some(at) = nal::find_start_code(&self.pending, self.scan) {
            if self.started {
                self.take(from, at, complete);
            }
            self.started = true;
            from = at;
            self.scan = at + 3;
        }
        self.scan = self.scan.max(self.pending.len().saturating_sub(2));
        if !self.started {
            from = self.pending.len().saturating_sub(2);
        }
        if from > 0 {
            self.pending.drain(..from);
            self.base += from as u64;
            self.scan -= from;
        }
        let held = self.pending.len() + self.unit.data.len();
        if held > limits::TS_PENDING_BYTES {
            let (value, limit) = (held as u64, limits::TS_PENDING_BYTES as u64);
            return Err(MediaError::Limit { what: "picture in bytes", value, limit });
        }
        Ok(())
    }

    /// What comes next need not follow.
    pub(crate) fn begin_apart(&mut self) {
        let place = self.base + self.pending.len() as u64;
        self.apart = Some((self.apart.map_or(place, |(from, _)| from), place));
    }

    /// What was received is complete: the stream has ended, or is silent for long.
    pub(crate) fn finish(&mut self, complete: &mut Vec<AccessUnit>) {
        if self.started {
            self.take(0, self.pending.len(), complete);
            self.started = false;
        }
        self.end_unit(complete);
        complete.extend(self.first_field.take());
    }

    /// The unit between two positions of `pending` is complete.
    fn take(&mut self, from: usize, to: usize, complete: &mut Vec<AccessUnit>) {
        let unit = nal::trim_trailing_zeros(&self.pending[(from + 3).min(to)..to]).to_vec();
        // A set highest bit marks damage.
        if unit.first().is_none_or(|header| header & 0x80 != 0) {
            return;
        }
        let place = self.base + from as u64;
        if self.hevc {
            self.take_hevc(&unit, place, complete)
        } else {
            self.take_h264(&unit, place, complete)
        }
    }

    fn take_h264(&mut self, unit: &[u8], place: u64, complete: &mut Vec<AccessUnit>) {
        use h264::unit as kinds;
        let kind = unit[0] & 0x1f;
        let is_slice = matches!(kind, kinds::SLICE | kinds::PARTITION_A | kinds::IDR);
        let slice = is_slice.then(|| h264::SliceStart::parse(unit)).flatten();
        let begins = match kind {
            kinds::SEI | kinds::SPS | kinds::PPS | kinds::AUD | 14..=18 => true,
            _ => slice.is_some_and(|slice| slice.first_block == 0),
        };
        self.begin(begins, place, complete);
        match kind {
            kinds::SPS => {
                self.sets.take(unit);
                self.sps = h264::Sps::parse(unit).or(self.sps.take());
            }
            kinds::PPS => self.sets.take(unit),
            kinds::SEI => self.take_messages(unit.get(1..)),
            _ => {}
        }
        if is_slice && !self.unit.has_picture {
            self.unit.has_picture = true;
            self.unit.pps = slice.map(|slice| slice.pps_id);
            let place =
                slice.zip(self.sps.as_ref()).and_then(|(slice, sps)| slice.frame_and_field(unit, sps));
            self.unit.field = place.and_then(|(frame, bottom)| Some((frame, bottom?)));
            let (idr, reference) = (kind == kinds::IDR, unit[0] & 0x60 != 0);
            self.unit.number = place.map(|(number, _)| Numbered { number, idr, reference });
        }
        nal::push_length_prefixed(unit, &mut self.unit.data);
    }

    fn take_hevc(&mut self, unit: &[u8], place: u64, complete: &mut Vec<AccessUnit>) {
        use hevc::unit as kinds;
        let Some(kind) = hevc::kind(unit) else { return };
        let is_slice = kind <= kinds::LAST_SLICE;
        let begins = match kind {
            kinds::VPS | kinds::SPS | kinds::PPS | kinds::AUD | kinds::PREFIX_SEI | 41..=44 | 48..=55 => true,
            _ => hevc::starts_picture(unit),
        };
        // Other layers (multiview, scalability) belong to the picture of the base layer before
        // them.
        self.begin(begins && hevc::is_base_layer(unit), place, complete);
        match kind {
            kinds::VPS | kinds::SPS | kinds::PPS => self.sets.take(unit),
            kinds::PREFIX_SEI => self.take_messages(unit.get(2..)),
            _ => {}
        }
        if is_slice {
            if !self.unit.has_picture {
                self.unit.pps = hevc::slice_pps_id(unit);
            }
            self.unit.has_picture = true;
            self.unit.skipped_at_start |= kinds::RASL.contains(&kind);
        }
        nal::push_length_prefixed(unit, &mut self.unit.data);
    }

    fn describe(&mut self, pps: Option<u32>) -> Option<Described> {
        let mut described = self.sets.describe(pps)?;
        described.hdr = self.hdr;
        Some(described)
    }

    fn take_messages(&mut self, payload: Option<&[u8]>) {
        if let Some(payload) = payload.filter(|_| !self.begun) {
            let searched = &payload[..payload.len().min(sei::SEARCH_BYTES)];
            sei::read_hdr(&nal::unescape(searched), &mut self.hdr);
        }
    }

    /// Closes the access unit before a unit that begins a new one, and gives the new one its times.
    fn begin(&mut self, begins: bool, place: u64, complete: &mut Vec<AccessUnit>) {
        if begins && self.unit.has_picture {
            self.end_unit(complete);
        }
        if self.unit.data.is_empty() {
            self.unit.stamps = self.marks.take(place);
            self.unit.place = place;
        }
    }

    fn is_after_gap(&mut self, unit: &AccessUnit) -> bool {
        if self.apart.is_some_and(|(from, _)| from <= unit.place) {
            self.numbers.begin_again();
            self.apart.take_if(|(_, to)| *to <= unit.place);
        }
        let picture = unit.number.zip(self.sps.as_ref());
        picture.is_some_and(|(number, sps)| self.numbers.take(number, sps))
    }

    fn end_unit(&mut self, complete: &mut Vec<AccessUnit>) {
        let mut unit = std::mem::take(&mut self.unit);
        if !unit.has_picture {
            self.sets.end_unit();
            return;
        }
        let units = nal::length_prefixed(&unit.data, 4);
        unit.sync = if self.hevc { hevc::is_random_access(units) } else { h264::is_random_access(units) };
        self.begun |= unit.sync;
        unit.described = if unit.sync { self.describe(unit.pps) } else { None };
        self.sets.end_unit();
        unit.after_gap = self.is_after_gap(&unit);
        match (self.first_field.take(), unit.field) {
            // The second field of a frame belongs to the sample of the first.
            (Some(mut first), Some((frame, bottom))) if first.field == Some((frame, !bottom)) => {
                for nal in nal::length_prefixed(&unit.data, 4).filter(|nal| nal[0] & 0x1f != h264::unit::AUD)
                {
                    nal::push_length_prefixed(nal, &mut first.data);
                }
                complete.push(first);
            }
            (first, field) => {
                complete.extend(first);
                if field.is_some() { self.first_field = Some(unit) } else { complete.push(unit) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPS: &[u8] = &[
        0x67, 0x64, 0x00, 0x15, 0xac, 0xd9, 0x41, 0x43, 0x3f, 0x26, 0x04, 0xdc, 0x04, 0x04, 0x05, 0x00, 0x00,
        0x03, 0x03, 0xe9, 0x00, 0x00, 0xea, 0x60, 0x1f, 0x14, 0x29, 0x96,
    ];
    const PPS: &[u8] = &[0x68, 0xfe, 0x8f, 0xcb];
    const AUD: &[u8] = &[9, 0xf0];
    /// I slice of an IDR picture, first block 0, set 0, frame_num 0, top field.
    const TOP: &[u8] = &[0x65, 0x88, 0x84, 0x20, 0xff];
    /// P slice, frame_num 0, bottom field.
    const BOTTOM: &[u8] = &[0x41, 0x9a, 0x18, 0x20, 0xff];
    /// P slice, frame_num 1, whole frame.
    const FRAME: &[u8] = &[0x41, 0x9a, 0x20, 0x20, 0xff];

    fn stream(units: &[&[u8]]) -> Vec<u8> {
        units.iter().flat_map(|unit| [&[0, 0, 0, 1], *unit].concat()).collect()
    }

    fn stamp(pts: i64) -> Option<Stamps> {
        Some(Stamps { pts, dts: pts })
    }

    fn kinds(unit: &AccessUnit) -> Vec<u8> {
        nal::length_prefixed(&unit.data, 4).map(|nal| nal[0] & 0x1f).collect()
    }

    #[test]
    fn pictures_are_cut_wherever_the_packets_end() {
        let (first, second) = (stream(&[AUD, SPS, PPS, TOP]), stream(&[AUD, FRAME, AUD, FRAME]));
        for piece in 1..12 {
            let mut cutter = VideoCutter::new(false);
            let mut units = Vec::new();
            for (pts, bytes) in [(100, &first), (200, &second)] {
                for (index, part) in bytes.chunks(piece).enumerate() {
                    cutter.push(stamp(pts).filter(|_| index == 0), part, &mut units).unwrap();
                }
            }
            cutter.finish(&mut units);
            let times: Vec<_> = units.iter().map(|unit| unit.stamps.map(|stamps| stamps.pts)).collect();
            assert_eq!(times, [Some(100), Some(200), None]);
            assert_eq!(kinds(&units[0]), [9, 7, 8, 5]);
            assert_eq!(units.iter().map(|unit| unit.sync).collect::<Vec<_>>(), [true, false, false]);
            assert_eq!(units[0].described.as_ref().unwrap().named(), "320 x 180");
        }
    }

    #[test]
    fn two_fields_are_one_sample() {
        let mut cutter = VideoCutter::new(false);
        let mut units = Vec::new();
        cutter.push(stamp(1), &stream(&[AUD, SPS, PPS, TOP]), &mut units).unwrap();
        cutter.push(stamp(2), &stream(&[AUD, BOTTOM]), &mut units).unwrap();
        cutter.push(stamp(3), &stream(&[AUD, FRAME]), &mut units).unwrap();
        cutter.finish(&mut units);
        assert_eq!(units.iter().map(kinds).collect::<Vec<_>>(), [vec![9, 7, 8, 5, 1], vec![9, 1]]);
        assert_eq!(units.iter().map(|unit| unit.stamps).collect::<Vec<_>>(), [stamp(1), stamp(3)]);
    }

    #[test]
    fn a_set_replaces_the_one_with_its_number() {
        let mut cutter = VideoCutter::new(false);
        let mut other = SPS.to_vec();
        other[3] = 0x1e;
        let mut units = Vec::new();
        cutter.push(None, &stream(&[SPS, PPS, &other, PPS, TOP]), &mut units).unwrap();
        cutter.finish(&mut units);
        let config = &units[0].described.as_ref().unwrap().config;
        assert_eq!((config[3], config[5]), (0x1e, 0xe1));
    }

    #[test]
    fn each_key_frame_has_the_sets_in_force() {
        let mut cutter = VideoCutter::new(false);
        let mut other = SPS.to_vec();
        other[3] = 0x1e;
        let mut units = Vec::new();
        let key = |sps: &[u8]| stream(&[AUD, sps, PPS, TOP, AUD, BOTTOM]);
        for sps in [SPS, SPS, &other] {
            cutter.push(None, &key(sps), &mut units).unwrap();
        }
        cutter.finish(&mut units);
        let described: Vec<_> = units.iter().map(|unit| unit.described.as_ref().unwrap()).collect();
        assert_eq!(described.iter().map(|one| one.config[3]).collect::<Vec<_>>(), [0x15, 0x15, 0x1e]);
        assert!(described[0].is_like(described[1]) && !described[1].is_like(described[2]));
    }
}
