//! Walks the clusters of a segment block by block (RFC 9559 sections 5.1.3 and 10), without reading
//! payloads.
//!
//! The walk is flat: the children of a cluster and the next cluster are treated at the same level.
//! So clusters of known and unknown size, and segments that are still being written, need no
//! special case.

use super::ebml::{self, Head, unsigned};
use super::{ending, ids};
use crate::MediaError;
use crate::input::window::Window;
use crate::limits;
use std::ops::Range;

/// Track number (up to 8 bytes), relative time, flags.
const BLOCK_HEAD_BYTES: usize = 11;
/// Bytes searched at once for the next cluster. Less than a window, so that one read serves several
/// searches, also where damage follows damage.
const SEARCH_BYTES: usize = 4096;

/// One block, its payload still in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// TrackNumber.
    pub(crate) track: u64,
    /// Time in ticks of the segment's scale.
    pub(crate) time: i64,
    /// Marked as a key frame, or referring to no other block.
    pub(crate) key: bool,
    /// BlockDuration in ticks of the segment's scale.
    pub(crate) duration: Option<u64>,
    /// DiscardPadding: nanoseconds at the end that must not be heard.
    pub(crate) discard_ns: i64,
    /// How several frames share the block.
    pub(crate) lacing: Lacing,
    /// Where the frames begin.
    pub(crate) offset: u64,
    /// Bytes of the frames, lacing head included; checked against the file and the limit.
    pub(crate) bytes: usize,
}

/// Lacing bits of a block's flags (RFC 9559 section 10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacing {
    None,
    Xiph,
    Fixed,
    Ebml,
}

/// Where the walk is.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    position: u64,
    end: u64,
    cluster_time: i64,
    /// Where the file is cut off, or damaged to its end.
    cut_at: Option<u64>,
    /// Bytes skipped since [`Blocks::take_damage`].
    damage: Option<Range<u64>>,
}

enum Step {
    Block(Block),
    Moved,
    Damaged,
    End,
}

impl Blocks {
    /// Walks from `start` (an element of the segment) to `end`, where the file may be cut off.
    pub(crate) fn new(start: u64, end: u64, is_cut: bool) -> Self {
        Self { position: start, end, cluster_time: 0, cut_at: is_cut.then_some(end), damage: None }
    }

    /// Where the file is cut off, or damaged to its end, as far as the walk has come.
    pub(crate) fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    /// How far the walk has come, in bytes of the file.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The bytes between the first and the last place of damage before the last block.
    pub(crate) fn take_damage(&mut self) -> Option<Range<u64>> {
        self.damage.take()
    }

    /// The next block. Damage is skipped up to the next cluster, or ends the walk.
    pub(crate) fn next(&mut self, window: &mut Window) -> Result<Option<Block>, MediaError> {
        loop {
            match self.step(window)? {
                Step::Block(block) => return Ok(Some(block)),
                Step::Moved => {}
                Step::End => return Ok(None),
                Step::Damaged => {
                    let from = self.position;
                    self.position = self.find_cluster(window, from.saturating_add(1))?;
                    let to = self.position;
                    if to < self.end {
                        self.damage = Some(self.damage.as_ref().map_or(from, |before| before.start)..to);
                    } else {
                        self.cut_at = Some(from);
                    }
                }
            }
        }
    }

    fn step(&mut self, window: &mut Window) -> Result<Step, MediaError> {
        if self.position >= self.end {
            return Ok(Step::End);
        }
        let Some(head) = Head::parse(window.peek(self.position, ebml::HEAD_BYTES)?) else {
            return Ok(Step::Damaged);
        };
        let body = self.position + head.head_bytes;
        if head.id == ids::CLUSTER {
            self.position = body;
            return Ok(Step::Moved);
        }
        // Another file appended to this one has its own tracks and times.
        if head.id == ids::EBML || head.id == ids::SEGMENT {
            self.end = self.position;
            return Ok(Step::End);
        }
        let end = head.size.and_then(|size| body.checked_add(size)).filter(|end| *end <= self.end);
        let (Some(size), Some(end)) = (head.size, end) else { return Ok(Step::Damaged) };
        let block = match head.id {
            ids::TIMESTAMP => match unsigned(window.peek(body, to_usize(size.min(9)))?).map(i64::try_from) {
                Some(Ok(time)) => {
                    self.cluster_time = time;
                    None
                }
                _ => return Ok(Step::Damaged),
            },
            ids::SIMPLE_BLOCK => match self.block(window, body..end)? {
                None => return Ok(Step::Damaged),
                found => found,
            },
            ids::BLOCK_GROUP => match self.group(window, body..end)? {
                Group::Damaged => return Ok(Step::Damaged),
                Group::Empty => None,
                Group::Block(block) => Some(block),
            },
            // Ids of one byte are used only inside clusters. An unknown one is as likely damage as
            // a new element.
            id if id > 0xff || id == ids::VOID || id == 0xbf || id == 0xa7 || id == 0xab => None,
            _ => return Ok(Step::Damaged),
        };
        self.position = end;
        Ok(block.map_or(Step::Moved, Step::Block))
    }

    fn block(&self, window: &mut Window, body: Range<u64>) -> Result<Option<Block>, MediaError> {
        let bytes = body.end - body.start;
        let head = window.peek(body.start, BLOCK_HEAD_BYTES.min(to_usize(bytes)))?;
        let Some((track, used)) = ebml::vint(head) else { return Ok(None) };
        let Some(&[high, low, flags]) = head.get(used..used + 3) else { return Ok(None) };
        let payload = bytes - used as u64 - 3;
        if payload > limits::SAMPLE_BYTES {
            return Err(MediaError::Limit {
                what: "sample in bytes",
                value: payload,
                limit: limits::SAMPLE_BYTES,
            });
        }
        Ok(Some(Block {
            track,
            time: self.cluster_time.saturating_add(i64::from(i16::from_be_bytes([high, low]))),
            key: flags & 0x80 != 0,
            duration: None,
            discard_ns: 0,
            lacing: match (flags >> 1) & 3 {
                0 => Lacing::None,
                1 => Lacing::Xiph,
                2 => Lacing::Fixed,
                _ => Lacing::Ebml,
            },
            offset: body.start + used as u64 + 3,
            bytes: to_usize(payload),
        }))
    }

    fn group(&self, window: &mut Window, body: Range<u64>) -> Result<Group, MediaError> {
        let mut block: Option<Block> = None;
        let (mut duration, mut discard_ns, mut refers) = (None, 0, false);
        let mut at = body.start;
        for _ in 0..limits::MKV_GROUP_CHILDREN {
            if at >= body.end {
                break;
            }
            let Some(head) = Head::parse(window.peek(at, ebml::HEAD_BYTES)?) else {
                return Ok(Group::Damaged);
            };
            let start = at + head.head_bytes;
            let end = head.size.and_then(|size| start.checked_add(size)).filter(|end| *end <= body.end);
            let Some(end) = end else { return Ok(Group::Damaged) };
            let number = to_usize((end - start).min(8));
            match head.id {
                ids::BLOCK => match self.block(window, start..end)? {
                    None => return Ok(Group::Damaged),
                    found => block = found,
                },
                ids::BLOCK_DURATION => duration = unsigned(window.peek(start, number)?),
                ids::DISCARD_PADDING => discard_ns = ebml::signed(window.peek(start, number)?).unwrap_or(0),
                ids::REFERENCE_BLOCK => refers = true,
                _ => {}
            }
            at = end;
        }
        Ok(match block {
            None => Group::Empty,
            Some(block) => Group::Block(Block { key: !refers, duration, discard_ns, ..block }),
        })
    }

    /// Position of the next cluster id at or after `from`, of another film, or the end.
    fn find_cluster(&self, window: &mut Window, from: u64) -> Result<u64, MediaError> {
        let (cluster, film) = (ids::CLUSTER.to_be_bytes(), ids::EBML.to_be_bytes());
        let mut at = from;
        while at + (cluster.len() as u64) <= self.end {
            let bytes = window.peek(at, SEARCH_BYTES)?;
            let all = bytes.len();
            let Some(found) = bytes.windows(cluster.len()).position(|mark| mark == cluster || mark == film)
            else {
                at += (all - cluster.len() + 1) as u64;
                continue;
            };
            let is_cluster = bytes[found..].starts_with(&cluster);
            at += found as u64;
            if is_cluster || ending::film_after(window, at)? == Some(at) {
                return Ok(at.min(self.end));
            }
            at += 1;
        }
        Ok(self.end)
    }
}

enum Group {
    Block(Block),
    Empty,
    Damaged,
}

/// Frames of a block's payload; `None` if the lacing contradicts itself.
pub(crate) fn frames(payload: &[u8], lacing: Lacing) -> Option<Vec<Range<usize>>> {
    if lacing == Lacing::None {
        return Some(std::iter::once(0..payload.len()).collect());
    }
    let count = usize::from(*payload.first()?) + 1;
    let mut at = 1;
    let mut sizes = Vec::with_capacity(count);
    match lacing {
        Lacing::None => {}
        Lacing::Xiph => {
            for _ in 1..count {
                let mut size = 0;
                loop {
                    let byte = *payload.get(at)?;
                    at += 1;
                    size += usize::from(byte);
                    if byte != 0xff {
                        break;
                    }
                }
                sizes.push(size);
            }
        }
        Lacing::Ebml => {
            let mut size = 0i64;
            for index in 1..count {
                let (value, used) = ebml::vint(payload.get(at..)?)?;
                at += used;
                let value = i64::try_from(value).ok()?;
                // The first is a size, the others are differences to the one before, with an offset
                // that makes them positive.
                size = if index == 1 { value } else { size + value - ((1i64 << (7 * used - 1)) - 1) };
                sizes.push(usize::try_from(size).ok()?);
            }
        }
        Lacing::Fixed => {
            let all = payload.len() - 1;
            if !all.is_multiple_of(count) {
                return None;
            }
            sizes.resize(count - 1, all / count);
        }
    }
    let mut ranges = Vec::with_capacity(count);
    for size in sizes {
        let end = at.checked_add(size).filter(|end| *end <= payload.len())?;
        ranges.push(at..end);
        at = end;
    }
    (at <= payload.len()).then(|| ranges.push(at..payload.len()))?;
    Some(ranges)
}

/// Sizes here are at most the file's size, or a few bytes. A 32-bit machine saturates.
fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_lacings() {
        let mut xiph = vec![2, 3, 0xff, 1];
        xiph.extend(vec![7; 3 + 256 + 5]);
        assert_eq!(frames(&xiph, Lacing::Xiph).unwrap(), [4..7, 7..263, 263..268]);
        let fixed = [2, 1, 2, 3, 4, 5, 6];
        assert_eq!(frames(&fixed, Lacing::Fixed).unwrap(), [1..3, 3..5, 5..7]);
        // RFC 9559 section 10.3.3: 800, 500 and 1000 octets.
        let mut ebml = vec![2, 0x43, 0x20, 0x5e, 0xd3];
        ebml.extend(vec![9; 2300]);
        assert_eq!(frames(&ebml, Lacing::Ebml).unwrap(), [5..805, 805..1305, 1305..2305]);
    }

    #[test]
    fn laces_that_do_not_fit_are_refused() {
        assert_eq!(frames(&[], Lacing::Xiph), None);
        assert_eq!(frames(&[1, 9, 0], Lacing::Xiph), None);
        assert_eq!(frames(&[2, 1, 2, 3, 4, 5], Lacing::Fixed), None);
        assert_eq!(frames(&[1, 0x43, 0x20, 1], Lacing::Ebml), None);
    }

    proptest! {
        #[test]
        fn frames_stay_inside_and_in_order(payload in proptest::collection::vec(any::<u8>(), 0..600), kind in 0..3) {
            let lacing = [Lacing::Xiph, Lacing::Fixed, Lacing::Ebml][kind as usize];
            if let Some(ranges) = frames(&payload, lacing) {
                prop_assert_eq!(ranges.len(), usize::from(payload[0]) + 1);
                let mut at = ranges[0].start;
                for range in ranges {
                    prop_assert_eq!(range.start, at);
                    prop_assert!(range.end >= range.start && range.end <= payload.len());
                    at = range.end;
                }
            }
        }
    }
}
