//! Who may write a volume when several hosts reach its disks: an owner record with a heartbeat on
//! every member, as ZFS multihost has. `docs/design/owner.md` argues why it is right.
//!
//! Pure parts: [`OwnerRecord`], [`Takeover`], [`Tenure`], `Rest`. [`take_over`] and [`Heartbeat`]
//! do the I/O.

mod heartbeat;
mod host;
#[cfg(test)]
mod laws;
mod record;
mod rest;
mod take_over;
mod takeover;
mod tenure;
mod watch;

pub(crate) use heartbeat::{Heartbeat, Ownership};
pub(crate) use record::{OWNER_OFFSET, OwnerRecord};
pub(crate) use take_over::{Owned, TakeOver, take_over};
pub(crate) use watch::{living_owner, owner_elsewhere};
