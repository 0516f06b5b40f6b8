use std::collections::VecDeque;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use reel_ring::{Done, Op, Train};

use super::lending::Lending;
use super::pacer::{Pacer, PacerCounts};
use super::packets::Packets;
use crate::limits::{UDP_LENT_TRAINS_MAX, UDP_QUEUE_BYTES_MAX, UDP_TRAIN_NS};

/// One flow of packets at a steady rate.
///
/// Its owner calls [`step`](Self::step) until there is nothing to push. It does so at the time that
/// `step` returned or after a [`done`](Self::done). It also passes on all completions with the
/// sender's token. One train at a time is on its way into the kernel, so packets are never
/// reordered. The device may still hold the memory of several trains.
#[derive(Debug)]
pub struct UdpSender {
    socket: Arc<OwnedFd>,
    pacer: Pacer,
    lending: Lending,
    /// Packets to send. Of the first group, packets before `sent` have been sent.
    queue: VecDeque<Packets>,
    queued_bytes: usize,
    sent: usize,
    state: State,
    /// The device cannot cut trains into packets.
    single: bool,
    lent_trains: usize,
    counts: UdpCounts,
    last_error: Option<io::Error>,
}

/// What the owner of a sender has to do next.
#[derive(Debug)]
pub enum UdpStep {
    /// Push this op, with the sender's token, and call `step` again.
    Push(Op),
    /// Call `step` again at this time, in nanoseconds, or after an `offer` or a `done`.
    At(u64),
    /// Call `step` again after an `offer` or a `done`.
    Idle,
}

/// The counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounts {
    /// Packets that the kernel took.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Trains that carried them.
    pub trains: u64,
    /// Bytes that were lent to the device and sent without a copy.
    pub lent_bytes: u64,
    /// Bytes that were lent, but copied by the kernel after all.
    pub copied_after_all_bytes: u64,
    /// Trains that found the socket's buffer full, and were sent later.
    pub waited: u64,
    /// Packets that the kernel refused for good. [`UdpSender::last_error`] gives the reason.
    pub refused_packets: u64,
}

#[derive(Debug)]
enum State {
    Ready,
    /// A train is on its way into the kernel.
    Sending(Range<usize>),
    /// The socket's buffer is full. Its space has to be awaited, or is being awaited.
    Full {
        asked: bool,
    },
}

impl UdpSender {
    /// A sender on a connected socket. Its schedule begins now. The rate includes the headers of
    /// the packets, but not those of UDP and IP.
    pub fn new(socket: Arc<OwnedFd>, rate_bps: NonZeroU64, now_ns: u64) -> UdpSender {
        UdpSender {
            socket,
            pacer: Pacer::new(rate_bps, now_ns),
            lending: Lending::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            sent: 0,
            state: State::Ready,
            single: false,
            lent_trains: 0,
            counts: UdpCounts::default(),
            last_error: None,
        }
    }

    /// Takes packets to send after those it has.
    ///
    /// # Errors
    /// Gives the packets back if the sender has enough for now.
    pub fn offer(&mut self, packets: Packets) -> Result<(), Packets> {
        if self.queued_bytes > 0 && self.queued_bytes + packets.bytes() > UDP_QUEUE_BYTES_MAX {
            return Err(packets);
        }
        self.queued_bytes += packets.bytes();
        self.queue.push_back(packets);
        Ok(())
    }

    /// What has to be done now.
    pub fn step(&mut self, now_ns: u64) -> UdpStep {
        match &mut self.state {
            State::Full { asked: asked @ false } => {
                *asked = true;
                return UdpStep::Push(Op::AwaitWritable { socket: Arc::clone(&self.socket) });
            }
            State::Full { .. } | State::Sending(_) => return UdpStep::Idle,
            State::Ready => {}
        }
        let Some(packets) = self.queue.front() else { return UdpStep::Idle };
        let due_ns = self.pacer.due_ns(now_ns);
        if due_ns > now_ns {
            return UdpStep::At(due_ns);
        }
        if self.lent_trains >= UDP_LENT_TRAINS_MAX {
            return UdpStep::Idle;
        }
        let (count, lend) = self.measure(packets);
        let range = self.sent..self.sent + count;
        let train = Train {
            socket: Arc::clone(&self.socket),
            chunks: packets.chunks(range.clone()),
            packet_bytes: packets.packet_bytes() as u16,
            zero_copy: lend,
        };
        if !lend {
            self.lending.copied_by_choice();
        }
        self.state = State::Sending(range);
        UdpStep::Push(Op::Train(train))
    }

    /// An op that was pushed for this sender has ended, or a part of it.
    pub fn done(&mut self, now_ns: u64, done: Done) {
        match done.op {
            Op::Lent { chunks, copied } => {
                let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
                self.lent_trains = self.lent_trains.saturating_sub(1);
                self.lending.reported(copied);
                let counter = if copied {
                    &mut self.counts.copied_after_all_bytes
                } else {
                    &mut self.counts.lent_bytes
                };
                *counter += bytes;
            }
            Op::Train(train) => {
                if train.chunks.is_empty() {
                    self.lent_trains += 1;
                }
                let State::Sending(range) = mem::replace(&mut self.state, State::Ready) else { return };
                self.answered(now_ns, range, done.result);
            }
            _ => self.state = State::Ready,
        }
    }

    /// Continues at another rate.
    pub fn set_rate(&mut self, now_ns: u64, rate_bps: NonZeroU64) {
        self.pacer.set_rate(now_ns, rate_bps);
    }

    /// Bytes that wait to be sent.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Whether nothing waits to be sent, is being sent, or is still with the device.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.lent_trains == 0 && matches!(self.state, State::Ready)
    }

    /// The counters so far.
    pub fn counts(&self) -> UdpCounts {
        self.counts
    }

    /// How the schedule was kept.
    pub fn pace(&self) -> PacerCounts {
        self.pacer.counts()
    }

    /// The error of the last packets that the kernel refused.
    pub fn last_error(&self) -> Option<&io::Error> {
        self.last_error.as_ref()
    }

    /// How many packets go next, and whether they are lent. To copy one long train costs less than
    /// to lend it as several short ones.
    fn measure(&self, packets: &Packets) -> (usize, bool) {
        let (fit, lendable) = packets.fit(self.sent);
        let due = self.pacer.bytes_within(UDP_TRAIN_NS) / packets.packet_bytes() as u64;
        let count = if self.single { 1 } else { fit.min(due.max(1) as usize) };
        let lend = count <= lendable && self.lending.lends(count * packets.packet_bytes());
        (count, lend)
    }

    /// The kernel has taken a train, or has refused it.
    fn answered(&mut self, now_ns: u64, range: Range<usize>, result: io::Result<usize>) {
        match result {
            Ok(bytes) => {
                self.counts.packets += range.len() as u64;
                self.counts.bytes += bytes as u64;
                self.counts.trains += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.counts.waited += 1;
                self.state = State::Full { asked: false };
                return;
            }
            // Cutting trains needs a device that computes checksums (udp_send_skb). Single packets
            // do not need that.
            Err(error) if is_io_error(&error) && !self.single => {
                self.single = true;
                return;
            }
            Err(error) => {
                self.counts.refused_packets += range.len() as u64;
                self.last_error = Some(error);
            }
        }
        self.gone(now_ns, range);
    }

    /// Packets were sent or refused: they leave the queue.
    fn gone(&mut self, now_ns: u64, range: Range<usize>) {
        let Some(packets) = self.queue.front() else { return };
        let bytes = packets.bytes_in(range.clone());
        self.pacer.sent(now_ns, bytes);
        self.queued_bytes -= bytes;
        self.sent = range.end;
        if self.sent == packets.count() {
            self.queue.pop_front();
            self.sent = 0;
        }
    }
}

/// EIO, for which the standard library has no kind.
fn is_io_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{UDP_COPIED_IN_ROW, UDP_LENT_BYTES_MIN};
    use reel_arena::{Arena, ArenaConfig, Lease};
    use rustix::io::Errno;

    const PACKET_BYTES: usize = 1328;
    /// 62 packets in 10 ms.
    const RATE_BPS: u64 = 66_000_000;

    fn lease() -> Lease {
        let shape =
            ArenaConfig { buffer_bytes: 1 << 20, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
        Arena::new(shape).expect("1 MiB").take(1 << 20).expect("free").freeze()
    }

    fn sender(rate_bps: u64, packets: usize) -> UdpSender {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let rate_bps = NonZeroU64::new(rate_bps).expect("a rate");
        let mut sender = UdpSender::new(Arc::new(socket.into()), rate_bps, 0);
        sender.offer(Packets::framed(lease().slice(0..packets * PACKET_BYTES), PACKET_BYTES)).expect("room");
        sender
    }

    fn train(step: UdpStep) -> Train {
        match step {
            UdpStep::Push(Op::Train(train)) => train,
            step => panic!("{step:?}"),
        }
    }

    fn done(op: Op, result: io::Result<usize>) -> Done {
        Done { token: 1, result, op, accepted: None }
    }

    /// As a ring does it: the result, and the memory if it was lent.
    fn sent(sender: &mut UdpSender, now_ns: u64, mut train: Train, copied: bool) {
        let bytes = train.bytes();
        let chunks = if train.zero_copy { mem::take(&mut train.chunks) } else { Vec::new() };
        sender.done(now_ns, done(Op::Train(train), Ok(bytes)));
        if !chunks.is_empty() {
            sender.done(now_ns, done(Op::Lent { chunks, copied }, Ok(0)));
        }
    }

    #[test]
    fn trains_are_as_long_as_the_rate_makes_them() {
        for (rate_bps, packets) in [(1_000_000, 1), (8_000_000, 7), (40_000_000, 37), (1_000_000_000, 49)] {
            let first = train(sender(rate_bps, 100).step(0));
            assert_eq!(first.bytes(), packets * PACKET_BYTES, "{rate_bps}");
            assert_eq!(first.zero_copy, first.bytes() >= UDP_LENT_BYTES_MIN);
        }
    }

    #[test]
    fn trains_go_one_at_a_time_each_at_its_time() {
        let mut sender = sender(8_000_000, 16);
        for (at_ns, bytes) in
            [(0, 7), (9_296_000, 7), (18_592_000, 2)].map(|(at, count)| (at, count * PACKET_BYTES))
        {
            if at_ns > 0 {
                assert!(matches!(sender.step(at_ns - 1), UdpStep::At(due_ns) if due_ns == at_ns));
            }
            let train = train(sender.step(at_ns));
            assert_eq!(train.bytes(), bytes);
            assert!(matches!(sender.step(at_ns + 1_000_000_000), UdpStep::Idle), "one train is on its way");
            sent(&mut sender, at_ns, train, false);
        }
        assert!(matches!(sender.step(1 << 40), UdpStep::Idle));
        assert!(sender.is_idle());
        let counts = sender.counts();
        assert_eq!((counts.packets, counts.trains, counts.bytes), (16, 3, 16 * PACKET_BYTES as u64));
        assert_eq!((sender.queued_bytes(), sender.pace().behind_ns_max), (0, 0));
    }

    #[test]
    fn a_full_socket_is_awaited_and_nothing_is_lost_or_overtaken() {
        let mut sender = sender(RATE_BPS, 100);
        let first = train(sender.step(0));
        let place = first.chunks[0].as_ptr();
        sender.done(0, done(Op::Train(first), Err(Errno::AGAIN.into())));
        let UdpStep::Push(wait @ Op::AwaitWritable { .. }) = sender.step(5) else {
            panic!("it must be awaited")
        };
        assert!(matches!(sender.step(1 << 40), UdpStep::Idle), "asked once");
        sender.done(6, done(wait, Ok(4)));
        let again = train(sender.step(7));
        assert_eq!(again.chunks[0].as_ptr(), place);
        sent(&mut sender, 7, again, false);
        assert_eq!((sender.counts().waited, sender.counts().trains), (1, 1));
    }

    #[test]
    fn a_device_that_cannot_cut_gets_single_packets() {
        let mut sender = sender(RATE_BPS, 100);
        let first = train(sender.step(0));
        sender.done(0, done(Op::Train(first), Err(Errno::IO.into())));
        let again = train(sender.step(1));
        assert_eq!(again.bytes(), PACKET_BYTES);
        sent(&mut sender, 1, again, false);
        assert_eq!(sender.counts().refused_packets, 0);
    }

    #[test]
    fn refused_packets_are_counted_and_the_next_are_sent() {
        let mut sender = sender(RATE_BPS, 100);
        let first = train(sender.step(0));
        let packets = first.bytes() / PACKET_BYTES;
        sender.done(0, done(Op::Train(first), Err(Errno::CONNREFUSED.into())));
        assert_eq!(sender.counts().refused_packets, packets as u64);
        assert_eq!(sender.last_error().map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused));
        let UdpStep::At(due_ns) = sender.step(1) else { panic!("the next has its own time") };
        assert!(train(sender.step(due_ns)).bytes() > 0);
    }

    #[test]
    fn memory_that_does_not_come_back_stops_a_sender_until_it_does() {
        let mut sender = sender(RATE_BPS, 760);
        let (mut now_ns, mut lent) = (0, Vec::new());
        let due = |sender: &mut UdpSender, now_ns: &mut u64| loop {
            match sender.step(*now_ns) {
                UdpStep::At(due_ns) => *now_ns = due_ns,
                UdpStep::Push(Op::Train(mut train)) => {
                    let (bytes, chunks) = (train.bytes(), mem::take(&mut train.chunks));
                    sender.done(*now_ns, done(Op::Train(train), Ok(bytes)));
                    return Some(chunks);
                }
                _ => return None,
            }
        };
        while let Some(chunks) = due(&mut sender, &mut now_ns) {
            lent.push(chunks);
        }
        assert_eq!(lent.len(), UDP_LENT_TRAINS_MAX.min(760 / 49 + 1));
        assert!(!sender.is_idle());
        let chunks = lent.remove(0);
        sender.done(now_ns, done(Op::Lent { chunks, copied: false }, Ok(0)));
        assert!(sender.counts().lent_bytes > 0);
    }

    #[test]
    fn a_path_that_copies_is_not_lent_to_for_long() {
        let mut sender = sender(RATE_BPS, 780);
        let mut now_ns = 0;
        let mut lent = Vec::new();
        while !sender.is_idle() {
            match sender.step(now_ns) {
                UdpStep::At(due_ns) => now_ns = due_ns,
                step => {
                    let train = train(step);
                    lent.push(train.zero_copy);
                    sent(&mut sender, now_ns, train, true);
                }
            }
        }
        assert_eq!(lent.iter().filter(|lent| **lent).count(), UDP_COPIED_IN_ROW as usize, "{lent:?}");
        assert_eq!(sender.counts().lent_bytes, 0);
        assert!(sender.counts().copied_after_all_bytes > 0);
    }

    #[test]
    fn a_sender_that_has_enough_refuses_more() {
        let mut sender = sender(RATE_BPS, 780);
        let more = || Packets::framed(lease(), PACKET_BYTES);
        sender.offer(more()).expect("the queue holds two MiB");
        assert!(sender.offer(more()).is_err(), "more than its queue may hold");
        assert_eq!(sender.queued_bytes(), 780 * PACKET_BYTES + (1 << 20));
    }
}
