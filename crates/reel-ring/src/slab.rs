use std::collections::HashMap;

/// The entries in flight, under keys that are never reused.
///
/// A key is the slot and the slot's generation, so a late cancel or completion of an old entry
/// cannot reach the next entry in its slot.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    by_token: HashMap<u64, Key>,
}

/// Slot in the low 32 bits, generation in the high 32 bits.
pub(crate) type Key = u64;

struct Slot<T> {
    generation: u32,
    entry: Option<(u64, T)>,
}

/// Generations stay below this, so that no key equals one of the ring's own operations.
const GENERATION_END: u32 = u32::MAX;

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new(), by_token: HashMap::new() }
    }

    pub(crate) fn insert(&mut self, token: u64, entry: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, entry: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.entry = Some((token, entry));
        let key = u64::from(slot.generation) << 32 | u64::from(index);
        self.by_token.insert(token, key);
        key
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key as u32 as usize)?;
        if u64::from(slot.generation) != key >> 32 {
            return None;
        }
        slot.entry.as_ref().map(|(_, entry)| entry)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key as u32 as usize)?;
        if u64::from(slot.generation) != key >> 32 {
            return None;
        }
        slot.entry.as_mut().map(|(_, entry)| entry)
    }

    /// The token of an entry.
    pub(crate) fn token(&self, key: Key) -> Option<u64> {
        let slot = self.slots.get(key as u32 as usize)?;
        if u64::from(slot.generation) != key >> 32 {
            return None;
        }
        slot.entry.as_ref().map(|(token, _)| *token)
    }

    /// The entry and its token.
    pub(crate) fn remove(&mut self, key: Key) -> Option<(u64, T)> {
        let index = key as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if u64::from(slot.generation) != key >> 32 {
            return None;
        }
        let (token, entry) = slot.entry.take()?;
        slot.generation = if slot.generation + 1 == GENERATION_END { 0 } else { slot.generation + 1 };
        self.free.push(index);
        if self.by_token.get(&token) == Some(&key) {
            self.by_token.remove(&token);
        }
        Some((token, entry))
    }

    /// The key of the newest entry with this token.
    pub(crate) fn find(&self, token: u64) -> Option<Key> {
        self.by_token.get(&token).copied()
    }

    /// The keys of all entries.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let taken = self.slots.iter().enumerate().filter(|(_, slot)| slot.entry.is_some());
        taken.map(|(index, slot)| u64::from(slot.generation) << 32 | index as u64).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_does_not_reach_the_next_entry_in_its_slot() {
        let mut slab = Slab::new();
        let first = slab.insert(7, "first");
        assert_eq!(slab.remove(first), Some((7, "first")));
        let second = slab.insert(7, "second");
        assert_eq!(first as u32, second as u32, "the slot is used again");
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.find(7), Some(second));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn a_token_used_twice_finds_the_newest_and_survives_the_oldest() {
        let mut slab = Slab::new();
        let old = slab.insert(1, 'a');
        let new = slab.insert(1, 'b');
        assert_eq!(slab.find(1), Some(new));
        slab.remove(old);
        assert_eq!(slab.find(1), Some(new));
        slab.remove(new);
        assert_eq!(slab.find(1), None);
    }
}
