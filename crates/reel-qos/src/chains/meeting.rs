//! Chains that come to where another one has been, and become one with it.

use super::shape::{interval_bytes, shape};
use super::{Chain, Chains, hold_beside};
use crate::ledger::ReservationId;
use crate::limits::LAG_ROUNDS_MAX;
use std::sync::Arc;

/// A chain that has come to where another one has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The chain that would follow.
    pub behind: u64,
    /// The first of its streams.
    pub leader: ReservationId,
    /// Whom it would follow.
    pub ahead: ReservationId,
    /// The chain of that one.
    pub into: u64,
}

impl Chains {
    /// The next chain that could follow another one from here on, all of it behind that one's stream; of those with a number of `from` at least.
    pub fn next_meeting(&self, from: u64) -> Option<Meeting> {
        let meets = |(&behind, chain): (&u64, &Chain)| {
            let (&(epoch, leader), last) = (chain.streams.first()?, chain.streams.last()?.0);
            // Of its own, others may have begun in the same second.
            let (ahead, into) = self.ahead(chain.class, &chain.demand, epoch, |chain, _| chain != behind)?;
            let first = self.chains.get(&into)?.streams.first()?.0;
            (last - first <= LAG_ROUNDS_MAX).then_some(Meeting { behind, leader, ahead, into })
        };
        self.chains.range(from..).find_map(meets)
    }

    /// Bytes of the arena that would hold intervals at most if these chains were one.
    pub fn interval_bytes_merged(&self, meeting: &Meeting) -> u64 {
        let all_bytes = self.interval_bytes();
        let of = |id| self.chains.get(&id).and_then(|chain| Some((chain, chain.ends()?)));
        let (Some((behind, ends)), Some((into, other))) = (of(meeting.behind), of(meeting.into)) else {
            return all_bytes;
        };
        let bytes = interval_bytes(into.demand.shared(), ends.1.max(other.1) - ends.0.min(other.0));
        (all_bytes - behind.interval_bytes - into.interval_bytes).saturating_add(bytes)
    }

    /// Makes two chains one: everything between the first stream of the one behind and the next one ahead is in memory, and kept from now on. `false`
    /// if the memory cannot be promised: then nothing has changed.
    pub fn merge(&mut self, meeting: &Meeting) -> bool {
        let most_bytes = self.interval_bytes_most();
        let is_little = u128::from(self.interval_bytes_merged(meeting)) <= most_bytes;
        let (Some(behind), true) = (self.chains.get(&meeting.behind), is_little) else { return false };
        let (streams, reservation) = (behind.streams.clone(), behind.reservation);
        let Some(into) = self.chains.get_mut(&meeting.into) else { return false };
        let (before, held) = (into.streams.clone(), (into.reservation, self.ledger.kept(into.reservation)));
        into.streams.extend(&streams);
        let (shape, base) = shape(&into.demand, &into.streams, self.ledger.now_round());
        let interval_bytes = shape.held_bytes();
        // What both ask together may be more than what each asks by itself in some round, and is not added to it.
        let kept = self.ledger.kept(reservation);
        self.ledger.release(reservation);
        let were_alone = [&before, &streams].into_iter().filter(|chain| chain.len() == 1);
        let new: Vec<_> = were_alone.flatten().copied().collect();
        let is_granted = self.ledger.change(into.reservation, &Arc::new(shape), 0, base).is_ok()
            && hold_beside(&mut self.ledger, &into.demand, &new);
        if !is_granted {
            into.streams = before;
            self.ledger.put_back(held.0, held.1);
            self.ledger.put_back(reservation, kept);
            return false;
        }
        into.note(interval_bytes);
        for (_, stream) in streams {
            if let Some(place) = self.streams.get_mut(&stream) {
                place.chain = meeting.into;
            }
        }
        self.unlist(meeting.behind);
        self.chains.remove(&meeting.behind);
        true
    }
}
