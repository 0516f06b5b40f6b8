//! Matroska and WebM (RFC 9559).
//!
//! EBML is parsed here and not by a crate, for two reasons. A length that a file states must be
//! compared with the file and a limit before memory is reserved. And times need what crates hide:
//! laces, block groups, scales.

mod attached;
mod blocks;
mod chapters;
mod clock;
mod describe;
mod ebml;
mod ending;
mod entry;
mod hdr;
mod ids;
mod probe;
mod segment;
mod text;
mod track_rules;

pub(super) use self::ending::ending;

use self::attached::Attached;
use self::blocks::{Block, Blocks};
use self::entry::{Encoding, Entry, Kind};
use self::probe::{Probed, block_ns, restored};
use self::segment::Segment;
use self::track_rules::{Stated, TrackRules, text_sample};
use crate::cover::CoverPlace;
use crate::input::joined;
use crate::input::spacing::Spacing;
use crate::input::stills;
use crate::input::warnings::Warnings;
use crate::input::window::Window;
use crate::times::{self, Places};
use crate::{Chapter, Cover, Demux, MediaError, Packet, Source, Track};
use std::ops::Range;

const CONTAINER: &str = "Matroska";
/// Codec of still pictures, which sound files carry as a track to show their cover.
const STILL: &str = "V_MJPEG";

/// Opens a Matroska or WebM file: reads its head and tracks, and inspects the first frames.
///
/// # Errors
/// [`MediaError::UnknownContainer`] if it is no such file, [`MediaError::Truncated`] if it ends
/// before its first frame, [`MediaError::Encrypted`], [`MediaError::NoTracks`] and the others as
/// their texts say.
pub(super) fn open(source: Box<dyn Source>) -> Result<Box<dyn Demux>, MediaError> {
    let mut window = Window::new(source)?;
    let segment = Segment::read(&mut window)?;
    let entries = entry::entries(&segment.tracks)?;
    let blocks = Blocks::new(segment.first_cluster, segment.end, segment.is_cut);
    let probed = probe::probe(&mut window, blocks.clone(), &entries, segment.scale_ns)?;
    if probed.iter().all(|seen| seen.times_ns.is_empty()) {
        return Err(if segment.is_cut { segment::cut(&window) } else { MediaError::NoDuration });
    }
    let mut file = File {
        window,
        blocks,
        scale_ns: segment.scale_ns,
        zero_ns: presentation_zero(&entries, &probed),
        latest_ns: 0,
        damaged_blocks: Places::default(),
        tracks: Vec::new(),
        readers: Vec::new(),
        chapters: Vec::new(),
        cover: None,
        warnings: Warnings::default(),
        spacing: Spacing::default(),
        finished: false,
    };
    let Attached { names, count, cover } = segment.attached;
    file.cover = cover.map(|picture| picture.place);
    file.describe(&entries, &probed)?;
    segment.warning.into_iter().for_each(|warning| file.warnings.add(warning));
    file.chapters = chapters::read(&segment.chapters).finish(file.zero_ns, &mut file.warnings);
    stills::attached(&names, count).into_iter().for_each(|warning| file.warnings.add(warning));
    Ok(Box::new(file))
}

/// A track that is read.
struct Reader {
    number: u64,
    encoding: Encoding,
    rules: TrackRules,
}

struct File {
    window: Window,
    blocks: Blocks,
    scale_ns: u64,
    zero_ns: i64,
    /// Start of the latest block that was taken.
    latest_ns: i64,
    /// Blocks whose frames cannot be found.
    damaged_blocks: Places,
    tracks: Vec<Track>,
    readers: Vec<Reader>,
    chapters: Vec<Chapter>,
    cover: Option<CoverPlace>,
    warnings: Warnings,
    spacing: Spacing,
    finished: bool,
}

impl Demux for File {
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
        place.load(|offset, target| self.window.read(offset, target)).map(Some)
    }

    fn next(&mut self, data: &mut Vec<u8>) -> Result<Option<Packet>, MediaError> {
        loop {
            if let Some(ready) = self.spacing.pop() {
                let packet;
                (packet, *data) = ready.packet();
                return Ok(Some(packet));
            }
            if self.finished {
                return Ok(None);
            }
            match self.blocks.next(&mut self.window)? {
                Some(block) => self.take(&block)?,
                None => self.finish()?,
            }
        }
    }

    fn position(&self) -> u64 {
        if self.finished { self.window.bytes() } else { self.blocks.position().min(self.window.bytes()) }
    }
}

impl File {
    fn describe(&mut self, entries: &[Entry], probed: &[Probed]) -> Result<(), MediaError> {
        let mut refused = Vec::new();
        let (mut video_refused, mut encrypted) = (None, None);
        let pictures = |entry: &Entry, seen: &Probed| match entry.kind {
            Kind::Video => seen.times_ns.len(),
            _ => 0,
        };
        let moves = entries.iter().zip(probed).any(|(entry, seen)| pictures(entry, seen) > 1);
        let mut videos = 0;
        for (entry, seen) in entries.iter().zip(probed) {
            let position = videos;
            videos += usize::from(entry.kind == Kind::Video);
            if let Some(scheme) = entry.encrypted() {
                refused.push(crate::input::encrypted(entry.number, scheme));
                encrypted = encrypted.or(Some((entry.number, scheme)));
                continue;
            }
            match describe::describe(entry, seen, self.scale_ns, self.zero_ns) {
                Ok(described) if moves && pictures(entry, seen) == 1 => {
                    let cover = &mut self.cover;
                    refused.push(stills::described(entry.number, &described.track, position, cover));
                }
                Ok(described) => {
                    let named = |warning| format!("track {}: {warning}", entry.number);
                    refused.extend(described.warnings.into_iter().map(named));
                    self.tracks.push(described.track);
                    let encoding = entry.encoding.clone();
                    self.readers.push(Reader { number: entry.number, encoding, rules: described.rules });
                }
                Err(why) => {
                    let mut text = format!("track {} is left out: {why}", entry.number);
                    let one = pictures(entry, seen) == 1;
                    if entry.kind == Kind::Video && !(one && entry.codec == STILL) {
                        video_refused = Some(text.clone());
                    }
                    if one {
                        text = stills::of_other_codec(&text, position, &mut self.cover);
                    }
                    refused.push(text);
                }
            }
        }
        let video = self.readers.iter().any(|reader| matches!(reader.rules, TrackRules::Video(_)));
        let audio = self.readers.iter().any(|reader| matches!(reader.rules, TrackRules::Audio(_)));
        // Sound alone is not what the owner of a film expects.
        if let Some(why) = video_refused.filter(|_| !video) {
            return Err(MediaError::NoTracks(why));
        }
        // What is clear beside encrypted tracks is taken.
        if let Some((number, scheme)) = encrypted.filter(|_| !video && !audio) {
            let track = u32::try_from(number).unwrap_or(u32::MAX);
            return Err(MediaError::Encrypted { track, scheme: scheme.to_owned() });
        }
        if !video && !audio {
            return Err(MediaError::NoTracks(if refused.is_empty() {
                "the file has neither video nor audio".to_owned()
            } else {
                refused.join("; ")
            }));
        }
        refused.into_iter().for_each(|text| self.warnings.add(text));
        self.spacing = Spacing::new(self.tracks.len());
        Ok(())
    }

    fn take(&mut self, block: &Block) -> Result<(), MediaError> {
        let Some(track) = self.readers.iter().position(|reader| reader.number == block.track) else {
            return Ok(());
        };
        let mut payload = Vec::with_capacity(block.bytes);
        self.window.append(block.offset, block.bytes, &mut payload)?;
        let Some(frames) = blocks::frames(&payload, block.lacing) else {
            self.damaged_blocks.add(Some(self.latest_ns));
            return Ok(());
        };
        let at_ns = block_ns(block.time, self.scale_ns, block.offset)? - self.zero_ns;
        if let Some(Range { start, end }) = self.blocks.take_damage() {
            let [from, to] = [self.latest_ns, at_ns].map(|ns| times::at(ns, 1_000_000_000));
            self.warnings.add(format!(
                "damage skipped: bytes {start} to {end}, between {from} and {to}, are not Matroska"
            ));
        }
        self.latest_ns = self.latest_ns.max(at_ns);
        let duration_ns = block.duration.and_then(|ticks| i64::try_from(ticks).ok());
        let duration_ns = duration_ns.and_then(|ticks| ticks.checked_mul(i64::try_from(self.scale_ns).ok()?));
        let last = frames.len() - 1;
        for (index, range) in frames.into_iter().enumerate() {
            let stated = Stated {
                ns: (index == 0).then_some(at_ns),
                block_ns: at_ns,
                key: block.key,
                duration_ns,
                discard_ns: if index == last { block.discard_ns } else { 0 },
            };
            let whole = range == (0..payload.len());
            let data = match &self.readers[track].encoding {
                Encoding::None if whole => std::mem::take(&mut payload),
                encoding => restored(encoding, &payload[range]),
            };
            self.push(track, stated, data);
            if whole {
                break;
            }
        }
        Ok(())
    }

    fn push(&mut self, track: usize, stated: Stated, data: Vec<u8>) {
        // A sample of no bytes plays nothing, and MP4 has no use for it.
        if data.is_empty() {
            return;
        }
        match &mut self.readers[track].rules {
            TrackRules::Video(rules) => {
                if let Some(timed) = rules.sample(stated, data, &mut self.warnings) {
                    self.spacing.push(track, timed);
                }
            }
            TrackRules::Audio(rules) => {
                if let Some(timed) = rules.sample(stated, data) {
                    self.spacing.push(track, timed);
                }
            }
            TrackRules::Text(format) => {
                if let Some(timed) = text_sample(*format, stated, &data) {
                    self.spacing.push_ready(track, timed);
                }
            }
        }
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        if let Some(first_ns) = self.damaged_blocks.first {
            let (count, first) = (self.damaged_blocks.count, times::at(first_ns, 1_000_000_000));
            let blocks = times::counted(count, "damaged block");
            self.warnings.add(format!("left out: {blocks}, the first after {first}"));
        }
        if let Some(from) = self.blocks.cut_at() {
            let at = times::at(self.latest_ns, 1_000_000_000);
            self.warnings.add(format!(
                "the file is cut off or damaged at byte {from}: what comes before, up to {at}, is taken, and the rest \
                 is left out"
            ));
        }
        if let Some(at) = ending::film_after(&mut self.window, self.blocks.position())? {
            self.warnings.add(joined::another_film(at, self.window.bytes() - at));
        }
        for track in 0..self.readers.len() {
            match &mut self.readers[track].rules {
                TrackRules::Video(rules) => rules.finish(&mut self.warnings),
                TrackRules::Audio(rules) => {
                    if let Some(timed) = rules.finish(&mut self.warnings) {
                        self.spacing.push(track, timed);
                    }
                }
                TrackRules::Text(_) => {}
            }
        }
        self.spacing.finish();
        self.finished = true;
        Ok(())
    }
}

/// Files cut from longer ones may begin late, so the earliest picture or sound is the start of the
/// presentation.
fn presentation_zero(entries: &[Entry], probed: &[Probed]) -> i64 {
    let is_media =
        |entry: &Entry| matches!(entry.kind, Kind::Video | Kind::Audio) && entry.encrypted().is_none();
    let media = entries.iter().zip(probed).filter(|(entry, _)| is_media(entry));
    media.filter_map(|(_, seen)| seen.times_ns.iter().min().copied()).min().unwrap_or(0).max(0)
}

fn malformed(what: &str, offset: u64) -> MediaError {
    MediaError::Malformed { container: CONTAINER, what: what.to_owned(), offset }
}
