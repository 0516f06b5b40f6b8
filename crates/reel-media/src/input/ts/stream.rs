//! One elementary stream: turns transport payloads into samples on the programme's clock.

use super::audio::{self, AudioCutter};
use super::changes::Joints;
use super::clock::{Ahead, ProgrammeClock, RATE};
use super::continuity::{Continuity, Follows, Joint, Signs};
use super::pes::{Pes, Piece, Stamps};
use super::sound::{Changes, Runs};
use super::streams::Carries;
use super::tables::StreamEntry;
use super::video::{AccessUnit, VideoCutter};
use crate::input::parameter_sets::Described;
use crate::times::Places;
use crate::{Codec, Description, Hdr, MediaError, Track, TrackKind, Video, limits};
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
    /// How many of them are a second.
    pub(crate) rate: u32,
    /// The bytes.
    pub(crate) data: Vec<u8>,
    /// How the stream is coded from here on, if that changes.
    pub(crate) change: Option<Box<Description>>,
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
    /// The track that it is, if that was found ahead.
    pub(super) found: Option<Track>,
    /// The record of Dolby Vision in its descriptors.
    dolby_vision: Option<[u8; 24]>,
    index: usize,
    pes: Pes,
    cutter: Cutter,
    continuity: Continuity,
    /// Joints of the file that the stream has passed.
    joints: u64,
    /// What the packets beside the latest one say, until the next time stamp.
    signs: Option<Signs>,
    /// Places at which packets are missing.
    pub(crate) losses: Places,
    /// Pictures that cannot be decoded, because their key frame is not there.
    pub(crate) leading: Places,
    /// Pictures without time stamps.
    pub(crate) unstamped: Places,
    /// Places at which frames of sound are damaged.
    pub(crate) damage: Places,
    /// The sound, by how it is coded.
    sound: Runs,
    /// How the latest pictures are coded.
    picture: Option<Described>,
    /// Where that changes.
    picture_changes: Changes,
    /// Changes of pictures beyond the limit.
    pub(crate) unfollowed: u64,
    /// Packets that are encrypted.
    pub(crate) scrambled: Places,
    /// The packet before was one of them.
    in_scrambled: bool,
    /// Presentation time of the first returned picture.
    first_pts: Option<i64>,
    last_dts: Option<i64>,
    /// The usual step between pictures.
    frame_ticks: i64,
    /// The latest step between pictures.
    last_step: i64,
    /// Pictures later than the first were returned, so no leading pictures follow.
    past_start: bool,
    /// Samples returned.
    pub(crate) given: u64,
}

#[derive(Debug)]
enum Cutter {
    Video(Box<VideoCutter>),
    Audio(AudioCutter),
}

impl Stream {
    /// The `index`th stream of the programme.
    pub(crate) fn new(index: usize, carries: Carries, entry: &StreamEntry) -> Self {
        let (language, dolby_vision) = (super::streams::language(entry), super::streams::dolby_vision(entry));
        Self::with(index, carries, entry.pid, language, dolby_vision)
    }

    /// A stream with the PID and descriptors of this one, alone in its programme.
    pub(crate) fn begin_alone(&self) -> Self {
        Self::with(0, self.carries, self.pid, self.language.clone(), self.dolby_vision)
    }

    /// Its index in the programme.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    fn with(
        index: usize,
        carries: Carries,
        pid: u16,
        language: Option<String>,
        dolby_vision: Option<[u8; 24]>,
    ) -> Self {
        let cutter = if carries.is_video() {
            Cutter::Video(Box::new(VideoCutter::new(carries == Carries::Hevc)))
        } else {
            Cutter::Audio(AudioCutter::new(carries))
        };
        Self {
            carries,
            pid,
            listed: true,
            language,
            found: None,
            dolby_vision,
            index,
            pes: Pes::default(),
            cutter,
            continuity: Continuity::default(),
            joints: 0,
            signs: None,
            losses: Places::default(),
            leading: Places::default(),
            unstamped: Places::default(),
            damage: Places::default(),
            sound: Runs::default(),
            picture: None,
            picture_changes: Changes::default(),
            unfollowed: 0,
            scrambled: Places::default(),
            in_scrambled: false,
            first_pts: None,
            last_dts: None,
            frame_ticks: USUAL_FRAME_TICKS,
            last_step: 0,
            past_start: false,
            given: 0,
        }
    }

    /// Takes a packet of the stream; samples it completes are appended to `units`. `joints` are the
    /// places before it at which the file may have been joined; `ahead` finds the next time stamps
    /// of the streams.
    pub(crate) fn push(
        &mut self,
        packet: &super::packet::Packet,
        joints: Joints,
        programme: &mut ProgrammeClock,
        ahead: impl FnOnce() -> Ahead,
        units: &mut VecDeque<Unit>,
    ) -> Result<(), MediaError> {
        // Where recordings were joined, a table comes, and counters restart at starts of packets.
        let possible = packet.start && joints.count != self.joints;
        self.joints = joints.count;
        programme.breaks += u64::from(self.breaks_at(packet));
        match self.continuity.check(packet, Joint { possible, jump: joints.jump }) {
            Follows::Nothing => return Ok(()),
            Follows::AfterLoss => self.lose(programme),
            Follows::LostBefore => self.losses.add(programme.line(self.index).last()),
            Follows::AtJoint(_) if self.pes.is_short() => self.lose(programme),
            Follows::AtJoint(signs) => {
                self.signs = Some(signs);
                if let Cutter::Video(cutter) = &mut self.cutter {
                    cutter.begin_apart();
                }
            }
            Follows::Next if self.pes.shows_loss(packet.payload(), packet.start) => self.lose(programme),
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
                let stamps = stamps.map(|stamps| self.stamp(stamps, joints, programme, ahead));
                self.cut(stamps, payload, programme, units)
            }
        }
    }

    /// Whether the counter of the next packet does not continue.
    pub(crate) fn breaks_at(&self, packet: &super::packet::Packet) -> bool {
        self.continuity.breaks_at(packet)
    }

    /// The stream's packets have another PID from here on.
    pub(crate) fn continue_on(&mut self, pid: u16, programme: &mut ProgrammeClock) {
        if pid == self.pid {
            return;
        }
        self.pid = pid;
        if self.pes.is_short() {
            self.lose(programme);
        }
        programme.breaks += 1;
        self.continuity = Continuity::default();
        self.pes = Pes::default();
        if let Cutter::Audio(cutter) = &mut self.cutter {
            cutter.lose();
        }
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self, programme: &mut ProgrammeClock, units: &mut VecDeque<Unit>) {
        match &mut self.cutter {
            Cutter::Video(cutter) => {
                let mut complete = Vec::new();
                cutter.finish(&mut complete);
                complete.into_iter().for_each(|unit| self.give_picture(unit, units));
                programme.line(self.index).step = self.frame_ticks;
            }
            Cutter::Audio(cutter) => {
                let mut complete = Vec::new();
                cutter.finish(&mut complete);
                complete.into_iter().for_each(|frame| self.give_sound(frame, programme, units));
                let before = units.len();
                self.sound.finish(units);
                self.given += (units.len() - before) as u64;
            }
        }
    }

    /// A picture that was received and not followed by another one for long is complete.
    pub(crate) fn finish_first_picture(&mut self, units: &mut VecDeque<Unit>) {
        let Cutter::Video(cutter) = &mut self.cutter else { return };
        if self.given > 0 {
            return;
        }
        let mut complete = Vec::new();
        cutter.finish(&mut complete);
        complete.into_iter().for_each(|unit| self.give_picture(unit, units));
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
            Cutter::Video(_) => {
                let Some(found) = &self.picture else { return Ok(None) };
                let codec = if self.carries == Carries::Hevc { Codec::Hevc } else { Codec::H264 };
                let config = found.config.clone();
                Ok(Some(Track {
                    video: Some(self.video(found)),
                    ..track(TrackKind::Video, codec, config, RATE)
                }))
            }
            Cutter::Audio(cutter) => {
                if let Some(why) = cutter.refused() {
                    return Err(why);
                }
                let Some(found) = self.sound.current() else { return Ok(None) };
                let rate = found.audio.sample_rate;
                let config = found.config.clone();
                Ok(Some(Track {
                    audio: Some(found.audio.clone()),
                    ..track(TrackKind::Audio, found.codec, config, rate)
                }))
            }
        }
    }

    /// Where the stream's description changes.
    pub(crate) fn changes(&self) -> &Changes {
        if self.carries.is_video() { &self.picture_changes } else { &self.sound.changes }
    }

    /// Bytes of damaged sound.
    pub(crate) fn damaged_bytes(&self) -> Option<u64> {
        match &self.cutter {
            Cutter::Audio(cutter) => Some(cutter.damaged_bytes),
            Cutter::Video(_) => None,
        }
    }

    /// Where sound is left out, and how many ticks in all.
    pub(crate) fn left_out(&self) -> Option<(i64, i64)> {
        Some((self.sound.left_out.first?, self.sound.left_out.ticks))
    }

    /// Places time stamps. At a joint, also finds out whether packets are missing there: two signs
    /// of three show it.
    fn stamp(
        &mut self,
        stamps: Stamps,
        joints: Joints,
        programme: &mut ProgrammeClock,
        ahead: impl FnOnce() -> Ahead,
    ) -> Stamps {
        let line = programme.line(self.index);
        let (last, due) = (line.last(), line.next());
        let placed = programme.place(self.index, stamps, joints.count, ahead);
        let Some(signs) = self.signs.take() else { return placed };
        let is_late = due.is_some_and(|due| programme.line(self.index).is_later_than(due));
        let found = [signs.counter_jumps, signs.last_is_full, is_late];
        if found.into_iter().filter(|found| *found).count() >= 2 {
            self.count_loss(last);
        }
        placed
    }

    /// Packets are missing before the next payload.
    fn lose(&mut self, programme: &mut ProgrammeClock) {
        self.count_loss(programme.line(self.index).last());
        self.pes.lose();
    }

    /// Packets are missing after the sample at `last`.
    fn count_loss(&mut self, last: Option<i64>) {
        self.signs = None;
        self.losses.add(last);
        match &mut self.cutter {
            Cutter::Audio(cutter) => cutter.lose(),
            Cutter::Video(cutter) => cutter.begin_apart(),
        }
    }

    /// The payload is encrypted, and thereby lost. A run of such packets is one place.
    fn miss_scrambled(&mut self, programme: &mut ProgrammeClock) {
        self.scrambled.add(programme.line(self.index).last());
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
    ) -> Result<(), MediaError> {
        match &mut self.cutter {
            Cutter::Video(cutter) => {
                let mut complete = Vec::new();
                cutter.push(stamps, payload, &mut complete)?;
                complete.into_iter().for_each(|unit| self.give_picture(unit, units));
                programme.line(self.index).step = self.frame_ticks;
            }
            Cutter::Audio(cutter) => {
                let mut complete = Vec::new();
                cutter.push(stamps, payload, &mut complete);
                if cutter.damaged_places > self.damage.count {
                    self.damage.add(programme.line(self.index).last());
                }
                complete.into_iter().for_each(|frame| self.give_sound(frame, programme, units));
            }
        }
        Ok(())
    }

    fn give_picture(&mut self, unit: AccessUnit, units: &mut VecDeque<Unit>) {
        if self.first_pts.is_none() && !(unit.sync && unit.stamps.is_some()) {
            return self.leading.add(unit.stamps.map(|stamps| stamps.pts));
        }
        if unit.after_gap {
            self.count_loss(self.last_dts);
        }
        let change = unit.described.and_then(|described| self.follow_picture(described));
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
                    // A longer step may be a pause, unless it repeats.
                    if step <= self.frame_ticks || step == self.last_step {
                        self.frame_ticks = step;
                    }
                    self.last_step = step;
                }
                let pts = stamps.pts;
                // A decoding time after the presentation time is invalid; the presentation time is
                // the one that is visible.
                (pts, dts.min(pts))
            }
            (None, last) => {
                let at = last.unwrap_or(0) + self.frame_ticks;
                self.unstamped.add(Some(at));
                (at, at)
            }
        };
        if change.is_some() {
            self.picture_changes.add(pts, self.picture.as_ref().map(Described::named).unwrap_or_default());
            (self.first_pts, self.past_start) = (Some(pts), false);
        }
        let first = *self.first_pts.get_or_insert(pts);
        if !self.past_start && pts < first && (self.carries != Carries::Hevc || unit.skipped_at_start) {
            return self.leading.add(Some(pts));
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
            rate: RATE,
            data: unit.data,
            change,
        });
    }

    /// Notes how a key frame is coded; returns it if a decoder must be told.
    fn follow_picture(&mut self, described: Described) -> Option<Box<Description>> {
        let Some(current) = &mut self.picture else {
            self.picture = Some(described);
            return None;
        };
        if described.is_like(current) || self.given == 0 {
            return None;
        }
        if self.picture_changes.count >= limits::OUT_CHANGES {
            self.unfollowed += 1;
            return None;
        }
        *current = described.clone();
        let video = Some(self.video(&described));
        Some(Box::new(Description { config: described.config, video, audio: None }))
    }

    /// The picture as it is described to players.
    fn video(&self, described: &Described) -> Video {
        let video = described.video();
        Video { hdr: Hdr { dolby_vision: self.dolby_vision, ..video.hdr }, ..video }
    }

    fn give_sound(
        &mut self,
        frame: audio::Frame,
        programme: &mut ProgrammeClock,
        units: &mut VecDeque<Unit>,
    ) {
        let described = frame.described.as_ref().or(self.sound.current());
        let rate = described.map_or(48_000, |found| found.audio.sample_rate).max(1);
        let step = i64::from(frame.samples) * i64::from(RATE) / i64::from(rate);
        let line = programme.line(self.index);
        // Frames without a time stamp follow those that were left out.
        let pts = frame.pts.or(line.sound_end.filter(|_| self.sound.is_apart()));
        line.step = step;
        line.sound_end = frame.pts.or(line.sound_end).map(|start| start + step);
        // Frames before the first time stamp have no place in time.
        if pts.is_none() && self.given == 0 && !self.sound.is_apart() {
            return;
        }
        let unit = Unit {
            stream: self.index,
            pts,
            dts: 0,
            sync: true,
            duration: frame.samples,
            rate,
            data: frame.data,
            change: None,
        };
        let before = units.len();
        self.sound.push(frame.described, unit, step, units);
        self.given += (units.len() - before) as u64;
    }

    fn stated_frame_ticks(&self) -> Option<i64> {
        let (numerator, denominator) = self.picture.as_ref()?.frame_duration?;
        let ticks = i64::from(RATE) * i64::from(numerator) / i64::from(denominator);
        (1..i64::from(RATE)).contains(&ticks).then_some(ticks)
    }
}
