//! Records in a stream of bytes (RFC 5531, section 11): each is cut into fragments, which begin
//! with their length and tell whether another one follows.

use crate::limits::{FRAGMENTS_MAX, RECORD_BYTES_MAX, REQUEST_BYTES_MAX};

/// Cuts what a client sends into records.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The beginning of the record, at most [`REQUEST_BYTES_MAX`] of it.
    head: Vec<u8>,
    /// Bytes that its fragments have announced.
    announced: u64,
    fragments: u32,
    /// Bytes of the mark of the next fragment, as far as they have arrived.
    mark: [u8; 4],
    mark_bytes: usize,
    /// Bytes that the present fragment still has.
    left: u64,
    is_last: bool,
}

/// A record that is longer, or has more fragments, than any request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The bit of a mark that says that the fragment is the last one of its record.
const LAST: u32 = 1 << 31;

impl Records {
    /// Takes some of `bytes`. Returns how many, and a record if one is complete: its first
    /// [`REQUEST_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`TooLong`]. The stream cannot be continued.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), TooLong> {
        let mut taken = 0;
        loop {
            if self.left == 0 && self.fragments > 0 && self.is_last {
                return Ok((taken, Some(std::mem::take(self).head)));
            }
            let rest = &bytes[taken..];
            if rest.is_empty() {
                return Ok((taken, None));
            }
            taken += if self.left == 0 { self.take_mark(rest)? } else { self.take_fragment(rest) };
        }
    }

    /// How many bytes the record announces so far, of which a part has arrived.
    pub(crate) fn announced_bytes(&self) -> Option<u64> {
        self.is_within().then_some(self.announced)
    }

    /// Whether a part of a record has arrived.
    pub(crate) fn is_within(&self) -> bool {
        self.fragments > 0 || self.mark_bytes > 0
    }

    /// The mark that was read last.
    pub(crate) fn mark(&self) -> [u8; 4] {
        self.mark
    }

    fn take_mark(&mut self, bytes: &[u8]) -> Result<usize, TooLong> {
        let taken = bytes.len().min(4 - self.mark_bytes);
        self.mark[self.mark_bytes..][..taken].copy_from_slice(&bytes[..taken]);
        self.mark_bytes += taken;
        if self.mark_bytes == 4 {
            let mark = u32::from_be_bytes(self.mark);
            self.mark_bytes = 0;
            self.fragments += 1;
            self.is_last = mark & LAST != 0;
            self.left = u64::from(mark & !LAST);
            self.announced += self.left;
            if self.announced > RECORD_BYTES_MAX || self.fragments > FRAGMENTS_MAX {
                return Err(TooLong);
            }
        }
        Ok(taken)
    }

    fn take_fragment(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let kept = taken.min(REQUEST_BYTES_MAX - self.head.len());
        self.head.extend_from_slice(&bytes[..kept]);
        self.left -= taken as u64;
        taken
    }
}

/// The mark of a record that is one fragment of so many bytes.
pub(crate) fn mark(bytes: u32) -> [u8; 4] {
    (bytes | LAST).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All records of a stream that arrives in pieces.
    fn records(pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, TooLong> {
        let (mut records, mut found) = (Records::default(), Vec::new());
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (taken, record) = records.take(rest)?;
                found.extend(record);
                rest = &rest[taken..];
            }
        }
        Ok(found)
    }

    fn fragment(bytes: &[u8], is_last: bool) -> Vec<u8> {
        let mark = bytes.len() as u32 | if is_last { LAST } else { 0 };
        [&mark.to_be_bytes()[..], bytes].concat()
    }

    proptest! {
        /// However records are cut into fragments, and the stream into pieces, all are found.
        #[test]
        fn records_are_found(
            wanted in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5), 0..5),
            cuts in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let mut stream = Vec::new();
            for record in &wanted {
                for (number, bytes) in record.iter().enumerate() {
                    stream.extend(fragment(bytes, number + 1 == record.len()));
                }
            }
            let (mut pieces, mut rest, mut cuts) = (Vec::new(), &stream[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(*cuts.next().expect("a cycle")));
                pieces.push(piece);
                rest = after;
            }
            let wanted: Vec<Vec<u8>> = wanted.iter().map(|record| record.concat()).collect();
            prop_assert_eq!(records(&pieces), Ok(wanted));
        }
    }

    #[test]
    fn of_a_long_record_the_beginning_is_kept() {
        let long = vec![7; 1 << 20];
        let found = records(&[&fragment(&long, true), &fragment(b"next", true)]).expect("not too long");
        assert_eq!(found, [long[..REQUEST_BYTES_MAX].to_vec(), b"next".to_vec()]);
    }

    #[test]
    fn claims_beyond_the_limits_end_the_stream() {
        assert_eq!(records(&[&[0xff, 0xff, 0xff, 0xff]]), Err(TooLong));
        assert_eq!(records(&[&[0x7f, 0xff, 0xff, 0xff]]), Err(TooLong));
        let endless = fragment(b"", false).repeat(FRAGMENTS_MAX as usize + 1);
        assert_eq!(records(&[&endless]), Err(TooLong));
        let half = fragment(&vec![0; 1 << 20], false);
        assert_eq!(records(&[&half, &half, &half]), Err(TooLong));
    }
}
