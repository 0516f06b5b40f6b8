//! The stored form of the index of a transport stream. Little-endian:
//!
//! `REELTSI` and a zero byte, version (u32), packets (u32), programme (u16), number of points in
//! time (u32), points, number of places to join (u32), places, CRC-32C of everything before it
//! (u32).
//!
//! A point is the packets since the one before (u32) and the ticks since it (u64), whose highest
//! bit marks a jump of the clock. A place to join is the packets since the one before (u32) and how
//! many packets before it the tables begin (u32).

use super::index::{JoinPoint, StreamIndex, TimePoint};
use crate::index::IndexError;
use crate::limits;

const MAGIC: &[u8; 8] = b"REELTSI\0";
const VERSION: u32 = 1;
const JUMP: u64 = 1 << 63;
const POINT_BYTES: usize = 12;
const JOIN_BYTES: usize = 8;

/// The caller has checked the index.
pub(super) fn encode(index: &StreamIndex) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend((index.packets as u32).to_le_bytes());
    out.extend(index.programme.to_le_bytes());
    out.extend((index.times.len() as u32).to_le_bytes());
    let (mut packet, mut ticks) = (0, 0);
    for point in &index.times {
        out.extend(((point.packet - packet) as u32).to_le_bytes());
        out.extend(((point.ticks - ticks) | if point.jump { JUMP } else { 0 }).to_le_bytes());
        (packet, ticks) = (point.packet, point.ticks);
    }
    out.extend((index.joins.len() as u32).to_le_bytes());
    let mut packet = 0;
    for join in &index.joins {
        out.extend(((join.packet - packet) as u32).to_le_bytes());
        out.extend(((join.packet - join.tables) as u32).to_le_bytes());
        packet = join.packet;
    }
    let sum = crc_fast::crc32_iscsi(&out);
    out.extend(sum.to_le_bytes());
    out
}

/// What the bytes say, not checked any further than that sums do not overflow.
pub(super) fn decode(bytes: &[u8]) -> Result<StreamIndex, IndexError> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(IndexError::Form("it does not start with the magic bytes"));
    };
    let version = Reader(rest).u32()?;
    if version != VERSION {
        return Err(IndexError::Version(version));
    }
    let Some((covered, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(IndexError::Form("it ends early"));
    };
    if crc_fast::crc32_iscsi(covered) != u32::from_le_bytes(*sum) {
        return Err(IndexError::Checksum);
    }
    let mut reader = Reader(covered.get(MAGIC.len() + 4..).unwrap_or_default());
    let packets = u64::from(reader.u32()?);
    let programme = u16::from_le_bytes(reader.array()?);
    let count = reader.count("the number of points in time", limits::STREAM_POINTS, POINT_BYTES)?;
    let mut times = Vec::with_capacity(count);
    let (mut packet, mut ticks) = (0_u64, 0_u64);
    for _ in 0..count {
        packet += u64::from(reader.u32()?);
        let step = u64::from_le_bytes(reader.array()?);
        ticks = ticks.saturating_add(step & !JUMP);
        times.push(TimePoint { packet, ticks, jump: step & JUMP != 0 });
    }
    let count = reader.count("the number of places to join", limits::STREAM_JOINS, JOIN_BYTES)?;
    let mut joins = Vec::with_capacity(count);
    let mut packet = 0_u64;
    for _ in 0..count {
        packet += u64::from(reader.u32()?);
        let Some(tables) = packet.checked_sub(u64::from(reader.u32()?)) else {
            return Err(IndexError::Form("a place to join is outside the stream"));
        };
        joins.push(JoinPoint { packet, tables });
    }
    if !reader.0.is_empty() {
        return Err(IndexError::Form("there are bytes after its end"));
    }
    Ok(StreamIndex { packets, programme, times, joins })
}

/// Takes fields from bytes, never past their end.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        let Some((head, rest)) = self.0.split_first_chunk::<N>() else {
            return Err(IndexError::Form("it ends early"));
        };
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, IndexError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A count of items of this size, never more than the bytes that are left can hold.
    fn count(&mut self, what: &'static str, limit: usize, item_bytes: usize) -> Result<usize, IndexError> {
        let count = self.u32()? as usize;
        if count > limit {
            return Err(IndexError::Limit { what, value: count as u64, limit: limit as u64 });
        }
        if count * item_bytes > self.0.len() {
            return Err(IndexError::Form("a count is larger than the bytes that follow"));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::index::tests::any_index;
    use proptest::prelude::*;

    /// The bytes with a right checksum.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let sum_at = bytes.len() - 4;
        let sum = crc_fast::crc32_iscsi(&bytes[..sum_at]);
        bytes[sum_at..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(index in any_index()) {
            let bytes = index.encode().expect("valid");
            prop_assert_eq!(StreamIndex::decode(&bytes), Ok(index));
        }

        #[test]
        fn any_damage_is_refused(index in any_index(), at: prop::sample::Index, bit in 0_u8..8) {
            let mut bytes = index.encode().expect("valid");
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(StreamIndex::decode(&bytes).is_err());
        }

        #[test]
        fn a_made_index_is_valid_or_refused(index in any_index(), at: prop::sample::Index, byte: u8) {
            let mut bytes = index.encode().expect("valid");
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(decoded) = StreamIndex::decode(&sealed(bytes)) {
                prop_assert!(decoded.encode().is_ok());
                let _ = (decoded.peak_bps(), decoded.ticks_at(7), decoded.join_at(u64::MAX));
            }
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let made = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &bytes, &[0; 4]].concat();
            let _ = (StreamIndex::decode(&bytes), StreamIndex::decode(&sealed(made)));
        }
    }

    #[test]
    fn counts_beyond_the_bytes_cost_nothing() {
        for count in [limits::STREAM_POINTS as u32, u32::MAX] {
            let body = [&[0; 6], count.to_le_bytes().as_slice(), &[0; 64]].concat();
            let made = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &body, &[0; 4]].concat();
            assert!(StreamIndex::decode(&sealed(made)).is_err());
        }
        let other = [MAGIC.as_slice(), &9_u32.to_le_bytes(), &[0; 20]].concat();
        assert_eq!(StreamIndex::decode(&other), Err(IndexError::Version(9)));
    }
}
