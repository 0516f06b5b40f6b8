//! What a connection shows of the path to its client. Pure.

use crate::limits::{
    FLOW_LOSS_PERMILLE, FLOW_QUEUE_NS, LOSSY_AFTER_BYTES, LOSSY_PERMILLE, TRAIN_BYTES_MAX, TRAIN_BYTES_MIN,
    TRAINS_UNTIL_LONGER,
};
use reel_ring::TcpStatus;

/// Compares what the kernel reports of one connection with what it reported before.
#[derive(Clone, Copy, Debug)]
pub struct FlowMeter {
    before: Option<TcpStatus>,
    train_bytes: u64,
    /// Bytes acknowledged since the trains were changed.
    unchanged_bytes: u64,
    /// Bytes acknowledged and sent again; older ones count less.
    recent_bytes: u64,
    recent_resent_bytes: u64,
    is_lossy: bool,
}

/// What happened on a connection between two reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSample {
    /// Bytes that the client acknowledged.
    pub(crate) acknowledged_bytes: u64,
    /// Bytes that were sent again.
    pub(crate) resent_bytes: u64,
    /// The smoothed round trip at the end.
    pub(crate) round_trip_ns: u64,
    /// The shortest round trip of the connection.
    pub(crate) round_trip_min_ns: u64,
    /// Whether the socket holds bytes at the end.
    pub(crate) is_backlogged: bool,
    /// Whether the client's window kept the socket from sending, at least for a moment.
    pub(crate) is_window_limited: bool,
    /// Bytes that the path takes at once.
    pub(crate) train_bytes: u64,
}

/// What a connection tells of the queue in front of the narrowest link of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// The path has no queue that lasts.
    Empty,
    /// Packets wait or are lost, while the socket has more to send.
    Standing,
    /// Nothing can be told: too little was sent, or the client itself was slow.
    Unknown,
}

impl Default for FlowMeter {
    fn default() -> Self {
        Self {
            before: None,
            train_bytes: TRAIN_BYTES_MIN,
            unchanged_bytes: 0,
            recent_bytes: 0,
            recent_resent_bytes: 0,
            is_lossy: false,
        }
    }
}

impl FlowMeter {
    /// What happened since the report before; `None` for the first one.
    pub fn observe(&mut self, status: TcpStatus) -> Option<FlowSample> {
        let before = self.before.replace(status)?;
        let acknowledged_bytes = status.acknowledged_bytes.saturating_sub(before.acknowledged_bytes);
        let resent_bytes = status.resent_bytes.saturating_sub(before.resent_bytes);
        self.adapt(acknowledged_bytes, resent_bytes);
        self.weigh(acknowledged_bytes, resent_bytes);
        Some(FlowSample {
            acknowledged_bytes,
            resent_bytes,
            train_bytes: self.train_bytes,
            round_trip_ns: u64::from(status.round_trip_us) * 1000,
            round_trip_min_ns: u64::from(status.round_trip_min_us) * 1000,
            is_backlogged: status.queued_bytes > 0,
            is_window_limited: status.window_limited_us > before.window_limited_us,
        })
    }
}

impl FlowMeter {
    /// Bytes that the path to the client takes at once without loss, as far as is known.
    pub fn train_bytes(&self) -> u64 {
        self.train_bytes
    }

    /// Whether the path loses so much, whatever the size of trains, that a congestion control which
    /// slows down with every loss is too slow for it. Stays set.
    pub fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    fn weigh(&mut self, acknowledged_bytes: u64, resent_bytes: u64) {
        self.recent_bytes += acknowledged_bytes;
        self.recent_resent_bytes += resent_bytes;
        if self.recent_bytes >= LOSSY_AFTER_BYTES {
            self.is_lossy |= self.train_bytes == TRAIN_BYTES_MIN
                && self.recent_resent_bytes * 1000 > self.recent_bytes * LOSSY_PERMILLE;
            self.recent_bytes /= 2;
            self.recent_resent_bytes /= 2;
        }
    }

    /// A loss halves the trains; several of them without a loss double them.
    fn adapt(&mut self, acknowledged_bytes: u64, resent_bytes: u64) {
        self.unchanged_bytes += acknowledged_bytes;
        if resent_bytes > 0 {
            self.train_bytes = (self.train_bytes / 2).max(TRAIN_BYTES_MIN);
        } else if self.unchanged_bytes >= TRAINS_UNTIL_LONGER * self.train_bytes {
            self.train_bytes = (self.train_bytes * 2).min(TRAIN_BYTES_MAX);
        } else {
            return;
        }
        self.unchanged_bytes = 0;
    }
}

impl FlowSample {
    /// What the sample tells, if a packet needs at least `round_trip_min_ns` on this path.
    pub(crate) fn queue(&self, round_trip_min_ns: u64) -> Queue {
        let waits = self.round_trip_ns.saturating_sub(round_trip_min_ns) > FLOW_QUEUE_NS;
        let sent_bytes = self.acknowledged_bytes + self.resent_bytes;
        let loses = self.resent_bytes * 1000 > sent_bytes * FLOW_LOSS_PERMILLE;
        if !waits && !loses {
            return if self.acknowledged_bytes > 0 { Queue::Empty } else { Queue::Unknown };
        }
        // The round trip of a connection that sends little is that of a client that answers late.
        if self.is_backlogged && !self.is_window_limited { Queue::Standing } else { Queue::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: TcpStatus = TcpStatus {
        acknowledged_bytes: 1_000_000,
        resent_bytes: 0,
        queued_bytes: 50_000,
        round_trip_us: 60_000,
        round_trip_min_us: 10_000,
        window_limited_us: 5,
    };

    fn after(change: impl Fn(&mut TcpStatus)) -> Queue {
        let mut meter = FlowMeter::default();
        assert_eq!(meter.observe(STATUS), None);
        let mut status = TcpStatus { acknowledged_bytes: 1_500_000, ..STATUS };
        change(&mut status);
        meter.observe(status).expect("the second").queue(10_000_000)
    }

    #[test]
    fn a_queue_is_told_from_a_slow_client() {
        assert_eq!(after(|_| ()), Queue::Standing);
        assert_eq!(after(|status| status.round_trip_us = 12_000), Queue::Empty);
        assert_eq!(after(|status| status.queued_bytes = 0), Queue::Unknown, "answers late");
        assert_eq!(after(|status| status.window_limited_us = 6), Queue::Unknown, "reads slowly");
        let loses = |status: &mut TcpStatus| (status.round_trip_us, status.resent_bytes) = (11_000, 90_000);
        assert_eq!(after(loses), Queue::Standing);
        let is_silent = |status: &mut TcpStatus| {
            (status.round_trip_us, status.acknowledged_bytes) = (11_000, STATUS.acknowledged_bytes);
        };
        assert_eq!(after(is_silent), Queue::Unknown);
    }

    #[test]
    fn trains_grow_until_something_is_lost() {
        let mut meter = FlowMeter::default();
        let mut status = STATUS;
        let mut after = |acknowledged_bytes: u64, resent_bytes: u64| {
            status.acknowledged_bytes += acknowledged_bytes;
            status.resent_bytes += resent_bytes;
            meter.observe(status);
            meter.train_bytes()
        };
        assert_eq!(after(0, 0), TRAIN_BYTES_MIN);
        assert_eq!(after(TRAINS_UNTIL_LONGER * TRAIN_BYTES_MIN - 1, 0), TRAIN_BYTES_MIN);
        assert_eq!(after(1, 0), 2 * TRAIN_BYTES_MIN);
        assert_eq!(after(100 * TRAIN_BYTES_MAX, 0), TRAIN_BYTES_MAX);
        assert_eq!(after(100 * TRAIN_BYTES_MAX, 0), TRAIN_BYTES_MAX);
        assert_eq!(after(100 * TRAIN_BYTES_MAX, 1448), TRAIN_BYTES_MAX / 2);
        assert_eq!((after(0, 1448), after(0, 1448)), (TRAIN_BYTES_MIN, TRAIN_BYTES_MIN));
    }

    #[test]
    fn a_path_that_loses_short_trains_is_lossy() {
        let loses = |permille: u64| {
            let (mut meter, mut status) = (FlowMeter::default(), STATUS);
            for _ in 0..100 {
                meter.observe(status);
                status.acknowledged_bytes += LOSSY_AFTER_BYTES / 8;
                status.resent_bytes += LOSSY_AFTER_BYTES / 8 * permille / 1000;
            }
            meter.is_lossy()
        };
        assert_eq!([0, LOSSY_PERMILLE - 2, LOSSY_PERMILLE + 2].map(loses), [false, false, true]);
    }

    /// The numbers of a connection only grow; a kernel that says otherwise changes nothing.
    #[test]
    fn numbers_that_go_back_count_nothing() {
        let mut meter = FlowMeter::default();
        meter.observe(STATUS);
        let sample = meter.observe(TcpStatus::default()).expect("the second");
        assert_eq!((sample.acknowledged_bytes, sample.resent_bytes), (0, 0));
    }
}
