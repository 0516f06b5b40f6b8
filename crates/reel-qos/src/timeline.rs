//! One number per round, in a ring over absolute rounds.

/// What is reserved of one resource in each round of a window as long as the ring. The owner keeps
/// to one window at a time: the rounds that leave it are cleared before their cells stand for
/// rounds that enter it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    cells: Vec<u64>,
}

/// How many cells are tested together before single ones are.
const TOGETHER: usize = 64;

impl Timeline {
    /// `rounds` cells of nothing; at least one. Zeroed memory costs nothing until it is written.
    pub(crate) fn new(rounds: usize) -> Timeline {
        Timeline { cells: vec![0; rounds.max(1)] }
    }

    /// How many rounds the window has.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// What is reserved in a round of the window.
    pub(crate) fn at(&self, round: u64) -> u64 {
        self.cells[self.cell(round)]
    }

    /// The cells of `len` rounds from `start` on, in the two pieces into which the ring cuts them.
    pub(crate) fn pieces(&self, start: u64, len: usize) -> [&[u64]; 2] {
        let cell = self.cell(start);
        let first = len.min(self.cells.len() - cell);
        [&self.cells[cell..cell + first], &self.cells[..len - first]]
    }

    /// Adds what a reservation costs in the rounds from `start` on.
    pub(crate) fn add(&mut self, start: u64, costs: &[u64]) {
        self.each(start, costs, |used, cost| *used += cost);
    }

    /// Takes away what was added.
    pub(crate) fn subtract(&mut self, start: u64, costs: &[u64]) {
        self.each(start, costs, |used, cost| *used -= cost);
    }

    /// Clears `len` rounds; all of them if there are fewer.
    pub(crate) fn clear(&mut self, start: u64, len: usize) {
        let len = len.min(self.cells.len());
        let cell = self.cell(start);
        let first = len.min(self.cells.len() - cell);
        self.cells[cell..cell + first].fill(0);
        self.cells[..len - first].fill(0);
    }

    /// The first place from `start` on where these costs do not fit, as an index of `costs`.
    pub(crate) fn conflict(&self, start: u64, costs: &[u64], capacity: u64) -> Option<usize> {
        let [first, second] = self.pieces(start, costs.len());
        let (before, after) = costs.split_at(first.len());
        conflict_in(first, before, capacity)
            .or_else(|| conflict_in(second, after, capacity).map(|index| first.len() + index))
    }

    /// Calls `each` with an index, what is used and the cost. (A loop over each piece: a chained
    /// iterator over both is not compiled to good code.)
    pub(crate) fn beside(&self, start: u64, costs: &[u64], mut each: impl FnMut(usize, u64, u64)) {
        let [first, second] = self.pieces(start, costs.len());
        let (before, after) = costs.split_at(first.len());
        for (index, (&used, &cost)) in first.iter().zip(before).enumerate() {
            each(index, used, cost);
        }
        for (index, (&used, &cost)) in second.iter().zip(after).enumerate() {
            each(first.len() + index, used, cost);
        }
    }

    fn each(&mut self, start: u64, costs: &[u64], apply: impl Fn(&mut u64, u64)) {
        let cell = self.cell(start);
        let (before, after) = costs.split_at(costs.len().min(self.cells.len() - cell));
        self.cells[cell..].iter_mut().zip(before).for_each(|(used, &cost)| apply(used, cost));
        self.cells.iter_mut().zip(after).for_each(|(used, &cost)| apply(used, cost));
    }

    fn cell(&self, round: u64) -> usize {
        (round % self.cells.len() as u64) as usize
    }
}

/// Whether a cost does not fit beside what is used. A cost of 0 fits even where resources are
/// overcommitted.
pub(crate) const fn exceeds(cost: u64, used: u64, capacity: u64) -> bool {
    cost > capacity.saturating_sub(used)
}

/// Sums and capacities are below 2^63 (see [`crate::limits::ROUND_COST_MAX`]), so the highest bit
/// of a difference is its sign. The signs of many cells are collected without a branch, and only a
/// group with a negative one is tested again.
fn conflict_in(used: &[u64], costs: &[u64], capacity: u64) -> Option<usize> {
    for (group, (used, costs)) in used.chunks(TOGETHER).zip(costs.chunks(TOGETHER)).enumerate() {
        let signs = used
            .iter()
            .zip(costs)
            .fold(0, |signs, (&used, &cost)| signs | capacity.wrapping_sub(used.wrapping_add(cost)));
        if signs >> 63 == 1 {
            let place = used.iter().zip(costs).position(|(&used, &cost)| exceeds(cost, used, capacity));
            if let Some(place) = place {
                return Some(group * TOGETHER + place);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_stands_for_absolute_rounds() {
        let mut timeline = Timeline::new(10);
        timeline.add(107, &[1, 2, 3, 4, 5]);
        assert_eq!((107..112).map(|round| timeline.at(round)).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(timeline.pieces(108, 4), [&[2, 3][..], &[4, 5][..]]);
        timeline.subtract(109, &[3, 4]);
        timeline.clear(107, 1);
        assert_eq!((107..117).map(|round| timeline.at(round)).sum::<u64>(), 2 + 5);
    }

    #[test]
    fn the_first_conflict_is_found_in_any_piece_and_group() {
        for place in 0..300_u64 {
            let mut timeline = Timeline::new(300);
            timeline.add(1000 + place, &[8]);
            let costs = vec![3; 300];
            assert_eq!(timeline.conflict(1000, &costs, 10), Some(place as usize), "{place}");
            assert_eq!(timeline.conflict(1000, &costs, 11), None);
        }
    }

    #[test]
    fn a_cost_of_zero_fits_under_overcommitment() {
        let mut timeline = Timeline::new(4);
        timeline.add(0, &[9, 9, 9, 9]);
        assert_eq!(timeline.conflict(0, &[0, 0, 0, 1], 5), Some(3));
        assert_eq!(timeline.conflict(0, &[0, 0, 0], 5), None);
    }
}
