//! Values by number. A number is used again, but a token is not: an answer for a value that is gone
//! finds nothing.

/// A table of values under tokens of 64 bits: the slot in the low half, its generation in the high
/// half.
#[derive(Debug)]
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a value, and gives it a token.
    pub fn insert(&mut self, value: T) -> u64 {
        self.insert_with(|_| value)
    }

    /// Takes a value that has to know its token.
    pub fn insert_with(&mut self, make: impl FnOnce(u64) -> T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            // The cast fits: there are fewer connections than descriptors.
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let token = token(index, slot.generation);
        slot.value = Some(make(token));
        token
    }

    /// The value of a token; `None` if it is gone.
    pub fn get_mut(&mut self, token: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        if u64::from(slot.generation) == token >> 32 { slot.value.as_mut() } else { None }
    }

    /// Takes a value out of the table.
    pub fn remove(&mut self, token: u64) -> Option<T> {
        self.get_mut(token)?;
        let slot = &mut self.slots[token as u32 as usize];
        let value = slot.value.take();
        // The highest bit stays clear: it marks tokens of prefetches.
        slot.generation = (slot.generation + 1) % (1 << 31);
        self.free.push(token as u32);
        value
    }

    /// The value of a token; `None` if it is gone.
    pub fn get(&self, token: u64) -> Option<&T> {
        let slot = self.slots.get(token as u32 as usize)?;
        if u64::from(slot.generation) == token >> 32 { slot.value.as_ref() } else { None }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of all values for which `wanted` holds.
    pub fn tokens(&self, wanted: impl Fn(&T) -> bool) -> Vec<u64> {
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
