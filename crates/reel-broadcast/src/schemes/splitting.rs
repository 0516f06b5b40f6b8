//! Recursive frequency splitting (Tseng, Yang and Chang, IEEE Transactions on Communications 50,
//! 2002).
//!
//! A free place is a period and an offset on a channel: every slot t with t mod period = offset. At
//! first each channel is one place of period 1. Segment i takes the free place whose period fits
//! most often into i slots: of period p, it uses every floor(i / p)-th slot, so it repeats every
//! p x floor(i / p) slots, at most i. The slots between are free places of that longer period.

use std::collections::BTreeMap;

use super::tree::Tree;
use crate::limits::SEGMENTS_MAX;
use crate::table::{Repeat, Table};

/// What is free, and what was placed.
struct Splitting {
    /// Free places, by period. The last of a list is used first.
    free: BTreeMap<u32, Vec<Free>>,
    channels: Vec<Vec<Repeat>>,
    tree: Tree,
}

/// A free place.
struct Free {
    channel: u32,
    offset: u32,
    /// Its number in the tree.
    place: usize,
}

/// As few channels as carry so many segments.
pub(super) fn tables(segments: u32) -> Vec<Table> {
    Splitting::of(segments).channels.into_iter().map(Table::Split).collect()
}

/// Segments that no client's buffer exceeds.
pub(super) fn buffer_segments_max(segments: u32) -> u32 {
    Splitting::of(segments).tree.buffer_segments(segments)
}

/// Segments that fit on so many channels: 1, 3, 9, 25, 73, 201, 565, 1522, ...
pub(super) fn segments_of(channels: u32) -> u32 {
    let mut splitting = Splitting::new(channels.min(SEGMENTS_MAX));
    (1..=SEGMENTS_MAX).take_while(|segment| splitting.place(*segment)).last().unwrap_or(0)
}

impl Splitting {
    /// As few channels as carry so many segments, all placed.
    fn of(segments: u32) -> Splitting {
        let mut channels = 1;
        loop {
            let mut splitting = Splitting::new(channels);
            if (1..=segments).all(|segment| splitting.place(segment)) {
                return splitting;
            }
            channels += 1;
        }
    }

    fn new(channels: u32) -> Splitting {
        let all = (0..channels).rev();
        let all = all.map(|channel| Free { channel, offset: 0, place: channel as usize }).collect();
        let (free, count) = (BTreeMap::from([(1, all)]), channels as usize);
        Splitting { free, channels: vec![Vec::new(); count], tree: Tree::new(count) }
    }

    /// Places the segment, if there is a place with a period that is short enough. Of places with
    /// which the segment repeats equally seldom, one of the longest period is used.
    fn place(&mut self, segment: u32) -> bool {
        let repeats = |free: u32| free * (segment / free);
        let best = self.free.range(..=segment).map(|(free, _)| (repeats(*free), *free)).max();
        let Some((period, step)) = best else { return false };
        let Some(Free { channel, offset, place }) = self.take(step) else { return false };
        self.channels[channel as usize].push(Repeat { segment, period, offset });
        let first_part = self.tree.split(place, (period / step) as usize);
        let rest = (1..period / step).rev();
        let rest = rest.map(|part| Free {
            channel,
            offset: offset + step * part,
            place: first_part + part as usize,
        });
        if period > step {
            self.free.entry(period).or_default().extend(rest);
        }
        true
    }

    /// Takes a free place of this period.
    fn take(&mut self, period: u32) -> Option<Free> {
        let places = self.free.get_mut(&period)?;
        let place = places.pop();
        if places.is_empty() {
            self.free.remove(&period);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_carry_as_many_segments_as_the_algorithm_has_been_computed_to() {
        let counts: Vec<u32> = (0..=8).map(segments_of).collect();
        assert_eq!(counts, [0, 1, 3, 9, 25, 73, 201, 565, 1522]);
    }
}
