//! What waits in one class, and which request of it is next for a sweep.
//!
//! A choice asks many classes for their next request and takes one of them. So each class remembers
//! its answers. They stay right until the next request leaves, or the sweep goes back.

use std::cell::Cell;
use std::collections::BTreeSet;

/// (group, place in the order, id): an earlier group goes first.
pub(super) type Key = (u64, u64, u64);

/// (whether it is behind the sweep, place in the order, id): requests behind come after all before.
pub(super) type Turn = (bool, u64, u64);

/// Keys in their order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    keys: BTreeSet<Key>,
    first: Option<Key>,
    found: Cell<Option<Found>>,
}

/// The next request of a group for a sweep at a position.
#[derive(Clone, Copy, Debug)]
struct Found {
    group: u64,
    position: u64,
    turn: Turn,
}

impl Queue {
    pub(super) fn insert(&mut self, key: Key) {
        self.keys.insert(key);
        if self.first.is_none_or(|first| key < first) {
            self.first = Some(key);
        }
        if let Some(found) = self.found.get_mut() {
            found.insert_key(key);
        }
    }

    pub(super) fn remove(&mut self, key: Key) {
        self.keys.remove(&key);
        if self.first == Some(key) {
            self.first = self.keys.first().copied();
        }
        if self.found.get().is_some_and(|found| found.key() == key) {
            self.found.set(None);
        }
    }

    /// The first of the first group.
    pub(super) fn first(&self) -> Option<Key> {
        self.first
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The last one of a group before a place in the order.
    pub(super) fn last_before(&self, group: u64, rank: u64) -> Option<Key> {
        self.keys.range(..(group, rank, 0)).next_back().filter(|key| key.0 == group).copied()
    }

    /// The first of a group at or beyond the position, or else the first of it.
    pub(super) fn sweep(&self, group: u64, position: u64) -> Option<Turn> {
        if self.first.is_none_or(|(first, ..)| group < first) {
            return None;
        }
        let known = self.found.get().filter(|found| found.holds(group, position));
        let turn = match known {
            Some(found) => found.turn,
            None => self.look(group, position)?,
        };
        self.found.set(Some(Found { group, position, turn }));
        Some(turn)
    }

    fn look(&self, group: u64, position: u64) -> Option<Turn> {
        let first_from = |rank| self.keys.range((group, rank, 0)..).next().filter(|key| key.0 == group);
        let &(_, rank, id) = first_from(position).or_else(|| first_from(0))?;
        Some((rank < position, rank, id))
    }
}

impl Found {
    fn key(&self) -> Key {
        (self.group, self.turn.1, self.turn.2)
    }

    /// Whether it is also the answer for a sweep at this position: that is not before the old one,
    /// and not beyond the next request.
    fn holds(&self, group: u64, position: u64) -> bool {
        let (is_behind, rank, _) = self.turn;
        self.group == group && self.position <= position && (is_behind || position <= rank)
    }

    fn insert_key(&mut self, (group, rank, id): Key) {
        if group == self.group {
            self.turn = self.turn.min((rank < self.position, rank, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Key),
        /// The one of this number.
        Remove(usize),
        /// Takes the next one, as a scheduler does; the sweep continues behind it.
        Take,
        Look(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u64..4, 0_u64..30, 0_u64..5).prop_map(Step::Insert),
            1 => any::<usize>().prop_map(Step::Remove),
            3 => Just(Step::Take),
            3 => (0_u64..5, 0_u64..31).prop_map(|(group, position)| Step::Look(group, position)),
        ]
    }

    fn by_definition(keys: &BTreeSet<Key>, group: u64, position: u64) -> Option<Turn> {
        keys.iter().filter(|key| key.0 == group).map(|&(_, rank, id)| (rank < position, rank, id)).min()
    }

    proptest! {
        #[test]
        fn remembered_answers_are_those_of_the_definition(steps in proptest::collection::vec(step(), 1..200)) {
            let (mut queue, mut keys, mut position) = (Queue::default(), BTreeSet::new(), 0);
            for step in steps {
                match step {
                    Step::Insert(key) => {
                        keys.insert(key);
                        queue.insert(key);
                    }
                    Step::Remove(number) => {
                        let Some(&key) = keys.iter().nth(number % keys.len().max(1)) else { continue };
                        keys.remove(&key);
                        queue.remove(key);
                    }
                    Step::Take => {
                        let Some(&(group, ..)) = keys.first() else { continue };
                        let next = queue.sweep(group, position);
                        prop_assert_eq!(next, by_definition(&keys, group, position));
                        let Some((_, rank, id)) = next else { continue };
                        keys.remove(&(group, rank, id));
                        queue.remove((group, rank, id));
                        position = rank + 1;
                    }
                    Step::Look(group, position) => {
                        prop_assert_eq!(queue.sweep(group, position), by_definition(&keys, group, position));
                        let before = keys.iter().rfind(|key| key.0 == group && key.1 < position);
                        prop_assert_eq!(queue.last_before(group, position), before.copied());
                    }
                }
                prop_assert_eq!(queue.first(), keys.first().copied());
                prop_assert_eq!(queue.is_empty(), keys.is_empty());
            }
        }
    }
}
