//! Samples of all tracks, in the order of the file.

use super::Found;
use super::cuts::{self, Cuts};
use super::edits;
use super::entry::Text;
use super::first_frame;
use super::fragments::Fragments;
use super::plan::{Plan, Walk};
use super::preroll::{Hiding, PreRoll};
use super::tables::RawSample;
use super::trak::MediaTrack;
use crate::codec::av1;
use crate::cover::CoverPlace;
use crate::input::blocks::Blocks;
use crate::input::chapters::Chapters;
use crate::input::in_band::InBand;
use crate::input::metered::SampleBudget;
use crate::input::sound_headers::SoundHeaders;
use crate::input::stills;
use crate::input::warnings::Warnings;
use crate::{
    Chapter, Codec, Cover, Demux, Description, MediaError, Packet, Sample, Source, Track, TrackKind, limits,
    subtitle, times,
};
use std::sync::Arc;

/// An open MP4 or QuickTime file.
pub(super) struct Mp4 {
    source: Box<dyn Source>,
    blocks: Blocks,
    tracks: Vec<Track>,
    streams: Vec<Stream>,
    chapters: Vec<Chapter>,
    cover: Option<CoverPlace>,
    warnings: Warnings,
    bytes_given: u64,
    bytes_total: u64,
}

/// A track that is being read.
struct Stream {
    /// track_ID, for warnings.
    id: u32,
    walk: Walk,
    plan: Plan,
    text: Option<Text>,
    /// New times for pictures before zero.
    pre_roll: Option<PreRoll>,
    /// Factor of the clock that hides pictures.
    scale: u32,
    /// Something is cut out of its middle.
    is_cut: bool,
    /// The different descriptions of the track's samples, that of the track first.
    forms: Vec<Description>,
    /// The form of each entry of `stsd`.
    of_entry: Vec<Option<usize>>,
    /// The form of the last returned sample.
    form: usize,
    /// Changes of decoder configuration within the samples.
    in_band: Option<InBand>,
    headers: Option<SoundHeaders>,
    /// Sound can be decoded from any sample; some fragmented files state otherwise by mistake.
    all_sync: bool,
    /// Number of the next sample of the walk.
    index: u64,
    /// The next sample to return.
    next: Option<(u64, RawSample)>,
    /// Decoding time of the last returned sample.
    last_dts: i64,
}

/// A film cut from a live stream counts its time from another origin. Files that begin within the
/// first second do not.
const LATE_START_NS: i128 = 1_000_000_000;
const NS_PER_S: i128 = 1_000_000_000;
const NS_PER_MS: i128 = 1_000_000;
/// Streams that are compared for the next sample in a unit of work.
const CHOICES_A_UNIT: u64 = 8;

impl Mp4 {
    /// Visits every sample of every track once, and prepares to read them.
    pub(super) fn start(
        mut source: Box<dyn Source>,
        found: Found,
        chapters: Chapters,
        fragments: &Arc<Fragments>,
        mut warnings: Warnings,
    ) -> Result<Self, MediaError> {
        let mut tracks = Vec::new();
        let mut streams = Vec::new();
        let mut timeless = false;
        let mut cover = found.cover;
        let media = planned(found.tracks, fragments, source.as_mut(), &mut cover, &mut warnings)?;
        // A picture that is held from zero on fills the time before.
        let may_move = !media.iter().any(|(media, _)| media.edit.begins_held());
        for (mut media, plan) in media {
            let id = media.id;
            if plan.mixed {
                warnings.add(format!("track {id} is left out: the codec of its samples changes, or their decoder configuration changes at no key frame"));
                continue;
            }
            if plan.duration == 0 {
                timeless = true;
                warnings.add(format!("track {id} is left out: it has no duration"));
                continue;
            }
            let walk = Walk::new(&media, fragments);
            if let Some(why) = first_frame::describe(&mut media.track, walk.clone(), source.as_mut())? {
                warnings.add(format!("track {id} is left out: {why}"));
                continue;
            }
            let all_sync = media.track.kind == TrackKind::Audio;
            let mut forms = std::mem::take(&mut media.others);
            forms.insert(0, media.track.description());
            streams.push(Stream {
                id,
                walk,
                plan,
                text: media.text,
                forms,
                of_entry: std::mem::take(&mut media.forms),
                form: 0,
                in_band: None,
                headers: None,
                pre_roll: None,
                scale: media.cuts.as_ref().map_or(1, |cuts| cuts.scale),
                is_cut: media.cuts.is_some(),
                all_sync,
                index: 0,
                next: None,
                last_dts: i64::MIN,
            });
            tracks.push(media.track);
        }
        if tracks.is_empty() {
            return Err(match fragments.cut_at {
                Some(_) => MediaError::Truncated { container: "MP4", offset: source.bytes() },
                None if timeless => MediaError::NoDuration,
                None => MediaError::NoTracks(warnings.all().join("; ")),
            });
        }
        let mut origin_ns = 0;
        if may_move && let Some(ns) = begin_at_zero(&tracks, &mut streams) {
            origin_ns = ns;
            warnings.add(format!(
                "the file counts its time from another origin: its first sample, {} s on, becomes the beginning",
                ns / NS_PER_S
            ));
        }
        let chapters = chapters.finish(i64::try_from(origin_ns).unwrap_or(i64::MAX), &mut warnings);
        if let Some(from) = fragments.cut_at {
            warnings.add(cut_warning(source.bytes(), from, &tracks, &streams));
        }
        add_notes(fragments, &tracks, &streams, &mut warnings);
        let bytes_total = streams.iter().map(|stream| stream.plan.bytes).sum();
        begin(&mut tracks, &mut streams, source.as_mut(), &mut warnings)?;
        let blocks = Blocks::default();
        Ok(Self { source, blocks, tracks, streams, chapters, cover, warnings, bytes_given: 0, bytes_total })
    }

    /// The stream to read from: the one whose next sample is first in the file, unless it is too
    /// far ahead of another.
    fn choose(&self) -> Option<usize> {
        let waiting = || {
            self.streams.iter().enumerate().filter_map(|(index, stream)| {
                let (_, sample) = stream.next.as_ref()?;
                let scale = i64::from(stream.scale);
                let at = (sample.dts + stream.plan.shift).saturating_mul(scale);
                Some((index, sample.offset, ns(at, self.tracks[index].timescale)))
            })
        };
        let slowest = waiting().map(|(.., at)| at).min()?;
        let near = waiting().filter(|(.., at)| *at <= slowest.saturating_add(limits::MP4_LEAD_NS));
        near.min_by_key(|(_, offset, _)| *offset).map(|(index, ..)| index)
    }
}

impl Demux for Mp4 {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn warnings(&self) -> &[String] {
        self.warnings.all()
    }

    fn chapters(&self) -> &[Chapter] {
        &self.chapters
    }

    fn cover(&mut self) -> Result<Option<Cover>, MediaError> {
        let Some(place) = self.cover else { return Ok(None) };
        Ok(Some(place.load(|offset, target| self.source.read_at(offset, target))?))
    }

    fn next(&mut self, data: &mut Vec<u8>) -> Result<Option<Packet>, MediaError> {
        while let Some(track) = self.choose() {
            self.source.work(self.streams.len() as u64 / CHOICES_A_UNIT)?;
            let stream = &mut self.streams[track];
            let Some((index, raw)) = stream.next.take() else { return Ok(None) };
            stream.next = stream.advance(self.source.as_mut())?;
            // Bounded: the plan refused samples above the limits. The rest of the last sample is
            // overwritten.
            data.resize(raw.bytes as usize, 0);
            self.blocks.read_at(self.source.as_mut(), raw.offset, data)?;
            self.bytes_given += u64::from(raw.bytes);
            let mut change = stream.change(&raw);
            let sample = match stream.text {
                Some(text) => stream.cue(&raw, text, data),
                None => Some(stream.sample(index, &raw)),
            };
            let described = &self.tracks[track];
            if let Some(sample) = &sample {
                change = stream.follow(described, sample, data, change, &mut self.warnings);
            }
            if described.codec == Codec::Av1 {
                av1::remove_temporal_delimiters(data);
            }
            if let Some(sample) = sample {
                return Ok(Some(Packet { track, sample, change }));
            }
        }
        data.clear();
        Ok(None)
    }

    fn position(&self) -> u64 {
        if self.streams.iter().all(|stream| stream.next.is_none()) {
            return self.source.bytes();
        }
        // Samples may be read out of file order, so the share of the media that was returned is
        // better than a position.
        let scaled = u128::from(self.source.bytes()) * u128::from(self.bytes_given);
        (scaled / u128::from(self.bytes_total.max(1))) as u64
    }
}

impl Stream {
    /// The next sample to keep.
    fn advance(&mut self, source: &mut dyn Source) -> Result<Option<(u64, RawSample)>, MediaError> {
        while self.index < self.plan.end {
            let Some(sample) = self.walk.next(source)? else { break };
            let index = self.index;
            self.index += 1;
            let pts = sample.dts + i64::from(sample.reorder) + self.plan.shift;
            let leading =
                index > self.plan.first && self.plan.leading_before.is_some_and(|start| pts < start);
            if index >= self.plan.first && sample.bytes > 0 && !leading {
                return Ok(Some((index, sample)));
            }
        }
        Ok(None)
    }

    /// The track is described as its first sample is.
    fn begin(&mut self, track: &mut Track) {
        let Some((_, first)) = &self.next else { return };
        self.form = self.form_of(first);
        let priming = track.audio.as_ref().map_or(0, |audio| audio.priming);
        for form in &mut self.forms {
            if let Some(audio) = &mut form.audio {
                audio.priming = priming;
            }
        }
        track.describe(self.forms[self.form].clone());
    }

    /// If the first sample states another decoder configuration, it counts.
    fn begin_in_band(&mut self, track: &mut Track, source: &mut dyn Source) -> Result<(), MediaError> {
        self.headers = SoundHeaders::new(track);
        let Some((_, first)) = &self.next else { return Ok(()) };
        let pictures = self.plan.end.saturating_sub(self.plan.first) as f64;
        let rate = pictures * f64::from(track.timescale) / self.plan.duration.max(1) as f64;
        let most = limits::OUT_CHANGES.saturating_sub(self.plan.changes);
        let Some(mut in_band) = InBand::new(track, rate, most) else { return Ok(()) };
        // Bounded as all samples are.
        let mut data = vec![0; first.bytes as usize];
        source.read_at(first.offset, &mut data)?;
        in_band.begin(track, &data);
        self.in_band = Some(in_band);
        Ok(())
    }

    /// How the track is coded from this sample on, if that changes: by the tables, which say
    /// `change`, or by the sample itself.
    fn follow(
        &mut self,
        track: &Track,
        sample: &Sample,
        data: &[u8],
        change: Option<Box<Description>>,
        warnings: &mut Warnings,
    ) -> Option<Box<Description>> {
        let at_ms = (ns(sample.pts, track.timescale) + NS_PER_MS / 2).div_euclid(NS_PER_MS);
        let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
        let is_last = self.next.is_none();
        if let Some(headers) = &mut self.headers {
            // The tables have said what comes.
            if change.is_some() {
                headers.restart();
            }
            headers.see(data, at_ms);
            if is_last {
                headers.warn(self.id.into(), warnings);
            }
        }
        let Some(in_band) = &mut self.in_band else { return change };
        if let Some(change) = &change {
            in_band.restart(track.codec, (**change).clone());
        }
        let within = in_band.follow(data, sample.sync, at_ms);
        if is_last {
            in_band.warn(self.id.into(), warnings);
        }
        within.or(change)
    }

    fn form_of(&self, sample: &RawSample) -> usize {
        // The plan has refused tracks with others.
        self.of_entry.get(sample.description.saturating_sub(1) as usize).copied().flatten().unwrap_or(0)
    }

    /// How the track is coded from this sample on, if that changes.
    fn change(&mut self, sample: &RawSample) -> Option<Box<Description>> {
        let form = self.form_of(sample);
        let changes = std::mem::replace(&mut self.form, form) != form;
        changes.then(|| Box::new(self.forms[form].clone()))
    }

    /// Hides the pictures before zero, if there are any. The clock of the track becomes finer.
    fn hide(
        &mut self,
        track: &mut Track,
        source: &mut dyn Source,
        warnings: &mut Warnings,
    ) -> Result<(), MediaError> {
        match PreRoll::find(&self.plan, self.walk.clone(), track.timescale, self.scale, source)? {
            Hiding::Nothing => {}
            Hiding::At(pre_roll) => {
                self.scale = pre_roll.scale;
                self.pre_roll = Some(pre_roll);
            }
            Hiding::TooMany(count) => warnings.add(format!(
                "the edit list hides {count} pictures on which the first shown one depends, too many: \
                 browsers begin with the next key frame"
            )),
        }
        track.timescale *= self.scale;
        Ok(())
    }

    /// Decoding and presentation time.
    fn times(&self, index: u64, raw: &RawSample) -> (i64, i64) {
        let pts = raw.dts + i64::from(raw.reorder) + self.plan.shift;
        let dts = raw.dts + self.plan.shift - self.plan.early;
        let fine = |time: i64| time.saturating_mul(i64::from(self.scale));
        let (dts, pts) = match &self.pre_roll {
            Some(pre_roll) => pre_roll.times(index, dts, pts),
            None => (fine(dts), fine(pts)),
        };
        let (pts_before, dts_before) = raw.unseen;
        (dts.saturating_sub(dts_before.into()), pts.saturating_sub(pts_before.into()))
    }

    fn sample(&mut self, index: u64, raw: &RawSample) -> Sample {
        let (dts, pts) = self.times(index, raw);
        // A fragment may state a time before the end of the previous one. Pictures after a cut are
        // decoded early, but after those before it.
        let dts = dts.max(self.last_dts.saturating_add(i64::from(self.is_cut)));
        self.last_dts = dts;
        let duration = match &self.next {
            Some((index, next)) => {
                let gap = self.times(*index, next).0.max(dts).saturating_sub(dts);
                u32::try_from(gap).unwrap_or(u32::MAX)
            }
            None => raw.duration.saturating_mul(self.scale),
        };
        Sample { dts, pts, duration, sync: raw.sync || self.all_sync }
    }

    /// Turns `data` into the text of a cue; `None` if nothing is to be shown.
    fn cue(&mut self, raw: &RawSample, text: Text, data: &mut Vec<u8>) -> Option<Sample> {
        let start = raw.dts + i64::from(raw.reorder) + self.plan.shift;
        let end = start + i64::from(raw.duration);
        let cue = match text {
            Text::Tx3g => subtitle::tx3g::text(data),
            Text::Wvtt => subtitle::wvtt::text(data),
        }?;
        let start = start.max(self.last_dts);
        let duration = u32::try_from(end - start).ok().filter(|duration| *duration > 0)?;
        self.last_dts = start;
        data.clear();
        data.extend_from_slice(cue.as_bytes());
        Some(Sample { dts: start, pts: start, duration, sync: true })
    }
}

/// The plans of all tracks. Still pictures beside moving ones are no film; the first becomes the
/// cover, unless there is one.
fn planned(
    media: Vec<MediaTrack>,
    fragments: &Arc<Fragments>,
    source: &mut dyn Source,
    cover: &mut Option<CoverPlace>,
    warnings: &mut Warnings,
) -> Result<Vec<(MediaTrack, Plan)>, MediaError> {
    let mut planned = Vec::new();
    let mut budget = SampleBudget::new(source.bytes());
    let media = with_cuts(media, fragments, source, warnings)?;
    for media in media {
        let plan = Plan::make(&media, fragments, &mut budget, source)?;
        planned.push((media, plan));
    }
    let pictures = |(media, plan): &(MediaTrack, Plan)| match media.track.kind {
        // The first that can be decoded may come after the last that is shown.
        TrackKind::Video => plan.end.saturating_sub(plan.first),
        _ => 0,
    };
    let moves = planned.iter().any(|of_track| pictures(of_track) > 1);
    planned.retain(|of_track| {
        let (media, plan) = of_track;
        let still = moves && pictures(of_track) == 1;
        if still {
            warnings.add(stills::described(media.id.into(), &media.track, media.position, cover));
        } else {
            add_warnings(media, plan, warnings);
        }
        !still
    });
    Ok(planned)
}

/// Finds what the cuts of all tracks need. Without that, all tracks end with the first cut, so that
/// picture and sound stay in step.
fn with_cuts(
    mut media: Vec<MediaTrack>,
    fragments: &Arc<Fragments>,
    source: &mut dyn Source,
    warnings: &mut Warnings,
) -> Result<Vec<MediaTrack>, MediaError> {
    for place in 0..media.len() {
        match Cuts::find(&media[place], fragments, source)? {
            cuts::Found::Nothing => {}
            cuts::Found::Cuts(cuts) => media[place].cuts = Some(Arc::new(cuts)),
            cuts::Found::TooMany(count) => {
                edits::give_up(&mut media, place, count, warnings);
                break;
            }
        }
    }
    Ok(media)
}

/// Adds warnings about unusual properties of a track.
fn add_warnings(media: &MediaTrack, plan: &Plan, warnings: &mut Warnings) {
    let id = media.id;
    let at = |ticks: i64| times::at(ticks, media.track.timescale);
    if plan.undecodable > 0 {
        let pictures = times::counted(plan.undecodable, "picture");
        let first = plan
            .decodable_at
            .map_or_else(|| ", of which there is none".to_owned(), |it| format!(" at {}", at(it)));
        warnings.add(format!(
            "track {id}: {pictures} before the first key frame{first}: left out, as they cannot be decoded"
        ));
    }
    if plan.missing > 0 {
        let samples = times::counted(plan.missing.into(), "sample");
        let until = at(plan.until);
        warnings.add(format!(
            "track {id}: {samples} behind {until} are left out: the file does not say where they lie"
        ));
    }
    if plan.empty > 0 && media.text.is_none() {
        let samples = times::counted(plan.empty, "sample");
        let first = at(plan.empty_at);
        warnings.add(format!("track {id}: {samples} without bytes, the first at {first}, are skipped"));
    }
}

/// States what fragments are not played, with the times of the presentation.
fn add_notes(fragments: &Fragments, tracks: &[Track], streams: &[Stream], warnings: &mut Warnings) {
    let said = fragments.notes.warnings(|hole| {
        let id = fragments.ids.get(hole.line)?;
        let line = streams.iter().position(|stream| stream.id == *id)?;
        let ms = |ticks: i64| {
            let at = ticks.saturating_add(streams[line].plan.shift);
            u64::try_from(ns(at, tracks[line].timescale) / NS_PER_MS).unwrap_or(0)
        };
        Some((ms(hole.from), ms(hole.to)))
    });
    said.into_iter().for_each(|warning| warnings.add(warning));
}

/// Goes to the first sample of every track.
fn begin(
    tracks: &mut [Track],
    streams: &mut [Stream],
    source: &mut dyn Source,
    warnings: &mut Warnings,
) -> Result<(), MediaError> {
    settle(tracks, streams);
    for (track, stream) in tracks.iter_mut().zip(streams) {
        if track.kind == TrackKind::Video {
            stream.hide(track, source, warnings)?;
        }
        stream.next = stream.advance(source)?;
        stream.begin(track);
        stream.begin_in_band(track, source)?;
    }
    Ok(())
}

/// Moves a file whose first sample is late to zero; all tracks by the same time, which
/// is returned in nanoseconds.
fn begin_at_zero(tracks: &[Track], streams: &mut [Stream]) -> Option<i128> {
    let starts = tracks.iter().zip(&*streams).map(|(track, stream)| (stream.plan.start, track.timescale));
    let (start, timescale) = starts.min_by_key(|(start, timescale)| ns(*start, *timescale))?;
    if ns(start, timescale) < LATE_START_NS {
        return None;
    }
    for (track, stream) in tracks.iter().zip(streams) {
        let ticks = i128::from(start) * i128::from(track.timescale) / i128::from(timescale);
        // No track begins before this one, so its own first time is not less.
        let ticks = ticks.min(i128::from(stream.plan.start)) as i64;
        stream.plan.shift -= ticks;
        stream.plan.start -= ticks;
        stream.plan.until -= ticks;
    }
    Some(ns(start, timescale))
}

/// States up to which time a file with fragments was taken that ends inside of one.
fn cut_warning(file_bytes: u64, from: u64, tracks: &[Track], streams: &[Stream]) -> String {
    let ends = tracks.iter().zip(streams).filter(|(track, _)| track.kind != TrackKind::Subtitle);
    let until = ends.map(|(track, stream)| ns(stream.plan.until, track.timescale)).max().unwrap_or(0);
    let until_ms = u64::try_from(until / NS_PER_MS).unwrap_or(0);
    format!(
        "the file is cut off at byte {file_bytes}: its whole fragments, up to {}, are taken, and the rest \
         from byte {from} on is left out",
        subtitle::webvtt::time(until_ms)
    )
}

/// States the priming of sound, and leaves only one default track of each kind.
fn settle(tracks: &mut [Track], streams: &[Stream]) {
    let mut chosen = Vec::new();
    for (track, stream) in tracks.iter_mut().zip(streams) {
        if let Some(audio) = &mut track.audio {
            audio.priming = u32::try_from(-stream.plan.start).unwrap_or(0);
        }
        track.default &= !chosen.contains(&track.kind);
        if track.default {
            chosen.push(track.kind);
        }
    }
    // A video track that no track header enables is still the one to show.
    if !chosen.contains(&TrackKind::Video)
        && let Some(track) = tracks.iter_mut().find(|track| track.kind == TrackKind::Video)
    {
        track.default = true;
    }
}

fn ns(ticks: i64, timescale: u32) -> i128 {
    i128::from(ticks) * NS_PER_S / i128::from(timescale.max(1))
}
