//! Stored rows as the payloads of packets. Pure.

use reel_media::transport::SYMBOL_PAYLOAD_BYTES;
use reel_ring::Chunk;
use reel_udp::Packets;
use std::sync::Arc;

/// Symbols that follow each other, in the rows in which they are stored.
#[derive(Debug)]
pub(crate) struct Symbols {
    chunks: Vec<Chunk>,
    /// How many.
    pub(crate) count: u64,
}

/// The first symbols of chunks of rows, `symbols_max` at most; `None` if there is none. A symbol
/// that is not whole is left for the next time, with all behind it.
pub(crate) fn whole_symbols(chunks: Vec<Chunk>, symbol_bytes: usize, symbols_max: u64) -> Option<Symbols> {
    let mut symbols = Symbols { chunks: Vec::with_capacity(chunks.len()), count: 0 };
    for chunk in chunks {
        let count = (symbols_max - symbols.count).min((chunk.len() / symbol_bytes) as u64);
        // Fits: no more than the bytes of the chunk.
        let bytes = count as usize * symbol_bytes;
        let is_all = bytes == chunk.len();
        if count > 0 {
            symbols.chunks.push(chunk.slice(0..bytes));
            symbols.count += count;
        }
        if !is_all {
            break;
        }
    }
    (symbols.count > 0).then_some(symbols)
}

impl Symbols {
    /// Their bytes, as they are stored.
    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The packets that carry them, with a header of `header_bytes` in front of each.
    pub(crate) fn packets(self, headers: Arc<[u8]>, header_bytes: usize, symbol_bytes: usize) -> Packets {
        Packets::gathered(headers, header_bytes, self.chunks, SYMBOL_PAYLOAD_BYTES, symbol_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOL: usize = 1408;

    fn chunk(bytes: usize) -> Chunk {
        Chunk::from(Arc::from((0..bytes).map(|at| (at / SYMBOL) as u8).collect::<Vec<u8>>()))
    }

    /// How many symbols are taken of each chunk.
    fn counts(chunks: &[usize], most: u64) -> Vec<usize> {
        let chunks = chunks.iter().map(|bytes| chunk(*bytes)).collect();
        let Some(symbols) = whole_symbols(chunks, SYMBOL, most) else { return Vec::new() };
        let counts: Vec<usize> = symbols.chunks.iter().map(|chunk| chunk.len() / SYMBOL).collect();
        assert_eq!(counts.iter().sum::<usize>() as u64, symbols.count);
        counts
    }

    #[test]
    fn only_whole_symbols_are_taken() {
        assert_eq!(counts(&[4 * SYMBOL, 4 * SYMBOL], 6), [4, 2]);
        assert_eq!(counts(&[4 * SYMBOL, 4 * SYMBOL, 4 * SYMBOL], 8), [4, 4]);
        assert_eq!(counts(&[4 * SYMBOL, 2 * SYMBOL + 7, 4 * SYMBOL], 20), [4, 2]);
        assert_eq!(counts(&[4 * SYMBOL, SYMBOL - 1, 4 * SYMBOL], 20), [4]);
        assert_eq!(counts(&[SYMBOL - 1], 20), [0; 0]);
        assert_eq!(counts(&[], 20), [0; 0]);
    }

    #[test]
    fn symbols_of_several_rows_leave_as_one_and_what_fills_a_symbol_is_not_sent() {
        let symbols = whole_symbols(vec![chunk(3 * SYMBOL), chunk(2 * SYMBOL)], SYMBOL, 4).expect("four");
        let packets = symbols.packets(Arc::from([0; 48]), 12, SYMBOL);
        assert_eq!((packets.count(), packets.bytes()), (4, 4 * 1328));
    }
}
