/// Which bytes of a producer's own memory are in use: a ring, in which each message lies in one
/// piece. Pure.
#[derive(Clone, Copy, Debug)]
pub struct RingSpace {
    bytes: u64,
    /// Bytes handed out so far, and given back so far.
    taken: u64,
    freed: u64,
}

/// A place in a [`RingSpace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// The offset of the message.
    pub at: u64,
    /// What is to be given back for it: its bytes, and those left out before it.
    pub taken: u64,
}

impl RingSpace {
    /// A ring of so many bytes, all of which are free.
    pub fn new(bytes: u64) -> RingSpace {
        RingSpace { bytes, taken: 0, freed: 0 }
    }

    /// Takes a place for a message; `None` if there is no room for it now.
    pub fn take(&mut self, bytes: u64) -> Option<RingPlace> {
        let at = self.taken % self.bytes;
        // A message that does not fit before the end lies at the beginning.
        let left_out = if at + bytes > self.bytes { self.bytes - at } else { 0 };
        let taken = left_out + bytes;
        if self.taken - self.freed + taken > self.bytes {
            return None;
        }
        self.taken += taken;
        Some(RingPlace { at: (at + left_out) % self.bytes, taken })
    }

    /// The oldest messages, which took so many bytes, were read.
    pub fn give_back(&mut self, taken: u64) {
        self.freed += taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// No two messages in use share a byte, and each lies within the ring.
        #[test]
        fn messages_lie_apart(
            ring in 1..200_u64,
            steps in prop::collection::vec((1..220_u64, 0..4_usize), 1..200),
        ) {
            let mut space = RingSpace::new(ring);
            let mut held: VecDeque<(RingPlace, u64)> = VecDeque::new();
            for (bytes, reads) in steps {
                if let Some(place) = space.take(bytes) {
                    prop_assert!(place.at + bytes <= ring);
                    let apart = |other: &(RingPlace, u64)| {
                        place.at + bytes <= other.0.at || other.0.at + other.1 <= place.at
                    };
                    prop_assert!(held.iter().all(apart));
                    held.push_back((place, bytes));
                }
                for _ in 0..reads.min(held.len()) {
                    let (place, _) = held.pop_front().expect("held");
                    space.give_back(place.taken);
                }
                if held.is_empty() && bytes <= ring {
                    // What was left out before the end may stand in the way once.
                    let place = space.take(bytes).or_else(|| space.take(1));
                    if let Some(place) = place {
                        space.give_back(place.taken);
                    }
                }
            }
        }
    }
}
