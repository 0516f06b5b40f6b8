//! The header of a catalogue area: one block that names a commit.

use std::fmt;

use crate::encoding::{Decoder, Encoder};
use crate::ids::{MemberId, VolumeId};
use crate::limits::{BLOCK_BYTES, MEMBERS_MAX};
use crate::superblock::{FORMAT_VERSION, SUM_AT, block_sum, block_sum_holds};

/// The first eight bytes of a catalogue area in use.
pub(crate) const HEADER_MAGIC: [u8; 8] = *b"REELCAT\n";

/// The first eight bytes of the block behind the header once the commit is sealed.
pub(crate) const SEAL_MAGIC: [u8; 8] = *b"REELSEA\n";

/// Where the body starts in an area: behind the header and the seal. Each of these is a block of
/// its own, so that writing the seal cannot damage the header.
pub(crate) const BODY_AT: u64 = 2 * BLOCK_BYTES as u64;

/// A period in which the set of members in sync did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Epoch {
    /// One more than the highest number seen on any member when the epoch began.
    pub(crate) number: u64,
    /// Random. Distinguishes two epochs of one number that were begun without knowledge of each
    /// other.
    pub(crate) id: u64,
}

/// A set of members by index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct MemberSet(pub(crate) u128);

/// What a header says about the body behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitHeader {
    pub(crate) volume: VolumeId,
    pub(crate) epoch: Epoch,
    /// Commits of the volume so far.
    pub(crate) generation: u64,
    /// The members that hold every published byte laid on them.
    pub(crate) in_sync: MemberSet,
    /// The id of the member at each index.
    pub(crate) members: Vec<MemberId>,
    pub(crate) body_bytes: u64,
    pub(crate) body_sum: u32,
    /// Whether the block behind the header seals it: every member in sync was known to hold this
    /// epoch. Only sealed copies can be in force.
    pub(crate) sealed: bool,
}

impl CommitHeader {
    /// The header's block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        to.raw(&HEADER_MAGIC);
        to.u32(0); // the checksum, filled in below
        to.u16(FORMAT_VERSION);
        to.u16(self.members.len() as u16);
        to.raw(&self.volume.0);
        to.u64(self.epoch.number);
        to.u64(self.epoch.id);
        to.u64(self.generation);
        to.u64(self.body_bytes);
        to.u32(self.body_sum);
        to.u32(0); // aligns what follows to eight bytes
        to.u128(self.in_sync.0);
        for member in &self.members {
            to.raw(&member.0);
        }
        to.pad_to(BLOCK_BYTES);
        let sum = block_sum(&to);
        to.set_u32(SUM_AT, sum);
        to.finish()
    }

    /// The block that seals this header and no other.
    pub(crate) fn encode_seal(&self) -> Vec<u8> {
        let header = self.encode();
        let mut to = Encoder::default();
        to.raw(&SEAL_MAGIC);
        to.u32(0); // the checksum, filled in below
        to.raw(&header[SUM_AT..SUM_AT + 4]);
        to.raw(&self.volume.0);
        to.u64(self.epoch.number);
        to.u64(self.epoch.id);
        to.u64(self.generation);
        to.pad_to(BLOCK_BYTES);
        let sum = block_sum(&to);
        to.set_u32(SUM_AT, sum);
        to.finish()
    }

    /// The header in the first two blocks of an area of this size, if there is an undamaged one of
    /// this version and this volume. A seal that is damaged or belongs to another header counts as
    /// none.
    pub(crate) fn decode(blocks: &[u8], volume: VolumeId, area_bytes: u64) -> Option<CommitHeader> {
        let (block, seal) = blocks.split_at_checked(BLOCK_BYTES)?;
        let header = CommitHeader::decode_header(block, volume, area_bytes)?;
        Some(CommitHeader { sealed: header.encode_seal() == seal, ..header })
    }

    /// Whether a block is an undamaged header of any version.
    pub(crate) fn is_whole(block: &[u8]) -> bool {
        block.len() == BLOCK_BYTES && block[..8] == HEADER_MAGIC && block_sum_holds(block)
    }

    fn decode_header(block: &[u8], volume: VolumeId, area_bytes: u64) -> Option<CommitHeader> {
        if !CommitHeader::is_whole(block) {
            return None;
        }
        let mut from = Decoder::new(block);
        from.raw(SUM_AT + 4).ok()?;
        if from.u16().ok()? != FORMAT_VERSION {
            return None;
        }
        let count = usize::from(from.u16().ok()?);
        let found = VolumeId(from.array().ok()?);
        let epoch = Epoch { number: from.u64().ok()?, id: from.u64().ok()? };
        let generation = from.u64().ok()?;
        let body_bytes = from.u64().ok()?;
        let body_sum = from.u32().ok()?;
        from.u32().ok()?;
        let in_sync = MemberSet(from.u128().ok()?);
        if found != volume || count > MEMBERS_MAX || body_bytes > area_bytes - BODY_AT {
            return None;
        }
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            members.push(MemberId(from.array().ok()?));
        }
        Some(CommitHeader {
            volume,
            epoch,
            generation,
            in_sync,
            members,
            body_bytes,
            body_sum,
            sealed: false,
        })
    }
}

/// See [`super::fuzz_catalogue`].
#[cfg(fuzzing)]
pub(super) fn fuzz_header(bytes: &[u8]) {
    let mut blocks = bytes.to_vec();
    blocks.resize(BODY_AT as usize, 0);
    blocks[..8].copy_from_slice(&HEADER_MAGIC);
    blocks[SUM_AT + 4..SUM_AT + 6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    blocks[SUM_AT..SUM_AT + 4].fill(0);
    let sum = reel_code::crc32c(&blocks[..BLOCK_BYTES]);
    blocks[SUM_AT..SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
    let mut volume = [0; 16];
    volume.copy_from_slice(&blocks[SUM_AT + 8..SUM_AT + 24]);
    if let Some(header) = CommitHeader::decode(&blocks, VolumeId(volume), 1 << 20) {
        let again = [header.encode(), header.encode_seal()].concat();
        let again =
            CommitHeader::decode(&again, header.volume, 1 << 20).expect("what was written can be read");
        assert_eq!(
            (again.epoch.number, again.members.len(), again.sealed),
            (header.epoch.number, header.members.len(), true)
        );
    }
}

impl MemberSet {
    /// The members 0..`count`.
    pub(crate) fn first(count: usize) -> MemberSet {
        (0..count).fold(MemberSet::default(), MemberSet::with)
    }

    pub(crate) fn with(self, member: usize) -> MemberSet {
        MemberSet(self.0 | 1 << member)
    }

    #[cfg(test)]
    pub(crate) fn without(self, member: usize) -> MemberSet {
        MemberSet(self.0 & !(1 << member))
    }

    pub(crate) fn has(self, member: usize) -> bool {
        member < MEMBERS_MAX && self.0 >> member & 1 == 1
    }

    pub(crate) fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..MEMBERS_MAX).filter(move |&member| self.has(member))
    }
}

impl fmt::Debug for MemberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_round_trips_and_every_flipped_bit_is_detected(
            numbers in any::<[u64; 4]>(), in_sync in any::<u128>(), count in 1usize..=MEMBERS_MAX,
            at in 0usize..2 * BLOCK_BYTES, bit in 0u8..8,
        ) {
            let volume = VolumeId([3; 16]);
            let header = CommitHeader {
                volume,
                epoch: Epoch { number: numbers[0], id: numbers[1] },
                generation: numbers[2],
                in_sync: MemberSet(in_sync),
                members: (0..count).map(|i| MemberId([i as u8; 16])).collect(),
                body_bytes: numbers[3] % (56 << 10),
                body_sum: numbers[3] as u32,
                sealed: true,
            };
            let unsealed = CommitHeader { sealed: false, ..header.clone() };
            let mut blocks = header.encode();
            blocks.extend(header.encode_seal());
            prop_assert_eq!(CommitHeader::decode(&blocks, volume, 64 << 10), Some(header.clone()));
            prop_assert_eq!(CommitHeader::decode(&blocks, VolumeId([4; 16]), 64 << 10), None);
            let mut other = blocks[..BLOCK_BYTES].to_vec();
            other.extend(CommitHeader { generation: numbers[2] ^ 1, ..header }.encode_seal());
            prop_assert_eq!(CommitHeader::decode(&other, volume, 64 << 10), Some(unsealed.clone()));
            blocks[at] ^= 1 << bit;
            let expected = if at < BLOCK_BYTES { None } else { Some(unsealed) };
            prop_assert_eq!(CommitHeader::decode(&blocks, volume, 64 << 10), expected);
        }
    }

    #[test]
    fn a_set_has_the_members_that_were_added() {
        let set = MemberSet::first(5).without(2).with(127);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 3, 4, 127]);
        assert_eq!((set.count(), set.has(2), set.has(127), set.has(128)), (5, false, true, false));
    }
}
