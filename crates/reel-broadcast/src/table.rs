//! What one channel sends in each slot.

/// The table of a channel: periodic, and kept as rules, because the slots of a period can be more
/// than any memory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Table {
    /// Consecutive segments in turn.
    Loop {
        /// The first segment.
        first: u32,
        /// How many segments.
        segments: u32,
        /// Slots of a round; nothing is sent in those beyond `segments`.
        period: u32,
        /// A slot in which the first segment is sent, below `period`.
        offset: u32,
    },
    /// Segments with a period each, none in the slot of another, by segment.
    Split(Vec<Repeat>),
}

/// A segment is sent in every slot t with t mod `period` = `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// The segment, from 1.
    pub segment: u32,
    /// Slots from one sending to the next.
    pub period: u32,
    /// The first slot, below `period`.
    pub offset: u32,
}

impl Table {
    /// The segment that is sent in a slot; `None` if nothing is.
    pub fn segment_at(&self, slot: u64) -> Option<u32> {
        match self {
            Table::Loop { first, segments, period, offset } => {
                let place = behind(slot, *period, *offset);
                (place < *segments).then(|| first + place)
            }
            Table::Split(repeats) => repeats
                .iter()
                .find(|repeat| slot % u64::from(repeat.period) == u64::from(repeat.offset))
                .map(|repeat| repeat.segment),
        }
    }

    /// All segments of the channel with their periods, by segment.
    pub fn repeats(&self) -> impl Iterator<Item = Repeat> + '_ {
        let (in_turn, split) = match self {
            Table::Loop { first, segments, period, offset } => {
                let repeat = move |place| Repeat {
                    segment: first + place,
                    period: *period,
                    offset: (offset + place) % period,
                };
                (Some((0..*segments).map(repeat)), None)
            }
            Table::Split(repeats) => (None, Some(repeats.iter().copied())),
        };
        in_turn.into_iter().flatten().chain(split.into_iter().flatten())
    }
}

impl Repeat {
    /// The first slot, not before `from_slot`, in which the segment is sent.
    pub fn slot_from(&self, from_slot: u64) -> u64 {
        let passed = behind(from_slot, self.period, self.offset);
        match passed {
            0 => from_slot,
            _ => from_slot + u64::from(self.period - passed),
        }
    }

    /// How often the segment is sent in the slots before this one.
    pub fn sendings_before(&self, slot: u64) -> u64 {
        let (period, offset) = (u64::from(self.period), u64::from(self.offset));
        slot.saturating_sub(offset).div_ceil(period.max(1))
    }
}

/// How many slots `slot` is behind the last one that is `offset` modulo `period`.
fn behind(slot: u64, period: u32, offset: u32) -> u32 {
    // Below `period`, so it fits.
    ((slot % u64::from(period) + u64::from(period - offset)) % u64::from(period)) as u32
}
