//! The matrix geometry of a volume: the only place where it is checked and computed.

use crate::limits::{
    BLOCK_BYTES, MEMBERS_MAX, ROW_BYTES_MIN, ROW_SYMBOLS_MAX, SYMBOL_BYTES_MAX, UNIT_BYTES_MAX, UNIT_ROWS_MAX,
};

/// The six numbers of a geometry, unchecked, as in a configuration or a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GeometryFields {
    /// E: bytes of a symbol, the payload of one network packet.
    pub symbol_bytes: usize,
    /// L: symbols of a row.
    pub row_symbols: usize,
    /// M: rows of a unit, one of each of M consecutive matrices.
    pub unit_rows: usize,
    /// D: data rows of a matrix.
    pub data_rows: usize,
    /// P: parity rows of a matrix, which is the number of members that may be lost.
    pub parity_rows: usize,
    /// N: members of the volume, at least D + P.
    pub members: usize,
}

impl GeometryFields {
    /// The default for titles in the `cmaf` form: rows of 45,056 bytes, six to a unit of 264 KiB.
    /// All members hold a part of every stripe.
    pub const fn cmaf(members: usize) -> GeometryFields {
        let data_rows = if members > 1 { members - 1 } else { 1 };
        GeometryFields {
            symbol_bytes: 1408,
            row_symbols: 32,
            unit_rows: 6,
            data_rows,
            parity_rows: 1,
            members,
        }
    }

    /// For titles in the form `ts`: a symbol is seven transport packets, a matrix the largest that
    /// SMPTE ST 2022-1 allows, and a unit about 180 KiB that are nearly whole blocks. All members
    /// hold a part of every stripe.
    pub const fn ts(data_rows: usize) -> GeometryFields {
        let data_rows = if data_rows > 0 { data_rows } else { 1 };
        let largest = FEC_MATRIX_SYMBOLS_MAX / data_rows;
        let row_symbols = match largest {
            0 => 1,
            FEC_ROW_SYMBOLS_MAX.. => FEC_ROW_SYMBOLS_MAX,
            largest => largest,
        };
        let row_bytes = TS_SYMBOL_BYTES * row_symbols;
        let unit_rows = match data_rows {
            1..=6 => 7,
            7 => 8,
            8 | 10 | 12 => 14,
            16 => 28,
            20 => 61,
            _ => TS_UNIT_BYTES.div_ceil(row_bytes),
        };
        let (parity_rows, members) = (1, data_rows + 1);
        GeometryFields {
            symbol_bytes: TS_SYMBOL_BYTES,
            row_symbols,
            unit_rows,
            data_rows,
            parity_rows,
            members,
        }
    }
}

/// Bytes of a symbol of the preset `ts`: seven transport packets of 188 bytes.
const TS_SYMBOL_BYTES: usize = 7 * 188;
/// Bytes of a unit of the preset `ts`, about.
const TS_UNIT_BYTES: usize = 180 << 10;
/// L of column FEC by SMPTE ST 2022-1, at most.
const FEC_ROW_SYMBOLS_MAX: usize = 20;
/// D of column FEC by SMPTE ST 2022-1, at least.
const FEC_DATA_ROWS_MIN: usize = 4;
/// D of column FEC by SMPTE ST 2022-1, at most.
const FEC_DATA_ROWS_MAX: usize = 20;
/// L x D of column FEC by SMPTE ST 2022-1, at most.
const FEC_MATRIX_SYMBOLS_MAX: usize = 100;

/// A geometry for a purpose, as the default of what was not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GeometryPreset {
    /// For titles in the form `cmaf`.
    #[default]
    Cmaf,
    /// For titles in the form `ts`, whose parity rows can be sent.
    Ts,
}

impl GeometryPreset {
    /// The geometry of this many members, of which a stripe takes D + P.
    pub const fn fields(self, data_rows: usize, parity_rows: usize, members: usize) -> GeometryFields {
        let preset = match self {
            GeometryPreset::Cmaf => GeometryFields::cmaf(members),
            GeometryPreset::Ts => GeometryFields::ts(data_rows),
        };
        GeometryFields { data_rows, parity_rows, members, ..preset }
    }
}

/// A checked geometry and everything that follows from it by arithmetic.
///
/// Terms: a *matrix* is D data rows and P parity rows; a *unit* is M rows of M consecutive matrices
/// on one member; a *stripe* is M matrices, one unit on each of W = D + P members; a *slot* is the
/// space of one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    fields: GeometryFields,
    row_bytes: usize,
    unit_bytes: usize,
}

/// A rule of geometry that was broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this geometry is not valid: {rule} (got {got})")]
pub struct GeometryError {
    /// The rule, in words.
    pub rule: &'static str,
    /// The value that breaks it.
    pub got: String,
}

/// The position of a byte of an object within its stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The stripe, counted from the start of the object.
    pub stripe: u64,
    /// The position in the stripe: 0..D data, D..W parity.
    pub position: usize,
    /// The matrix of the stripe, which is also the row of the unit: 0..M.
    pub matrix: usize,
    /// The byte of the row.
    pub byte: usize,
}

/// The position of a unit on the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitAddress {
    /// The member, 0..N.
    pub member: usize,
    /// The unit on that member, counted from its data offset.
    pub unit: u64,
}

impl Geometry {
    /// Checks the six numbers against every rule and each other.
    ///
    /// # Errors
    /// If a rule is broken; the error names it.
    pub fn new(fields: GeometryFields) -> Result<Geometry, GeometryError> {
        let GeometryFields { symbol_bytes, row_symbols, unit_rows, data_rows, parity_rows, members } = fields;
        within("the symbol (E) must be 1 to 65,536 bytes", symbol_bytes, 1, SYMBOL_BYTES_MAX)?;
        within("a row (L) must have 1 to 4,096 symbols", row_symbols, 1, ROW_SYMBOLS_MAX)?;
        within("a unit (M) must have 1 to 1,024 rows", unit_rows, 1, UNIT_ROWS_MAX)?;
        within(
            "a matrix (D) must have at least one data row, and fewer than 128",
            data_rows,
            1,
            MEMBERS_MAX - 1,
        )?;
        within(
            "parity (P) must be 1, the only number of parity rows the xor code can make",
            parity_rows,
            1,
            1,
        )?;
        within("a volume (N) must have at most 128 members", members, 0, MEMBERS_MAX)?;
        within(
            "a volume needs at least D + P members, N >= D + P",
            members,
            data_rows + parity_rows,
            MEMBERS_MAX,
        )?;
        let row_bytes = symbol_bytes * row_symbols;
        within("a row (E x L) must be at least 64 bytes", row_bytes, ROW_BYTES_MIN, usize::MAX)?;
        let unit_bytes = (row_bytes * unit_rows).next_multiple_of(BLOCK_BYTES);
        within(
            "a unit (E x L x M, in blocks of 4096) must be at most 16 MiB",
            unit_bytes,
            0,
            UNIT_BYTES_MAX,
        )?;
        Ok(Geometry { fields, row_bytes, unit_bytes })
    }

    /// The six numbers.
    pub fn fields(&self) -> GeometryFields {
        self.fields
    }

    /// E: bytes of a symbol.
    pub fn symbol_bytes(&self) -> usize {
        self.fields.symbol_bytes
    }

    /// L: symbols of a row.
    pub fn row_symbols(&self) -> usize {
        self.fields.row_symbols
    }

    /// M: rows of a unit, which is also the number of matrices of a stripe.
    pub fn unit_rows(&self) -> usize {
        self.fields.unit_rows
    }

    /// D: data rows of a matrix.
    pub fn data_rows(&self) -> usize {
        self.fields.data_rows
    }

    /// P: parity rows of a matrix.
    pub fn parity_rows(&self) -> usize {
        self.fields.parity_rows
    }

    /// Whether a parity row can be sent as column FEC by SMPTE ST 2022-1 (L and D up to 20, D at
    /// least 4, L x D at most 100).
    pub fn allows_st_2022_1(&self) -> bool {
        let (row_symbols, data_rows) = (self.row_symbols(), self.data_rows());
        row_symbols <= FEC_ROW_SYMBOLS_MAX
            && (FEC_DATA_ROWS_MIN..=FEC_DATA_ROWS_MAX).contains(&data_rows)
            && row_symbols * data_rows <= FEC_MATRIX_SYMBOLS_MAX
    }

    /// N: members of the volume.
    pub fn members(&self) -> usize {
        self.fields.members
    }

    /// W = D + P: units of a stripe.
    pub fn width(&self) -> usize {
        self.fields.data_rows + self.fields.parity_rows
    }

    /// Bytes of a row, E x L.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Bytes of a unit on disk: M rows and spare bytes up to a multiple of 4096.
    pub fn unit_bytes(&self) -> usize {
        self.unit_bytes
    }

    /// Object bytes of a stripe: M x D rows.
    pub fn stripe_bytes(&self) -> usize {
        self.row_bytes * self.fields.data_rows * self.fields.unit_rows
    }

    /// Rows of a stripe, data and parity.
    pub fn stripe_rows(&self) -> usize {
        self.width() * self.fields.unit_rows
    }

    /// Stripes that an object of this length takes.
    pub fn stripes(&self, object_bytes: u64) -> u64 {
        object_bytes.div_ceil(self.stripe_bytes() as u64)
    }

    /// Symbols of data in a matrix: L x D.
    pub fn matrix_symbols(&self) -> u64 {
        (self.row_symbols() * self.data_rows()) as u64
    }

    /// The position of a byte of an object. Object order is matrix by matrix, row by row.
    pub fn locate(&self, object_offset: u64) -> Location {
        let stripe_bytes = self.stripe_bytes() as u64;
        let within = (object_offset % stripe_bytes) as usize;
        let row = within / self.row_bytes;
        Location {
            stripe: object_offset / stripe_bytes,
            position: row % self.data_rows(),
            matrix: row / self.data_rows(),
            byte: within % self.row_bytes,
        }
    }

    /// The byte of an object at that position; `None` for a parity row or a position outside a row.
    pub fn object_offset(&self, at: Location) -> Option<u64> {
        if at.position >= self.data_rows() || at.matrix >= self.unit_rows() || at.byte >= self.row_bytes {
            return None;
        }
        let row = at.matrix * self.data_rows() + at.position;
        Some(at.stripe * self.stripe_bytes() as u64 + (row * self.row_bytes + at.byte) as u64)
    }

    /// The index of a row's checksum in an object's list of checksums: stripe, then position, then
    /// matrix.
    pub fn sum_index(&self, stripe: u64, position: usize, matrix: usize) -> u64 {
        (stripe * self.width() as u64 + position as u64) * self.unit_rows() as u64 + matrix as u64
    }

    /// The address of the unit at a position of a slot.
    ///
    /// Slots are in groups of N; slot r of a group starts at member r. Every member holds units of
    /// exactly W slots of each group, in the order of the slots.
    ///
    /// # Panics
    /// If the position is not below W.
    pub fn place(&self, slot: u64, position: usize) -> UnitAddress {
        let (members, width) = (self.members(), self.width());
        assert!(position < width, "a stripe has {width} positions, not one numbered {position}");
        let (group, turn) = (slot / members as u64, (slot % members as u64) as usize);
        let member = (turn + position) % members;
        // The slots r of a group that a member takes part in are member-W+1..=member, modulo N.
        let rank = if member + 1 >= width {
            turn - (member + 1 - width)
        } else if turn <= member {
            turn
        } else {
            turn - (members - width)
        };
        UnitAddress { member, unit: group * width as u64 + rank as u64 }
    }

    /// The slot and position of the unit at that address: the inverse of [`Geometry::place`].
    ///
    /// # Panics
    /// If the member is not below N.
    pub fn slot_at(&self, place: UnitAddress) -> (u64, usize) {
        let (members, width) = (self.members(), self.width());
        let UnitAddress { member, unit } = place;
        assert!(member < members, "the volume has {members} members, not one numbered {member}");
        let (group, rank) = (unit / width as u64, (unit % width as u64) as usize);
        let turn = if member + 1 >= width {
            rank + (member + 1 - width)
        } else if rank <= member {
            rank
        } else {
            rank + (members - width)
        };
        (group * members as u64 + turn as u64, (member + members - turn) % members)
    }

    /// Slots that fit when every member has space for this number of units.
    pub fn slots(&self, units_per_member: u64) -> u64 {
        units_per_member / self.width() as u64 * self.members() as u64
    }
}

fn within(rule: &'static str, got: usize, low: usize, high: usize) -> Result<(), GeometryError> {
    if (low..=high).contains(&got) { Ok(()) } else { Err(GeometryError { rule, got: got.to_string() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preset_for_transport_streams_can_be_sent() {
        for members in 2..=MEMBERS_MAX {
            let fields = GeometryPreset::Ts.fields(members - 1, 1, members);
            let geometry = Geometry::new(fields).expect("valid");
            assert_eq!(geometry.symbol_bytes(), 1316);
            assert_eq!(geometry.allows_st_2022_1(), (5..=21).contains(&members), "{members} members");
            let spare = geometry.unit_bytes() - geometry.unit_rows() * geometry.row_bytes();
            assert!(spare < 4096, "{members} members");
        }
        let of = |data_rows| {
            let fields = GeometryFields::ts(data_rows);
            let unit_kib = Geometry::new(fields).expect("valid").unit_bytes() >> 10;
            (fields.row_symbols, fields.unit_rows, unit_kib)
        };
        assert_eq!(of(4), (20, 7, 180));
        assert_eq!(of(8), (12, 14, 216));
        assert_eq!(of(20), (5, 61, 392));
    }

    #[test]
    fn the_usual_geometry_exceeds_the_standard() {
        let usual = Geometry::new(GeometryFields::cmaf(5)).expect("valid");
        assert!(!usual.allows_st_2022_1());
        assert_eq!(GeometryPreset::Cmaf.fields(4, 1, 5), GeometryFields::cmaf(5));
    }
}
