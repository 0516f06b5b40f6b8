//! One elementary stream: its samples become PES packets, which are cut into transport packets as
//! its plan says.

use super::choice::Chosen;
use super::error::MuxError;
use super::fragments::{Fragments, Timed};
use super::packet::{self, Marks};
use super::pes::{self, Stamps};
use super::spread::Spread;
use super::{SLOT_TICKS, STAMP_TICKS};
use crate::transport::TICKS_PER_S;
use crate::{TrackIndex, TrackKind, limits};
use std::collections::VecDeque;

/// A PES packet that is being sent.
#[derive(Debug)]
struct Unit {
    bytes: Vec<u8>,
    /// Decoding can begin with it.
    sync: bool,
}

/// What was left out of a stream, for warnings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    /// Samples that are too large.
    pub(super) large: u64,
    /// Samples with times that cannot be said.
    pub(super) shifted: u64,
}

/// One elementary stream.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    pub(super) pid: u16,
    pub(super) is_video: bool,
    stream_id: u8,
    pub(super) fragments: Fragments<'a>,
    spread: Spread,
    /// What is added to presentation times, and what to decoding times, in 90 kHz ticks.
    offsets: (i64, i64),
    last_dts: u64,
    units: VecDeque<Unit>,
    /// Bytes of the first unit that were sent.
    sent_of_unit: usize,
    /// Bytes that were sent in all.
    sent: u64,
    /// Bytes that are to be sent in this slot, and those that were when it began.
    wanted: u64,
    began: u64,
    counter: u8,
    /// Whether it has a packet.
    has_begun: bool,
    pub(super) lost: Lost,
}

impl<'a> Lane<'a> {
    pub(super) fn new(chosen: &Chosen, track: &'a TrackIndex) -> Result<Lane<'a>, MuxError> {
        let is_video = track.track.kind == TrackKind::Video;
        let spread_ms = if is_video { limits::MUX_PICTURES_SPREAD_MS } else { limits::MUX_SOUND_SPREAD_MS };
        Ok(Lane {
            pid: chosen.entry.pid,
            is_video,
            stream_id: chosen.stream_id,
            fragments: Fragments::new(chosen.track, track)?,
            spread: Spread::new(spread_ms * TICKS_PER_S / 1000),
            offsets: (0, 0),
            last_dts: 0,
            units: VecDeque::new(),
            sent_of_unit: 0,
            sent: 0,
            wanted: 0,
            began: 0,
            counter: 0,
            has_begun: false,
            lost: Lost::default(),
        })
    }

    /// The earliest decoding time, in 90 kHz ticks, with decoding times early enough for all
    /// presentation times of the first fragment.
    pub(super) fn first_dts(&self) -> Option<i64> {
        self.fragments.peek().map(|first| first.dts - self.fragments.late_by())
    }

    /// Presentation times begin so late.
    pub(super) fn begin(&mut self, offset: i64) {
        self.offsets = (offset, offset - self.fragments.late_by());
    }

    /// Makes PES packets of the samples that are held and whose bytes are sent before a time.
    pub(super) fn fill(&mut self, time: u64) {
        while let Some(next) = self.fragments.peek() {
            let stamps = self.stamps(next);
            if !self.spread.begins_before(due(stamps), time) {
                return;
            }
            self.make_unit(stamps);
        }
    }

    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.units.is_empty() && self.fragments.peek().is_none() && self.fragments.wanted().is_none()
    }

    /// Plans a slot that ends then; returns the bytes that are to be sent in it.
    pub(super) fn plan(&mut self, time: u64) -> u64 {
        self.wanted = self.spread.sent_by(time);
        self.began = self.sent;
        self.left()
    }

    /// Bytes that are still to be sent in this slot.
    pub(super) fn left(&self) -> u64 {
        self.wanted.saturating_sub(self.sent)
    }

    /// The part of the slot's bytes that is still to be sent, in units of 2^-32.
    pub(super) fn part_left(&self) -> u64 {
        let all = self.wanted.saturating_sub(self.began).max(1);
        ((u128::from(self.left()) << 32) / u128::from(all)) as u64
    }

    /// Whether the next packet begins a picture with which decoding can begin.
    pub(super) fn is_at_key(&self) -> bool {
        self.is_video && self.sent_of_unit == 0 && self.units.front().is_some_and(|unit| unit.sync)
    }

    /// Appends a packet, if there are bytes for one.
    pub(super) fn write(&mut self, clock: bool, target: &mut Vec<u8>) {
        let Some(unit) = self.units.front() else { return };
        let start = self.sent_of_unit == 0;
        let discontinuity = !std::mem::replace(&mut self.has_begun, true);
        let marks = Marks { start, discontinuity, random_access: start && unit.sync, clock };
        let rest = &unit.bytes[self.sent_of_unit..];
        let taken = packet::write(self.pid, marks, self.counter, rest, target);
        self.counter = (self.counter + 1) & 0xf;
        self.sent += taken as u64;
        self.sent_of_unit += taken;
        if self.sent_of_unit == unit.bytes.len() {
            self.units.pop_front();
            self.sent_of_unit = 0;
        }
    }

    /// Appends a packet without payload, with a clock reference. Its counter is that of the packet
    /// before (ISO 13818-1 section 2.4.3.3).
    pub(super) fn write_clock(&mut self, target: &mut Vec<u8>) {
        let discontinuity = !std::mem::replace(&mut self.has_begun, true);
        let marks = Marks { clock: true, discontinuity, ..Marks::default() };
        packet::write(self.pid, marks, self.counter.wrapping_sub(1) & 0xf, &[], target);
    }

    /// The time stamps of a sample. Decoding times do not decrease, and no picture is shown before
    /// it is decoded.
    fn stamps(&self, sample: Timed) -> Stamps {
        let (pts, dts) = (sample.pts + self.offsets.0, sample.dts + self.offsets.1);
        let dts = u64::try_from(dts).unwrap_or(0).max(self.last_dts);
        Stamps { pts: u64::try_from(pts).unwrap_or(0).max(dts), dts }
    }

    /// Makes a PES packet that begins with the next sample: one picture, or some frames of sound.
    fn make_unit(&mut self, stamps: Stamps) {
        let mut payload = Vec::new();
        let Some(first) = self.fragments.take(&mut payload) else {
            self.lost.large += 1;
            return;
        };
        let is_sized = !self.is_video;
        if is_sized && payload.len() > pes::PAYLOAD_BYTES_MAX {
            self.lost.large += 1;
            return;
        }
        let stated = u64::try_from(first.pts + self.offsets.0).ok();
        self.lost.shifted += u64::from(stated != Some(stamps.pts));
        if is_sized {
            self.add_frames(first, &mut payload);
        }
        self.last_dts = stamps.dts;
        let bytes = pes::packet(self.stream_id, stamps, &payload, is_sized);
        self.spread.push(due(stamps), bytes.len() as u64);
        self.units.push_back(Unit { bytes, sync: first.sync });
    }

    /// Adds frames of sound that follow the first one without a gap.
    fn add_frames(&mut self, first: Timed, payload: &mut Vec<u8>) {
        let mut frame = Vec::new();
        while let Some(next) = self.fragments.peek() {
            // Frames are of one length, but for rounding. A longer one has a gap after it.
            let even = (next.ticks - first.ticks).abs() <= first.ticks / 16 + 1;
            let ticks = next.dts + next.ticks - first.dts;
            let follows = next.dts - first.dts >= first.ticks / 2;
            if !even || !follows || ticks > limits::MUX_SOUND_PES_TICKS {
                return;
            }
            if payload.len() + self.fragments.next_bytes() > pes::PAYLOAD_BYTES_MAX {
                return;
            }
            frame.clear();
            match self.fragments.take(&mut frame) {
                Some(_) => payload.append(&mut frame),
                None => {
                    self.lost.large += 1;
                    return;
                }
            }
        }
    }
}

/// When the last byte of a PES packet must be planned: it is sent in the slot after that.
fn due(stamps: Stamps) -> u64 {
    (stamps.dts * STAMP_TICKS).saturating_sub(SLOT_TICKS)
}
