//! Where fragments are cut, and how samples pass through the lanes.

use super::apart::Apart;
use super::beginning::Beginning;
use super::lane::{Finished, Instant, Lane};
use super::pauses::{Pauses, Taken};
use super::silence::Silence;
use super::text::{Text, Written};
use super::{PackError, TableRange};
use crate::index::{TrackIndex, rates};
use crate::{Description, Packet, Sample, Track, TrackKind, limits};

/// Where fragments are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutPolicy {
    /// A fragment ends at the first key frame this long after its start.
    pub fragment_min_ms: u32,
    /// A video fragment that would get longer than this without a key frame is refused.
    pub fragment_max_ms: u32,
    /// A video fragment that would get larger than this without a key frame is refused. From half
    /// of this size on, any key frame ends the fragment. At most 1 GiB.
    pub fragment_max_bytes: usize,
    /// How many bytes of all tracks except the leading one may wait for its next border, an equal
    /// share for each. A track that exceeds its share is cut by its own clock.
    pub ahead_max_bytes: usize,
}

impl Default for CutPolicy {
    fn default() -> CutPolicy {
        // Ten minutes: titles made with "infinite" GOPs (slides, time lapses, AV1 encoders'
        // defaults) are coarse to seek in, but they play. The bytes must fit in memory.
        CutPolicy {
            fragment_min_ms: 4000,
            fragment_max_ms: 600_000,
            fragment_max_bytes: 64 << 20,
            ahead_max_bytes: 64 << 20,
        }
    }
}

/// The next bytes of one track's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index into the tracks given to [`Packager::new`].
    pub track: usize,
    /// The bytes after those of the track's previous piece.
    pub bytes: Vec<u8>,
}

/// The result of packaging a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packaged {
    /// The last pieces.
    pub pieces: Vec<Piece>,
    /// For each track given to [`Packager::new`]: its index, or `None` if it had nothing to
    /// present.
    pub tracks: Vec<Option<TrackIndex>>,
    /// Sample tables of all tracks; the track indexes say which bytes belong to which track.
    pub tables: Vec<u8>,
    /// What was left out or moved, for the person who ingests; at most two for each track.
    pub warnings: Vec<String>,
}

/// Turns the samples of one file into CMAF objects.
///
/// The first video track (the first audio track if there is none) sets the borders. The others are
/// cut at their first possible sample at or after a border. A change of decoder configuration cuts
/// its track there, and the leading track at its nearest key frame. Memory: one fragment of each
/// track, and some pictures behind a pause.
pub struct Packager {
    policy: CutPolicy,
    lanes: Vec<Lane>,
    texts: Vec<Text>,
    beginnings: Vec<Beginning>,
    apart: Vec<Apart>,
    pauses: Vec<Pauses>,
    silences: Vec<Silence>,
    leader: Option<usize>,
    pieces: Vec<Piece>,
    /// Of a title that is stored already: when it ends.
    title_ends_ms: Option<u64>,
}

impl Packager {
    /// A packager for these tracks.
    ///
    /// # Errors
    /// If a description exceeds the limits or contradicts itself.
    pub fn new(tracks: Vec<Track>, policy: CutPolicy) -> Result<Packager, PackError> {
        if tracks.len() > limits::OUT_TRACKS {
            return Err(limit(0, "the number of tracks", tracks.len(), limits::OUT_TRACKS));
        }
        let first = |kind| tracks.iter().position(|track| track.kind == kind);
        let leader = first(TrackKind::Video).or_else(|| first(TrackKind::Audio));
        let texts = tracks.iter().map(|_| Text::default()).collect();
        let beginnings = tracks.iter().map(|track| Beginning::new(track.timescale)).collect();
        let apart = tracks.iter().map(|track| Apart::new(track.timescale)).collect();
        let pauses = tracks.iter().map(|_| Pauses::default()).collect();
        let silences = tracks.iter().enumerate().map(|(i, track)| Silence::new(i, track)).collect();
        let lanes = tracks
            .into_iter()
            .enumerate()
            .map(|(i, track)| Ok(Lane::new(i + 1, checked(i + 1, track)?)))
            .collect::<Result<_, PackError>>()?;
        let policy = CutPolicy {
            fragment_max_bytes: policy.fragment_max_bytes.min(limits::OUT_FRAGMENT_BYTES),
            ..policy
        };
        Ok(Packager {
            policy,
            lanes,
            texts,
            beginnings,
            apart,
            pauses,
            silences,
            leader,
            pieces: Vec::new(),
            title_ends_ms: None,
        })
    }

    /// A packager for subtitles that are added to a stored title with a duration
    /// ([`crate::TitleIndex::duration_ns`]), which bounds their cues.
    ///
    /// # Errors
    /// As [`Packager::new`].
    pub fn for_subtitles(track: Track, title_duration_ns: u64) -> Result<Packager, PackError> {
        let packager = Packager::new(vec![track], CutPolicy::default())?;
        Ok(Packager { title_ends_ms: Some(title_duration_ns / 1_000_000), ..packager })
    }

    /// Takes the next sample. Samples of a track come in decoding order, tracks interleaved as in
    /// the file.
    ///
    /// # Errors
    /// If a time, a size or a count is impossible, or no key frame comes in time.
    pub fn push(&mut self, packet: &Packet, data: &[u8]) -> Result<(), PackError> {
        let number = packet.track + 1;
        let Some(lane) = self.lanes.get_mut(packet.track) else {
            return Err(PackError::Track {
                track: number,
                what: "a sample belongs to a track that was not declared",
            });
        };
        lane.check_times(&packet.sample)?;
        if lane.track().kind == TrackKind::Subtitle {
            let timescale = lane.track().timescale;
            self.texts[packet.track].push(timescale, packet.sample.pts, packet.sample.duration, data);
            return match self.texts.iter().map(Text::bytes).sum() {
                bytes if bytes > limits::OUT_TEXT_BYTES => {
                    Err(limit(number, "the size of the subtitles in bytes", bytes, limits::OUT_TEXT_BYTES))
                }
                _ => Ok(()),
            };
        }
        if lane.track().kind != TrackKind::Video {
            return self.add_sound(packet, data);
        }
        match self.beginnings[packet.track].take(packet, data) {
            Taken::Now => self.add_picture(packet, data),
            Taken::Held => Ok(()),
            Taken::With(all) => all.iter().try_for_each(|(packet, data)| self.add_picture(packet, data)),
        }
    }

    fn add_picture(&mut self, packet: &Packet, data: &[u8]) -> Result<(), PackError> {
        let moved = self.apart[packet.track].moved(packet);
        let packet = moved.as_ref().unwrap_or(packet);
        let timescale = self.lanes[packet.track].track().timescale;
        match self.pauses[packet.track].take(packet, data, timescale) {
            Taken::Now => self.add(packet, data),
            Taken::Held => Ok(()),
            Taken::With(all) => all.iter().try_for_each(|(packet, data)| self.add(packet, data)),
        }
    }

    fn add_sound(&mut self, packet: &Packet, data: &[u8]) -> Result<(), PackError> {
        let Some(parts) = self.silences[packet.track].fill(packet, data) else {
            return self.add(packet, data);
        };
        parts.iter().try_for_each(|part| self.add(&part.packet, part.silence.as_deref().unwrap_or(data)))
    }

    fn add(&mut self, packet: &Packet, data: &[u8]) -> Result<(), PackError> {
        if let Some(description) = &packet.change {
            self.change(packet, description)?;
        }
        self.lanes[packet.track].append(packet, data)?;
        if self.leader == Some(packet.track) {
            self.lead(packet.track)?
        } else {
            self.follow(packet.track)?
        }
        self.refuse_long(packet.track)
    }

    /// The pieces that are ready, in object order for each track.
    pub fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }

    /// Takes back the memory of a piece that was written.
    pub fn recycle(&mut self, piece: Piece) {
        if let Some(lane) = self.lanes.get_mut(piece.track) {
            lane.recycle(piece.bytes);
        }
    }

    /// Closes the last fragments.
    ///
    /// # Errors
    /// If the last fragments exceed a limit.
    pub fn finish(mut self) -> Result<Packaged, PackError> {
        let held: Vec<_> = self.beginnings.iter_mut().flat_map(Beginning::release).collect();
        held.iter().try_for_each(|(packet, data)| self.add_picture(packet, data))?;
        let held: Vec<_> = self.pauses.iter_mut().flat_map(Pauses::release).collect();
        held.iter().try_for_each(|(packet, data)| self.add(packet, data))?;
        let leader_end = self.leader.map(|leader| self.lanes[leader].end());
        let longer = self.extend()?;
        if let Some(leader) = self.leader {
            self.lead_to_changes(leader, true, true)?;
        }
        for i in 0..self.lanes.len() {
            if Some(i) != self.leader {
                self.close_tail(i, leader_end)?;
            }
            self.close_all(i)?;
        }
        let media_end_ms = self.title_ends_ms.or_else(|| self.media_end_ms());
        let mut packaged = Packaged { pieces: std::mem::take(&mut self.pieces), ..Packaged::default() };
        let apart = self.apart.iter().enumerate();
        packaged.warnings = apart.filter_map(|(i, apart)| apart.warning(i + 1)).collect();
        packaged.warnings.extend(self.late());
        packaged.warnings.extend(longer);
        for (i, (lane, text)) in self.lanes.into_iter().zip(self.texts).enumerate() {
            let index = if lane.track().kind == TrackKind::Subtitle {
                let written = text.finish(media_end_ms);
                let named = |warning: &String| match self.title_ends_ms {
                    Some(_) => warning.clone(),
                    None => format!("subtitles of track {}: {warning}", i + 1),
                };
                packaged.warnings.extend(written.warnings.iter().map(named));
                subtitle(i, lane.track(), written, &mut packaged.pieces)
            } else {
                lane.finish().map(|lane| media(lane, &mut packaged.tables))
            };
            packaged.tracks.push(index);
        }
        Ok(packaged)
    }

    /// Lets every track last until the end of the last shown picture or sound, by silence or by the
    /// last picture: players end where the first track ends, or wait there for ever. Returns
    /// warnings about pictures.
    fn extend(&mut self) -> Result<Vec<String>, PackError> {
        let media = self.lanes.iter().filter(|lane| lane.has_samples());
        let Some(end) = media.map(Lane::end).max_by(|a, b| a.order(*b)) else { return Ok(Vec::new()) };
        let mut warnings = Vec::new();
        for track in 0..self.lanes.len() {
            if self.lanes[track].track().kind == TrackKind::Audio {
                let parts = self.silences[track].fill_to(end);
                let mut silent =
                    parts.iter().filter_map(|part| Some((&part.packet, part.silence.as_deref()?)));
                silent.try_for_each(|(packet, frame)| self.add(packet, frame))?;
                continue;
            }
            let from = self.lanes[track].end();
            let missing_ms = if self.lanes[track].has_samples() { end.apart_ms(from) } else { 0 };
            // Some containers do not say how long the last picture lasts.
            let step_ms = self.lanes[track].step_ms();
            if missing_ms > limits::PAUSE_MS as u64 {
                self.show_until(track, end)?;
            }
            if missing_ms > step_ms.max(limits::UNNOTICED_MS as u64) {
                let (number, at) = (track + 1, from.text());
                warnings.push(format!(
                    "track {number}: the pictures end at {at}, and the title at {}; the last one stays until then",
                    end.text()
                ));
            }
        }
        Ok(warnings)
    }

    /// Shows the last picture of a track until an instant. Chromium does not show a picture for
    /// long that no other follows (see [`super::steps`]), and its decoder keeps some back. So if
    /// that is far away, the last picture that can be decoded alone follows for a moment, some
    /// times, just before the end: players drop what ends after it, and some move the times of a
    /// track by a part of a picture.
    fn show_until(&mut self, track: usize, end: Instant) -> Result<(), PackError> {
        let lane = &mut self.lanes[track];
        let timescale = lane.track().timescale;
        let end = end.in_clock(timescale);
        let is_far = end - lane.end().ticks > i64::from(timescale) * limits::LONG_PAUSE_MS / 1000;
        let first = end - i64::from(timescale) * limits::LAST_PICTURES_MS / 1000;
        // Decoding times of fragments have 32 bits.
        let fits = |key: &Sample| u32::try_from(first - key.dts).is_ok();
        let Some((key, data)) = lane.newest_key().filter(|(key, _)| is_far && fits(key)) else {
            lane.extend(end);
            return Ok(());
        };
        let data = data.to_vec();
        // The picture before them is shown until they begin.
        let ahead = lane.newest_ahead();
        let moment = timescale.div_ceil(1000);
        let count = (limits::PAUSE_BYTES / data.len().max(1)).clamp(1, limits::PAUSE_PICTURES);
        for pts in (first..).step_by(moment as usize).take(count) {
            let sample = Sample { dts: pts - ahead, pts, duration: moment, ..key };
            // All in one fragment.
            self.lanes[track].append(&Packet { track, sample, change: None }, &data)?;
        }
        Ok(())
    }

    /// Warnings about pictures that begin late.
    fn late(&self) -> Vec<String> {
        let late = |(i, (lane, beginning)): (usize, (&Lane, &Beginning))| {
            let timescale = lane.track().timescale;
            let is_noticed = beginning.moved * 1000 > i64::from(timescale) * limits::UNNOTICED_MS;
            let at = Instant { ticks: beginning.moved, timescale }.text();
            is_noticed.then(|| {
                format!("track {}: the pictures begin at {at}; the first one is shown from the start", i + 1)
            })
        };
        self.lanes.iter().zip(&self.beginnings).enumerate().filter_map(late).collect()
    }

    /// The end of the last shown picture or sound, in milliseconds, rounded down. `None` if there
    /// is neither.
    fn media_end_ms(&self) -> Option<u64> {
        let media = self.lanes.iter().filter(|lane| lane.fragments() > 0);
        let ends_ms = media.map(|lane| {
            let Instant { ticks, timescale } = lane.end();
            // Fits: times were checked when the samples were added.
            (u128::from(ticks.max(0) as u64) * 1000 / u128::from(timescale)) as u64
        });
        ends_ms.max()
    }

    /// Ends the fragment of a track whose description changes with this packet.
    fn change(&mut self, packet: &Packet, description: &Description) -> Result<(), PackError> {
        let track = packet.track;
        let mut described = self.lanes[track].track().clone();
        described.describe(description.clone());
        checked(track + 1, described)?;
        if self.lanes[track].track().kind == TrackKind::Video && !packet.sample.sync {
            let what = "its decoder configuration changes at a picture that is no key frame";
            return Err(PackError::Track { track: track + 1, what });
        }
        self.close_all(track)?;
        let at = self.lanes[track].describe(&packet.sample, description);
        let changes = self.lanes[track].changes();
        if changes > limits::OUT_CHANGES {
            let what = "the number of changes of decoder configuration";
            return Err(limit(track + 1, what, changes, limits::OUT_CHANGES));
        }
        match self.leader {
            Some(leader) if leader == track => self.border(track, at),
            Some(leader) => {
                self.lanes[leader].want(at);
                self.lead_to_changes(leader, true, false)
            }
            None => Ok(()),
        }
    }

    /// Cuts the track that sets the borders where others change.
    fn lead_to_changes(&mut self, track: usize, all: bool, last: bool) -> Result<(), PackError> {
        while let Some(count) = self.lanes[track].cut_by_change(all, last) {
            self.close(track, count)?;
            if let Some(border) = self.lanes[track].start() {
                self.border(track, border)?;
            }
        }
        Ok(())
    }

    /// Cuts the track that sets the borders, just before its newest sample.
    fn lead(&mut self, track: usize) -> Result<(), PackError> {
        self.lead_to_changes(track, false, false)?;
        // Only the newest sample can be the border: earlier ones were checked when they were added.
        let Some(last) = self.lanes[track].newest_start() else { return Ok(()) };
        let (bytes, ticks) = (self.lanes[track].held().0, self.lanes[track].played());
        if ticks < self.min_ticks(track) && bytes <= self.policy.fragment_max_bytes / 2 {
            return Ok(());
        }
        self.close(track, last)?;
        let Some(border) = self.lanes[track].start() else { return Ok(()) };
        self.border(track, border)
    }

    /// Cuts the other tracks at a border of the leading one.
    fn border(&mut self, track: usize, border: Instant) -> Result<(), PackError> {
        for follower in 0..self.lanes.len() {
            if follower != track {
                self.lanes[follower].expect(border);
                self.follow(follower)?;
            }
        }
        Ok(())
    }

    /// Cuts a track at the borders that it has reached, or by its own clock if it is too far ahead.
    fn follow(&mut self, track: usize) -> Result<(), PackError> {
        while let Some(count) = self.lanes[track].cut_by_border() {
            self.close(track, count)?;
        }
        let share = self.policy.ahead_max_bytes / self.followers();
        while self.lanes[track].held().0 > share {
            let lane = &self.lanes[track];
            let newest = lane.newest_start();
            let count = match lane.track().kind {
                // It has few key frames: checking the newest sample each time is enough.
                TrackKind::Video => newest.filter(|_| lane.played() >= self.min_ticks(track)),
                _ => lane.cut_after(self.min_ticks(track)).or(newest),
            };
            let Some(count) = count else { break };
            self.close(track, count)?;
        }
        Ok(())
    }

    /// At the end of the title, cuts a track that continues much longer than the leading one by its
    /// own clock.
    fn close_tail(&mut self, track: usize, leader_end: Option<Instant>) -> Result<(), PackError> {
        let min_ticks = self.min_ticks(track);
        let Some(leader_end) = leader_end else { return Ok(()) };
        let end = self.lanes[track].end();
        let late = Instant { ticks: end.ticks.saturating_sub(min_ticks as i64), ..end };
        if late.order(leader_end).is_lt() {
            return Ok(());
        }
        self.lanes[track].expect(leader_end);
        self.follow(track)?;
        while let Some(count) = self.lanes[track].cut_after(min_ticks) {
            self.close(track, count)?;
        }
        Ok(())
    }

    fn close_all(&mut self, track: usize) -> Result<(), PackError> {
        match self.lanes[track].held_samples() {
            0 => Ok(()),
            count => self.close(track, count),
        }
    }

    fn close(&mut self, track: usize, count: usize) -> Result<(), PackError> {
        self.lanes[track].close(count, &mut self.pieces)?;
        let fragments = self.lanes[track].fragments();
        if fragments > limits::OUT_FRAGMENTS {
            return Err(limit(track + 1, "the number of fragments", fragments, limits::OUT_FRAGMENTS));
        }
        let tables = self.lanes.iter().map(Lane::table_bytes).sum();
        if tables > limits::OUT_TABLES_BYTES {
            return Err(limit(0, "the size of the sample tables in bytes", tables, limits::OUT_TABLES_BYTES));
        }
        Ok(())
    }

    fn refuse_long(&self, track: usize) -> Result<(), PackError> {
        let lane = &self.lanes[track];
        let (bytes, ticks) = (lane.held().0, lane.played());
        let timescale = u64::from(lane.track().timescale);
        let max_ticks = timescale * u64::from(self.policy.fragment_max_ms) / 1000;
        let video = lane.track().kind == TrackKind::Video;
        let max_bytes = self.fragment_max_bytes(track);
        if bytes <= max_bytes && (ticks <= max_ticks || !video) {
            return Ok(());
        }
        Err(PackError::GopTooLong {
            track: track + 1,
            start_s: lane.start().map_or(0, |start| start.ticks.max(0) as u64 / timescale),
            seconds: ticks / timescale,
            bytes: bytes as u64,
            limit_s: u64::from(self.policy.fragment_max_ms) / 1000,
            limit_bytes: max_bytes as u64,
        })
    }

    /// The leading track may fill the limit alone. All others share the same amount once more, so
    /// that memory is bounded for any number of tracks.
    fn fragment_max_bytes(&self, track: usize) -> usize {
        let max = self.policy.fragment_max_bytes;
        if self.leader == Some(track) { max } else { max / self.followers() }
    }

    /// Tracks with fragments other than the leading one; at least 1.
    fn followers(&self) -> usize {
        let media = self.lanes.iter().filter(|lane| lane.track().kind != TrackKind::Subtitle).count();
        media.saturating_sub(1).max(1)
    }

    fn min_ticks(&self, track: usize) -> u64 {
        u64::from(self.lanes[track].track().timescale) * u64::from(self.policy.fragment_min_ms) / 1000
    }
}

/// Checks a track's description against the limits, and shortens its names.
fn checked(number: usize, mut track: Track) -> Result<Track, PackError> {
    let wrong = |what| Err(PackError::Track { track: number, what });
    if track.timescale == 0 {
        return wrong("its timescale is 0");
    }
    if track.config.len() > limits::OUT_CONFIG_BYTES {
        return Err(limit(
            number,
            "the decoder configuration in bytes",
            track.config.len(),
            limits::OUT_CONFIG_BYTES,
        ));
    }
    match track.kind {
        TrackKind::Video if track.video.is_none() => return wrong("a video track without a picture size"),
        TrackKind::Audio if track.audio.is_none() => {
            return wrong("an audio track without channels and sample rate");
        }
        _ => {}
    }
    for (text, bytes) in
        [(&mut track.name, limits::OUT_NAME_BYTES), (&mut track.language, limits::OUT_LANGUAGE_BYTES)]
    {
        if let Some(text) = text {
            text.truncate(text.floor_char_boundary(bytes));
        }
    }
    Ok(track)
}

fn media(lane: Finished, tables: &mut Vec<u8>) -> TrackIndex {
    let boxes = lane.tables.finish();
    let range = TableRange { object: 0, offset: tables.len() as u64, bytes: boxes.len() as u64 };
    tables.extend_from_slice(&boxes);
    let timescale = lane.track.timescale;
    TrackIndex {
        frame_rate: (lane.track.kind == TrackKind::Video)
            .then(|| lane.meter.frame_rate(timescale, lane.end - lane.start))
            .flatten(),
        average_bps: rates::average(&lane.fragments, timescale),
        peak_bps: rates::peak(&lane.fragments, timescale, |fragment| fragment.bytes),
        track: lane.track,
        object: 0,
        bytes: lane.bytes,
        init_bytes: lane.init_bytes,
        media_offset: lane.media_offset,
        first_dts: lane.first_dts,
        media_duration: lane.media_duration,
        start: lane.start,
        end: lane.end,
        samples: lane.samples,
        independent: lane.independent,
        tables: range,
        fragments: lane.fragments,
        changes: lane.changes,
    }
}

fn subtitle(number: usize, track: &Track, written: Written, pieces: &mut Vec<Piece>) -> Option<TrackIndex> {
    let Written { file, cues, end_ms, .. } = written;
    if cues == 0 {
        return None;
    }
    let bytes = file.len() as u64;
    pieces.push(Piece { track: number, bytes: file });
    let bps = (u128::from(bytes) * 8000).div_ceil(u128::from(end_ms)) as u64;
    Some(TrackIndex {
        // The times of the stored file are milliseconds, whatever the source used.
        track: Track { timescale: 1000, ..track.clone() },
        object: 0,
        bytes,
        init_bytes: 0,
        media_offset: 0,
        first_dts: 0,
        media_duration: end_ms,
        start: 0,
        end: end_ms,
        samples: cues as u64,
        independent: true,
        frame_rate: None,
        average_bps: bps,
        peak_bps: bps,
        tables: TableRange::default(),
        fragments: Vec::new(),
        changes: Vec::new(),
    })
}

fn limit(track: usize, what: &'static str, value: usize, limit: usize) -> PackError {
    PackError::Limit { track, what, value: value as u64, limit: limit as u64 }
}
