//! Assigns time stamps to frames: a stamp belongs to the first frame that begins in the PES packet
//! that carries it (ISO 13818-1 section 2.4.3.7).

use super::pes::Stamps;
use crate::limits;
use std::collections::VecDeque;

/// Time stamps by the position in the elementary stream at which their PES packets begin.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    waiting: VecDeque<(u64, Stamps)>,
}

impl Marks {
    /// A PES packet with `stamps` begins at byte `place` of the elementary stream.
    pub(crate) fn add(&mut self, place: u64, stamps: Stamps) {
        if self.waiting.len() == limits::TS_PENDING_MARKS {
            self.waiting.pop_front();
        }
        self.waiting.push_back((place, stamps));
    }

    /// The stamps of a frame that begins at `place`: those of the latest packet that is not after
    /// it, if no earlier frame took them.
    pub(crate) fn take(&mut self, place: u64) -> Option<Stamps> {
        let mut found = None;
        while let Some((_, stamps)) = self.waiting.front().filter(|(at, _)| *at <= place) {
            found = Some(*stamps);
            self.waiting.pop_front();
        }
        found
    }
}
