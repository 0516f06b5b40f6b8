//! One segment on its way: which of its bytes came after their media time was due. Pure.

use super::limits::ARRIVALS_MAX;

/// A segment that is being received.
#[derive(Debug)]
pub(crate) struct Segment {
    start_ns: u64,
    /// Where its media ends.
    pub(crate) end_ns: u64,
    bytes: Option<u64>,
    received: u64,
    late: bool,
    /// While its length is not known: what came when, and by which epoch it is to be judged.
    arrivals: Vec<Arrival>,
}

/// What is to be said about bytes that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) late_bytes: u64,
    /// How late the first of them was.
    pub(crate) latest_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    now_ns: u64,
    bytes: u64,
    epoch_ns: Option<i64>,
}

impl Segment {
    pub(crate) fn new(start_ns: u64, end_ns: u64, bytes: Option<u64>) -> Self {
        Self { start_ns, end_ns, bytes, received: 0, late: false, arrivals: Vec::new() }
    }

    /// `bytes` more came; `epoch_ns` says when media time 0 was due, `None` that nothing was.
    pub(crate) fn received(&mut self, now_ns: u64, bytes: u64, epoch_ns: Option<i64>) -> Arrived {
        let arrival = Arrival { now_ns, bytes, epoch_ns };
        if self.bytes.is_some() {
            return self.judge(arrival);
        }
        if self.arrivals.len() < ARRIVALS_MAX {
            self.arrivals.push(arrival);
        } else if let Some(last) = self.arrivals.last_mut() {
            *last = Arrival { bytes: last.bytes + bytes, ..arrival };
        }
        Arrived::default()
    }

    /// Nothing more comes: whether any byte was late, and what only now could be judged.
    pub(crate) fn complete(mut self) -> (bool, Arrived) {
        let mut all = Arrived::default();
        let arrivals = std::mem::take(&mut self.arrivals);
        self.bytes.get_or_insert_with(|| arrivals.iter().map(|arrival| arrival.bytes).sum());
        for arrival in arrivals {
            let one = self.judge(arrival);
            all.late_bytes += one.late_bytes;
            all.latest_ns = all.latest_ns.max(one.latest_ns);
        }
        (self.late, all)
    }

    /// How many bytes should be here at `now_ns` and are not. One at least, where their number is
    /// unknown.
    pub(crate) fn overdue(mut self, now_ns: u64, epoch_ns: i64) -> u64 {
        let Some(bytes) = self.bytes else { return 1 };
        let missing = bytes.saturating_sub(self.received);
        self.judge(Arrival { now_ns, bytes: missing, epoch_ns: Some(epoch_ns) }).late_bytes
    }

    /// The media time of the first byte that is not here. Without a known length that is the first
    /// of all.
    pub(crate) fn ready_until_ns(&self) -> u64 {
        self.media_ns(self.received)
    }

    fn judge(&mut self, arrival: Arrival) -> Arrived {
        let first = self.received;
        self.received += arrival.bytes;
        let Some(epoch_ns) = arrival.epoch_ns else { return Arrived::default() };
        let due_ns = |byte: u64| epoch_ns + self.media_ns(byte) as i64;
        let now_ns = arrival.now_ns as i64;
        if due_ns(first) >= now_ns {
            return Arrived::default();
        }
        // Bytes are due in their order: find the first that was not late.
        let (mut late, mut rest) = (first + 1, self.received);
        while late < rest {
            let middle = late + (rest - late) / 2;
            if due_ns(middle) < now_ns { late = middle + 1 } else { rest = middle }
        }
        let latest_ns = (now_ns - due_ns(first)) as u64;
        self.late = true;
        Arrived { late_bytes: late - first, latest_ns }
    }

    /// The media time that a byte belongs to.
    fn media_ns(&self, byte: u64) -> u64 {
        let bytes = self.bytes.unwrap_or(0);
        if bytes == 0 {
            return self.start_ns;
        }
        let share = u128::from(self.end_ns - self.start_ns) * u128::from(byte.min(bytes)) / u128::from(bytes);
        self.start_ns + share as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 bytes for the media from 4 s to 8 s.
    fn segment(bytes: Option<u64>) -> Segment {
        Segment::new(4_000, 8_000, bytes)
    }

    #[test]
    fn bytes_are_late_from_their_own_media_time_on() {
        // Byte b is due at 100 + 4000 + 4 b.
        let mut one = segment(Some(1000));
        assert_eq!(one.received(4_100, 250, Some(100)), Arrived::default());
        assert_eq!(one.ready_until_ns(), 5_000);
        // Bytes 250..500 are due from 5100 to 6096; at 5500 those below (5500 - 4100) / 4 = 350 are
        // late.
        assert_eq!(one.received(5_500, 250, Some(100)), Arrived { late_bytes: 100, latest_ns: 400 });
        assert_eq!(one.received(9_000, 500, Some(100)), Arrived { late_bytes: 500, latest_ns: 2_900 });
        assert_eq!(one.complete(), (true, Arrived::default()));
    }

    #[test]
    fn exactly_in_time_is_not_late() {
        let mut one = segment(Some(1000));
        assert_eq!(one.received(4_100, 1, Some(100)).late_bytes, 0);
        assert_eq!(one.received(4_105, 1, Some(100)).late_bytes, 1);
    }

    #[test]
    fn what_never_came_is_overdue_from_its_media_time_on() {
        let mut one = segment(Some(1000));
        one.received(4_000, 250, Some(100));
        assert_eq!(one.overdue(5_500, 100), 100);
        assert_eq!(segment(Some(1000)).overdue(4_100, 100), 0);
        assert_eq!(segment(Some(1000)).overdue(1_000_000, 100), 1000);
        assert_eq!(segment(None).overdue(5_000, 100), 1);
    }

    #[test]
    fn nothing_is_late_while_nothing_is_due() {
        let mut one = segment(Some(1000));
        assert_eq!(one.received(1_000_000, 1000, None), Arrived::default());
        assert_eq!(one.complete(), (false, Arrived::default()));
    }

    #[test]
    fn a_segment_of_unknown_length_is_judged_at_its_end_with_the_same_result() {
        let mut one = segment(None);
        for (now_ns, bytes) in [(4_100, 250), (5_500, 250), (9_000, 500)] {
            assert_eq!(one.received(now_ns, bytes, Some(100)), Arrived::default());
            assert_eq!(one.ready_until_ns(), 4_000);
        }
        assert_eq!(one.complete(), (true, Arrived { late_bytes: 600, latest_ns: 2_900 }));
    }
}
