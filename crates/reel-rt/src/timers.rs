use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Timers of one core: (time, order of setting, token). Timers of the same time fire in the order
/// in which they were set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    set: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, when_ns: u64, token: u64) {
        self.heap.push(Reverse((when_ns, self.set, token)));
        self.set += 1;
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((when_ns, ..))| *when_ns)
    }

    /// The token of the oldest timer that is due.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<u64> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((.., token))| token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_by_time_then_by_order_and_never_early() {
        let mut timers = Timers::default();
        for (when_ns, token) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            timers.set(when_ns, token);
        }
        assert_eq!(timers.next_ns(), Some(10));
        assert_eq!(timers.due(9), None);
        assert_eq!(timers.due(20), Some(2));
        assert_eq!(timers.due(20), Some(4));
        assert_eq!(timers.due(20), Some(3));
        assert_eq!(timers.due(20), None);
        assert_eq!(timers.due(u64::MAX), Some(1));
        assert_eq!(timers.next_ns(), None);
    }
}
