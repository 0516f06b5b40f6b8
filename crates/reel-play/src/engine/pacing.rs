//! When a promised delivery sends: in trains, as its client plays.
//!
//! A player takes a segment as fast as its line allows, and then nothing for seconds. TCP sends a
//! fast line many small packets in that time, each with a timer and an acknowledgement. A train is
//! a burst that the queue of the path takes, and after it nothing is sent until the client has
//! played for about as long. The reasons and figures are in docs/design/network.md.

use crate::limits::{
    PACE_LEAD_NS, PACE_PART_PERCENT, PACE_PART_PERCENT_FILLING, PACE_UNTIL_LEAD_NS, STEADY_TRAINS_PER_S,
};

/// The times at which one delivery sends its trains.
#[derive(Debug)]
pub(super) struct Pacer {
    /// What its client plays in a second.
    bytes_per_s: u64,
    /// Whether it is sent at this rate and no faster, however soon it is due.
    is_steady: bool,
    train_bytes: u64,
    /// Bytes of the present train that are not sent.
    left_bytes: u64,
    /// When the next train may begin; 0 if none was sent.
    next_ns: u64,
}

impl Pacer {
    pub(super) fn new(bytes_per_s: u64, train_bytes: u64) -> Self {
        let (bytes_per_s, train_bytes) = (bytes_per_s.max(1), train_bytes.max(1));
        Self { bytes_per_s, is_steady: false, train_bytes, left_bytes: 0, next_ns: 0 }
    }

    /// For what is sent at this rate and no faster.
    pub(super) fn steady(bytes_per_s: u64, train_bytes: u64) -> Self {
        let mut pacer = Self { is_steady: true, ..Self::new(bytes_per_s, train_bytes) };
        pacer.set_train(train_bytes);
        pacer
    }

    /// From now on trains have so many bytes.
    pub(super) fn set_train(&mut self, bytes: u64) {
        let most = if self.is_steady { self.bytes_per_s / STEADY_TRAINS_PER_S } else { u64::MAX };
        self.train_bytes = bytes.min(most).max(1);
    }

    /// Begins the next train if it is its time. How many bytes may be sent now, if the next one is
    /// due at `due_ns`; 0 until the next train. What has no fixed time is not held back.
    pub(super) fn allowed(&mut self, due_ns: Option<u64>, now_ns: u64) -> u64 {
        let lead_ns = due_ns.map_or(0, |due_ns| due_ns.saturating_sub(now_ns));
        if lead_ns < PACE_LEAD_NS && !self.is_steady {
            (self.left_bytes, self.next_ns) = (u64::MAX, 0);
            return u64::MAX;
        }
        self.left_bytes = self.left_bytes.min(self.train_bytes);
        if self.left_bytes == 0 && now_ns >= self.next_ns {
            let percent = match lead_ns {
                _ if self.is_steady => 100,
                ..PACE_UNTIL_LEAD_NS => PACE_PART_PERCENT_FILLING,
                _ => PACE_PART_PERCENT,
            };
            let interval_ns = u128::from(self.train_bytes) * 100_000_000_000
                / (u128::from(self.bytes_per_s) * u128::from(percent));
            let interval_ns = u64::try_from(interval_ns).unwrap_or(u64::MAX);
            self.left_bytes = self.train_bytes;
            // One train that began late is made up for, not more: the queue of the path is short.
            let soonest_ns = if self.next_ns == 0 { now_ns } else { now_ns.saturating_sub(interval_ns) };
            self.next_ns = self.next_ns.max(soonest_ns).saturating_add(interval_ns);
        }
        self.left_bytes
    }

    /// What may still be sent of the present train.
    pub(super) fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// When the next train may begin.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// These bytes are sent.
    pub(super) fn spend(&mut self, bytes: u64) {
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// 5 Mb/s.
    const RATE: u64 = 625_000;
    const TRAIN: u64 = 64_000;

    /// Sends all that may be sent in a second whose first byte is due at `due_ns`, at every
    /// millisecond; the bytes, and the most at once.
    fn send(pacer: &mut Pacer, from_ns: u64, due_ns: u64) -> (u64, u64) {
        let (mut sum, mut most) = (0, 0);
        for now_ns in (from_ns..from_ns + 1_000 * MS).step_by(MS as usize) {
            let bytes = pacer.allowed(Some(due_ns), now_ns);
            pacer.spend(bytes);
            (sum, most) = (sum + bytes, most.max(bytes));
        }
        (sum, most)
    }

    #[test]
    fn trains_come_somewhat_faster_than_they_are_played() {
        let mut pacer = Pacer::new(RATE, TRAIN);
        let (sum, most) = send(&mut pacer, 0, PACE_UNTIL_LEAD_NS + 2_000 * MS);
        assert_eq!(most, TRAIN);
        let wanted = RATE * PACE_PART_PERCENT / 100;
        assert!(sum.abs_diff(wanted) <= TRAIN, "{sum} instead of {wanted}");
        // With less in the client's buffer, faster.
        let (sum, _) = send(&mut Pacer::new(RATE, TRAIN), 0, PACE_LEAD_NS + 1_000 * MS);
        let wanted = RATE * PACE_PART_PERCENT_FILLING / 100;
        assert!(sum.abs_diff(wanted) <= TRAIN, "{sum} instead of {wanted}");
    }

    #[test]
    fn what_is_due_soon_is_not_held_back() {
        let mut pacer = Pacer::new(RATE, TRAIN);
        assert_eq!(pacer.allowed(Some(PACE_UNTIL_LEAD_NS), 0), TRAIN);
        pacer.spend(TRAIN);
        assert_eq!(pacer.allowed(Some(PACE_UNTIL_LEAD_NS), MS), 0);
        assert_eq!(pacer.allowed(Some(PACE_LEAD_NS), MS), u64::MAX);
        assert_eq!(pacer.allowed(None, MS), u64::MAX);
    }

    /// A thread that was busy for a second must not send ten trains at once.
    #[test]
    fn a_late_train_is_made_up_for_once() {
        let mut pacer = Pacer::new(RATE, TRAIN);
        let due_ns = 100_000 * MS;
        pacer.spend(pacer.left_bytes);
        assert_eq!(pacer.allowed(Some(due_ns), 0), TRAIN);
        pacer.spend(TRAIN);
        let mut trains = 0;
        while pacer.allowed(Some(due_ns), 1_000 * MS) > 0 {
            pacer.spend(TRAIN);
            trains += 1;
        }
        assert!((1..=2).contains(&trains), "{trains}");
    }
}
