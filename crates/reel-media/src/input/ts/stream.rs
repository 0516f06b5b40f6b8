//! One elementary stream: turns transport payloads into samples on the programme's clock.

use super::audio::{self, AudioCutter};
use super::clock::{ProgrammeClock, RATE};
use super::continuity::{Continuity, Follows};
use super::pes::{Pes, Piece, Stamps};
use super::streams::Carries;
use super::tables::StreamEntry;
use super::video::{AccessUnit, VideoCutter};
use crate::input::warnings::Warnings;
use crate::{Codec, MediaError, Track, TrackKind, Video};
use std::collections::VecDeque;

/// 25 frames a second, until the stream states or shows its rate.
const USUAL_FRAME_TICKS: i64 = 3600;

/// A sample with 90 kHz times that are not yet relative to zero.
#[derive(Debug)]
pub(crate) struct Unit {
    /// Index of the stream in the programme.
    pub(crate) stream: usize,
    /// Presentation time; audio frames may have none.
    pub(crate) pts: Option<i64>,
    /// Decoding time of video.
    pub(crate) dts: i64,
    /// Decoding can start here.
    pub(crate) sync: bool,
    /// Samples of an audio frame, ticks of a video frame.
    pub(crate) duration: u32,
    /// The bytes.
    pub(crate) data: Vec<u8>,
}

/// One stream of the programme.
#[derive(Debug)]
pub(crate) struct Stream {
    /// What it carries.
    pub(crate) carries: Carries,
    /// PID of its packets.
    pub(crate) pid: u16,
    /// The programme's map lists it.
    pub(crate) listed: bool,
    /// ISO 639-2 language.
    pub(crate) language: Option<String>,
    index: usize,
    pes: Pes,
    cutter: Cutter,
    continuity: Continuity,
    /// Joints of the file that the stream has passed.
    joints: u64,
    /// Places at which packets are missing.
    pub(crate) losses: Losses,
    /// Samples with other parameters than the first.
    pub(crate) changes: Changes,
    /// Packets that are encrypted.
    pub(crate) scrambled_packets: u64,
    /// The packet before was one of them.
    in_scrambled: bool,
    /// Presentation time of the first returned picture.
    first_pts: Option<i64>,
    last_dts: Option<i64>,
    frame_ticks: i64,
    /// Visible size of the first picture.
    size: Option<(u32, u32)>,
    /// Pictures later than the first were returned, so no leading pictures follow.
    past_start: bool,
    /// Samples returned.
    pub(crate) given: u64,
}

/// Places at which packets of a stream are missing.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// How many there are.
    pub(crate) places: u64,
    /// Where the first is: the time of the sample before it, if there is one.
    pub(crate) first: Option<i64>,
}

/// Where a stream's parameters are others than at its start.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Time of the first, and what it changes to.
    pub(crate) first: Option<(i64, String)>,
    /// Ticks of sound that are left out therefore.
    pub(crate) left_out_ticks: i64,
    /// The sample before was one of them.
    within: bool,
}

#[derive(Debug)]
enum Cutter {
    Video(VideoCutter),
    Audio(AudioCutter),
}

impl Stream {
    /// The `index`th stream of the programme.
    pub(crate) fn new(index: usize, carries: Carries, entry: &StreamEntry) -> Self {
        let cutter = if carries.is_video() {
            Cutter::Video(VideoCutter::new(carries == Carries::Hevc))
        } else {
            Cutter::Audio(AudioCutter::new(carries))
        };
        Self {
            carries,
            pid: entry.pid,
            listed: true,
            language: super::streams::language(entry),
            index,
            pes: Pes::default(),
            cutter,
            continuity: Continuity::default(),
            joints: 0,
            losses: Losses::default(),
            changes: Changes::default(),
            scrambled_packets: 0,
            in_scrambled: false,
            first_pts: None,
            last_dts: None,
            frame_ticks: USUAL_FRAME_TICKS,
            size: None,
            past_start: false,
            given: 0,
        }
    }

    /// Takes a packet of the stream; samples it completes are appended to `units`. `joints` counts
    /// the places before it at which the file may have been joined; `ahead` finds the next time
    /// stamps of the streams.
    pub(crate) fn push(
        &mut self,
        packet: &super::packet::Packet,
        joints: u64,
        programme: &mut ProgrammeClock,
        ahead: impl FnOnce() -> Vec<(usize, Stamps)>,
        units: &mut VecDeque<Unit>,
        warnings: &mut Warnings,
    ) -> Result<(), MediaError> {
        // Where recordings were joined, a table comes, and counters restart at starts of packets.
        let joined = packet.start && joints != self.joints;
        self.joints = joints;
        match self.continuity.check(packet, joined) {
            Follows::Nothing => return Ok(()),
            Follows::AfterLoss => self.lose(programme),
            Follows::Next => {}
        }
        if packet.scrambled {
            self.miss_scrambled(programme);
            return Ok(());
        }
        match self.pes.push(packet.payload(), packet.start) {
            Piece::Nothing => Ok(()),
            Piece::Scrambled => {
                self.miss_scrambled(programme);
                Ok(())
            }
            Piece::Payload(stamps, payload) => {
                self.in_scrambled = false;
                let stamps = stamps.map(|stamps| programme.place(self.index, stamps, joints, ahead));
                self.cut(stamps, payload, programme, units, warnings)
            }
        }
    }

    /// The stream's packets have another PID from here on.
    pub(crate) fn continue_on(&mut self, pid: u16) {
        if pid == self.pid {
            return;
        }
        self.pid = pid;
        self.continuity = Continuity::default();
        self.pes = Pes::default();
        if let Cutter::Audio(cutter) = &mut self.cutter {
            cutter.lose();
        }
    }

    /// The stream has ended.
    pub(crate) fn finish(
        &mut self,
        programme: &mut ProgrammeClock,
        units: &mut VecDeque<Unit>,
        warnings: &mut Warnings,
    ) {
        match &mut self.cutter {
            Cutter::Video(cutter) => {
                let mut complete = Vec::new();
                cutter.finish(&mut complete);
                complete.into_iter().for_each(|unit| self.give_picture(unit, units, warnings));
                programme.line(self.index).step = self.frame_ticks;
            }
            Cutter::Audio(cutter) => {
                let mut complete = Vec::new();
                cutter.finish(&mut complete);
                complete.into_iter().for_each(|frame| self.give_sound(frame, programme, units));
            }
        }
    }

    /// The track, once the stream has shown what it is; or why it cannot be stored.
    pub(crate) fn describe(&self) -> Result<Option<Track>, &'static str> {
        let track = |kind, codec, config, timescale| Track {
            kind,
            codec,
            config,
            timescale,
            language: self.language.clone(),
            name: None,
            default: false,
            forced: false,
            video: None,
            audio: None,
        };
        match &self.cutter {
            Cutter::Video(cutter) => {
                let hevc = self.carries == Carries::Hevc;
                let Some(sets) = cutter.sets().describe(hevc) else { return Ok(None) };
                let codec = if hevc { Codec::Hevc } else { Codec::H264 };
                let video = Video {
                    width: sets.size.0,
                    height: sets.size.1,
                    pixel_aspect: sets.pixel_aspect.unwrap_or((1, 1)),
                    rotation: 0,
                    colour: sets.colour,
                };
                Ok(Some(Track { video: Some(video), ..track(TrackKind::Video, codec, sets.config, RATE) }))
            }
            Cutter::Audio(cutter) => {
                let Some(found) = cutter.described()? else { return Ok(None) };
                let rate = found.audio.sample_rate;
                let config = found.config.clone();
                Ok(Some(Track {
                    audio: Some(found.audio.clone()),
                    ..track(TrackKind::Audio, found.codec, config, rate)
                }))
            }
        }
    }

    /// Packets are missing before the next payload.
    fn lose(&mut self, programme: &mut ProgrammeClock) {
        self.losses.places += 1;
        if self.losses.places == 1 {
            self.losses.first = programme.line(self.index).last();
        }
        self.pes.lose();
        if let Cutter::Audio(cutter) = &mut self.cutter {
            cutter.lose();
        }
    }

    /// The payload is encrypted, and thereby lost. A run of such packets is one place.
    fn miss_scrambled(&mut self, programme: &mut ProgrammeClock) {
        self.scrambled_packets += 1;
        if std::mem::replace(&mut self.in_scrambled, true) {
            self.pes.lose();
        } else {
            self.lose(programme);
        }
    }

    fn cut(
        &mut self,
        stamps: Option<Stamps>,
        payload: &[u8],
        programme: &mut ProgrammeClock,
        units: &mut VecDeque<Unit>,
        warnings: &mut Warnings,
    ) -> Result<(), MediaError> {
        match &mut self.cutter {
            Cutter::Video(cutter) => {
                let mut complete = Vec::new();
                cutter.push(stamps, payload, &mut complete)?;
                complete.into_iter().for_each(|unit| self.give_picture(unit, units, warnings));
                programme.line(self.index).step = self.frame_ticks;
            }
            Cutter::Audio(cutter) => {
                let mut complete = Vec::new();
                cutter.push(stamps, payload, &mut complete);
                if cutter.skipped_bytes > 0 && self.given > 0 {
                    warnings.once("skipped", || "sound frames are damaged and left out in places".to_owned());
                }
                complete.into_iter().for_each(|frame| self.give_sound(frame, programme, units));
            }
        }
        Ok(())
    }

    fn give_picture(&mut self, unit: AccessUnit, units: &mut VecDeque<Unit>, warnings: &mut Warnings) {
        let leading = |warnings: &mut Warnings| {
            warnings.once("leading", || {
                "pictures before the first key frame are left out: they cannot be decoded".to_owned()
            });
        };
        if self.first_pts.is_none() && !(unit.sync && unit.stamps.is_some()) {
            return leading(warnings);
        }
        if self.first_pts.is_none()
            && let Some(ticks) = self.stated_frame_ticks()
        {
            self.frame_ticks = ticks;
        }
        let (pts, dts) = match (unit.stamps, self.last_dts) {
            (Some(stamps), last) => {
                let dts = stamps.dts;
                if let Some(step) =
                    last.map(|last| dts - last).filter(|step| (1..i64::from(RATE)).contains(step))
                {
                    self.frame_ticks = step;
                }
                let pts = stamps.pts;
                // A decoding time after the presentation time is invalid; the presentation time is
                // the one that is visible.
                (pts, dts.min(pts))
            }
            (None, last) => {
                warnings.once("stamps", || {
                    "some pictures have no time stamps: they are placed one frame after the picture before".to_owned()
                });
                let at = last.unwrap_or(0) + self.frame_ticks;
                (at, at)
            }
        };
        let first = *self.first_pts.get_or_insert(pts);
        if !self.past_start && pts < first && (self.carries != Carries::Hevc || unit.skipped_at_start) {
            return leading(warnings);
        }
        if let Some((width, height)) = unit.size
            && *self.size.get_or_insert((width, height)) != (width, height)
        {
            self.changes.first.get_or_insert_with(|| (pts, format!("{width} x {height}")));
        }
        // Leading pictures follow their random access point at once.
        self.past_start |= pts > first;
        self.last_dts = Some(dts);
        self.given += 1;
        units.push_back(Unit {
            stream: self.index,
            pts: Some(pts),
            dts,
            sync: unit.sync,
            duration: u32::try_from(self.frame_ticks).unwrap_or(0),
            data: unit.data,
        });
    }

    fn give_sound(
        &mut self,
        frame: audio::Frame,
        programme: &mut ProgrammeClock,
        units: &mut VecDeque<Unit>,
    ) {
        let rate = frame.foreign.as_ref().map_or_else(|| self.sample_rate(), |audio| audio.sample_rate);
        let step = i64::from(frame.samples) * i64::from(RATE) / i64::from(rate.max(1));
        let line = programme.line(self.index);
        // Frames without a time stamp follow those that were left out.
        let pts = frame.pts.or(line.sound_end.filter(|_| self.changes.within));
        line.step = step;
        line.sound_end = frame.pts.or(line.sound_end).map(|start| start + step);
        self.changes.within = frame.foreign.is_some();
        if let Some(audio) = frame.foreign {
            let at = pts.or(line.last()).unwrap_or(0);
            self.changes.left_out_ticks = self.changes.left_out_ticks.saturating_add(step);
            self.changes.first.get_or_insert_with(|| {
                (at, format!("{} channels at {} Hz", audio.channels, audio.sample_rate))
            });
            return;
        }
        // Frames before the first time stamp have no place in time.
        if pts.is_none() && self.given == 0 {
            return;
        }
        self.given += 1;
        units.push_back(Unit {
            stream: self.index,
            pts,
            dts: 0,
            sync: true,
            duration: frame.samples,
            data: frame.data,
        });
    }

    fn sample_rate(&self) -> u32 {
        match &self.cutter {
            Cutter::Audio(cutter) => {
                cutter.described().ok().flatten().map_or(48_000, |found| found.audio.sample_rate)
            }
            Cutter::Video(_) => RATE,
        }
    }

    fn stated_frame_ticks(&self) -> Option<i64> {
        let Cutter::Video(cutter) = &self.cutter else { return None };
        let (numerator, denominator) =
            cutter.sets().describe(self.carries == Carries::Hevc)?.frame_duration?;
        let ticks = i64::from(RATE) * i64::from(numerator) / i64::from(denominator);
        (1..i64::from(RATE)).contains(&ticks).then_some(ticks)
    }
}
