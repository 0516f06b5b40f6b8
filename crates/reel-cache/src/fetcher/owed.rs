//! Requests that the disks have not answered, and the reservations of their memory.

use crate::budget::Reservation;
use crate::flight::FETCH_BITS;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Requests that the disks have not answered.
pub(super) struct WithDisks {
    by_token: HashMap<u64, Owed>,
    /// (time, token) of the requests to each member, oldest first.
    by_member: Vec<BTreeSet<(u64, u64)>>,
}

/// A request that a member has not answered.
struct Owed {
    member: usize,
    since_ns: u64,
    /// The reservation that covers its buffer until it is answered, whether a reader waits for it
    /// or not.
    reservation: Option<Arc<Reservation>>,
}

impl WithDisks {
    pub(super) fn new(members: usize) -> Self {
        Self { by_token: HashMap::new(), by_member: vec![BTreeSet::new(); members] }
    }

    pub(super) fn submitted(
        &mut self,
        token: u64,
        member: usize,
        reservation: Option<Arc<Reservation>>,
        since_ns: u64,
    ) {
        self.by_token.insert(token, Owed { member, since_ns, reservation });
        self.by_member[member].insert((since_ns, token));
    }

    /// No reader waits for these requests any more. The memory of the readers that did now holds
    /// what was computed instead. So the reservation of the hedged read stays as far as it has to
    /// cover these requests.
    pub(super) fn keep_for_unanswered(
        &mut self,
        tokens: &[u64],
        sources: usize,
        reservation: &Arc<Reservation>,
    ) {
        reservation.lend_until_answered(tokens.len() + sources);
        for token in tokens {
            if let Some(owed) = self.by_token.get_mut(token) {
                owed.reservation = Some(Arc::clone(reservation));
            }
        }
    }

    /// The member that has answered. `None` if the token belongs to no request.
    pub(super) fn answered(&mut self, token: u64) -> Option<usize> {
        let Owed { member, since_ns, .. } = self.by_token.remove(&token)?;
        self.by_member[member].remove(&(since_ns, token));
        Some(member)
    }

    /// Members with a request, and the time of the oldest one.
    pub(super) fn oldest(&self) -> impl Iterator<Item = (usize, u64)> {
        let oldest = |(member, requests): (usize, &BTreeSet<(u64, u64)>)| {
            requests.first().map(|(since_ns, _)| (member, *since_ns))
        };
        self.by_member.iter().enumerate().filter_map(oldest)
    }

    /// The requests to a member, oldest first: the time, and the read that made it.
    pub(super) fn of(&self, member: usize) -> impl Iterator<Item = (u64, u64)> {
        self.by_member[member].iter().map(|(since_ns, token)| (*since_ns, token >> FETCH_BITS))
    }

    /// The member of each request.
    pub(super) fn members(&self) -> impl Iterator<Item = usize> {
        self.by_token.values().map(|owed| owed.member)
    }
}
