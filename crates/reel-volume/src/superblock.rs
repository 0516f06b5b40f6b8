//! The superblock: the first 4096 bytes of a member, and a copy in the next 4096.
//!
//! It says which member of which volume this is, and how the member is laid out. It is written
//! once, when the member is created, and never again. `docs/volume-format.md` lists every byte.

use reel_code::{Code, crc32c};

use crate::encoding::{Decoder, Encoder, EncodingError};
use crate::geometry::{Geometry, GeometryError, GeometryFields};
use crate::ids::{MemberId, VolumeId, VolumeSecret};
use crate::limits::{BLOCK_BYTES, CATALOGUE_BYTES_MAX, CATALOGUE_BYTES_MIN};

/// The first eight bytes of a member. The last two detect a file that went through a text
/// conversion.
pub(crate) const SUPERBLOCK_MAGIC: [u8; 8] = *b"REELVOL\n";

/// The version of the format that this program reads and writes.
pub(crate) const FORMAT_VERSION: u16 = 1;

/// The offset of the copy.
pub(crate) const SUPERBLOCK_COPY_OFFSET: u64 = BLOCK_BYTES as u64;

/// Where the first catalogue area of a new member starts. The gap behind the two superblocks is
/// spare.
pub(crate) const CATALOGUE_OFFSET: u64 = 64 << 10;

/// The data of a new member starts at a multiple of this, the largest relevant erase block or RAID
/// stripe.
pub(crate) const DATA_ALIGNMENT_BYTES: u64 = 1 << 20;

/// The content of the superblock of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The volume it belongs to.
    pub volume: VolumeId,
    /// The id of this member.
    pub member: MemberId,
    /// Its number in the volume, 0..N.
    pub index: usize,
    /// The geometry of the volume.
    pub geometry: Geometry,
    /// The code of the volume.
    pub code: Code,
    /// Bytes of the member that the volume uses, from its start.
    pub member_bytes: u64,
    /// Where catalogue area A starts; area B follows it.
    pub catalogue_offset: u64,
    /// Bytes of each of the two areas.
    pub catalogue_bytes: u64,
    /// Where units start.
    pub data_offset: u64,
    /// When the volume was made, in seconds since 1970-01-01 UTC.
    pub created_unix_s: u64,
    /// The epoch in which this member joined: 1 for members of a new volume.
    pub joined_epoch: u64,
    /// The secret of the volume.
    pub secret: VolumeSecret,
}

/// Why 4096 bytes are not a superblock that this program can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// Other content.
    #[error("it does not start like a member of a Reel volume")]
    NotReel,
    /// The checksum does not match.
    #[error("its superblock is damaged (the checksum does not match)")]
    Damaged,
    /// Written by another version of the format.
    #[error(
        "its format is version {found}, and this program reads version {FORMAT_VERSION}: use the Reel that made the volume, or a newer one"
    )]
    Version {
        /// The version found.
        found: u16,
    },
    /// The checksum matches, but the fields contradict each other.
    #[error("its superblock is not consistent: {0}")]
    Inconsistent(String),
}

impl Superblock {
    /// The number of units that fit on this member.
    pub fn units(&self) -> u64 {
        (self.member_bytes - self.data_offset) / self.geometry.unit_bytes() as u64
    }

    /// Where area A (0) or B (1) starts.
    pub fn area_offset(&self, area: usize) -> u64 {
        self.catalogue_offset + area as u64 * self.catalogue_bytes
    }

    /// The encoded superblock of 4096 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let fields = self.geometry.fields();
        let mut to = Encoder::default();
        to.raw(&SUPERBLOCK_MAGIC);
        to.u32(0); // the checksum, filled in below
        to.u16(FORMAT_VERSION);
        to.u16(self.code.number());
        to.raw(&self.volume.0);
        to.raw(&self.member.0);
        to.u32(self.index as u32);
        for number in [
            fields.members,
            fields.symbol_bytes,
            fields.row_symbols,
            fields.unit_rows,
            fields.data_rows,
            fields.parity_rows,
        ] {
            to.u32(number as u32);
        }
        to.u32(0); // aligns what follows to eight bytes
        for number in [
            self.member_bytes,
            self.catalogue_offset,
            self.catalogue_bytes,
            self.data_offset,
            self.created_unix_s,
            self.joined_epoch,
        ] {
            to.u64(number);
        }
        to.raw(&self.secret.0);
        to.pad_to(BLOCK_BYTES);
        let sum = block_sum(&to);
        to.set_u32(SUM_AT, sum);
        to.finish()
    }

    /// Decodes and checks 4096 bytes.
    ///
    /// # Errors
    /// If the bytes are something else, damaged, of another version, or not consistent.
    pub fn decode(block: &[u8]) -> Result<Superblock, SuperblockError> {
        if block.len() != BLOCK_BYTES || block[..8] != SUPERBLOCK_MAGIC {
            return Err(SuperblockError::NotReel);
        }
        if !block_sum_holds(block) {
            return Err(SuperblockError::Damaged);
        }
        Superblock::decode_fields(&mut Decoder::new(block))
    }

    fn decode_fields(from: &mut Decoder<'_>) -> Result<Superblock, SuperblockError> {
        from.raw(SUM_AT + 4)?;
        let version = from.u16()?;
        if version != FORMAT_VERSION {
            return Err(SuperblockError::Version { found: version });
        }
        let code = from.u16()?;
        let code = Code::from_number(code)
            .ok_or_else(|| SuperblockError::Inconsistent(format!("its code {code} is unknown")))?;
        let volume = VolumeId(from.array()?);
        let member = MemberId(from.array()?);
        let index = from.u32()? as usize;
        let members = from.u32()? as usize;
        let symbol_bytes = from.u32()? as usize;
        let row_symbols = from.u32()? as usize;
        let unit_rows = from.u32()? as usize;
        let data_rows = from.u32()? as usize;
        let parity_rows = from.u32()? as usize;
        from.u32()?;
        let geometry = Geometry::new(GeometryFields {
            symbol_bytes,
            row_symbols,
            unit_rows,
            data_rows,
            parity_rows,
            members,
        })?;
        let superblock = Superblock {
            volume,
            member,
            index,
            geometry,
            code,
            member_bytes: from.u64()?,
            catalogue_offset: from.u64()?,
            catalogue_bytes: from.u64()?,
            data_offset: from.u64()?,
            created_unix_s: from.u64()?,
            joined_epoch: from.u64()?,
            secret: VolumeSecret(from.array()?),
        };
        superblock.check()?;
        Ok(superblock)
    }

    fn check(&self) -> Result<(), SuperblockError> {
        let block = BLOCK_BYTES as u64;
        let areas_end = self.catalogue_offset.checked_add(self.catalogue_bytes.saturating_mul(2));
        let complaint = if self.index >= self.geometry.members() {
            "its number is not below the number of members"
        } else if !self.code.allows(self.geometry.parity_rows()) {
            "its code does not make that number of parity rows"
        } else if !(CATALOGUE_BYTES_MIN..=CATALOGUE_BYTES_MAX).contains(&self.catalogue_bytes) {
            "its catalogue size is out of bounds"
        } else if [self.catalogue_offset, self.catalogue_bytes, self.data_offset]
            .iter()
            .any(|at| at % block != 0)
        {
            "its areas are not whole blocks"
        } else if self.catalogue_offset < 2 * block || areas_end.is_none_or(|end| end > self.data_offset) {
            "its areas overlap"
        } else if self.data_offset > self.member_bytes {
            "its data starts past its end"
        } else {
            return Ok(());
        };
        Err(SuperblockError::Inconsistent(complaint.to_owned()))
    }
}

/// The offset of the checksum in the block of a superblock or catalogue header. It is within the
/// first 512 bytes, so that a block torn at a sector border has it in the same sector as the fields
/// that change.
pub(crate) const SUM_AT: usize = 8;

/// The checksum of a block whose checksum field is still zero.
pub(crate) fn block_sum(block: &Encoder) -> u32 {
    crc32c(block.as_bytes())
}

/// Whether the checksum in a block matches the rest of it.
pub(crate) fn block_sum_holds(block: &[u8]) -> bool {
    let mut cleared = block.to_vec();
    let Some(field) = cleared.get_mut(SUM_AT..SUM_AT + 4) else { return false };
    let stored = [field[0], field[1], field[2], field[3]];
    field.fill(0);
    u32::from_le_bytes(stored) == crc32c(&cleared)
}

impl From<GeometryError> for SuperblockError {
    fn from(error: GeometryError) -> SuperblockError {
        SuperblockError::Inconsistent(error.to_string())
    }
}

impl From<EncodingError> for SuperblockError {
    fn from(error: EncodingError) -> SuperblockError {
        SuperblockError::Inconsistent(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geometry_laws::any_geometry;

    fn superblock(geometry: Geometry, index: usize) -> Superblock {
        Superblock {
            volume: VolumeId([7; 16]),
            member: MemberId([index as u8; 16]),
            index,
            geometry,
            code: Code::Xor,
            member_bytes: 64 << 20,
            catalogue_offset: CATALOGUE_OFFSET,
            catalogue_bytes: 4 << 20,
            data_offset: 9 << 20,
            created_unix_s: 1_790_000_000,
            joined_epoch: 1,
            secret: VolumeSecret([9; 32]),
        }
    }

    proptest! {
        #[test]
        fn a_superblock_round_trips_and_every_flipped_bit_is_detected(geometry in any_geometry(), at in 0usize..BLOCK_BYTES, bit in 0u8..8) {
            let superblock = superblock(geometry, geometry.members() - 1);
            let mut block = superblock.encode();
            prop_assert_eq!(Superblock::decode(&block), Ok(superblock));
            block[at] ^= 1 << bit;
            prop_assert!(Superblock::decode(&block).is_err());
        }
    }

    #[test]
    fn fields_that_contradict_each_other_are_refused() {
        let good = superblock(Geometry::new(GeometryFields::cmaf(5)).unwrap(), 0);
        let bad = [
            (Superblock { index: 5, ..good.clone() }, "number"),
            (Superblock { data_offset: 1 << 20, ..good.clone() }, "overlap"),
            (Superblock { catalogue_offset: 4096, ..good.clone() }, "overlap"),
            (Superblock { catalogue_bytes: 4096, ..good.clone() }, "catalogue size"),
            (Superblock { member_bytes: 4096, ..good.clone() }, "past its end"),
            (Superblock { data_offset: (9 << 20) + 1, ..good.clone() }, "whole blocks"),
        ];
        for (superblock, words) in bad {
            let text = Superblock::decode(&superblock.encode()).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut block = superblock(Geometry::new(GeometryFields::cmaf(5)).unwrap(), 0).encode();
        block[12] = 2;
        block[SUM_AT..SUM_AT + 4].fill(0);
        let sum = crc32c(&block);
        block[SUM_AT..SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Superblock::decode(&block), Err(SuperblockError::Version { found: 2 }));
    }
}
