//! Inspects the beginning of every track before its description is final: first frames and first
//! times.

use super::blocks::{self, Blocks};
use super::entry::{Encoding, Entry, Kind};
use crate::MediaError;
use crate::input::warnings::Warnings;
use crate::input::window::Window;
use crate::limits;

/// What was found of a track.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probed {
    /// Times of its first blocks in nanoseconds, in file order.
    pub(crate) times_ns: Vec<i64>,
    /// Its first frame.
    pub(crate) first: Option<Vec<u8>>,
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
    let mut ignored = Warnings::default();
    let start = blocks.position();
    for _ in 0..limits::MKV_PROBE_BLOCKS {
        if blocks.position() - start > limits::MKV_PROBE_BYTES || satisfied(entries, &probed) {
            break;
        }
        let Some(block) = blocks.next(window, &mut ignored)? else { break };
        let Some(index) = entries.iter().position(|entry| entry.number == block.track) else { continue };
        let seen = &mut probed[index];
        if seen.times_ns.len() < limits::MKV_PROBE_FRAMES {
            seen.times_ns.push(block_ns(block.time, scale_ns, block.offset)?);
        }
        if seen.first.is_none() && matches!(entries[index].kind, Kind::Video | Kind::Audio) {
            let mut payload = Vec::new();
            window.append(block.offset, block.bytes, &mut payload)?;
            let range = blocks::frames(&payload, block.lacing).and_then(|frames| frames.into_iter().next());
            seen.first = range.map(|range| restored(&entries[index].encoding, &payload[range]));
        }
    }
    Ok(probed)
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
        Kind::Video => seen.times_ns.len() >= limits::MKV_PROBE_FRAMES,
        Kind::Audio => seen.first.is_some(),
        Kind::Subtitle | Kind::Other => true,
    })
}
