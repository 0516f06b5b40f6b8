//! The packets of a broadcast title on one client: what has arrived, and what is played when. Pure.

use std::ops::Range;

use reel_broadcast::Visit;

use crate::broadcast::Broadcast;

/// The packets of a title that have arrived, and those that are to be played next.
#[derive(Debug)]
pub struct Assembly {
    /// A bit for each packet.
    present: Vec<u64>,
    symbols: u64,
    arrived: u64,
    next: u64,
    /// The first packet of each segment that is played, in order, and the time of day from which on
    /// it is played, in nanoseconds since 1970.
    played: Vec<(u64, u64)>,
    grace_ns: u64,
}

/// What is played next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Played {
    /// These packets, which have arrived.
    Arrived(Range<u64>),
    /// These are given up: null packets take their places.
    Missing(Range<u64>),
    /// Nothing yet.
    Wait,
    /// The title has ended.
    End,
}

impl Assembly {
    /// A title for a client that joins with a slot. What is missing is given up `grace_ns` after
    /// its segment is due. A segment that is complete is played when it is due.
    #[must_use]
    pub fn new(broadcast: &Broadcast, visit: &Visit, grace_ns: u64) -> Assembly {
        let symbols = broadcast.symbols();
        // Fits: the description has bounded them.
        let present = vec![0; usize::try_from(symbols.div_ceil(64)).unwrap_or(0)];
        let mut assembly = Assembly { present, symbols, arrived: 0, next: 0, played: Vec::new(), grace_ns };
        assembly.plays(broadcast, visit);
        assembly
    }

    /// The client joins with another slot. What has arrived stays.
    pub fn plays(&mut self, broadcast: &Broadcast, visit: &Visit) {
        let played = visit.segments.iter().filter_map(|times| {
            let first = broadcast.segment_symbols(times.segment)?.start;
            Some((first, broadcast.slot_starts_ns(times.played_slot)))
        });
        self.played = played.collect();
    }

    /// A packet has arrived. `false` if it was there already, or is not needed any more.
    pub fn arrived(&mut self, symbol: u64) -> bool {
        if symbol < self.next || symbol >= self.symbols || self.has(symbol) {
            return false;
        }
        self.present[symbol as usize / 64] |= 1 << (symbol % 64);
        self.arrived += 1;
        true
    }

    /// How many packets have arrived.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.arrived
    }

    /// What is played next, at most so many packets; it leaves the assembly.
    pub fn next(&mut self, unix_ns: u64, most: u64) -> Played {
        if self.next >= self.symbols {
            return Played::End;
        }
        if !self.has_begun(unix_ns) {
            return Played::Wait;
        }
        let is_present = self.has(self.next);
        let end = self.run_end(most);
        let end = if is_present { end } else { end.min(self.given_up(unix_ns)) };
        if end <= self.next {
            return Played::Wait;
        }
        let range = self.next..end;
        self.next = end;
        if is_present { Played::Arrived(range) } else { Played::Missing(range) }
    }

    /// What has arrived up to the next packet that is missing, without waiting until it is due:
    /// nothing more arrives. [`Played::Wait`] at that packet.
    pub fn next_of_last(&mut self, most: u64) -> Played {
        if self.next >= self.symbols {
            return Played::End;
        }
        if !self.has(self.next) {
            return Played::Wait;
        }
        let range = self.next..self.run_end(most);
        self.next = range.end;
        Played::Arrived(range)
    }

    fn has(&self, symbol: u64) -> bool {
        self.present.get(symbol as usize / 64).is_some_and(|bits| bits >> (symbol % 64) & 1 == 1)
    }

    /// The end of the packets from the next one on that are all there, or all missing.
    fn run_end(&self, most: u64) -> u64 {
        let is_present = self.has(self.next);
        let last = self.symbols.min(self.next.saturating_add(most));
        (self.next..last).find(|symbol| self.has(*symbol) != is_present).unwrap_or(last)
    }

    /// Whether playing has begun: when the first segment is due and complete. If it is not, what is
    /// missing is waited for, so that playing is not interrupted at once.
    fn has_begun(&self, unix_ns: u64) -> bool {
        let Some((_, from_ns)) = self.played.first() else { return false };
        let second = self.played.get(1).map_or(self.symbols, |(first, _)| *first);
        let is_complete = || (0..second).all(|symbol| self.has(symbol));
        let is_given_up = from_ns.saturating_add(self.grace_ns) <= unix_ns;
        self.next > 0 || is_given_up || (*from_ns <= unix_ns && is_complete())
    }

    /// The end of the segments whose time to wait for missing packets is over: these are given up.
    fn given_up(&self, unix_ns: u64) -> u64 {
        let is_over = |from_ns: u64| from_ns.saturating_add(self.grace_ns) <= unix_ns;
        let begun = self.played.iter().take_while(|(_, from_ns)| is_over(*from_ns)).count();
        self.played.get(begun).map_or(self.symbols, |(first, _)| *first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broadcast::tests::broadcast;
    use proptest::prelude::*;

    proptest! {
        /// A client that joins at any slot plays the whole title in order, and nothing late.
        #[test]
        fn a_client_has_each_packet_when_it_is_played(slot in 0_u64..100, scheme in 0..3_usize) {
            let scheme = ["rfs", "fast", "skyscraper-12"][scheme];
            let broadcast = broadcast(scheme, 12, 1_000_000_000, 5);
            let visit = broadcast.visit(slot);
            let mut assembly = Assembly::new(&broadcast, &visit, 0);
            let mut played = 0;
            for now in slot..slot + 14 {
                // What arrived in the slot before is there.
                for times in visit.segments.iter().filter(|times| times.received_slot + 1 == now) {
                    let symbols = broadcast.segment_symbols(times.segment).expect("one");
                    symbols.for_each(|symbol| { assembly.arrived(symbol); });
                }
                loop {
                    match assembly.next(broadcast.slot_starts_ns(now), 100) {
                        Played::Arrived(range) => {
                            prop_assert_eq!(range.start, played);
                            played = range.end;
                        }
                        Played::Missing(range) => prop_assert!(false, "{:?} is missing", range),
                        Played::Wait | Played::End => break,
                    }
                }
            }
            prop_assert_eq!(played, broadcast.symbols());
        }
    }

    #[test]
    fn what_does_not_come_is_given_up_when_its_segment_is_played() {
        let broadcast = broadcast("fast", 3, 1_000_000_000, 0);
        let visit = broadcast.visit(0);
        let mut assembly = Assembly::new(&broadcast, &visit, 0);
        let all = broadcast.symbols();
        (0..all).filter(|symbol| *symbol != 7 && *symbol < 400).for_each(|symbol| {
            assert!(assembly.arrived(symbol) && !assembly.arrived(symbol));
        });
        let first_ns = broadcast.slot_starts_ns(visit.segments[0].played_slot);
        assert_eq!(assembly.next(first_ns - 1, 1000), Played::Wait);
        assert_eq!(assembly.next(first_ns, 1000), Played::Arrived(0..7));
        assert_eq!(assembly.next(first_ns, 1000), Played::Missing(7..8));
        assert!(!assembly.arrived(7), "it is not needed any more");
        assert_eq!(assembly.next(first_ns, 1000), Played::Arrived(8..400));
        assert_eq!(assembly.next(first_ns, 1000), Played::Wait, "the second segment");
        let last_ns = broadcast.slot_starts_ns(10);
        assert_eq!(assembly.next(last_ns, 2000), Played::Missing(400..all));
        assert_eq!(assembly.next(last_ns, 1000), Played::End);
    }

    #[test]
    fn at_the_end_what_has_arrived_is_played_up_to_the_first_gap() {
        let broadcast = broadcast("fast", 3, 1_000_000_000, 0);
        let mut assembly = Assembly::new(&broadcast, &broadcast.visit(0), 0);
        (0..300).filter(|symbol| *symbol != 200).for_each(|symbol| {
            assembly.arrived(symbol);
        });
        assert_eq!(assembly.next_of_last(150), Played::Arrived(0..150));
        assert_eq!(assembly.next_of_last(150), Played::Arrived(150..200));
        assert_eq!((assembly.next_of_last(150), assembly.count()), (Played::Wait, 299));
        (200..broadcast.symbols()).for_each(|symbol| {
            assembly.arrived(symbol);
        });
        assert_eq!(assembly.next_of_last(u64::MAX), Played::Arrived(200..broadcast.symbols()));
        assert_eq!(assembly.next_of_last(1), Played::End);
    }
}
