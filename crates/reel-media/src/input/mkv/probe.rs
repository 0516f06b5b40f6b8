//! Inspects the beginning of every track before its description is final: first frames and first
//! times.

use super::blocks::{self, Blocks};
use super::entry::{Encoding, Entry, Kind};
use crate::MediaError;
use crate::codec::{ac3, av1, mp3, vp9};
use crate::input::window::Window;
use crate::limits;

const VP9: &str = "V_VP9";
const AV1: &str = "V_AV1";
const MP3: &str = "A_MPEG/L3";
/// With suffixes, for older bit streams.
const AC3: &str = "A_AC3";
const EAC3: &str = "A_EAC3";

/// What was found of a track.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probed {
    /// Times of its first blocks in nanoseconds, in file order. Blocks of video before the first
    /// key frame do not count, unless there is none.
    pub(crate) times_ns: Vec<i64>,
    /// The first frame that tells what the description needs, else the first one.
    pub(crate) first: Option<Vec<u8>>,
    /// `first` tells what the description needs.
    usable: bool,
    /// A frame has been seen from which decoding can start.
    begun: bool,
}

impl Probed {
    /// Takes the first frame of the next block of the track.
    fn take(&mut self, entry: &Entry, frame: Option<Vec<u8>>, key: bool, ns: i64) {
        let usable = frame.as_ref().is_some_and(|frame| is_usable(entry, frame));
        if !self.begun && entry.kind == Kind::Video {
            // Some writers mark every frame of VP9.
            self.begun = if entry.codec == VP9 { usable } else { key };
            if self.begun {
                self.times_ns.clear();
            }
        }
        if self.times_ns.len() < limits::MKV_PROBE_FRAMES {
            self.times_ns.push(ns);
        }
        if self.first.is_none() || (usable && !self.usable) {
            self.first = frame;
            self.usable = usable;
        }
    }

    /// Its description needs no further frame.
    fn is_described(&self, entry: &Entry) -> bool {
        match entry.kind {
            _ if entry.encrypted().is_some() => true,
            Kind::Video => self.usable && self.begun,
            // The configuration is in the track entry of most codecs.
            Kind::Audio => self.usable || !needs_frame(entry),
            Kind::Subtitle | Kind::Other => true,
        }
    }
}

/// Walks from `blocks` on until every track has shown enough. `blocks` itself is a copy and does
/// not move.
pub(crate) fn probe(
    window: &mut Window,
    mut blocks: Blocks,
    entries: &[Entry],
    scale_ns: u64,
) -> Result<Vec<Probed>, MediaError> {
    let mut probed = vec![Probed::default(); entries.len()];
    // The walk is repeated later, and its warnings are collected then.
    let start = blocks.position();
    for seen_blocks in 0..limits::MKV_SEARCH_BLOCKS {
        let bytes = blocks.position() - start;
        let near = seen_blocks < limits::MKV_PROBE_BLOCKS && bytes <= limits::MKV_PROBE_BYTES;
        let described = || entries.iter().zip(&probed).all(|(entry, seen)| seen.is_described(entry));
        if bytes > limits::MKV_SEARCH_BYTES || satisfied(entries, &probed) || (!near && described()) {
            break;
        }
        let Some(block) = blocks.next(window)? else { break };
        let Some(index) = entries.iter().position(|entry| entry.number == block.track) else { continue };
        let (entry, seen) = (&entries[index], &mut probed[index]);
        let ns = block_ns(block.time, scale_ns, block.offset)?;
        let unneeded = entry.kind == Kind::Audio && !needs_frame(entry);
        let frame = if seen.usable || unneeded || !matches!(entry.kind, Kind::Video | Kind::Audio) {
            None
        } else {
            let mut payload = Vec::new();
            window.append(block.offset, block.bytes, &mut payload)?;
            let range = blocks::frames(&payload, block.lacing).and_then(|frames| frames.into_iter().next());
            range.map(|range| restored(&entry.encoding, &payload[range]))
        };
        seen.take(entry, frame, block.key, ns);
    }
    Ok(probed)
}

/// Whether the description of the track is made from a frame.
fn needs_frame(entry: &Entry) -> bool {
    let codec = entry.codec.as_str();
    codec == VP9 || codec == MP3 || codec.starts_with(AC3) || codec == EAC3
}

/// Whether a frame tells what the description of its track needs.
fn is_usable(entry: &Entry, frame: &[u8]) -> bool {
    match entry.codec.as_str() {
        VP9 => vp9::KeyFrame::parse(frame).is_some(),
        AV1 => entry.private.len() >= 4 || av1::sequence_header(frame).is_some(),
        // A damaged header may state another length than the frame has.
        MP3 => mp3::Header::parse(frame)
            .is_some_and(|header| header.layer == 3 && header.frame_bytes <= frame.len()),
        codec if codec.starts_with(AC3) || codec == EAC3 => {
            let bytes: usize = ac3::frames(frame).map(|part| part.frame_bytes).sum();
            bytes == frame.len() && ac3::channels(frame).is_some()
        }
        _ => true,
    }
}

/// A block's time in nanoseconds. Extreme times are refused so that sums of times cannot overflow.
pub(crate) fn block_ns(time: i64, scale_ns: u64, offset: u64) -> Result<i64, MediaError> {
    let ns = i128::from(time) * i128::from(scale_ns);
    i64::try_from(ns).ok().filter(|ns| (0..=limits::MKV_TIME_NS).contains(&ns.saturating_abs())).ok_or_else(
        || MediaError::Malformed {
            container: "Matroska",
            what: format!("a frame is placed {} days after the start", ns / 86_400_000_000_000),
            offset,
        },
    )
}

/// A frame with the bytes that header stripping removed.
pub(crate) fn restored(encoding: &Encoding, frame: &[u8]) -> Vec<u8> {
    match encoding {
        Encoding::Stripped(head) => [head, frame].concat(),
        _ => frame.to_vec(),
    }
}

fn satisfied(entries: &[Entry], probed: &[Probed]) -> bool {
    entries.iter().zip(probed).all(|(entry, seen)| match entry.kind {
        Kind::Video if entry.encrypted().is_some() => !seen.times_ns.is_empty(),
        Kind::Video => seen.times_ns.len() >= limits::MKV_PROBE_FRAMES && seen.is_described(entry),
        Kind::Audio => !seen.times_ns.is_empty() && seen.is_described(entry),
        Kind::Subtitle | Kind::Other => true,
    })
}
