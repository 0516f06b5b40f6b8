//! Groups that come to where another one has been, and are merged with it.

use super::group::{Group, hold_beside};
use super::shape::{interval_bytes, shape};
use super::{Ahead, SharedReservations};
use crate::AdmitError;
use crate::ledger::ReservationId;
use crate::limits::LAG_ROUNDS_MAX;
use std::sync::Arc;

/// A group that has come to where another one has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The group that would follow.
    pub behind: u64,
    /// The first of its streams.
    pub leader: ReservationId,
    /// The stream that it would follow.
    pub ahead: ReservationId,
    /// The group of that stream.
    pub into: u64,
}

impl SharedReservations {
    /// The next group that could follow a stream of another one from here on with all of its own
    /// streams. Groups with a number below `from` are left out.
    pub fn next_meeting(&self, from: u64) -> Option<Meeting> {
        let meets = |(&behind, group): (&u64, &Group)| {
            let (&(epoch, leader), last) = (group.streams.first()?, group.streams.last()?.0);
            if self.is_spreading(leader) {
                return None;
            }
            // Other streams of its own may have begun in the same round.
            let Ahead { stream: ahead, group: into } =
                self.ahead(group.class, &group.demand, epoch, |other, _| other != behind)?;
            let first = self.groups.get(&into)?.streams.first()?.0;
            (last - first <= LAG_ROUNDS_MAX).then_some(Meeting { behind, leader, ahead, into })
        };
        self.groups.range(from..).find_map(meets)
    }

    /// Bytes of the arena that would hold intervals at most if these groups were one.
    pub fn interval_bytes_merged(&self, meeting: &Meeting) -> u64 {
        let all_bytes = self.interval_bytes();
        let of = |id| self.groups.get(&id).and_then(|group| Some((group, group.ends()?)));
        let (Some((behind, ends)), Some((into, other))) = (of(meeting.behind), of(meeting.into)) else {
            return all_bytes;
        };
        let bytes = interval_bytes(into.demand.shared(), ends.1.max(other.1) - ends.0.min(other.0));
        (all_bytes - behind.interval_bytes - into.interval_bytes).saturating_add(bytes)
    }

    /// Merges two groups. All data between the first stream of the one behind and the stream ahead
    /// of it is in memory, and kept from now on. `false` if the memory cannot be reserved: then
    /// nothing has changed.
    pub fn merge(&mut self, meeting: &Meeting) -> bool {
        let most_bytes = self.interval_bytes_most();
        let is_little = u128::from(self.interval_bytes_merged(meeting)) <= most_bytes;
        let (Some(behind), true) = (self.groups.get(&meeting.behind), is_little) else { return false };
        let (streams, reservation) = (behind.streams.clone(), behind.reservation);
        let Some(into) = self.groups.get_mut(&meeting.into) else { return false };
        let were_alone = [&into.streams, &streams].into_iter().filter(|group| group.len() == 1);
        let new: Vec<_> = were_alone.flatten().copied().collect();
        let mut epochs = into.epochs();
        epochs.extend(streams.iter().map(|(epoch, _)| *epoch));
        epochs.sort_unstable();
        let (shape, base) = shape(&into.demand, &epochs, self.ledger.now_round());
        let interval_bytes = shape.held_bytes();
        let merged = self.ledger.try_change(|ledger| -> Result<(), AdmitError> {
            // In some rounds both together may need more than each by itself. That replaces what
            // each holds, and is not added to it.
            ledger.release(reservation);
            ledger.change(into.reservation, &Arc::new(shape), 0, base)?;
            hold_beside(ledger, &into.demand, &new)
        });
        if merged.is_err() {
            return false;
        }
        into.streams.extend(&streams);
        into.note(interval_bytes);
        for (_, stream) in streams {
            if let Some(place) = self.streams.get_mut(&stream) {
                place.group = meeting.into;
            }
        }
        self.close_group(meeting.behind);
        true
    }
}
