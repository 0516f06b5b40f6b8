//! Connections by number. A number is used again, a token never: an answer for a connection that is gone finds nothing.

/// A table of values under tokens of 64 bits: the slot below, its generation above.
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            // Fits: there are fewer connections than descriptors.
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        token(index, slot.generation)
    }

    pub(crate) fn get_mut(&mut self, token: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        if u64::from(slot.generation) == token >> 32 { slot.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<T> {
        self.get_mut(token)?;
        let slot = &mut self.slots[token as u32 as usize];
        let value = slot.value.take();
        // The highest generation is left out, so that no token of a connection has all bits set.
        slot.generation = (slot.generation + 1) % u32::MAX;
        self.free.push(token as u32);
        value
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Tokens of all values for which `wanted` holds.
    pub(crate) fn tokens(&self, wanted: impl Fn(&T) -> bool) -> Vec<u64> {
        let token_of = |(index, slot): (usize, &Slot<T>)| {
            slot.value.as_ref().filter(|value| wanted(value)).map(|_| token(index as u32, slot.generation))
        };
        self.slots.iter().enumerate().filter_map(token_of).collect()
    }
}

fn token(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_token_finds_nothing() {
        let mut slots = Slots::new();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!(second as u32, first as u32, "the slot is used again");
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut 'b'));
        assert_eq!(slots.tokens(|_| true), vec![second]);
        assert_eq!(slots.len(), 1);
    }
}
