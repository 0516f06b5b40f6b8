//! Matroska and WebM (RFC 9559).
//!
//! EBML is parsed here and not by a crate, for two reasons. A length that a file states must be
//! compared with the file and a limit before memory is reserved. And times need what crates hide:
//! laces, block groups, scales.

mod attached;
mod blocks;
mod clock;
mod describe;
mod ebml;
mod entry;
mod ids;
mod probe;
mod text;
mod track_rules;

use self::attached::Attached;
use self::blocks::{Block, Blocks};
use self::ebml::{Head, elements};
use self::entry::{Encoding, Entry, Kind};
use self::probe::{Probed, block_ns, restored};
use self::track_rules::{Stated, TrackRules, text_sample};
use crate::input::spacing::Spacing;
use crate::input::stills;
use crate::input::warnings::Warnings;
use crate::input::window::Window;
use crate::limits;
use crate::{Demux, MediaError, Packet, Source, Track};

const CONTAINER: &str = "Matroska";
const DEFAULT_SCALE_NS: u64 = 1_000_000;
/// Codec of still pictures, which sound files carry as a track to show their cover.
const COVER: &str = "V_MJPEG";
/// The EBML head of a real file has about 40 bytes.
const EBML_HEAD_BYTES: u64 = 1024;

/// Opens a Matroska or WebM file: reads its head and tracks, and inspects the first frames.
///
/// # Errors
/// [`MediaError::UnknownContainer`] if it is no such file, [`MediaError::Truncated`] if it ends
/// before its own length, [`MediaError::Encrypted`], [`MediaError::NoTracks`] and the others as
/// their texts say.
pub(super) fn open(source: Box<dyn Source>) -> Result<Box<dyn Demux>, MediaError> {
    let mut window = Window::new(source)?;
    let segment = Segment::read(&mut window)?;
    let entries = entry::entries(&segment.tracks)?;
    let blocks = Blocks::new(segment.first_cluster, segment.end);
    let probed = probe::probe(&mut window, blocks.clone(), &entries, segment.scale_ns)?;
    if probed.iter().all(|seen| seen.times_ns.is_empty()) {
        return Err(MediaError::NoDuration);
    }
    let mut file = File {
        window,
        blocks,
        scale_ns: segment.scale_ns,
        zero_ns: presentation_zero(&entries, &probed),
        tracks: Vec::new(),
        readers: Vec::new(),
        warnings: Warnings::default(),
        spacing: Spacing::default(),
        finished: false,
    };
    file.describe(&entries, &probed)?;
    let Attached { names, count } = segment.attached;
    stills::attached(&names, count).into_iter().for_each(|warning| file.warnings.add(warning));
    Ok(Box::new(file))
}

/// What is read before the first cluster.
struct Segment {
    scale_ns: u64,
    tracks: Vec<u8>,
    first_cluster: u64,
    end: u64,
    attached: Attached,
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
    tracks: Vec<Track>,
    readers: Vec<Reader>,
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

    fn next(&mut self, data: &mut Vec<u8>) -> Result<Option<Packet>, MediaError> {
        loop {
            if let Some(ready) = self.spacing.pop() {
                *data = ready.data;
                return Ok(Some(Packet { track: ready.track, sample: ready.sample }));
            }
            if self.finished {
                return Ok(None);
            }
            match self.blocks.next(&mut self.window, &mut self.warnings)? {
                Some(block) => self.take(&block)?,
                None => self.finish(),
            }
        }
    }

    fn position(&self) -> u64 {
        self.blocks.position().min(self.window.bytes())
    }
}

impl File {
    fn describe(&mut self, entries: &[Entry], probed: &[Probed]) -> Result<(), MediaError> {
        let mut refused = Vec::new();
        let mut video_refused = None;
        let pictures = |entry: &Entry, seen: &Probed| match entry.kind {
            Kind::Video => seen.times_ns.len(),
            _ => 0,
        };
        let moves = entries.iter().zip(probed).any(|(entry, seen)| pictures(entry, seen) > 1);
        for (entry, seen) in entries.iter().zip(probed) {
            match describe::describe(entry, seen, self.scale_ns, self.zero_ns)? {
                Ok(described) if moves && pictures(entry, seen) == 1 => {
                    let why = stills::described(&described.track);
                    refused.push(format!("track {} is left out: {why}", entry.number));
                }
                Ok(described) => {
                    self.tracks.push(described.track);
                    let encoding = entry.encoding.clone();
                    self.readers.push(Reader { number: entry.number, encoding, rules: described.rules });
                }
                Err(why) => {
                    let text = format!("track {} is left out: {why}", entry.number);
                    let cover = entry.codec == COVER && seen.times_ns.len() == 1;
                    if entry.kind == Kind::Video && !cover {
                        video_refused = Some(text.clone());
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
            self.warnings.once("lacing", || format!("a damaged block at byte {} is left out", block.offset));
            return Ok(());
        };
        let at_ns = block_ns(block.time, self.scale_ns, block.offset)? - self.zero_ns;
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
                let Some(timed) = text_sample(*format, stated, &data) else { return };
                if timed.pts + i64::from(timed.nominal) > 0 {
                    self.spacing.push_ready(track, timed);
                } else {
                    self.warnings.once("early cues", || {
                        let number = self.readers[track].number;
                        format!("track {number}: cues that end before the beginning are left out")
                    });
                }
            }
        }
    }

    fn finish(&mut self) {
        for track in 0..self.readers.len() {
            match &mut self.readers[track].rules {
                TrackRules::Video(rules) => rules.finish(&mut self.warnings),
                TrackRules::Audio(rules) => {
                    if let Some(timed) = rules.finish() {
                        self.spacing.push(track, timed);
                    }
                }
                TrackRules::Text(_) => {}
            }
        }
        self.spacing.finish();
        self.finished = true;
    }
}

impl Segment {
    fn read(window: &mut Window) -> Result<Self, MediaError> {
        let start = skip_ebml_head(window)?;
        let (body, mut end) = find_segment(window, start)?;
        if end > window.bytes() {
            return Err(MediaError::Truncated { container: CONTAINER, offset: window.bytes() });
        }
        end = end.min(window.bytes());
        let attached = Attached::default();
        let mut segment =
            Self { scale_ns: DEFAULT_SCALE_NS, tracks: Vec::new(), first_cluster: 0, end, attached };
        let mut tracks_seen = false;
        let mut at = body;
        while at < end {
            let Some(head) = Head::parse(window.peek(at, ebml::HEAD_BYTES)?) else { break };
            let start = at + head.head_bytes;
            if head.id == ids::CLUSTER {
                if segment.first_cluster == 0 {
                    segment.first_cluster = at;
                }
                if tracks_seen {
                    break;
                }
            }
            let Some(next) = head.size.and_then(|size| start.checked_add(size)).filter(|next| *next <= end)
            else {
                break;
            };
            match head.id {
                ids::INFO => segment.scale_ns = scale(&small_body(window, start, next)?, at)?,
                ids::TRACKS if !tracks_seen => {
                    segment.tracks = small_body(window, start, next)?;
                    tracks_seen = true;
                }
                ids::ATTACHMENTS => segment.attached.read(window, start..next)?,
                _ => {}
            }
            at = next;
        }
        match (tracks_seen, segment.first_cluster) {
            (false, _) => Err(malformed("it has no list of tracks", at)),
            // Nothing follows the tracks: writing of the file stopped at once.
            (true, 0) => Err(MediaError::NoDuration),
            _ => Ok(segment),
        }
    }
}

fn skip_ebml_head(window: &mut Window) -> Result<u64, MediaError> {
    let foreign = || MediaError::UnknownContainer(String::new());
    let head = Head::parse(window.peek(0, ebml::HEAD_BYTES)?)
        .filter(|head| head.id == ids::EBML)
        .ok_or_else(foreign)?;
    let size = head
        .size
        .filter(|size| *size <= EBML_HEAD_BYTES)
        .ok_or_else(|| malformed("its head is damaged", 0))?;
    let end = head.head_bytes + size;
    if end > window.bytes() {
        return Err(MediaError::Truncated { container: CONTAINER, offset: window.bytes() });
    }
    let body = window.peek(head.head_bytes, usize::try_from(size).unwrap_or(0))?;
    let kind = elements(body).find(|(id, _)| *id == ids::DOC_TYPE).map(|(_, body)| ebml::text(body));
    match kind.as_deref() {
        Some("matroska" | "webm") | None => Ok(end),
        Some(other) => Err(MediaError::UnknownContainer(format!(" but EBML of the kind {other:?}"))),
    }
}

/// Body and end of the segment; an unknown size reaches to the end of the file.
fn find_segment(window: &mut Window, start: u64) -> Result<(u64, u64), MediaError> {
    let bytes = window.bytes();
    let mut at = start;
    while let Some(head) = Head::parse(window.peek(at, ebml::HEAD_BYTES)?) {
        let body = at + head.head_bytes;
        let end = head.size.map_or(Some(bytes), |size| body.checked_add(size));
        let end = end.ok_or_else(|| malformed("its segment is longer than any file", at))?;
        match head.id {
            ids::SEGMENT => return Ok((body, end)),
            _ if end > bytes => break,
            _ => at = end,
        }
    }
    Err(if at >= bytes {
        MediaError::Truncated { container: CONTAINER, offset: bytes }
    } else {
        malformed("there is no segment after its head", at)
    })
}

fn small_body(window: &mut Window, start: u64, end: u64) -> Result<Vec<u8>, MediaError> {
    let size = end - start;
    if size > limits::MKV_TRACKS_BYTES {
        return Err(MediaError::Limit {
            what: "file head in bytes",
            value: size,
            limit: limits::MKV_TRACKS_BYTES,
        });
    }
    let mut body = Vec::new();
    window.append(start, usize::try_from(size).unwrap_or(0), &mut body)?;
    Ok(body)
}

fn scale(info: &[u8], offset: u64) -> Result<u64, MediaError> {
    let stated =
        elements(info).find(|(id, _)| *id == ids::TIMESTAMP_SCALE).map(|(_, body)| ebml::unsigned(body));
    match stated {
        None => Ok(DEFAULT_SCALE_NS),
        Some(Some(scale @ 1..=1_000_000_000)) => Ok(scale),
        Some(_) => Err(malformed("its time scale is invalid", offset)),
    }
}

/// Files cut from longer ones may begin late, so the earliest picture or sound is the start of the
/// presentation.
fn presentation_zero(entries: &[Entry], probed: &[Probed]) -> i64 {
    let media =
        entries.iter().zip(probed).filter(|(entry, _)| matches!(entry.kind, Kind::Video | Kind::Audio));
    media.filter_map(|(_, seen)| seen.times_ns.iter().min().copied()).min().unwrap_or(0).max(0)
}

fn malformed(what: &str, offset: u64) -> MediaError {
    MediaError::Malformed { container: CONTAINER, what: what.to_owned(), offset }
}
