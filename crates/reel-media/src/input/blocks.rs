//! Serves small reads from large ones: a few blocks of the source are kept, so that samples of some
//! hundred bytes do not cost a call each.

use crate::Source;
use std::io;

/// Bytes of one read. A block holds several seconds of sound or a few pictures.
const BLOCK_BYTES: u64 = 256 << 10;
/// A read of at least this size gets a call of its own, because going through a block would only
/// copy it twice.
const LARGE_BYTES: usize = 64 << 10;
/// Blocks kept. Tracks that lie far apart in the file are read in turns, each from its own block.
const BLOCKS: usize = 8;

/// The last few blocks read from a source.
#[derive(Default)]
pub(crate) struct Blocks {
    /// Most recently used last.
    kept: Vec<Block>,
}

struct Block {
    number: u64,
    bytes: Vec<u8>,
}

impl Blocks {
    /// Fills `target` from `offset` of the source.
    pub(crate) fn read_at(
        &mut self,
        source: &mut dyn Source,
        mut offset: u64,
        mut target: &mut [u8],
    ) -> io::Result<()> {
        if target.len() >= LARGE_BYTES {
            return source.read_at(offset, target);
        }
        while !target.is_empty() {
            let number = offset / BLOCK_BYTES;
            let within = (offset % BLOCK_BYTES) as usize;
            let bytes = target.len().min(BLOCK_BYTES as usize - within);
            let (head, tail) = target.split_at_mut(bytes);
            let block = self.block(source, number)?;
            head.copy_from_slice(block.get(within..within + bytes).ok_or(io::ErrorKind::UnexpectedEof)?);
            target = tail;
            offset += bytes as u64;
        }
        Ok(())
    }

    fn block(&mut self, source: &mut dyn Source, number: u64) -> io::Result<&[u8]> {
        let block = match self.kept.iter().position(|block| block.number == number) {
            Some(place) => self.kept.remove(place),
            None => {
                let mut bytes = if self.kept.len() < BLOCKS { Vec::new() } else { self.kept.remove(0).bytes };
                let start = number * BLOCK_BYTES;
                bytes.resize(source.bytes().saturating_sub(start).min(BLOCK_BYTES) as usize, 0);
                source.read_at(start, &mut bytes)?;
                Block { number, bytes }
            }
        };
        self.kept.push(block);
        Ok(self.kept.last().map_or(&[], |block| &block.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Counted {
        bytes: Vec<u8>,
        reads: usize,
    }

    impl Source for Counted {
        fn bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
            self.reads += 1;
            let start = usize::try_from(offset).map_err(io::Error::other)?;
            let found = self.bytes.get(start..start + target.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            target.copy_from_slice(found);
            Ok(())
        }
    }

    fn counted(bytes: usize) -> Counted {
        Counted { bytes: (0..bytes).map(|at| (at * 31 / 7) as u8).collect(), reads: 0 }
    }

    #[test]
    fn neighbours_share_a_read() {
        let mut source = counted(1 << 20);
        let mut blocks = Blocks::default();
        let mut target = [0; 100];
        // Two tracks far apart, read in turns.
        for turn in 0..1000 {
            blocks.read_at(&mut source, turn * 100, &mut target).expect("within the source");
            blocks.read_at(&mut source, (800 << 10) + turn * 100, &mut target).expect("within the source");
        }
        assert_eq!(source.reads, 2);
    }

    proptest! {
        #[test]
        fn reads_return_the_bytes_of_the_source(reads in prop::collection::vec((0usize..1_100_000, 0usize..600_000), 1..12)) {
            let mut source = counted(1_100_000);
            let expected = source.bytes.clone();
            let mut blocks = Blocks::default();
            for (offset, length) in reads {
                let mut target = vec![0; length];
                let result = blocks.read_at(&mut source, offset as u64, &mut target);
                match expected.get(offset..offset + length) {
                    Some(there) => prop_assert!(result.is_ok() && target == there),
                    None => prop_assert!(result.is_err()),
                }
            }
        }
    }
}
