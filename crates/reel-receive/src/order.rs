//! Packets in the order of their sequence numbers.

use std::collections::VecDeque;

use crate::limits::REORDER_NS;

/// The sequence number of a packet without wrap-around.
pub(crate) type Place = u64;

/// The place of sequence number 0 at the start: no place near it is below 0.
const PLACE_START: Place = 1 << 32;

/// How long a missing packet is waited for, and how much is kept meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hold {
    /// Packets that are kept.
    pub(crate) window_packets: u64,
    /// Packets after the missing one that may arrive before it is given up.
    pub(crate) packets: u64,
    /// Time that may pass from the arrival of a packet after it.
    pub(crate) ns: u64,
}

/// The packets from the next one to be given out to the newest one.
pub(crate) struct Order {
    hold: Hold,
    slots: Vec<Slot>,
    next: Place,
    /// The place after the highest one.
    end: Place,
    /// Places that were passed, oldest first, with the time when the packet after them arrived.
    gaps: VecDeque<Gap>,
}

/// One packet. The place 0 is that of none. A packet that was given out has no payload any more.
#[derive(Default)]
struct Slot {
    place: Place,
    /// When it was noticed to be missing, if it was repaired.
    repaired_ns: Option<u64>,
    held: Held,
}

struct Gap {
    end: Place,
    noticed_ns: u64,
}

/// A packet that waits for its turn.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) time_stamp: u32,
    pub(crate) is_repaired: bool,
    pub(crate) arrival_ns: u64,
    pub(crate) payload: Vec<u8>,
}

/// What became of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It waits for its turn.
    Taken,
    /// It was repaired and given out, and arrives after all: FEC has overtaken it.
    Overtaken,
    /// It was there already.
    Duplicate,
    /// It was given up, or repaired long before.
    Late,
}

/// What comes next in order.
#[derive(Debug)]
pub(crate) enum Popped {
    /// A packet.
    Packet(Held),
    /// A packet that was given up.
    Lost,
}

impl Order {
    pub(crate) fn new(hold: Hold) -> Order {
        let slots = (0..hold.window_packets).map(|_| Slot::default()).collect();
        Order { hold, slots, next: PLACE_START, end: PLACE_START, gaps: VecDeque::new() }
    }

    /// Forgets all packets; the next one to be given out has this sequence number.
    pub(crate) fn restart(&mut self, sequence: u16) {
        self.slots.iter_mut().for_each(|slot| *slot = Slot::default());
        self.gaps.clear();
        self.next = PLACE_START + u64::from(sequence);
        self.end = self.next;
    }

    /// How far a sequence number is behind (below 0) or ahead of the highest one.
    pub(crate) fn distance(&self, sequence: u16) -> i16 {
        sequence.wrapping_sub((self.end - 1) as u16).cast_signed()
    }

    /// The place with this sequence number that is nearest to the highest one.
    pub(crate) fn place(&self, sequence: u16) -> Place {
        (self.end - 1).wrapping_add_signed(self.distance(sequence).into())
    }

    /// Whether a packet at this place is near enough to the highest one: not a window ahead or
    /// behind.
    pub(crate) fn has_place(&self, place: Place) -> bool {
        let window = self.hold.window_packets;
        place < self.end - 1 + window && place + window > self.end - 1
    }

    /// When a packet that was passed was noticed to be missing. `None`: it was not passed.
    pub(crate) fn noticed_ns(&self, place: Place) -> Option<u64> {
        self.gaps.iter().find(|gap| place < gap.end).filter(|_| place < self.end).map(|gap| gap.noticed_ns)
    }

    /// Whether a packet at this place takes the memory of no other one that waits for its turn. If
    /// not, packets are to be popped before.
    pub(crate) fn has_room(&self, place: Place) -> bool {
        self.next >= self.end || place < self.next + self.hold.window_packets
    }

    /// Keeps a packet at a place that is near enough and has room.
    pub(crate) fn put(&mut self, place: Place, held: Held, now_ns: u64) -> Put {
        let at = self.index(place);
        if self.slots[at].place == place {
            return self.put_again(place, &held);
        }
        if place < self.next {
            return Put::Late;
        }
        if place > self.end {
            self.gaps.push_back(Gap { end: place, noticed_ns: now_ns });
        }
        self.end = self.end.max(place + 1);
        let repaired_ns = held.is_repaired.then_some(held.arrival_ns);
        self.slots[at] = Slot { place, repaired_ns, held };
        Put::Taken
    }

    /// Takes notice of a packet that is there already. One that was repaired and arrives soon was
    /// not lost.
    fn put_again(&mut self, place: Place, held: &Held) -> Put {
        let at = self.index(place);
        let Some(repaired_ns) = self.slots[at].repaired_ns.filter(|_| !held.is_repaired) else {
            return Put::Duplicate;
        };
        if held.arrival_ns.saturating_sub(repaired_ns) > REORDER_NS {
            return Put::Late;
        }
        self.slots[at].repaired_ns = None;
        self.slots[at].held.is_repaired = false;
        if place < self.next { Put::Overtaken } else { Put::Taken }
    }

    /// The next packet, if it is there or is given up.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<Popped> {
        if self.next >= self.end {
            return None;
        }
        let at = self.index(self.next);
        let is_there = self.slots[at].place == self.next;
        if !is_there && self.due_ns().is_some_and(|due_ns| due_ns > now_ns) {
            return None;
        }
        self.next += 1;
        while self.gaps.front().is_some_and(|gap| gap.end <= self.next) {
            self.gaps.pop_front();
        }
        Some(if is_there { Popped::Packet(std::mem::take(&mut self.slots[at].held)) } else { Popped::Lost })
    }

    /// When the next packet is given out or given up at the latest. `None`: it is not missed.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        if self.next >= self.end {
            return None;
        }
        let is_there = self.slots[self.index(self.next)].place == self.next;
        let is_passed = self.end - 1 - self.next > self.hold.packets;
        let noticed_ns = self.noticed_ns(self.next).filter(|_| !is_there && !is_passed);
        Some(noticed_ns.map_or(0, |noticed_ns| noticed_ns.saturating_add(self.hold.ns)))
    }

    fn index(&self, place: Place) -> usize {
        (place % self.hold.window_packets) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        let mut order = Order::new(Hold { window_packets: 128, packets: 20, ns: 1000 });
        order.restart(65_530);
        order
    }

    fn put(order: &mut Order, sequence: u16, now_ns: u64) -> Put {
        let place = order.place(sequence);
        assert!(order.has_place(place), "{sequence}");
        let held = Held { time_stamp: sequence.into(), ..Held::default() };
        order.put(place, held, now_ns)
    }

    /// Sequence numbers that are given out; `None` for those that are given up.
    fn take(order: &mut Order, now_ns: u64) -> Vec<Option<u32>> {
        let one = |popped| match popped {
            Popped::Packet(held) => Some(held.time_stamp),
            Popped::Lost => None,
        };
        std::iter::from_fn(|| order.pop(now_ns)).map(one).collect()
    }

    #[test]
    fn numbers_wrap_and_packets_are_put_in_order() {
        let mut order = order();
        for sequence in [65_530, 65_532, 65_531, 65_535, 0, 65_533, 1] {
            assert_eq!(put(&mut order, sequence, 5), Put::Taken);
        }
        assert_eq!(take(&mut order, 5), [65_530, 65_531, 65_532, 65_533].map(Some));
        assert_eq!(put(&mut order, 65_534, 6), Put::Taken);
        assert_eq!(take(&mut order, 6), [65_534, 65_535, 0, 1].map(Some));
        assert_eq!(put(&mut order, 0, 7), Put::Duplicate);
        assert_eq!(order.due_ns(), None);
    }

    #[test]
    fn each_missing_packet_is_given_up_in_its_time() {
        let mut order = order();
        put(&mut order, 65_530, 0);
        put(&mut order, 65_532, 10);
        put(&mut order, 65_534, 500);
        assert_eq!(take(&mut order, 1009), [Some(65_530)]);
        assert_eq!(order.due_ns(), Some(1010));
        assert_eq!(take(&mut order, 1010), [None, Some(65_532)]);
        assert_eq!(put(&mut order, 65_531, 1011), Put::Late);
        assert_eq!(order.due_ns(), Some(1500));
        assert_eq!(take(&mut order, 1500), [None, Some(65_534)]);
    }

    #[test]
    fn a_missing_packet_is_given_up_when_enough_others_came() {
        let mut order = order();
        put(&mut order, 65_530, 0);
        put(&mut order, 15, 0);
        assert_eq!(take(&mut order, 0), [Some(65_530)]);
        put(&mut order, 16, 0);
        assert_eq!(take(&mut order, 0), [None]);
    }

    #[test]
    fn far_places_are_not_taken() {
        let mut order = order();
        put(&mut order, 65_530, 0);
        for (sequence, is_near) in [(121, true), (122, false), (65_403, true), (65_402, false)] {
            assert_eq!(order.has_place(order.place(sequence)), is_near, "{sequence}");
        }
    }
}
