/// A heap of slots ordered by (key, order of arrival), from which any slot can be removed.
///
/// It is a binary heap in a vector, with a table of each slot's position. Every change is O(log n)
/// without a search, and none allocates once the vectors have grown.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    nodes: Vec<Node>,
    /// By slot: the position of its node, or `NOWHERE`.
    positions: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    /// Order of arrival, among equal keys.
    order: u64,
    slot: u32,
}

const NOWHERE: u32 = u32::MAX;

impl Heap {
    /// The slot with the least key.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        self.nodes.first().map(|node| (node.key, node.slot))
    }

    pub(crate) fn push(&mut self, key: u64, order: u64, slot: u32) {
        let index = slot as usize;
        if self.positions.len() <= index {
            self.positions.resize(index + 1, NOWHERE);
        }
        debug_assert_eq!(self.positions[index], NOWHERE, "a slot is in a heap once");
        self.nodes.push(Node { key, order, slot });
        self.up(self.nodes.len() - 1);
    }

    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.positions.get(slot as usize).is_some_and(|position| *position != NOWHERE)
    }

    /// Removes a slot, if the heap holds it.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        let Some(&position) = self.positions.get(slot as usize).filter(|position| **position != NOWHERE)
        else {
            return false;
        };
        let position = position as usize;
        self.positions[slot as usize] = NOWHERE;
        self.nodes.swap_remove(position);
        if position < self.nodes.len() {
            // The last node was moved here; it may belong higher or lower.
            let position = self.up(position);
            self.down(position);
        }
        true
    }

    /// The least key among slots for which `fits` is true, with its slot.
    ///
    /// A depth-first walk that skips everything below a node that fits or has a key of `limit` or
    /// more, because children are never less than their parent.
    pub(crate) fn least_where(&self, limit: u64, fits: impl Fn(u32) -> bool) -> Option<(u64, u32)> {
        let mut best = None;
        self.search(0, limit, &fits, &mut best);
        best
    }

    fn search(&self, at: usize, limit: u64, fits: &impl Fn(u32) -> bool, best: &mut Option<(u64, u32)>) {
        let Some(node) = self.nodes.get(at) else { return };
        if node.key >= best.map_or(limit, |(key, _)| key) {
            return;
        }
        if fits(node.slot) {
            *best = Some((node.key, node.slot));
            return;
        }
        self.search(2 * at + 1, limit, fits, best);
        self.search(2 * at + 2, limit, fits, best);
    }

    fn up(&mut self, mut at: usize) -> usize {
        let node = self.nodes[at];
        while at > 0 && node.before(&self.nodes[(at - 1) / 2]) {
            self.put((at - 1) / 2, at);
            at = (at - 1) / 2;
        }
        self.nodes[at] = node;
        self.positions[node.slot as usize] = at as u32;
        at
    }

    fn down(&mut self, mut at: usize) {
        let node = self.nodes[at];
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(child) = self.nodes.get(left) else { break };
            let least = match self.nodes.get(right) {
                Some(other) if other.before(child) => right,
                _ => left,
            };
            if !self.nodes[least].before(&node) {
                break;
            }
            self.put(least, at);
            at = least;
        }
        self.nodes[at] = node;
        self.positions[node.slot as usize] = at as u32;
    }

    fn put(&mut self, from: usize, to: usize) {
        let node = self.nodes[from];
        self.nodes[to] = node;
        self.positions[node.slot as usize] = to as u32;
    }
}

impl Node {
    fn before(&self, other: &Node) -> bool {
        (self.key, self.order) < (other.key, other.order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a sorted list: the same first slot and the same least slot that fits,
        /// after any mix of pushes and removals.
        #[test]
        fn a_heap_is_a_sorted_list(moves in prop::collection::vec((0_u64..20, 0_u32..12), 1..80), limit in 0_u64..25) {
            let mut heap = Heap::default();
            let mut list: Vec<(u64, u64, u32)> = Vec::new();
            for (order, (key, slot)) in moves.into_iter().enumerate() {
                let was_in = list.iter().any(|entry| entry.2 == slot);
                prop_assert_eq!(heap.remove(slot), was_in);
                list.retain(|entry| entry.2 != slot);
                if !was_in {
                    heap.push(key, order as u64, slot);
                    list.push((key, order as u64, slot));
                    list.sort_unstable();
                }
                prop_assert_eq!(heap.first(), list.first().map(|&(key, _, slot)| (key, slot)));
                let odd = |slot: u32| slot % 2 == 1;
                let least = list.iter().find(|entry| odd(entry.2) && entry.0 < limit).map(|entry| entry.0);
                prop_assert_eq!(heap.least_where(limit, odd).map(|(key, _)| key), least);
            }
        }
    }
}
