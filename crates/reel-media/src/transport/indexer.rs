//! Makes the index of a transport stream while its packets pass.

use super::index::StreamIndex;
use super::joins::Joins;
use super::timeline::Timeline;
use super::{PACKET_BYTES, TICKS_PER_S};
use crate::input::ts::CONTAINER;
use crate::input::ts::packet::Packet;
use crate::input::ts::tables::ProgrammeMap;
use crate::{MediaError, limits, times};

/// The index of the packets that have passed.
#[derive(Debug)]
pub(super) struct Indexer {
    programme: u16,
    passed: u64,
    timeline: Timeline,
    joins: Joins,
}

impl Indexer {
    /// For a programme whose map has this PID at the start.
    pub(super) fn new(map: ProgrammeMap, map_pid: u16) -> Indexer {
        Indexer {
            programme: map.number,
            passed: 0,
            timeline: Timeline::new(limits::STREAM_POINTS),
            joins: Joins::new(map, map_pid, limits::STREAM_JOINS),
        }
    }

    /// Takes the next packet. `false` if it is damaged, and counted all the same.
    ///
    /// # Errors
    /// If there are more packets than a stream may have.
    pub(super) fn push(&mut self, bytes: [u8; PACKET_BYTES]) -> Result<bool, MediaError> {
        if self.passed >= limits::STREAM_PACKETS {
            let (value, limit) = (self.passed + 1, limits::STREAM_PACKETS);
            return Err(MediaError::Limit { what: "the number of transport packets", value, limit });
        }
        let packet = Packet::parse(bytes);
        if let Some(packet) = &packet {
            if packet.pid == self.joins.map().clock_pid
                && let Some(clock) = packet.clock()
            {
                self.timeline.push(self.passed, clock, packet.discontinuity);
                self.time_tables();
            }
            self.joins.push(self.passed, packet);
        }
        self.passed += 1;
        Ok(packet.is_some())
    }

    /// The index, and warnings about the clock and the tables. `source_bytes` is what was read of
    /// the source, for the error.
    ///
    /// # Errors
    /// If the stream has no clock from which its rate follows.
    pub(super) fn finish(mut self, source_bytes: u64) -> Result<(StreamIndex, Vec<String>), MediaError> {
        self.time_tables();
        let mut warnings = Vec::new();
        let (jumps, first_jump) = (self.timeline.jumps, self.timeline.first_jump);
        if jumps > 0 {
            let first = times::at(first_jump as i64, TICKS_PER_S as u32);
            let places = times::counted(jumps, "place");
            warnings.push(format!(
                "the clock jumps at {places}, first at {first}; packets keep their rate there"
            ));
        }
        warnings.extend(self.timeline.gaps.warning("clock references (PCR)"));
        let times = self.timeline.finish(self.passed).ok_or_else(|| MediaError::Malformed {
            container: CONTAINER,
            what: "it has no clock (PCR) that runs, from which its rate follows".to_owned(),
            offset: source_bytes,
        })?;
        let (joins, tables) = self.joins.finish();
        warnings.extend(tables);
        Ok((StreamIndex { packets: self.passed, programme: self.programme, times, joins }, warnings))
    }

    /// Tables since the last reference lie between two known times.
    fn time_tables(&mut self) {
        let timeline = &self.timeline;
        if timeline.ticks_at(0).is_some() {
            self.joins.time(|packet| timeline.ticks_at(packet).unwrap_or_default());
        }
    }
}
