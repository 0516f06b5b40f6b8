//! How much of a body a reader holds at once, and so how much media memory its viewer is promised.
//! Pure.
//!
//! ```text
//!   held   |== stripe that is sent ==|     the client takes it as fast as it is shown, or faster
//!                               |== the next ==|  read when what is left lasts as long as a read
//! ```
//! A demand is computed from this, and a reader reads by it: what is held is what was promised
//! (docs/design/ledger.md, "Memory").

use crate::limits::{
    READ_TIME_MIN_NS, READER_REFILL, READER_STRIPES_MAX, READER_STRIPES_MIN, STRIPE_ALONE_READS,
};
use crate::row_kind::RowKind;
use reel_volume::Geometry;

/// What decides how far ahead readers of a volume read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    is_rotational: bool,
}

/// How much of one body is held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    stripes: u64,
    /// Bytes of a stripe, of the rows that are sent.
    stripe_bytes: u64,
    refill: u64,
    /// When so many bytes or fewer are left, what follows must be requested.
    lead_bytes: u64,
}

impl Depth {
    /// For members of which at least one is rotational ([`reel_qos::DiskPrice::is_rotational`]), or
    /// none.
    pub const fn of(is_rotational: bool) -> Depth {
        Depth { is_rotational }
    }

    /// Whether some member is rotational. Then many neighbours at once are worth their memory.
    pub const fn is_rotational(self) -> bool {
        self.is_rotational
    }

    /// Bytes that are held at once, and so due together, of a body of so many bytes of data rows
    /// that is shown for so long.
    pub fn window_bytes(self, geometry: &Geometry, bytes: u64, duration_ns: u64) -> u64 {
        self.window(geometry, RowKind::Data, bytes, duration_ns).bytes()
    }

    /// What is held at once of a body of so many bytes of rows of this kind that is shown for so
    /// long. A duration of 0 means that it is not known.
    ///
    /// Rotational members get as large a window as memory allows. On other members, what follows is
    /// read when what is left to be sent is shown for as long as a read may take.
    pub fn window(self, geometry: &Geometry, kind: RowKind, bytes: u64, duration_ns: u64) -> Window {
        let stripe_bytes = kind.stripe_bytes(geometry);
        if self.is_rotational || duration_ns == 0 {
            let (stripes, refill) = (READER_STRIPES_MAX as u64, READER_REFILL as u64);
            return Window { stripes, stripe_bytes, refill, lead_bytes: u64::MAX };
        }
        let lead_bytes = u128::from(bytes) * u128::from(READ_TIME_MIN_NS) / u128::from(duration_ns);
        let lead_bytes = u64::try_from(lead_bytes).unwrap_or(u64::MAX);
        let beside = lead_bytes.div_ceil(stripe_bytes);
        let stripes = beside.saturating_add(1).clamp(READER_STRIPES_MIN as u64, READER_STRIPES_MAX as u64);
        Window { stripes, stripe_bytes, refill: 1, lead_bytes }
    }

    /// Most buffers that a reader of such a body ever holds: those of its window, and the other
    /// units of a stripe that lost units of it are computed from.
    pub fn buffers_max(self, geometry: &Geometry, kind: RowKind, bytes: u64, duration_ns: u64) -> u64 {
        let stripe_units = kind.units(geometry) as u64;
        let units = units(geometry, bytes, duration_ns);
        let window = self.window(geometry, kind, bytes, duration_ns);
        // For a single lost unit the whole stripe is read.
        units.min(window.stripes * stripe_units).max(stripe_units) + others(geometry, kind)
    }

    /// Bytes of media memory that a viewer of such a body is promised: what its reader cannot do
    /// without.
    ///
    /// On rotational members, and where a stripe is not shown for long, that is all that the reader
    /// ever holds. Otherwise it is the stripe that is sent, and the other units that a lost unit of
    /// it is computed from. The next stripe is read early while there is memory for it, and
    /// otherwise when this one has been sent.
    pub fn promised_bytes(self, geometry: &Geometry, kind: RowKind, bytes: u64, duration_ns: u64) -> u64 {
        let buffers = self.promised_buffers(geometry, kind, bytes, duration_ns);
        buffers.saturating_mul(geometry.unit_bytes() as u64)
    }

    /// The same in buffers.
    pub fn promised_buffers(self, geometry: &Geometry, kind: RowKind, bytes: u64, duration_ns: u64) -> u64 {
        let window = self.window(geometry, kind, bytes, duration_ns);
        let is_alone = window.lead_bytes.saturating_mul(STRIPE_ALONE_READS) <= window.stripe_bytes;
        if !is_alone {
            return self.buffers_max(geometry, kind, bytes, duration_ns);
        }
        units(geometry, bytes, duration_ns).min(kind.units(geometry) as u64) + others(geometry, kind)
    }
}

impl Window {
    /// Stripes of it.
    pub fn stripes(self) -> u64 {
        self.stripes
    }

    /// Bytes of it.
    pub fn bytes(self) -> u64 {
        self.stripes * self.stripe_bytes
    }

    /// Whether what follows must be requested when so many bytes are left.
    pub(crate) fn is_urgent(self, left_bytes: u64) -> bool {
        left_bytes <= self.lead_bytes
    }

    /// Whether stripe `number` of a body costs another seek. The stripes of the first window cost
    /// one together, and so do those of each refill.
    pub fn is_way(self, number: u64) -> bool {
        match number.checked_sub(self.stripes) {
            None => number == 0,
            Some(beyond) => beyond.is_multiple_of(self.refill),
        }
    }
}

/// Units of a stripe beside those of this kind. They are read if one of those is lost: parity for
/// data rows, all data rows for parity. The data is often in memory when parity is computed, but
/// that is not certain.
fn others(geometry: &Geometry, kind: RowKind) -> u64 {
    (geometry.width() - kind.units(geometry)) as u64
}

/// Most units that a body touches. For a body that is sent with others the number is not known.
fn units(geometry: &Geometry, bytes: u64, duration_ns: u64) -> u64 {
    // One row more than its length gives, because it may begin within a row.
    if duration_ns == 0 { u64::MAX } else { bytes.div_ceil(geometry.row_bytes() as u64) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_volume::GeometryFields;

    const SECOND_NS: u64 = 1_000_000_000;
    const FLASH: Depth = Depth::of(false);
    const DISK: Depth = Depth::of(true);

    fn geometry() -> Geometry {
        Geometry::new(GeometryFields::cmaf(5)).expect("the default geometry")
    }

    /// The window of four seconds at this rate.
    fn window(depth: Depth, rate_bps: u64) -> Window {
        depth.window(&geometry(), RowKind::Data, rate_bps / 2, 4 * SECOND_NS)
    }

    /// Buffers.
    fn promised(depth: Depth, bytes: u64, seconds: u64) -> u64 {
        depth.promised_bytes(&geometry(), RowKind::Data, bytes, seconds * SECOND_NS)
            / geometry().unit_bytes() as u64
    }

    fn most(depth: Depth, bytes: u64, seconds: u64) -> u64 {
        depth.buffers_max(&geometry(), RowKind::Data, bytes, seconds * SECOND_NS)
    }

    #[test]
    fn rotational_members_get_a_full_window_and_others_what_a_read_takes() {
        // A stripe is 8.65 Mb: 200 ms of 43 Mb/s.
        let rates =
            [(64_000, 2), (5_000_000, 2), (43_000_000, 2), (44_000_000, 3), (80_000_000, 3), (90_000_000, 4)];
        for (rate_bps, wanted) in rates {
            assert_eq!(window(FLASH, rate_bps).stripes(), wanted, "{rate_bps}");
            assert_eq!(window(DISK, rate_bps).stripes(), 4);
        }
        assert_eq!(window(FLASH, u64::MAX).stripes(), 4);
        assert_eq!(FLASH.window(&geometry(), RowKind::Data, 1, 0).stripes(), 4, "the duration is not known");
        let of_film = window(FLASH, 5_000_000);
        assert!(of_film.is_urgent(125_000) && !of_film.is_urgent(125_001));
        assert!(window(DISK, 5_000_000).is_urgent(u64::MAX));
    }

    #[test]
    fn the_promise_covers_what_a_reader_cannot_do_without() {
        assert_eq!(promised(FLASH, 2_500_000, 4), 5, "the stripe that is sent, and its parity");
        assert_eq!(most(FLASH, 2_500_000, 4), 9, "two stripes, and the parity of one");
        assert_eq!((promised(DISK, 2_500_000, 4), most(DISK, 2_500_000, 4)), (17, 17));
        // Sound touches three units. If one of them is lost, its stripe is read.
        assert_eq!((promised(FLASH, 64_000, 4), most(FLASH, 64_000, 4)), (4, 5));
        assert_eq!((promised(DISK, 64_000, 4), most(DISK, 64_000, 4)), (5, 5));
        // For a title as one file it is not known what follows.
        assert_eq!((promised(FLASH, 64_000, 0), promised(DISK, 64_000, 0)), (17, 17));
        // At 8.65 Mb/s a stripe is shown for a second.
        assert_eq!(promised(FLASH, 8_600_000 / 2, 4), 5);
        assert_eq!(promised(FLASH, 8_700_000 / 2, 4), 9);
        assert_eq!(promised(FLASH, u64::MAX, 4), 17);
    }

    /// Parity is a quarter of the data that it protects, and its stripes last as long.
    #[test]
    fn parity_has_the_window_of_its_data_and_the_memory_to_compute_it() {
        let (geometry, of) = (geometry(), RowKind::Parity);
        for depth in [FLASH, DISK] {
            for rate_bps in [64_000, 5_000_000, 43_000_000, 44_000_000, 90_000_000] {
                let bytes = rate_bps / 2;
                let data = depth.window(&geometry, RowKind::Data, bytes, 4 * SECOND_NS);
                let parity = depth.window(&geometry, of, bytes / 4, 4 * SECOND_NS);
                assert_eq!((parity.stripes(), parity.bytes()), (data.stripes(), data.bytes() / 4));
            }
            // One stripe, computed from four units of data.
            assert_eq!(FLASH.promised_buffers(&geometry, of, 2_500_000 / 4, 4 * SECOND_NS), 5);
            assert_eq!(FLASH.buffers_max(&geometry, of, 2_500_000 / 4, 4 * SECOND_NS), 6);
            assert_eq!(DISK.promised_buffers(&geometry, of, 2_500_000 / 4, 4 * SECOND_NS), 8);
            assert_eq!(depth.buffers_max(&geometry, of, 0, 0), 8);
        }
    }
}
