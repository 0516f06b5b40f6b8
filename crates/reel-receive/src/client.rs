//! A client of a broadcast: which channels are received when, and what is played. Pure.

use std::collections::VecDeque;
use std::net::SocketAddr;

use reel_broadcast::Visit;
use reel_broadcast::limits::JOIN_NS;

use crate::assembly::{Assembly, Played};
use crate::broadcast::{Broadcast, SYMBOL_BYTES};
use crate::counts::Counts;
use crate::limits::{CLOCK_KEEPS_NS, PENDING_PACKETS_MAX, UNDESCRIBED_NS, UNDESCRIBED_PACKETS};
use crate::plan::{Plan, Port};
use crate::receiver::{Payload, Receiver};
use crate::sender_clock::{SenderClock, SenderTime};

/// Follows the schedule of a broadcast. The caller joins and leaves groups, gives it the datagrams
/// with the times of their arrival, and keeps packets until they are played.
///
/// It plans by the clock of this machine. The first packets tell how far the clock of the sender is
/// ahead, and nothing is played before. If that is more than a moment, it plans again. From then on
/// times are counted by the clock that is passed to it, which must never be set.
pub struct BroadcastClient {
    broadcast: Broadcast,
    channels: Vec<Channel>,
    /// The time of day of this machine when its clock was at 0.
    zero_unix_ns: u64,
    clock: SenderClock,
    /// How far the sender is ahead, when that is known.
    ahead_ns: Option<i64>,
    visit: Visit,
    assembly: Assembly,
    /// The longest repair window.
    hold_ns: u64,
    /// What has arrived before the clock of the sender was known.
    pending: VecDeque<(usize, Payload)>,
    misplaced: u64,
    /// When the last packet arrived that has a place.
    placed_ns: Option<u64>,
    undescribed_ns: Option<u64>,
}

/// A channel, and from when to when it is received, as times of day of the sender.
struct Channel {
    receiver: Receiver,
    from_unix_ns: u64,
    until_unix_ns: u64,
    is_joined: bool,
}

/// What the caller does with a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tune {
    /// Its groups are joined.
    Join(usize),
    /// They are left.
    Leave(usize),
}

/// A packet that is kept until it is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Which packet of the title it is.
    pub symbol: u64,
    /// Its payload, of [`SYMBOL_BYTES`] bytes.
    pub bytes: Vec<u8>,
}

impl BroadcastClient {
    /// A client that joins at `now_ns` on a clock that was at 0 at a time of day. There is a plan
    /// for each channel.
    #[must_use]
    pub fn new(broadcast: Broadcast, plans: Vec<Plan>, zero_unix_ns: u64, now_ns: u64) -> BroadcastClient {
        let hold_ns = plans.iter().filter_map(|plan| Some(plan.fec?.repair_window_ns)).max().unwrap_or(0);
        let channels = plans.into_iter().enumerate().map(|(channel, plan)| {
            let plan = Plan { ssrc: broadcast.source(channel), ..plan };
            Channel {
                receiver: Receiver::new(plan),
                from_unix_ns: u64::MAX,
                until_unix_ns: 0,
                is_joined: false,
            }
        });
        let visit = broadcast.visit(broadcast.slot_from(zero_unix_ns.saturating_add(now_ns + JOIN_NS)));
        let mut client = BroadcastClient {
            channels: channels.collect(),
            zero_unix_ns,
            clock: SenderClock::default(),
            ahead_ns: None,
            assembly: Assembly::new(&broadcast, &visit, hold_ns),
            visit,
            broadcast,
            hold_ns,
            pending: VecDeque::new(),
            misplaced: 0,
            placed_ns: None,
            undescribed_ns: None,
        };
        client.plan(now_ns);
        // It listens at once, and so knows the clock of the sender early.
        let first = client.visit.tunings.first().map(|tuning| tuning.channel as usize);
        if let Some(first) = first.and_then(|first| client.channels.get_mut(first)) {
            first.from_unix_ns = 0;
        }
        client
    }

    /// The broadcast.
    #[must_use]
    pub fn broadcast(&self) -> &Broadcast {
        &self.broadcast
    }

    /// What it receives and plays when.
    #[must_use]
    pub fn visit(&self) -> &Visit {
        &self.visit
    }

    /// How long it is until it plays.
    #[must_use]
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        self.broadcast.slot_starts_ns(self.visit.arrival_slot + 1).saturating_sub(self.sender_unix_ns(now_ns))
    }

    /// What is known of the clock of the sender.
    #[must_use]
    pub fn sender_time(&self) -> SenderTime {
        self.clock.time()
    }

    /// The next channel that is joined or left now.
    pub fn tune(&mut self, now_ns: u64) -> Option<Tune> {
        let unix_ns = self.sender_unix_ns(now_ns);
        self.channels.iter_mut().enumerate().find_map(|(number, channel)| {
            let is_wanted = (channel.from_unix_ns..channel.until_unix_ns).contains(&unix_ns);
            let change = is_wanted != channel.is_joined;
            channel.is_joined = is_wanted;
            change.then_some(if is_wanted { Tune::Join(number) } else { Tune::Leave(number) })
        })
    }

    /// Takes a datagram that arrived at a port of a channel. The times of calls do not decrease.
    pub fn push(&mut self, channel: usize, port: Port, bytes: &[u8], from: SocketAddr, at_ns: u64) {
        let unix_ns = self.zero_unix_ns.saturating_add(at_ns);
        let Some(receiver) = self.channels.get_mut(channel).map(|channel| &mut channel.receiver) else {
            return;
        };
        let before = receiver.counts();
        receiver.push(port, bytes, from, at_ns);
        if receiver.counts().undescribed > before.undescribed {
            self.undescribed_ns.get_or_insert(at_ns);
        }
        if let (None, Some((report, arrived_ns))) = (self.ahead_ns, receiver.take_report()) {
            let unix_ns = unix_ns - (at_ns - arrived_ns.min(at_ns));
            self.clock.report(&self.broadcast, channel, &report, unix_ns);
        }
    }

    /// Nothing more has arrived until now.
    pub fn advance(&mut self, now_ns: u64) {
        for (number, channel) in self.channels.iter_mut().enumerate() {
            channel.receiver.advance(now_ns);
            while let Some(payload) = channel.receiver.next(now_ns) {
                if self.ahead_ns.is_none() {
                    let unix_ns = self.zero_unix_ns.saturating_add(payload.arrival_ns);
                    self.clock.packet(&self.broadcast, number, payload.time_stamp, unix_ns);
                }
                if self.pending.len() >= PENDING_PACKETS_MAX {
                    self.pending.pop_front();
                    self.misplaced += 1;
                }
                self.pending.push_back((number, payload));
            }
        }
        if let (None, SenderTime::Known(ahead_ns)) = (self.ahead_ns, self.clock.time()) {
            self.ahead_ns = Some(ahead_ns);
            if ahead_ns.unsigned_abs() > CLOCK_KEEPS_NS {
                self.plan(now_ns);
            }
        }
    }

    /// The next packet that is to be kept.
    pub fn next_kept(&mut self) -> Option<Kept> {
        let ahead_ns = self.ahead_ns?;
        while let Some((channel, payload)) = self.pending.pop_front() {
            let arrived_ns =
                self.zero_unix_ns.saturating_add(payload.arrival_ns).saturating_add_signed(ahead_ns);
            let symbol = self.broadcast.symbol_of(channel, payload.time_stamp, arrived_ns);
            match symbol {
                Ok(symbol) if payload.bytes.len() == SYMBOL_BYTES => {
                    self.placed_ns = self.placed_ns.max(Some(payload.arrival_ns));
                    if self.assembly.arrived(symbol) {
                        return Some(Kept { symbol, bytes: payload.bytes });
                    }
                }
                _ => self.misplaced += 1,
            }
        }
        None
    }

    /// What is played next, at most so many packets.
    pub fn play(&mut self, now_ns: u64, most: u64) -> Played {
        let unix_ns = self.sender_unix_ns(now_ns);
        if self.ahead_ns.is_some() { self.assembly.next(unix_ns, most) } else { Played::Wait }
    }

    /// What is played at the end, when nothing more arrives: what is there, up to the first packet
    /// that is missing.
    pub fn play_last(&mut self, most: u64) -> Played {
        self.assembly.next_of_last(most)
    }

    /// Whether a channel that is received has said goodbye.
    #[must_use]
    pub fn has_ended(&self, now_ns: u64) -> bool {
        self.channels.iter().any(|channel| channel.is_joined && channel.receiver.has_ended(now_ns))
    }

    /// Whether packets are to arrive now: a channel is received that sends.
    #[must_use]
    pub fn expects(&self, now_ns: u64) -> bool {
        let unix_ns = self.sender_unix_ns(now_ns);
        let sends =
            |(number, channel): (usize, &Channel)| channel.is_joined && self.broadcast.sends(number, unix_ns);
        self.ahead_ns.is_none() || self.channels.iter().enumerate().any(sends)
    }

    /// Whether only packets of other broadcasts arrive, so that the description is out of date.
    #[must_use]
    pub fn is_outdated(&self, now_ns: u64) -> bool {
        let counts = self.counts();
        let lasts = self.undescribed_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) >= UNDESCRIBED_NS);
        counts.received == 0 && counts.undescribed >= UNDESCRIBED_PACKETS && lasts
    }

    /// What all channels have counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let counts = self.channels.iter().map(|channel| channel.receiver.counts());
        counts.reduce(Counts::and).unwrap_or_default()
    }

    /// Packets that have no place in the title, or are far from it.
    #[must_use]
    pub fn misplaced(&self) -> u64 {
        self.misplaced
    }

    /// When the last packet arrived that has a place in the title.
    #[must_use]
    pub fn placed_ns(&self) -> Option<u64> {
        self.placed_ns
    }

    /// Packets of the title that have arrived.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.assembly.count()
    }

    /// Joins with the next slot of the sender.
    fn plan(&mut self, now_ns: u64) {
        let slot = self.broadcast.slot_from(self.sender_unix_ns(now_ns).saturating_add(JOIN_NS));
        self.visit = self.broadcast.visit(slot);
        self.assembly.plays(&self.broadcast, &self.visit);
        for (number, channel) in (0..).zip(&mut self.channels) {
            let tunings = || self.visit.tunings.iter().filter(move |tuning| tuning.channel == number);
            let from = tunings().map(|tuning| self.broadcast.slot_starts_ns(tuning.from_slot)).min();
            let until = tunings().map(|tuning| self.broadcast.slot_starts_ns(tuning.until_slot)).max();
            channel.from_unix_ns = match channel.is_joined {
                true => 0,
                false => from.map_or(u64::MAX, |from_ns| from_ns.saturating_sub(JOIN_NS)),
            };
            // What is repaired last arrives a little later.
            channel.until_unix_ns =
                until.map_or(0, |until_ns| until_ns.saturating_add(self.hold_ns + JOIN_NS));
        }
    }

    /// The time of day of the sender.
    fn sender_unix_ns(&self, now_ns: u64) -> u64 {
        self.zero_unix_ns.saturating_add(now_ns).saturating_add_signed(self.ahead_ns.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broadcast::tests::{MATRIX, broadcast, stamp};
    use reel_rtp::rtcp::{Cname, SenderReport, write_goodbye};
    use reel_rtp::{HEADER_BYTES, HeaderTemplate, NtpTime};

    const MS: u64 = 1_000_000;
    const SLOT: u64 = 1_900_000_123;

    fn from() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 5000))
    }

    /// A client that starts with a slot.
    fn client() -> BroadcastClient {
        let broadcast = broadcast("rfs", 9, 1_000 * MS, 5);
        let plan = Plan::from_url("rtp://239.1.1.1:5000").expect("an address");
        let zero_unix_ns = broadcast.slot_starts_ns(SLOT);
        let mut client = BroadcastClient::new(broadcast, vec![plan; 3], zero_unix_ns, 0);
        assert_eq!((client.tune(0), client.tune(0)), (Some(Tune::Join(0)), None));
        client
    }

    /// Packets of channel 0 in a slot, which leaves 2 ms between them, from a source.
    fn send(client: &mut BroadcastClient, slot: u64, ssrc: u32, from_ns: u64) -> u64 {
        for number in 0..50 {
            let mut header = [0; HEADER_BYTES];
            let time_stamp = stamp(&client.broadcast, 0, slot, number, 6 * MATRIX);
            let sequence = (slot as u16).wrapping_mul(400).wrapping_add(number as u16);
            HeaderTemplate::mp2t(ssrc).write(sequence, time_stamp, false, &mut header);
            let payload = [0x47; SYMBOL_BYTES];
            let at_ns = from_ns + number * 2_083_333;
            client.push(0, Port::Media, &[&header[..], &payload].concat(), from(), at_ns);
            client.advance(at_ns);
        }
        std::iter::from_fn(|| client.next_kept()).count() as u64
    }

    #[test]
    fn packets_of_another_broadcast_are_never_kept_and_make_the_description_outdated() {
        let mut client = client();
        assert_eq!(send(&mut client, SLOT, 77, 0), 0);
        assert!(!client.is_outdated(1_999 * MS) && client.is_outdated(2_000 * MS));
        assert_eq!((client.counts().undescribed, client.counts().received), (50, 0));
        assert_eq!(client.sender_time(), SenderTime::Unknown);
        // Those of the description arrive after all.
        assert_eq!(send(&mut client, SLOT + 3, 0, 3_000 * MS), 50);
        assert!(!client.is_outdated(9_000 * MS));
    }

    /// A server that begins again with another time of day sends other slots at this time.
    #[test]
    fn packets_far_from_their_places_are_counted_and_are_no_sign_of_life() {
        let mut client = client();
        assert_eq!(send(&mut client, SLOT, 0, 0), 50);
        assert!(matches!(client.sender_time(), SenderTime::Known(ahead_ns) if ahead_ns.abs() < 1_000_000));
        let placed_ns = client.placed_ns();
        assert!(placed_ns.is_some_and(|placed_ns| placed_ns > 100 * MS));
        assert_eq!(send(&mut client, SLOT + 61, 0, 1_000 * MS), 0);
        assert_eq!((client.misplaced(), client.placed_ns()), (50, placed_ns));
        // A clock that was set by a few seconds is followed, and each packet has its place.
        assert_eq!(send(&mut client, SLOT - 3, 0, 2_000 * MS), 0, "they are there already");
        assert_eq!((client.misplaced(), client.placed_ns() > placed_ns), (50, true));
    }

    #[test]
    fn a_goodbye_of_a_described_source_ends_it() {
        let mut client = client();
        assert_eq!(send(&mut client, SLOT, 0, 0), 50);
        let goodbye = |ssrc| {
            let report = SenderReport { ssrc, time: NtpTime(0), time_stamp: 0, packets: 0, payload_bytes: 0 };
            let mut bytes = Vec::new();
            write_goodbye(&report, &Cname::new("a@b").expect("a name"), &mut bytes);
            bytes
        };
        client.push(0, Port::Rtcp, &goodbye(77), from(), 200 * MS);
        assert!(!client.has_ended(900 * MS));
        client.push(0, Port::Rtcp, &goodbye(0), from(), 900 * MS);
        assert!(!client.has_ended(901 * MS) && client.has_ended(1_500 * MS));
    }

    #[test]
    fn nothing_is_expected_between_the_slots() {
        let mut client = client();
        assert!(client.expects(900 * MS), "the clock of the sender is not known");
        assert_eq!(send(&mut client, SLOT, 0, 0), 50);
        assert!(client.expects(800 * MS) && !client.expects(900 * MS) && client.expects(1_100 * MS));
    }
}
