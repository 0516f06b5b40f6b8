//! When the thread of casts is to be woken, and for what. Pure.

/// The timers of the thread, one for each purpose. Timers of a core cannot be cancelled, so an
/// earlier one leaves later ones behind. These do nothing when they fire.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// When the earliest timer of each purpose is due.
    set_ns: [Option<u64>; 2],
}

/// What a timer is for. Its number is the token of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Packets of a cast are due, or something else is to be looked at.
    Pump,
    /// A train that waits in a flow is due.
    Pace,
}

impl Wakes {
    /// Whether a timer is to be set for this time. The caller then sets it. It is not needed if one
    /// fires by then.
    pub(crate) fn sets(&mut self, wake: Wake, at_ns: u64) -> bool {
        let set_ns = &mut self.set_ns[wake as usize];
        let is_needed = set_ns.is_none_or(|set_ns| at_ns < set_ns);
        if is_needed {
            *set_ns = Some(at_ns);
        }
        is_needed
    }

    /// A timer fires: what it is for. `None` if it was left behind.
    pub(crate) fn fires(&mut self, token: u64, now_ns: u64) -> Option<Wake> {
        let wake = [Wake::Pump, Wake::Pace].into_iter().find(|wake| *wake as u64 == token)?;
        self.set_ns[wake as usize].take_if(|set_ns| *set_ns <= now_ns)?;
        Some(wake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_ring::{Chunk, Done, Op};
    use reel_udp::{FlowId, Pacer, Packets, UdpSender, UdpStep};
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    use std::num::NonZeroU64;
    use std::sync::Arc;

    #[test]
    fn a_timer_is_set_once_and_those_that_are_left_behind_do_nothing() {
        let (pump, pace) = (Wake::Pump as u64, Wake::Pace as u64);
        let mut wakes = Wakes::default();
        assert!(wakes.sets(Wake::Pump, 100));
        assert!(!wakes.sets(Wake::Pump, 100) && !wakes.sets(Wake::Pump, 101), "one fires by then");
        assert!(wakes.sets(Wake::Pace, 100), "each purpose has its own");
        assert!(wakes.sets(Wake::Pump, 50));
        assert_eq!(wakes.fires(pump, 49), None, "a timer of an earlier time");
        assert_eq!(wakes.fires(pump, 50), Some(Wake::Pump));
        assert!(wakes.sets(Wake::Pump, 200));
        assert_eq!(wakes.fires(pump, 100), None, "left behind");
        assert_eq!(wakes.fires(pace, 100), Some(Wake::Pace));
        assert_eq!(wakes.fires(pace, 100), None);
        assert_eq!(wakes.fires(2, 300), None, "not one of these");
        assert_eq!(wakes.fires(pump, 300), Some(Wake::Pump), "late, but the one that was set");
    }

    const PACKET_BYTES: usize = 1328;
    const PACKET_NS: u64 = 105_280;
    const TRAIN_NS: u64 = 10_000_000;
    const ROW_PACKETS: u64 = 20;

    /// A thread with one flow of 100 Mb/s in simulated time: a pump hands over what is due within
    /// 10 ms, row by row, and the flow spreads it in trains.
    struct Thread {
        now_ns: u64,
        wakes: Wakes,
        timers: BinaryHeap<Reverse<(u64, u64)>>,
        udp: UdpSender,
        flow: FlowId,
        bytes: Chunk,
        packets: u64,
        pumps: u64,
        paces: u64,
    }

    impl Thread {
        fn new() -> Thread {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
            let mut udp = UdpSender::new(Arc::new(socket.into()));
            let pacer = Pacer::new(NonZeroU64::new(200_000_000).expect("a rate"), 0);
            let flow = udp.open(([239, 1, 1, 1], 5000).into(), pacer).expect("room");
            let (wakes, timers) = (Wakes::default(), BinaryHeap::new());
            let bytes = Chunk::from(vec![0; ROW_PACKETS as usize * PACKET_BYTES]);
            Thread { now_ns: 0, wakes, timers, udp, flow, bytes, packets: 0, pumps: 0, paces: 0 }
        }

        fn wake_at(&mut self, wake: Wake, at_ns: u64) {
            if self.wakes.sets(wake, at_ns) {
                self.timers.push(Reverse((at_ns, wake as u64)));
            }
        }

        fn pump(&mut self) {
            self.pumps += 1;
            if self.packets * PACKET_NS <= self.now_ns {
                let queued_bytes = self.udp.flow(self.flow).expect("open").queued_bytes;
                assert_eq!(queued_bytes, 0, "the trains of the pump before have left");
                let end = (self.now_ns + TRAIN_NS).div_ceil(PACKET_NS);
                while self.packets < end {
                    let count = ROW_PACKETS.min(end - self.packets);
                    let bytes = self.bytes.slice(0..count as usize * PACKET_BYTES);
                    self.udp.offer(self.flow, Packets::framed(bytes, PACKET_BYTES)).expect("room");
                    self.packets += count;
                }
            }
            self.wake_at(Wake::Pump, self.packets * PACKET_NS);
            self.push_trains();
        }

        fn push_trains(&mut self) {
            loop {
                match self.udp.step(self.now_ns) {
                    UdpStep::Push { slot, op, .. } => {
                        let Op::Train(train) = &op else { panic!("the socket has room") };
                        let result = Ok(train.bytes());
                        self.udp.done(self.now_ns, slot, Done { token: 0, result, op, accepted: None });
                    }
                    UdpStep::At(at_ns) => return self.wake_at(Wake::Pace, at_ns),
                    UdpStep::Idle => return,
                }
            }
        }

        fn run_until(&mut self, end_ns: u64) {
            while let Some(Reverse((at_ns, token))) = self.timers.pop()
                && at_ns < end_ns
            {
                // Timers fire a little late, each by another time.
                self.now_ns = self.now_ns.max(at_ns + at_ns / 7 % 80_000);
                match self.wakes.fires(token, self.now_ns) {
                    Some(Wake::Pump) => self.pump(),
                    Some(Wake::Pace) => {
                        self.paces += 1;
                        self.push_trains();
                    }
                    None => {}
                }
            }
        }
    }

    #[test]
    fn a_flow_is_pumped_when_packets_are_due_and_not_for_each_of_its_trains() {
        let mut thread = Thread::new();
        thread.pump();
        thread.run_until(60_000_000_000);
        let state = thread.udp.flow(thread.flow).expect("open");
        assert!(state.counts.packets >= 60_000_000_000 / PACKET_NS, "all of it was sent");
        assert!(thread.paces > 6_000, "a pump makes several trains: {}", thread.paces);
        assert!(thread.pumps <= 2 * 6_000, "{} pumps in 6,000 times 10 ms", thread.pumps);
        assert!(thread.timers.len() <= 2, "no timers are left behind");
    }
}
