//! The names of units, requests for them and the answers.

use reel_qos::Class;
use reel_volume::{ObjectMap, UnitRows, VolumeError};
use std::ops::Range;
use std::sync::Arc;

/// The name of one unit of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitKey {
    /// [`ObjectMap::id`].
    pub object: u64,
    /// Stripe within the object.
    pub stripe: u64,
    /// Position within the stripe; positions from D on are parity.
    pub position: usize,
}

/// Rows of a unit that a reader wants, and how urgently.
#[derive(Clone)]
pub struct UnitWant {
    /// The object.
    pub map: Arc<ObjectMap>,
    /// Stripe within the object.
    pub stripe: u64,
    /// Data position within the stripe.
    pub position: usize,
    /// Rows of the unit (one per matrix of the stripe).
    pub rows: Range<usize>,
    /// Class of the reads.
    pub class: Class,
    /// When the bytes are due.
    pub deadline_ns: u64,
}

/// A requested unit came, or cannot be read.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The connection given to [`Fetcher::request`](crate::Fetcher::request).
    pub connection: u64,
    /// Which unit.
    pub key: UnitKey,
    /// Its rows, or why no member and no decoding gives them.
    pub result: Result<UnitRows, Arc<VolumeError>>,
}

impl UnitWant {
    pub(crate) fn key(&self) -> UnitKey {
        UnitKey { object: self.map.id(), stripe: self.stripe, position: self.position }
    }
}

/// The rows of each data position that the bytes `range` of a stripe touch.
pub(crate) fn rows_by_position(map: &ObjectMap, range: &Range<u64>) -> Vec<(usize, Range<usize>)> {
    let geometry = map.geometry();
    let row_bytes = geometry.row_bytes() as u64;
    // The casts fit: they are rows of one stripe.
    let first = (range.start / row_bytes) as usize;
    let last = ((range.end - 1) / row_bytes) as usize;
    let data_rows = geometry.data_rows();
    let mut wanted = Vec::with_capacity(data_rows);
    for position in 0..data_rows {
        let from = first.saturating_sub(position).div_ceil(data_rows);
        if position <= last && from * data_rows + position <= last {
            let to = (last - position) / data_rows + 1;
            wanted.push((position, from..to));
        }
    }
    wanted
}
