//! Skyscraper broadcasting (Hua and Sheu, SIGCOMM 1997).

use crate::error::BroadcastError;
use crate::limits::SEGMENTS_MAX;
use crate::table::Table;

/// Channels of different sizes: enough for more than [`SEGMENTS_MAX`] segments.
const SIZES: [u32; 15] = [1, 2, 2, 5, 5, 12, 12, 25, 25, 52, 52, 105, 105, 212, 212];

/// Whether a channel of the series has this many segments. Two tuners suffice for these only.
pub(crate) fn is_width(width: u32) -> bool {
    SIZES.contains(&width)
}

/// As many channels as are needed. The last one keeps its period when segments are short, since two
/// tuners rely on the periods; nothing is sent in the slots that are left.
pub(super) fn tables(segments: u32, width: u32) -> Result<Vec<Table>, BroadcastError> {
    let mut tables = Vec::new();
    let mut first = 1;
    for period in sizes(width)? {
        if first > segments {
            break;
        }
        let count = period.min(segments - first + 1);
        tables.push(Table::Loop { first, segments: count, period, offset: 0 });
        first += count;
    }
    Ok(tables)
}

/// Segments that fit on so many channels.
pub(super) fn segments_of(channels: u32, width: u32) -> Result<u32, BroadcastError> {
    let channels = channels.min(SEGMENTS_MAX) as usize;
    Ok(sizes(width)?.take(channels).sum::<u32>().min(SEGMENTS_MAX))
}

/// Segments of one channel after the other, without end.
fn sizes(width: u32) -> Result<impl Iterator<Item = u32>, BroadcastError> {
    if !is_width(width) {
        return Err(BroadcastError::Width(width));
    }
    Ok(SIZES.into_iter().chain(std::iter::repeat(width)).map(move |size| size.min(width)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recurrence of the paper.
    #[test]
    fn sizes_are_the_series() {
        for number in 4..=SIZES.len() {
            let last = SIZES[number - 2];
            let size = match number % 4 {
                0 => 2 * last + 1,
                2 => 2 * last + 2,
                _ => last,
            };
            assert_eq!(SIZES[number - 1], size, "channel {number}");
        }
    }
}
