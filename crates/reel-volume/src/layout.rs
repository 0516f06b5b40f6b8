//! How a new member is divided into areas.

use crate::geometry::Geometry;
use crate::limits::{BLOCK_BYTES, CATALOGUE_BYTES_DEFAULT_MAX, CATALOGUE_BYTES_DEFAULT_MIN};
use crate::superblock::{CATALOGUE_OFFSET, DATA_ALIGNMENT_BYTES};

/// Where the areas of a member start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) member_bytes: u64,
    pub(crate) catalogue_bytes: u64,
    pub(crate) data_offset: u64,
}

impl Layout {
    /// The layout of members of at most `bytes`; `None` if not even W units fit.
    ///
    /// A catalogue area is 1/512 of the member, which is 0.2 %, within bounds, unless a size is
    /// given.
    pub(crate) fn of(geometry: &Geometry, bytes: u64, catalogue_bytes: Option<u64>) -> Option<Layout> {
        let catalogue_bytes = catalogue_bytes
            .unwrap_or_else(|| (bytes / 512).clamp(CATALOGUE_BYTES_DEFAULT_MIN, CATALOGUE_BYTES_DEFAULT_MAX))
            .next_multiple_of(BLOCK_BYTES as u64);
        let data_offset = (CATALOGUE_OFFSET + 2 * catalogue_bytes).next_multiple_of(DATA_ALIGNMENT_BYTES);
        let units = bytes.checked_sub(data_offset)? / geometry.unit_bytes() as u64;
        // Only complete groups of slots are used.
        let units = units - units % geometry.width() as u64;
        let member_bytes = data_offset + units * geometry.unit_bytes() as u64;
        (units > 0).then_some(Layout { member_bytes, catalogue_bytes, data_offset })
    }

    /// The least bytes that a member needs.
    pub(crate) fn bytes_min(geometry: &Geometry, catalogue_bytes: Option<u64>) -> u64 {
        let catalogue_bytes = catalogue_bytes.unwrap_or(CATALOGUE_BYTES_DEFAULT_MIN);
        (CATALOGUE_OFFSET + 2 * catalogue_bytes.next_multiple_of(BLOCK_BYTES as u64))
            .next_multiple_of(DATA_ALIGNMENT_BYTES)
            + (geometry.width() * geometry.unit_bytes()) as u64
    }
}
