//! When the bytes of a track are sent: those of each PES packet evenly over a time before it is
//! decoded.
//!
//! The bytes that are to be sent until a time are the sum of what each packet has contributed by
//! then. A packet contributes all of its bytes by its due time. So the bytes of a packet and of all
//! before it are sent by then, whatever their sizes are. The rate is a moving average of the rate
//! at which bytes are decoded.

use std::collections::VecDeque;

/// The plan of one track. Times are ticks of 27 MHz.
#[derive(Debug)]
pub(super) struct Spread {
    /// The time over which the bytes of a packet are spread.
    window: u64,
    /// Packets that contribute now: when they are due, and their bytes.
    active: VecDeque<(u64, u64)>,
    /// Bytes of packets that were due.
    settled: u64,
}

impl Spread {
    /// A plan without packets.
    pub(super) fn new(window: u64) -> Spread {
        Spread { window: window.max(1), active: VecDeque::new(), settled: 0 }
    }

    /// Whether a packet that is due then contributes before a time.
    pub(super) fn begins_before(&self, due: u64, time: u64) -> bool {
        due < time.saturating_add(self.window)
    }

    /// Adds a packet. Due times do not decrease.
    pub(super) fn push(&mut self, due: u64, bytes: u64) {
        self.active.push_back((due, bytes));
    }

    /// Bytes that are to be sent until a time, counted from the beginning. Times do not decrease.
    pub(super) fn sent_by(&mut self, time: u64) -> u64 {
        while let Some((_, bytes)) = self.active.pop_front_if(|(due, _)| *due <= time) {
            self.settled += bytes;
        }
        let part = |(due, bytes): &(u64, u64)| {
            let run = (time + self.window).saturating_sub(*due);
            (u128::from(*bytes) * u128::from(run) / u128::from(self.window)) as u64
        };
        self.settled + self.active.iter().map(part).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: u64 = 900;

    /// Sizes and times of packets with a random distance.
    fn any_packets() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0_u64..300, 0_u64..100_000), 1..80).prop_map(|steps| {
            let mut due = WINDOW;
            let packet = |(step, bytes): (u64, u64)| {
                due += step;
                (due, bytes)
            };
            steps.into_iter().map(packet).collect()
        })
    }

    proptest! {
        #[test]
        fn bytes_come_in_time_and_not_too_early(packets in any_packets(), slot in 1_u64..100) {
            let mut spread = Spread::new(WINDOW);
            let mut ahead = packets.iter().peekable();
            let last = packets.last().expect("one").0;
            let decoded = |time: u64| -> u64 { packets.iter().filter(|(due, _)| *due <= time).map(|(_, bytes)| bytes).sum() };
            let (mut time, mut before) = (0, 0);
            // The most that any window of the stream has, in bytes.
            let peak = (0..=last).step_by(10).map(|from| decoded(from + WINDOW + 10) - decoded(from)).max().expect("some");
            while time <= last + slot {
                time += slot;
                while let Some((due, bytes)) = ahead.next_if(|(due, _)| spread.begins_before(*due, time)) {
                    spread.push(*due, *bytes);
                }
                let sent = spread.sent_by(time);
                prop_assert!(sent >= decoded(time), "late at {time}");
                prop_assert!(sent <= decoded(time + WINDOW), "too early at {time}");
                let rounding = packets.len() as u64;
                let rate = (sent - before).saturating_sub(rounding) * WINDOW / slot;
                prop_assert!(rate <= peak + 1, "{rate} above {peak} at {time}");
                before = sent;
            }
            prop_assert_eq!(before, decoded(last));
        }
    }
}
