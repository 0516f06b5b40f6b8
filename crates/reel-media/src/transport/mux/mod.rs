//! Makes a transport stream of the tracks of a title, without transcoding.
//!
//! The stream is made in slots of 50 ms. The packets of a slot are evenly spread over it, and clock
//! references (PCR) are computed from their places in it. So the time line of the stream is a
//! straight line over each slot. The bytes of each picture are spread over most of a second before
//! it is decoded, and those of sound over a tenth of a second, so the rate is a moving average and
//! no byte comes late.

mod choice;
mod error;
mod fragments;
mod framing;
mod lane;
mod opus;
mod packet;
mod pes;
mod slot;
mod spread;
mod tables;

pub use choice::check_carried;
pub use error::MuxError;

use self::fragments::STAMPS_PER_S;
use self::lane::Lane;
use self::slot::Slot;
use self::tables::{MAP_PID, Tables};
use super::index::StreamIndex;
use super::indexer::Indexer;
use super::{PACKET_BYTES, TICKS_PER_S};
use crate::input::ts::tables::ProgrammeMap;
use crate::{TitleIndex, limits};

/// Ticks of 27 MHz in a tick of time stamps.
const STAMP_TICKS: u64 = TICKS_PER_S / STAMPS_PER_S as u64;
/// Length of a slot in ticks of 27 MHz.
const SLOT_TICKS: u64 = TICKS_PER_S / limits::MUX_SLOTS_PER_S;
/// Decoding of the first sample in ticks of time stamps: its bytes are spread over the time before.
const FIRST_DTS: i64 =
    ((limits::MUX_PICTURES_SPREAD_MS * TICKS_PER_S / 1000 + SLOT_TICKS) / STAMP_TICKS) as i64;
/// Number of the only programme.
const PROGRAMME: u16 = 1;

/// A stored fragment of a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedFragment {
    /// Number of the track in the title.
    pub track: usize,
    /// The fragment of the track, from 0.
    pub fragment: usize,
}

/// What a multiplexer did, or needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MuxStep {
    /// It appended so many packets.
    Packets(usize),
    /// It needs a fragment first.
    Wants(WantedFragment),
    /// The stream is complete.
    End,
}

/// A transport stream that is being made: the best pictures of a title, and all its sound.
///
/// The caller asks for one step after the other, and supplies the fragments that are wanted. One
/// fragment of each track is held in memory, and about a second of the stream.
#[derive(Debug)]
pub struct Multiplexer<'a> {
    index: &'a TitleIndex,
    /// Number of each lane's track in the title. Pictures are the first lane.
    tracks: Vec<usize>,
    lanes: Vec<Lane<'a>>,
    tables: Tables,
    indexer: Indexer,
    warnings: Vec<String>,
    /// Slots that were made.
    slots: u64,
    /// Half of a slot, counted from the beginning, in which the tables came last.
    tables_half: Option<u64>,
}

impl<'a> Multiplexer<'a> {
    /// For a title whose index was checked.
    ///
    /// # Errors
    /// [`MuxError::NotCarried`] if a transport stream cannot carry its pictures, or it has none and
    /// its sound cannot be carried.
    pub fn new(index: &'a TitleIndex) -> Result<Multiplexer<'a>, MuxError> {
        let (chosen, warnings) = choice::choose(index)?;
        let lanes = chosen.iter().map(|chosen| Lane::new(chosen, &index.tracks[chosen.track]));
        let lanes = lanes.collect::<Result<Vec<Lane<'a>>, MuxError>>()?;
        let streams: Vec<_> = chosen.iter().map(|chosen| chosen.entry.clone()).collect();
        let clock_pid = lanes.first().map_or(0x1fff, |lane| lane.pid);
        let map = ProgrammeMap { number: PROGRAMME, clock_pid, descriptors: Vec::new(), streams };
        Ok(Multiplexer {
            index,
            tracks: chosen.iter().map(|chosen| chosen.track).collect(),
            lanes,
            tables: Tables::new(&map),
            indexer: Indexer::new(map, MAP_PID),
            warnings,
            slots: 0,
            tables_half: None,
        })
    }

    /// The tracks of the title that are carried, by number, the pictures first.
    pub fn tracks(&self) -> &[usize] {
        &self.tracks
    }

    /// The bytes of the whole stream, about: for a check of space before it is made.
    pub fn estimated_bytes(&self) -> u64 {
        let stored = self.tracks.iter().map(|track| self.index.tracks[*track].bytes).sum::<u64>();
        let slots = self.index.duration_ns / (1_000_000_000 / limits::MUX_SLOTS_PER_S) + 1;
        // A clock reference and both tables, or a stuffed packet, for each slot; 4 of 188 bytes are
        // headers.
        let more = slots * ((3 + self.lanes.len() as u64) * PACKET_BYTES as u64);
        stored.saturating_add(stored / 40).saturating_add(more)
    }

    /// Takes the whole bytes of the fragment that is wanted, as they are stored.
    ///
    /// # Errors
    /// [`MuxError::Fragment`] if they are not what the index says.
    pub fn supply(&mut self, bytes: Vec<u8>) -> Result<(), MuxError> {
        match self.lanes.iter_mut().find(|lane| lane.fragments.wanted().is_some()) {
            Some(lane) => lane.fragments.supply(bytes),
            None => Ok(()),
        }
    }

    /// Appends the packets of the next slot, or says what is needed for that.
    ///
    /// # Errors
    /// If the stream has more packets than a stream may have.
    pub fn step(&mut self, target: &mut Vec<u8>) -> Result<MuxStep, MuxError> {
        if let Some(wanted) = self.wanted() {
            return Ok(MuxStep::Wants(wanted));
        }
        if self.slots == 0 {
            self.begin();
        }
        let until = (self.slots + 1) * SLOT_TICKS;
        self.lanes.iter_mut().for_each(|lane| lane.fill(until));
        // All samples of a fragment may have been taken, and more follow in the next one.
        if let Some(wanted) = self.wanted() {
            return Ok(MuxStep::Wants(wanted));
        }
        if self.lanes.iter().all(Lane::is_done) {
            return Ok(MuxStep::End);
        }
        let mut slot = Slot::new(self.slots, &mut self.lanes, &mut self.tables, &mut self.tables_half);
        let packets = slot.make();
        self.slots += 1;
        for packet in packets.as_chunks::<PACKET_BYTES>().0 {
            self.indexer.push(*packet)?;
        }
        target.extend_from_slice(&packets);
        Ok(MuxStep::Packets(packets.len() / PACKET_BYTES))
    }

    /// Presentation time until which slots were made, about, in nanoseconds.
    pub fn position_ns(&self) -> u64 {
        (self.slots * (1_000_000_000 / limits::MUX_SLOTS_PER_S)).min(self.index.duration_ns)
    }

    /// The index of the stream, and what was left out or may disturb receivers, when all slots were
    /// made.
    ///
    /// # Errors
    /// If the title has no samples.
    pub fn finish(mut self) -> Result<(StreamIndex, Vec<String>), MuxError> {
        let (large, shifted) = self
            .lanes
            .iter()
            .fold((0, 0), |(large, shifted), lane| (large + lane.lost.large, shifted + lane.lost.shifted));
        if large > 0 {
            self.warnings
                .push(format!("frames of sound are left out: {large}, too large for a transport stream"));
        }
        if shifted > 0 {
            self.warnings.push(format!(
                "{shifted} times are other than in the film: a transport stream cannot show a picture before it is decoded"
            ));
        }
        let (index, warnings) = self.indexer.finish(0)?;
        self.warnings.extend(warnings);
        Ok((index, self.warnings))
    }

    /// A fragment that is needed for the next slot.
    fn wanted(&self) -> Option<WantedFragment> {
        let wanted = |(lane, track): (&Lane<'_>, &usize)| {
            lane.fragments.wanted().map(|fragment| WantedFragment { track: *track, fragment })
        };
        self.lanes.iter().zip(&self.tracks).find_map(wanted)
    }

    /// Sets the times of all tracks, whose first fragments are there.
    fn begin(&mut self) {
        let first = self.lanes.iter().filter_map(Lane::first_dts).min().unwrap_or(0);
        self.lanes.iter_mut().for_each(|lane| lane.begin(FIRST_DTS - first));
    }
}
