//! The names of units, requests for them and the answers.

use reel_disk::{DiskError, Requester};
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
    /// Position within the stripe.
    pub position: usize,
    /// Rows of the unit (one per matrix of the stripe).
    pub rows: Range<usize>,
    /// Class of the reads.
    pub class: Class,
    /// When the bytes are due.
    pub deadline_ns: u64,
    /// Whose turn it is among reads without deadlines; `None` for the connection's own.
    pub requester: Option<Requester>,
}

/// Rows of the unit at a position of a stripe.
#[derive(Clone)]
pub(crate) struct PositionRows {
    pub(crate) position: usize,
    pub(crate) rows: Range<usize>,
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
    /// Set if it came after the time at which the connection needed it.
    pub late: Option<Late>,
}

/// How late a unit came for one of those that waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The class in which it was wanted.
    pub class: Class,
    /// The time since its deadline.
    pub by_ns: u64,
}

impl Fetched {
    /// Whether the thread that read the unit has given it up, because its engine was dropped. Then
    /// nothing is known of the unit, and another thread can read it.
    pub(crate) fn is_given_up(&self) -> bool {
        let withdrawn = |error: &Arc<VolumeError>| {
            matches!(**error, VolumeError::Disk { source: DiskError::Withdrawn, .. })
        };
        self.result.as_ref().err().is_some_and(withdrawn)
    }
}

impl UnitWant {
    pub(crate) fn key(&self) -> UnitKey {
        UnitKey { object: self.map.id(), stripe: self.stripe, position: self.position }
    }
}
