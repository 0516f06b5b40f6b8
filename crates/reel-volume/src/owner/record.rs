//! The owner record: the third block of every member.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::encoding::{Decoder, Encoder, EncodingError};
use crate::error::VolumeError;
use crate::ids::{VolumeId, random_session};
use crate::limits::BLOCK_BYTES;
use crate::owner::host::Host;
use crate::superblock::{SUM_AT, block_sum, block_sum_holds};

/// Where the record is on a member: behind the two superblocks.
pub(crate) const OWNER_OFFSET: u64 = 2 * BLOCK_BYTES as u64;

/// The first eight bytes of the record.
const OWNER_MAGIC: [u8; 8] = *b"REELOWN\n";

const OWNER_VERSION: u16 = 1;

/// Bytes of a host's name. With them the record fits into one sector, so it is never torn.
const NAME_BYTES_MAX: usize = 64;

/// Who has opened a volume for writing, and that it still has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerRecord {
    pub(crate) volume: VolumeId,
    /// Random. Distinguishes one opening from every other.
    pub(crate) session: [u8; 16],
    /// Counts the heartbeats of the session.
    pub(crate) beat: u64,
    /// Whether the session has ended. It never begins again.
    pub(crate) is_over: bool,
    pub(crate) host: Host,
    /// The name of the host, for people.
    pub(crate) name: String,
    /// When it was opened, in seconds since 1970-01-01 UTC, for people.
    pub(crate) opened_unix_s: u64,
}

impl OwnerRecord {
    /// The first record of a session of this process.
    pub(crate) fn own(volume: VolumeId, session: [u8; 16]) -> OwnerRecord {
        OwnerRecord {
            volume,
            session,
            beat: 0,
            is_over: false,
            host: Host::own(),
            name: Host::name(),
            opened_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        }
    }

    /// The record of a volume that was just made here.
    pub(crate) fn of_creation(volume: VolumeId) -> Result<OwnerRecord, VolumeError> {
        Ok(OwnerRecord { is_over: true, ..OwnerRecord::own(volume, random_session()?) })
    }

    /// The record's block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        to.raw(&OWNER_MAGIC);
        to.u32(0); // the checksum, filled in below
        to.u16(OWNER_VERSION);
        to.u16(u16::from(self.is_over));
        to.raw(&self.volume.0);
        to.raw(&self.session);
        to.u64(self.beat);
        to.u64(self.opened_unix_s);
        self.host.encode(&mut to);
        let end = self.name.floor_char_boundary(NAME_BYTES_MAX);
        to.text(&self.name[..end]);
        to.pad_to(BLOCK_BYTES);
        let sum = block_sum(&to);
        to.set_u32(SUM_AT, sum);
        to.finish()
    }

    /// The record in this block; `None` if there is none of this volume and version.
    pub(crate) fn decode(block: &[u8], volume: VolumeId) -> Option<OwnerRecord> {
        OwnerRecord::decode_any(block).filter(|record| record.volume == volume)
    }

    /// The same, of whatever volume.
    pub(crate) fn decode_any(block: &[u8]) -> Option<OwnerRecord> {
        if block.len() != BLOCK_BYTES || block[..8] != OWNER_MAGIC || !block_sum_holds(block) {
            return None;
        }
        OwnerRecord::decode_fields(&mut Decoder::new(block)).ok()?
    }

    fn decode_fields(from: &mut Decoder<'_>) -> Result<Option<OwnerRecord>, EncodingError> {
        from.raw(SUM_AT + 4)?;
        if from.u16()? != OWNER_VERSION {
            return Ok(None);
        }
        Ok(Some(OwnerRecord {
            is_over: from.u16()? & 1 == 1,
            volume: VolumeId(from.array()?),
            session: from.array()?,
            beat: from.u64()?,
            opened_unix_s: from.u64()?,
            host: Host::decode(from)?,
            name: from.text(NAME_BYTES_MAX)?,
        }))
    }

    /// The host and the process, for messages.
    pub(crate) fn owner(&self) -> String {
        format!("process {} on host {}", self.host.pid, self.name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_record_round_trips_and_every_flipped_bit_is_detected(
            numbers in any::<[u64; 5]>(), is_over: bool, name in "\\PC{0,40}",
            at in 0usize..BLOCK_BYTES, bit in 0u8..8,
        ) {
            let volume = VolumeId([3; 16]);
            let host = Host {
                machine: numbers[0], boot: [5; 16], pid_space: numbers[1], pid: numbers[2] as u32, started: numbers[3],
            };
            let mut record = OwnerRecord {
                volume, session: [7; 16], beat: numbers[4], is_over, host, name, opened_unix_s: 9,
            };
            let mut block = record.encode();
            record.name.truncate(record.name.floor_char_boundary(NAME_BYTES_MAX));
            prop_assert_eq!(OwnerRecord::decode(&block, volume), Some(record));
            prop_assert_eq!(OwnerRecord::decode(&block, VolumeId([4; 16])), None);
            // All of it is in one sector.
            prop_assert!(block[512..].iter().all(|byte| *byte == 0));
            block[at] ^= 1 << bit;
            prop_assert_eq!(OwnerRecord::decode(&block, volume), None);
        }
    }
}
