//! The partial checksums of a stored transport stream: what the payload of each packet adds to the
//! checksum of UDP.

use crate::error::LibraryError;
use crate::library::Library;
use crate::limits::STREAM_SUMS_BYTES_MAX;
use crate::stream::Stream;
use reel_code::{add_partial_checksums, partial_checksum};
use reel_qos::Class;
use reel_volume::{Role, STREAM_SUMS_NUMBER};

/// Bytes of a stored checksum.
const SUM_BYTES: usize = 2;

impl Library {
    /// The ones'-complement sum of the payload of each symbol of a stream, those that fill its last
    /// stripe included: a sender adds the pseudo-header and the headers of UDP and RTP, and
    /// complements the result (RFC 768). `None` if the stream was stored without them.
    ///
    /// Takes memory of two bytes for each symbol, twice while it reads; at most
    /// [`STREAM_SUMS_BYTES_MAX`] is read.
    ///
    /// # Errors
    /// If they cannot be read, or are not those of so many symbols.
    pub fn stream_sums(&self, stream: &Stream) -> Result<Option<Vec<u16>>, LibraryError> {
        let record = stream.title.record();
        let Some(object) = record.object(Role::Index, STREAM_SUMS_NUMBER) else { return Ok(None) };
        let what = "list of the checksums of its packets";
        let bytes = self.whole(&record.id, object, what, (STREAM_SUMS_BYTES_MAX, Class::INTERACTIVE))?;
        let (sums, rest) = bytes.as_chunks::<SUM_BYTES>();
        let symbols = stream.places.symbols(stream.index.packets);
        if !rest.is_empty() || sums.len() as u64 != symbols {
            return Err(LibraryError::Incomplete { id: record.id.clone(), what });
        }
        Ok(Some(sums.iter().map(|sum| u16::from_be_bytes(*sum)).collect()))
    }
}

/// Makes the checksums while a stream is written.
#[derive(Default)]
pub(crate) struct SumsMaker {
    /// As they are stored.
    sums: Vec<u8>,
    /// Of the payload that is not complete.
    begun: u16,
    begun_is_odd: bool,
    /// Whether there are more than may be stored.
    is_too_long: bool,
}

impl SumsMaker {
    /// Adds a part of a payload.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let sum = partial_checksum(bytes);
        // A part that begins at an odd byte is summed with its bytes exchanged (RFC 1071, 2.B).
        let sum = if self.begun_is_odd { sum.swap_bytes() } else { sum };
        self.begun = add_partial_checksums(self.begun, sum);
        self.begun_is_odd ^= bytes.len() % 2 == 1;
    }

    /// Ends a payload.
    pub(crate) fn end_symbol(&mut self) {
        self.is_too_long |= (self.sums.len() + SUM_BYTES) as u64 > STREAM_SUMS_BYTES_MAX;
        if self.is_too_long {
            self.sums = Vec::new();
        } else {
            self.sums.extend_from_slice(&self.begun.to_be_bytes());
        }
        (self.begun, self.begun_is_odd) = (0, false);
    }

    /// What is to be stored, if anything is.
    pub(crate) fn finish(self) -> Option<Vec<u8>> {
        (!self.is_too_long && !self.sums.is_empty()).then_some(self.sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_of_any_length_make_the_sum_of_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 1..1400),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let (mut maker, mut from) = (SumsMaker::default(), 0);
            for end in ends {
                maker.add(&bytes[from..end]);
                from = end;
            }
            maker.end_symbol();
            prop_assert_eq!(maker.finish(), Some(partial_checksum(&bytes).to_be_bytes().to_vec()));
        }
    }

    #[test]
    fn a_stream_with_too_many_symbols_has_none() {
        let mut maker = SumsMaker::default();
        maker.add(&[1]);
        for _ in 0..=STREAM_SUMS_BYTES_MAX / SUM_BYTES as u64 {
            maker.end_symbol();
        }
        assert_eq!(maker.finish(), None);
        assert_eq!(SumsMaker::default().finish(), None);
    }
}
