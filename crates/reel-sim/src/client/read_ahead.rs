//! A kernel that reads a file ahead of the player that reads it from front to back.

use crate::limits::{MOUNTED_READS_MAX, SERVED_READS_MAX};
use reel_testkit::Rng;
use std::ops::Range;

/// How a kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadAheadSpec {
    /// The length of a read.
    pub(super) read_bytes: u64,
    /// Reads that it keeps ahead of the player.
    pub(super) reads: u64,
    /// Connections that reads are sent on. Reads of different ones overtake one another.
    pub(super) connections: u64,
}

/// The reads of one mount.
pub(super) struct ReadAhead {
    spec: ReadAheadSpec,
    /// What is read on each lane, and the number of the place that it is read for.
    lanes: Vec<Option<(u64, Range<u64>)>>,
    /// Counts the places at which the player has begun to read. A kernel finishes the reads of the
    /// place before.
    place: u64,
    end: u64,
    /// Where the next read begins.
    next: u64,
    /// Up to here there is no gap.
    front: u64,
    /// Reads beyond a gap that have come, in order.
    beyond: Vec<Range<u64>>,
}

impl ReadAhead {
    pub(super) fn new(spec: ReadAheadSpec) -> ReadAhead {
        let lanes = vec![None; MOUNTED_READS_MAX];
        ReadAhead { spec, lanes, place: 0, end: 0, next: 0, front: 0, beyond: Vec::new() }
    }

    /// The player reads a file of so many bytes from here on.
    pub(super) fn seek(&mut self, offset: u64, end: u64) {
        let start = offset.min(end) / self.spec.read_bytes * self.spec.read_bytes;
        (self.end, self.next, self.front) = (end, start, start);
        self.place += 1;
        self.beyond.clear();
    }

    /// The length of a read.
    pub(super) fn read_bytes(&self) -> u64 {
        self.spec.read_bytes
    }

    /// Up to here the player can have everything.
    pub(super) fn front(&self) -> u64 {
        self.front
    }

    /// Whether all of the file was read from where the player began.
    pub(super) fn has_all(&self) -> bool {
        self.front >= self.end
    }

    /// The reads to send for a player that has taken what is before `taken`, each with its lane, in
    /// the order in which they reach the server. The kernel sends some when half of what it keeps
    /// ahead was taken.
    pub(super) fn sends(&mut self, taken: u64, rng: &mut Rng) -> Vec<(usize, Range<u64>)> {
        if self.next >= self.sends_again_at(taken) {
            return Vec::new();
        }
        let (until, mut sent) = (self.end.min(taken + self.spec.reads * self.spec.read_bytes), Vec::new());
        let most = SERVED_READS_MAX.saturating_mul(self.spec.connections as usize).min(self.lanes.len());
        while self.next < until && self.under_way() < most {
            let Some(lane) = self.lanes.iter().position(Option::is_none) else { break };
            let range = self.next..self.end.min(self.next + self.spec.read_bytes);
            self.next = range.end;
            self.lanes[lane] = Some((self.place, range.clone()));
            sent.push((lane, range));
        }
        let mut arrived = Vec::with_capacity(sent.len());
        while !sent.is_empty() {
            let overtakes = rng.below(self.spec.connections.min(sent.len() as u64));
            arrived.push(sent.remove(overtakes as usize));
        }
        arrived
    }

    /// The byte up to which the player must have taken everything before anything more is sent.
    pub(super) fn sends_next_at(&self) -> u64 {
        let kept = self.spec.reads.div_ceil(2) * self.spec.read_bytes;
        (self.next + 1).saturating_sub(kept)
    }

    /// A read has come. Returns whether it is of the place where the player is.
    pub(super) fn received(&mut self, lane: usize) -> bool {
        let Some((place, range)) = self.lanes[lane].take() else { return false };
        if place != self.place {
            return false;
        }
        let at = self.beyond.partition_point(|other| other.start < range.start);
        self.beyond.insert(at, range);
        while self.beyond.first().is_some_and(|next| next.start <= self.front) {
            self.front = self.beyond.remove(0).end;
        }
        true
    }

    fn sends_again_at(&self, taken: u64) -> u64 {
        self.end.min(taken + self.spec.reads.div_ceil(2) * self.spec.read_bytes)
    }

    fn under_way(&self) -> usize {
        self.lanes.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_overtake_each_other_leave_no_gap() {
        let mut rng = Rng::new(1);
        let spec = ReadAheadSpec { read_bytes: 10, reads: 4, connections: 3 };
        let mut ahead = ReadAhead::new(spec);
        ahead.seek(27, 1005);
        assert_eq!(ahead.front(), 20);
        let (mut in_order, mut all) = (true, 0);
        while !ahead.has_all() {
            let sent = ahead.sends(ahead.front(), &mut rng);
            assert!(!sent.is_empty() && sent.len() <= 4, "{sent:?}");
            in_order &= sent.is_sorted_by_key(|(_, range)| range.start);
            for (lane, range) in sent.into_iter().rev() {
                all += range.end - range.start;
                assert!(ahead.received(lane));
            }
        }
        assert!(!in_order && all == 985, "{all}");
    }

    #[test]
    fn more_is_sent_when_half_was_taken_and_nothing_of_another_place_counts() {
        let mut rng = Rng::new(1);
        let mut ahead = ReadAhead::new(ReadAheadSpec { read_bytes: 10, reads: 4, connections: 1 });
        ahead.seek(0, 1000);
        assert_eq!(ahead.sends(0, &mut rng).len(), 4);
        assert_eq!(ahead.sends_next_at(), 21);
        assert!(ahead.sends(20, &mut rng).is_empty());
        ahead.seek(500, 1000);
        assert!(!ahead.received(0) && ahead.front() == 500);
        let sent = ahead.sends(500, &mut rng);
        assert_eq!(sent, [(0, 500..510)], "the reads of the place before are under way");
    }
}
