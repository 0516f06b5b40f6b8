//! The erasure codes of volumes.

use std::fmt;

use crate::xor::xor_rows;

/// How the parity rows of a matrix are computed from its data rows.
///
/// The number is what a superblock stores. Number 2 is reserved for a maximum-distance-separable
/// code over the whole matrix (`rs`), which has more than one parity row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// One parity row. Its symbol j is the exclusive or of symbol j of every data row: the column
    /// FEC of SMPTE ST 2022-1 and of RFC 8627.
    Xor,
}

impl Code {
    /// The number stored in a superblock.
    pub const fn number(self) -> u16 {
        match self {
            Code::Xor => 1,
        }
    }

    /// The code with this number, if it is known.
    pub const fn from_number(number: u16) -> Option<Code> {
        match number {
            1 => Some(Code::Xor),
            _ => None,
        }
    }

    /// The name used on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Code::Xor => "xor",
        }
    }

    /// The code with this name, if it is known.
    pub fn from_name(name: &str) -> Option<Code> {
        match name {
            "xor" => Some(Code::Xor),
            _ => None,
        }
    }

    /// Whether the code supports this many parity rows.
    pub const fn allows(self, parity_rows: usize) -> bool {
        match self {
            Code::Xor => parity_rows == 1,
        }
    }

    /// Computes the parity rows of one matrix from its data rows.
    ///
    /// # Panics
    /// If [`Code::allows`] is false for the number of parity rows, or the rows differ in length.
    pub fn encode(self, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        assert!(self.allows(parity.len()), "{self} does not support {} parity rows", parity.len());
        match self {
            Code::Xor => xor_rows(parity[0], data),
        }
    }

    /// Rebuilds one lost row of a matrix, data or parity, from all its other rows, in any order.
    ///
    /// # Panics
    /// If the rows differ in length.
    pub fn rebuild(self, others: &[&[u8]], lost: &mut [u8]) {
        match self {
            Code::Xor => xor_rows(lost, others),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_and_names_round_trip() {
        assert_eq!(Code::from_number(Code::Xor.number()), Some(Code::Xor));
        assert_eq!(Code::from_name(Code::Xor.name()), Some(Code::Xor));
        assert_eq!(Code::from_number(0), None);
        assert_eq!(Code::from_number(2), None);
        assert_eq!(Code::from_name("raid"), None);
        assert!(!Code::Xor.allows(2));
    }

    proptest! {
        #[test]
        fn any_one_lost_row_is_rebuilt(data in (1usize..12, 1usize..3000).prop_flat_map(|(rows, bytes)|
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), bytes), rows))) {
            let mut parity = vec![0xa5; data[0].len()];
            Code::Xor.encode(&data.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut [&mut parity]);
            let mut matrix = data;
            matrix.push(parity);
            for lost in 0..matrix.len() {
                let others: Vec<&[u8]> =
                    matrix.iter().enumerate().filter(|(i, _)| *i != lost).map(|(_, r)| r.as_slice()).collect();
                let mut back = vec![0x5a; matrix[lost].len()];
                Code::Xor.rebuild(&others, &mut back);
                prop_assert_eq!(&back, &matrix[lost]);
            }
        }
    }
}
