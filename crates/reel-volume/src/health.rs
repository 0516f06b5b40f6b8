//! Which members are read from at the moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which members are present and in sync. Clones see the same truth.
#[derive(Clone, Debug)]
pub struct Health(Arc<[AtomicBool]>);

impl Health {
    /// `readable[m]` says whether member m may be read.
    pub fn new(readable: &[bool]) -> Health {
        Health(readable.iter().map(|&is| AtomicBool::new(is)).collect())
    }

    /// Whether this member is present and holds what was written.
    pub fn readable(&self, member: usize) -> bool {
        self.0.get(member).is_some_and(|is| is.load(Ordering::Acquire))
    }

    /// Members that are not readable.
    pub fn lost(&self) -> usize {
        self.0.iter().filter(|is| !is.load(Ordering::Acquire)).count()
    }

    /// Takes a member out; tells whether it was in.
    pub(crate) fn drop_member(&self, member: usize) -> bool {
        self.0.get(member).is_some_and(|is| is.swap(false, Ordering::AcqRel))
    }
}
