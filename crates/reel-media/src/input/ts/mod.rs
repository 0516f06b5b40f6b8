//! MPEG transport streams (ISO 13818-1): plain, with the arrival times of discs (m2ts), or with
//! checksums (204 bytes).
//!
//! * The first programme with video is used, or else the first with audio; a warning names the
//!   others.
//! * Zero is the earliest first presentation time of all tracks, so sound and picture keep their
//!   distance.
//! * Video keeps its 90 kHz times. Sound counts samples from its first time stamp, and restarts
//!   from a time stamp that differs by more than one frame.

mod ahead;
mod audio;
pub(crate) mod changes;
mod clock;
mod continuity;
mod marks;
mod numbers;
pub(crate) mod packet;
mod pes;
mod report;
mod sound;
mod stream;
pub(crate) mod streams;
mod survey;
pub(crate) mod tables;
mod video;

use self::ahead::Lookout;
use self::changes::Tables;
use self::clock::{ProgrammeClock, RATE};
use self::packet::Packets;
use self::sound::SoundLine;
use self::stream::{Stream, Unit};
use self::streams::Carries;
use self::tables::{ProgrammeMap, Table};
use crate::input::spacing::{Spacing, Timed};
use crate::input::warnings::Warnings;
use crate::input::window::Window;
use crate::{Demux, MediaError, Source, Track, TrackKind, hdr, limits, times};
use std::collections::{HashMap, VecDeque};

/// The container's name in messages.
pub(crate) const CONTAINER: &str = "MPEG-TS";
/// PID of the table of programmes.
pub(crate) const PAT_PID: u16 = 0;

/// Opens a transport stream: finds its programme, and inspects the beginning of each of its
/// streams.
///
/// # Errors
/// [`MediaError::UnknownContainer`] if it is no transport stream, [`MediaError::Encrypted`] if it
/// is scrambled, [`MediaError::NoTracks`] and the others as their texts say.
pub(super) fn open(source: Box<dyn Source>) -> Result<Box<dyn Demux>, MediaError> {
    let mut window = Window::new(source)?;
    let packets = Packets::find(&mut window)?.ok_or_else(|| MediaError::UnknownContainer(String::new()))?;
    let mut warnings = Warnings::default();
    let (map, map_pid) = choose_programme(&mut window, packets.clone(), &mut warnings)?;
    let (streams, refused) = streams_of(&map, &mut warnings)?;
    let mut file = File {
        window,
        packets,
        by_pid: streams.iter().enumerate().map(|(index, stream)| (stream.pid, index)).collect(),
        lanes: Vec::new(),
        programme: ProgrammeClock::new(streams.iter().map(|stream| stream.carries.is_video())),
        streams,
        scan_bytes: limits::TS_JOINT_BYTES,
        tables: Tables::new(map, map_pid),
        units: VecDeque::new(),
        zero: 0,
        tracks: Vec::new(),
        warnings,
        damaged_near: None,
        spacing: Spacing::default(),
        ended: false,
        flushed: false,
    };
    file.probe()?;
    file.survey()?;
    file.settle(refused)?;
    Ok(Box::new(file))
}

/// Turns a stream's units into samples.
enum Lane {
    Out,
    /// Left out, because nothing of it was found.
    Silent,
    Video {
        track: usize,
    },
    Audio {
        track: usize,
        sound: SoundLine,
    },
}

struct File {
    window: Window,
    packets: Packets,
    by_pid: HashMap<u16, usize>,
    streams: Vec<Stream>,
    /// One for each stream.
    lanes: Vec<Lane>,
    /// Bytes that may still be read ahead: those of one joint, and never more beside them than were
    /// read.
    scan_bytes: u64,
    tables: Tables,
    programme: ProgrammeClock,
    units: VecDeque<Unit>,
    zero: i64,
    tracks: Vec<Track>,
    warnings: Warnings,
    /// Where the first damaged packets are, if a time was known there.
    damaged_near: Option<Option<i64>>,
    spacing: Spacing,
    /// All packets have been read.
    ended: bool,
    /// All samples have been given to `spacing`.
    flushed: bool,
}

impl Demux for File {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn warnings(&self) -> &[String] {
        self.warnings.all()
    }

    fn next(&mut self, data: &mut Vec<u8>) -> Result<Option<crate::Packet>, MediaError> {
        loop {
            if let Some(ready) = self.spacing.pop() {
                let packet;
                (packet, *data) = ready.packet();
                return Ok(Some(packet));
            }
            if let Some(unit) = self.units.pop_front() {
                self.place(unit);
            } else if !self.ended {
                self.advance()?;
            } else if !self.flushed {
                self.spacing.finish();
                self.report();
                self.flushed = true;
            } else {
                return Ok(None);
            }
        }
    }

    fn position(&self) -> u64 {
        self.packets.position().min(self.window.bytes())
    }
}

impl File {
    /// Reads one packet.
    fn advance(&mut self) -> Result<(), MediaError> {
        let damaged_places = self.packets.damaged_places();
        let packet = self.packets.next(&mut self.window)?;
        if self.packets.damaged_places() > damaged_places && self.damaged_near.is_none() {
            self.damaged_near = Some(self.programme.reference());
        }
        let Some(packet) = packet else {
            for stream in &mut self.streams {
                stream.finish(&mut self.programme, &mut self.units);
            }
            self.ended = true;
            return Ok(());
        };
        self.scan_bytes += packet::PACKET_BYTES as u64;
        self.follow_tables(&packet);
        if packet.pid == self.tables.map().clock_pid {
            self.programme.refer(&packet);
        }
        if let Some(index) = self.by_pid.get(&packet.pid) {
            let joints = self.tables.joints();
            let (before, rest) = self.streams.split_at_mut(*index);
            let Some((stream, after)) = rest.split_first_mut() else { return Ok(()) };
            let lookout = Lookout {
                window: &mut self.window,
                packets: self.packets.clone(),
                by_pid: &self.by_pid,
                tables: &self.tables,
                from: &packet,
                others: [before, after],
                scan_bytes: &mut self.scan_bytes,
            };
            let ahead = || lookout.look();
            stream.push(&packet, joints, &mut self.programme, ahead, &mut self.units)?;
        }
        Ok(())
    }

    /// Reads until every stream has shown what it is, or one has continued long enough without the
    /// others.
    fn probe(&mut self) -> Result<(), MediaError> {
        let limit = self.packets.position().saturating_add(limits::TS_PROBE_BYTES);
        let (mut latest, mut run) = (None, 0);
        while !self.ended && self.packets.position() < limit {
            let known = self.units.len();
            self.advance()?;
            let Some(newest) = self.units.back().filter(|_| self.units.len() > known) else { continue };
            let ready = |stream: &Stream| stream.given > 0 && !matches!(stream.describe(), Ok(None));
            if self.streams.iter().all(|stream| ready(stream) || stream.describe().is_err()) {
                break;
            }
            // A pause is not a search.
            let step = newest.pts.zip(latest).map_or(0, |(newest, latest)| newest - latest);
            run += step.clamp(0, i64::from(RATE));
            latest = latest.max(newest.pts);
            if run > limits::TS_PROBE_TICKS || self.units.len() >= limits::TS_PROBE_SAMPLES {
                break;
            }
        }
        for stream in &mut self.streams {
            stream.finish_first_picture(&mut self.units);
        }
        Ok(())
    }

    /// Makes tracks of the streams that have shown what they are, and moves zero to their
    /// beginning.
    fn settle(&mut self, refused: Vec<String>) -> Result<(), MediaError> {
        let mut video_missing = None;
        let mut encrypted = None;
        for stream in &self.streams {
            let described = stream.found.clone().map_or_else(|| stream.describe(), |track| Ok(Some(track)));
            let track = self.tracks.len();
            self.lanes.push(match described {
                Ok(Some(description)) if stream.given > 0 || stream.found.is_some() => {
                    let lane = match description.kind {
                        TrackKind::Video => Lane::Video { track },
                        _ => Lane::Audio { track, sound: SoundLine::new(description.timescale) },
                    };
                    let warning =
                        description.video.as_ref().and_then(|video| hdr::warning(description.codec, video));
                    warning
                        .into_iter()
                        .for_each(|text| self.warnings.add(format!("stream {}: {text}", stream.pid)));
                    let first_of_kind = self.tracks.iter().all(|other| other.kind != description.kind);
                    self.tracks.push(Track { default: first_of_kind, ..description });
                    lane
                }
                other => {
                    let nothing = if stream.scrambled.count > 0 {
                        encrypted = encrypted.or(Some(stream.pid));
                        "its packets are encrypted"
                    } else {
                        "nothing that can be decoded was found near the start"
                    };
                    let why = other.err().unwrap_or(nothing);
                    let text = format!("stream {} is left out: {why}", stream.pid);
                    // What is clear beside encrypted pictures is taken: it is all there is to have.
                    if stream.carries.is_video() && stream.scrambled.count == 0 {
                        video_missing = Some(text.clone());
                    }
                    self.warnings.add(text);
                    if stream.given == 0 && stream.scrambled.count == 0 { Lane::Silent } else { Lane::Out }
                }
            });
        }
        let has_video = self.tracks.iter().any(|track| track.kind == TrackKind::Video);
        if let Some(pid) = encrypted.filter(|_| self.tracks.is_empty()) {
            let scheme = "transport stream scrambling".to_owned();
            return Err(MediaError::Encrypted { track: u32::from(pid), scheme });
        }
        if let Some(why) = video_missing.filter(|_| !has_video) {
            return Err(MediaError::NoTracks(why));
        }
        if self.tracks.is_empty() {
            let mut all = refused;
            all.extend(self.warnings.all().iter().cloned());
            return Err(MediaError::NoTracks(all.join("; ")));
        }
        let kept = |unit: &&Unit| !matches!(self.lanes[unit.stream], Lane::Out | Lane::Silent);
        self.zero = self.units.iter().filter(kept).filter_map(|unit| unit.pts).min().unwrap_or(0);
        self.spacing = Spacing::new(self.tracks.len());
        Ok(())
    }

    fn place(&mut self, mut unit: Unit) {
        match &mut self.lanes[unit.stream] {
            Lane::Out => {}
            lane @ Lane::Silent => {
                *lane = Lane::Out;
                let (stream, at) =
                    (&self.streams[unit.stream], times::at(unit.pts.unwrap_or(self.zero) - self.zero, RATE));
                let (pid, what) = (stream.pid, stream.carries.medium());
                self.warnings
                    .add(format!("stream {pid} ({what}) begins at {at}, too late to be searched for"));
            }
            Lane::Video { track } => {
                let (pts, dts) = (unit.pts.unwrap_or(unit.dts) - self.zero, unit.dts - self.zero);
                let Unit { sync, duration: nominal, data, change, .. } = unit;
                self.spacing.push(*track, Timed { dts, pts, sync, nominal, data, change });
            }
            Lane::Audio { track, sound } => {
                let stated = unit.pts.map(|pts| pts - self.zero);
                let Some(placed) = sound.place(stated, &mut unit) else { return };
                let (dts, pts, nominal, change) = (placed.pts, placed.pts, placed.duration, placed.change);
                self.spacing.push(*track, Timed { dts, pts, sync: true, nominal, data: unit.data, change });
            }
        }
    }
}

/// Reads tables until all programmes are known or enough was read, and chooses the first with
/// media. Also returns the PID of its map.
pub(crate) fn choose_programme(
    window: &mut Window,
    mut packets: Packets,
    warnings: &mut Warnings,
) -> Result<(ProgrammeMap, u16), MediaError> {
    let mut tables: HashMap<u16, Table> = HashMap::from([(PAT_PID, Table::default())]);
    let mut programmes: Vec<(u16, u16)> = Vec::new();
    let mut maps: Vec<ProgrammeMap> = Vec::new();
    let limit = packets.position().saturating_add(limits::TS_TABLES_BYTES);
    while packets.position() < limit {
        let Some(packet) = packets.next(window)? else { break };
        let Some(table) = tables.get_mut(&packet.pid) else { continue };
        for section in table.push(&packet) {
            if packet.pid == PAT_PID {
                for programme in tables::programmes(&section).unwrap_or_default() {
                    if !programmes.contains(&programme) && programmes.len() < limits::TS_PROGRAMMES {
                        programmes.push(programme);
                        tables.entry(programme.1).or_default();
                    }
                }
            } else if let Some(map) = ProgrammeMap::parse(&section)
                && programmes.contains(&(map.number, packet.pid))
                && maps.iter().all(|other| other.number != map.number)
            {
                maps.push(map);
            }
        }
        if !programmes.is_empty() && maps.len() == programmes.len() {
            break;
        }
    }
    let chosen = choose(&programmes, &maps, warnings).and_then(|map| {
        let (_, pid) = programmes.iter().find(|(number, _)| *number == map.number)?;
        Some((map.clone(), *pid))
    });
    chosen.ok_or_else(|| MediaError::Malformed {
        container: CONTAINER,
        what: "no programme table was found near its start".to_owned(),
        offset: packets.position(),
    })
}

/// The first programme with pictures, else the first with sound; a warning names the others.
fn choose<'a>(
    programmes: &[(u16, u16)],
    maps: &'a [ProgrammeMap],
    warnings: &mut Warnings,
) -> Option<&'a ProgrammeMap> {
    let has = |map: &ProgrammeMap, video: bool| {
        let carried = map.streams.iter().filter_map(|stream| Carries::classify(stream, map).ok());
        carried.into_iter().any(|carries| carries.is_video() || !video)
    };
    let in_order: Vec<&ProgrammeMap> =
        programmes.iter().filter_map(|(number, _)| maps.iter().find(|map| map.number == *number)).collect();
    let first = |video: bool| in_order.iter().find(|map| has(map, video));
    let chosen = *first(true).or_else(|| first(false)).or(in_order.first())?;
    let others: Vec<String> =
        in_order.iter().filter(|map| map.number != chosen.number).map(|map| map.number.to_string()).collect();
    if !others.is_empty() {
        let count = others.len();
        let named = others[..count.min(limits::TS_NAMED_PROGRAMMES)].join(", ");
        let more = if count > limits::TS_NAMED_PROGRAMMES { " and others" } else { "" };
        let programmes =
            if count == 1 { "1 more programme is" } else { &format!("{count} more programmes are") };
        warnings.add(format!("{programmes} left out ({named}{more}); programme {} was taken", chosen.number));
    }
    Some(chosen)
}

/// The streams that can be stored, and the reasons for leaving out others.
fn streams_of(map: &ProgrammeMap, warnings: &mut Warnings) -> Result<(Vec<Stream>, Vec<String>), MediaError> {
    let mut streams: Vec<Stream> = Vec::new();
    let mut refused = Vec::new();
    let mut video_refused = None;
    for entry in &map.streams {
        match Carries::classify(entry, map) {
            Ok(carries) if streams.iter().all(|other| other.pid != entry.pid) => {
                streams.push(Stream::new(streams.len(), carries, entry));
            }
            Ok(_) => {}
            Err(what) => {
                let text = format!("stream {} is left out: it carries {what}", entry.pid);
                if streams::is_picture_type(entry.kind) {
                    video_refused = Some(text.clone());
                }
                warnings.add(text.clone());
                refused.push(text);
            }
        }
    }
    if let Some(why) = video_refused.filter(|_| !streams.iter().any(|stream| stream.carries.is_video())) {
        return Err(MediaError::NoTracks(why));
    }
    if streams.is_empty() {
        let all =
            if refused.is_empty() { "the programme has no streams".to_owned() } else { refused.join("; ") };
        return Err(MediaError::NoTracks(all));
    }
    Ok((streams, refused))
}
