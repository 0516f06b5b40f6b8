//! Looks for streams that begin after the others: those that the programme lists later, and those
//! that it lists and that are silent at first. What is found is described before tracks are made,
//! and read for its content when the file has come there.

use super::changes::{Tables, entries_of, places};
use super::clock::{Ahead, ProgrammeClock, RATE, nearest};
use super::packet::Packet;
use super::pes::{Pes, Piece};
use super::stream::Stream;
use super::tables::ProgrammeMap;
use super::{File, VecDeque};
use crate::{MediaError, Track, limits};

/// A stream that has not shown what it is.
struct Silent {
    index: usize,
    /// Reads it ahead.
    stream: Stream,
    programme: ProgrammeClock,
}

/// How much of the programme was surveyed.
#[derive(Default)]
struct Run {
    latest: Option<i64>,
    ticks: i64,
}

impl File {
    /// Finds what the streams that begin later are, within the limits.
    pub(super) fn survey(&mut self) -> Result<(), MediaError> {
        let mut packets = self.packets.clone();
        let mut tables = Tables::new(self.tables.map().clone(), self.tables.map_pid());
        let is_silent = |stream: &&Stream| stream.given == 0 && matches!(stream.describe(), Ok(None));
        let mut silent: Vec<Silent> = self.streams.iter().filter(is_silent).map(Silent::new).collect();
        let mut run = Run::default();
        let begin = packets.position();
        let listed_until = begin.saturating_add(limits::TS_PROBE_BYTES);
        let search_until = begin.saturating_add(limits::TS_SEARCH_BYTES);
        while !self.ended {
            let is_listing = packets.position() < listed_until && run.ticks <= limits::TS_PROBE_TICKS;
            if !is_listing && (silent.is_empty() || packets.position() >= search_until) {
                break;
            }
            let Some(packet) = packets.next(&mut self.window)? else { break };
            if let Some(map) = tables.push(&packet).filter(|_| is_listing) {
                self.list_later(&map, &mut silent);
            }
            if packet.start && self.by_pid.contains_key(&packet.pid) {
                run.take(&packet);
            }
            if let Some(at) = silent.iter().position(|silent| silent.stream.pid == packet.pid)
                && let Some(track) = silent[at].take(&packet, tables.joints())?
            {
                self.streams[silent[at].index].found = Some(track);
                silent.remove(at);
            }
        }
        Ok(())
    }

    /// Adds the streams that a later map lists, and that continue none.
    fn list_later(&mut self, map: &ProgrammeMap, silent: &mut Vec<Silent>) {
        let entries = entries_of(map);
        let places = places(&self.streams, &entries);
        for (place, (carries, entry)) in entries.iter().enumerate() {
            if places.contains(&Some(place)) || self.streams.len() >= limits::TRACKS {
                continue;
            }
            let mut stream = Stream::new(self.streams.len(), *carries, entry);
            stream.listed = false;
            silent.push(Silent::new(&stream));
            self.streams.push(stream);
            self.programme.add_line(carries.is_video());
        }
    }
}

impl Silent {
    fn new(stream: &Stream) -> Self {
        let stream_ahead = stream.begin_alone();
        let programme = ProgrammeClock::new([stream.carries.is_video()].into_iter());
        Self { index: stream.index(), stream: stream_ahead, programme }
    }

    /// Takes a packet; returns the track, when the stream has shown what it is.
    fn take(&mut self, packet: &Packet, joints: super::changes::Joints) -> Result<Option<Track>, MediaError> {
        let mut units = VecDeque::new();
        let ahead = Ahead::default;
        self.stream.push(packet, joints, &mut self.programme, ahead, &mut units)?;
        if self.stream.given == 0 {
            return Ok(None);
        }
        Ok(self.stream.describe().unwrap_or_default())
    }
}

impl Run {
    fn take(&mut self, packet: &Packet) {
        let Piece::Payload(Some(stamps), _) = Pes::default().push(packet.payload(), true) else { return };
        let at = self.latest.map_or(stamps.dts, |latest| nearest(stamps.dts, latest));
        // A pause is not a search.
        self.ticks += self.latest.map_or(0, |latest| (at - latest).clamp(0, i64::from(RATE)));
        self.latest = self.latest.max(Some(at));
    }
}
