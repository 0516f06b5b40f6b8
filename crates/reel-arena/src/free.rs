/// Which memory is free: whole buffers, and the free cells of buffers that are cut into cells.
///
/// Pure: it only manages numbers. A buffer is cut when a cell is needed and no cut buffer has a
/// free one. It is whole again as soon as all its cells are free.
pub(crate) struct FreeMap {
    /// Free whole buffers; last in, first out, because the buffer used last is still in the caches.
    whole: Vec<u32>,
    /// Per buffer: the free cells, one bit each; valid only while the buffer is cut.
    free_cells: Vec<u64>,
    /// Cut buffers that have at least one free cell.
    partial: Vec<u32>,
    /// Per buffer: its index in `partial`, so that it can be removed in constant time.
    partial_index: Vec<u32>,
    all_cells: u64,
    cells_per_buffer: u32,
    cells_taken: usize,
    whole_taken: usize,
}

impl FreeMap {
    /// `cells_per_buffer` is 1 to 64; 1 means that buffers are never cut.
    pub(crate) fn new(buffer_count: u32, cells_per_buffer: u32) -> FreeMap {
        FreeMap {
            whole: (0..buffer_count).rev().collect(),
            free_cells: vec![0; buffer_count as usize],
            partial: Vec::new(),
            partial_index: vec![0; buffer_count as usize],
            all_cells: u64::MAX >> (64 - cells_per_buffer),
            cells_per_buffer,
            cells_taken: 0,
            whole_taken: 0,
        }
    }

    pub(crate) fn take_whole(&mut self) -> Option<u32> {
        let buffer = self.whole.pop()?;
        self.whole_taken += 1;
        Some(buffer)
    }

    pub(crate) fn give_whole(&mut self, buffer: u32) {
        self.whole_taken -= 1;
        self.whole.push(buffer);
    }

    /// Takes a free cell: (buffer, cell).
    pub(crate) fn take_cell(&mut self) -> Option<(u32, u32)> {
        if self.partial.is_empty() {
            let buffer = self.whole.pop()?;
            self.free_cells[buffer as usize] = self.all_cells;
            self.enter_partial(buffer);
        }
        let buffer = *self.partial.last()?;
        let free = &mut self.free_cells[buffer as usize];
        let cell = free.trailing_zeros();
        *free &= *free - 1;
        if *free == 0 {
            self.leave_partial(buffer);
        }
        self.cells_taken += 1;
        Some((buffer, cell))
    }

    pub(crate) fn give_cell(&mut self, buffer: u32, cell: u32) {
        debug_assert!(cell < self.cells_per_buffer);
        self.cells_taken -= 1;
        let free = &mut self.free_cells[buffer as usize];
        debug_assert_eq!(*free & (1 << cell), 0, "a cell came back twice");
        let was_full = *free == 0;
        *free |= 1 << cell;
        let all_free = *free == self.all_cells;
        if was_full {
            self.enter_partial(buffer);
        }
        if all_free {
            self.leave_partial(buffer);
            self.whole.push(buffer);
        }
    }

    pub(crate) fn cells_taken(&self) -> usize {
        self.cells_taken
    }

    pub(crate) fn whole_taken(&self) -> usize {
        self.whole_taken
    }

    /// Buffers of which nothing is taken.
    pub(crate) fn whole_free(&self) -> usize {
        self.whole.len()
    }

    fn enter_partial(&mut self, buffer: u32) {
        self.partial_index[buffer as usize] = self.partial.len() as u32;
        self.partial.push(buffer);
    }

    fn leave_partial(&mut self, buffer: u32) {
        let place = self.partial_index[buffer as usize] as usize;
        self.partial.swap_remove(place);
        if let Some(&moved) = self.partial.get(place) {
            self.partial_index[moved as usize] = place as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Piece {
        Whole(u32),
        Cell(u32, u32),
    }

    proptest! {
        /// In whatever order pieces are taken and given back, no byte is given out twice, nothing
        /// is lost, and cut buffers become whole again.
        #[test]
        fn pieces_never_overlap_and_never_leak(
            buffers in 1u32..6, cells in 1u32..=64, steps in prop::collection::vec((0u8..3, any::<prop::sample::Index>()), 0..300)
        ) {
            let mut map = FreeMap::new(buffers, cells);
            let mut taken: Vec<Piece> = Vec::new();
            for (kind, index) in steps {
                match kind {
                    0 => match map.take_whole() {
                        Some(b) => taken.push(Piece::Whole(b)),
                        None => prop_assert_eq!(map.whole_free(), 0),
                    },
                    1 => match map.take_cell() {
                        Some((b, c)) => { prop_assert!(c < cells); taken.push(Piece::Cell(b, c)) }
                        None => prop_assert_eq!(map.whole_free(), 0),
                    },
                    _ if taken.is_empty() => {}
                    _ => match taken.swap_remove(index.index(taken.len())) {
                        Piece::Whole(b) => map.give_whole(b),
                        Piece::Cell(b, c) => map.give_cell(b, c),
                    },
                }
                let unique: HashSet<_> = taken.iter().collect();
                prop_assert_eq!(unique.len(), taken.len());
                let whole: HashSet<u32> = taken.iter().filter_map(|p| if let Piece::Whole(b) = p { Some(*b) } else { None }).collect();
                let cut: HashSet<u32> = taken.iter().filter_map(|p| if let Piece::Cell(b, _) = p { Some(*b) } else { None }).collect();
                prop_assert!(whole.is_disjoint(&cut));
                prop_assert_eq!(map.whole_free(), buffers as usize - whole.len() - cut.len());
                prop_assert_eq!(map.whole_taken() + map.cells_taken(), taken.len());
            }
            for piece in taken.drain(..) {
                match piece {
                    Piece::Whole(b) => map.give_whole(b),
                    Piece::Cell(b, c) => map.give_cell(b, c),
                }
            }
            prop_assert_eq!(map.whole_free(), buffers as usize);
        }
    }
}
