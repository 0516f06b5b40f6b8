//! Schemes whose channels loop consecutive segments: staggered, linear, fast.

use crate::limits::SEGMENTS_MAX;
use crate::table::Table;

/// All segments on each of as many channels, each one slot later.
pub(super) fn staggered(segments: u32) -> Vec<Table> {
    (0..segments).map(|offset| Table::Loop { first: 1, segments, period: segments, offset }).collect()
}

/// All segments on one channel.
pub(super) fn linear(segments: u32) -> Vec<Table> {
    vec![Table::Loop { first: 1, segments, period: segments, offset: 0 }]
}

/// Segments 2^c to 2^(c+1) - 1 on channel c. On the last channel, nothing is sent in the slots that
/// are left.
pub(super) fn fast(segments: u32) -> Vec<Table> {
    let mut tables = Vec::new();
    let mut first = 1;
    while first <= segments {
        let count = first.min(segments - first + 1);
        tables.push(Table::Loop { first, segments: count, period: first, offset: 0 });
        first *= 2;
    }
    tables
}

/// Segments that fit on channels of [`fast`].
pub(super) fn fast_segments(channels: u32) -> u32 {
    let all = 1_u32.checked_shl(channels).map_or(u32::MAX, |power| power - 1);
    all.min(SEGMENTS_MAX)
}
