//! Moments a core wants to be told of.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Timers by their moment; those of the same moment in the order they were set.
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

    /// The next timer's moment.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((when_ns, ..))| *when_ns)
    }

    /// Takes a timer that is due.
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
    fn due_in_order_of_time_then_of_setting() {
        let mut timers = Timers::default();
        for (when_ns, token) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            timers.set(when_ns, token);
        }
        assert_eq!(timers.next_ns(), Some(10));
        let due: Vec<_> = std::iter::from_fn(|| timers.due(20)).collect();
        assert_eq!(due, [2, 4, 3]);
        assert_eq!(timers.next_ns(), Some(30));
    }
}
