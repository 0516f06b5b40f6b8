//! Changes of the programme's tables in the course of a file (ISO 13818-1 section 2.4.4): streams
//! that move to other PIDs, begin or end.

use super::clock::RATE;
use super::continuity::Jump;
use super::stream::Stream;
use super::streams::{Carries, language};
use super::tables::{self, ProgrammeMap, StreamEntry, Table};
use super::{File, PAT_PID, packet::Packet};
use crate::{limits, times};

/// Places at which the tables show that the file may have been joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joints {
    /// How many there were so far.
    pub(crate) count: u64,
    /// How the counter of the table jumped at the latest one.
    pub(crate) jump: Jump,
}

/// The tables that are in force.
#[derive(Debug)]
pub(crate) struct Tables {
    /// The programme that is read.
    number: u16,
    map_pid: u16,
    map: ProgrammeMap,
    programmes: Table,
    maps: Table,
    /// Changes that were warned of.
    warned: usize,
}

impl Tables {
    /// Those at the start.
    pub(crate) fn new(map: ProgrammeMap, map_pid: u16) -> Self {
        let (programmes, maps) = (Table::default(), Table::default());
        Self { number: map.number, map_pid, map, programmes, maps, warned: 0 }
    }

    /// Places at which the tables show that the file may have been joined.
    pub(crate) fn joints(&self) -> Joints {
        Joints { count: self.programmes.breaks(), jump: self.programmes.jump() }
    }

    /// Whether the counter of the next packet of the table of programmes does not continue.
    pub(crate) fn breaks_at(&self, packet: &Packet) -> bool {
        self.programmes.breaks_at(packet)
    }

    /// PID of the programme's map.
    pub(crate) fn map_pid(&self) -> u16 {
        self.map_pid
    }

    /// The programme's map.
    pub(crate) fn map(&self) -> &ProgrammeMap {
        &self.map
    }

    /// Takes a packet; returns the programme's map if it changes.
    pub(crate) fn push(&mut self, packet: &Packet) -> Option<ProgrammeMap> {
        if packet.pid == PAT_PID {
            for section in self.programmes.push(packet) {
                self.follow(&tables::programmes(&section).unwrap_or_default());
            }
            return None;
        }
        if packet.pid != self.map_pid {
            return None;
        }
        let found = self.maps.push(packet);
        let mut maps = found.iter().filter_map(|section| ProgrammeMap::parse(section));
        let map = maps.rfind(|map| map.number == self.number).filter(|map| *map != self.map)?;
        self.map = map.clone();
        Some(map)
    }

    /// The programme stays the same, whatever its table's PID; another recording may give it
    /// another number.
    fn follow(&mut self, programmes: &[(u16, u16)]) {
        let same = programmes.iter().find(|(number, _)| *number == self.number);
        let only = programmes.first().filter(|_| programmes.len() == 1);
        let Some((number, map_pid)) = same.or(only) else { return };
        if (*number, *map_pid) != (self.number, self.map_pid) {
            (self.number, self.map_pid) = (*number, *map_pid);
            self.maps = Table::default();
        }
    }
}

impl File {
    /// Follows the tables that a packet carries.
    pub(super) fn follow_tables(&mut self, packet: &Packet) {
        let Some(map) = self.tables.push(packet) else { return };
        let entries = entries_of(&map);
        let places = places(&self.streams, &entries);
        for (index, place) in places.iter().enumerate() {
            match place {
                Some(place) => self.streams[index].continue_on(entries[*place].1.pid, &mut self.programme),
                None if self.streams[index].listed => self.end_stream(index),
                None => {}
            }
            self.streams[index].listed = place.is_some();
        }
        for (place, (carries, entry)) in entries.iter().enumerate() {
            if !places.contains(&Some(place)) {
                self.begin_stream(*carries, entry);
            }
        }
        let listed = self.streams.iter().enumerate().filter(|(_, stream)| stream.listed);
        self.by_pid = listed.map(|(index, stream)| (stream.pid, index)).collect();
    }

    fn end_stream(&mut self, index: usize) {
        let pid = self.streams[index].pid;
        let what = self.streams[index].carries.medium();
        // A stream without a track was warned of already.
        if matches!(self.lanes.get(index), Some(super::Lane::Out | super::Lane::Silent)) {
            return;
        }
        let now = self.now();
        self.warn_of_change(format!(
            "stream {pid} ({what}) ends at {now}: the programme does not list it from there"
        ));
    }

    /// A stream that was not there before: a track of its own, if tracks are not settled yet.
    fn begin_stream(&mut self, carries: Carries, entry: &StreamEntry) {
        if self.lanes.is_empty() && self.streams.len() < limits::TRACKS {
            self.streams.push(Stream::new(self.streams.len(), carries, entry));
            self.programme.add_line(carries.is_video());
            return;
        }
        let what = carries.medium();
        let (pid, now) = (entry.pid, self.now());
        self.warn_of_change(format!(
            "stream {pid} ({what}) begins at {now} and is left out: it continues no track of the start of the file"
        ));
    }

    fn warn_of_change(&mut self, text: String) {
        self.tables.warned += 1;
        if self.tables.warned <= limits::TS_CHANGE_WARNINGS {
            self.warnings.add(text);
        }
    }

    /// How far the programme is.
    fn now(&self) -> String {
        let first = self.units.iter().find_map(|unit| unit.pts).unwrap_or(0);
        let zero = if self.lanes.is_empty() { first } else { self.zero };
        times::at(self.programme.reference().map_or(0, |at| at - zero), RATE)
    }
}

/// The streams of a map that can be stored.
pub(super) fn entries_of(map: &ProgrammeMap) -> Vec<(Carries, StreamEntry)> {
    let mut entries: Vec<(Carries, StreamEntry)> = Vec::new();
    for entry in &map.streams {
        let is_new = entries.iter().all(|(_, other)| other.pid != entry.pid);
        if let Ok(carries) = Carries::classify(entry, map)
            && is_new
        {
            entries.push((carries, entry.clone()));
        }
    }
    entries
}

/// Which entry continues each stream: of the same kind, with the same PID if there is one, else
/// with the same language, else the next in order.
pub(super) fn places(streams: &[Stream], entries: &[(Carries, StreamEntry)]) -> Vec<Option<usize>> {
    let mut places: Vec<Option<usize>> = vec![None; streams.len()];
    let rules: [fn(&Stream, &StreamEntry) -> bool; 3] = [
        |stream, entry| stream.pid == entry.pid,
        |stream, entry| stream.language == language(entry),
        |_, _| true,
    ];
    let mut taken = vec![false; entries.len()];
    for rule in rules {
        for (index, stream) in streams.iter().enumerate() {
            if places[index].is_some() {
                continue;
            }
            let fits = |place: &usize| {
                let (carries, entry) = &entries[*place];
                !taken[*place] && *carries == stream.carries && rule(stream, entry)
            };
            places[index] = (0..entries.len()).find(fits);
            if let Some(place) = places[index] {
                taken[place] = true;
            }
        }
    }
    places
}
