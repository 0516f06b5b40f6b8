//! The right to write, which every heartbeat renews: pure.

use crate::catalogue::{MemberSet, write_quorum};
use crate::limits::{BEAT_NS, TENURE_NS};
use crate::owner::record::OwnerRecord;

/// The heartbeats of the owner of a volume.
pub(crate) struct Tenure {
    own: OwnerRecord,
    parity_rows: usize,
    /// For each member, when the last read was requested that found the own record; 0 if none.
    seen_ns: Vec<u64>,
    /// The first member of the next beat.
    turn: usize,
    until_ns: u64,
    taken_over_by: Option<Box<OwnerRecord>>,
}

impl Tenure {
    /// The tenure of an owner whose record was last found on all members at `since_ns`.
    pub(crate) fn new(
        own: OwnerRecord,
        (volume_members, parity_rows): (usize, usize),
        since_ns: u64,
    ) -> Tenure {
        let seen_ns = vec![since_ns; volume_members];
        let until_ns = since_ns + TENURE_NS;
        Tenure { own, parity_rows, seen_ns, turn: 0, until_ns, taken_over_by: None }
    }

    /// Until when nothing but the owner writes.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Who has taken the volume over.
    pub(crate) fn taken_over_by(&self) -> Option<&OwnerRecord> {
        self.taken_over_by.as_deref()
    }

    /// The record of the end of the session.
    pub(crate) fn last_record(&self) -> OwnerRecord {
        OwnerRecord { beat: self.own.beat + 1, is_over: true, ..self.own.clone() }
    }

    /// Begins a beat: the members whose records are to be read. P + 1 members in turn are enough to
    /// meet every other owner; after a pause all are asked.
    pub(crate) fn begin_beat(&mut self, now_ns: u64, readable: MemberSet) -> Vec<usize> {
        self.own.beat += 1;
        if now_ns > self.until_ns {
            self.seen_ns.fill(0);
            return readable.iter().collect();
        }
        let members = self.seen_ns.len();
        let in_turn = (0..members).map(|step| (self.turn + step) % members);
        let chosen: Vec<usize> =
            in_turn.filter(|&member| readable.has(member)).take(self.parity_rows + 1).collect();
        self.turn = chosen.last().map_or(0, |last| (last + 1) % members);
        chosen
    }

    /// Takes the record of a member that was requested at `asked_ns`. Returns the record to write
    /// to it.
    pub(crate) fn read(
        &mut self,
        member: usize,
        asked_ns: u64,
        record: Option<OwnerRecord>,
        now_ns: u64,
    ) -> Option<OwnerRecord> {
        match record {
            Some(other) if other.session != self.own.session => {
                self.taken_over_by.get_or_insert(Box::new(other));
                return None;
            }
            Some(_) => {
                if let Some(seen_ns) = self.seen_ns.get_mut(member) {
                    *seen_ns = (*seen_ns).max(asked_ns);
                }
            }
            // The member is new, or its record is damaged.
            None => {}
        }
        // Another owner may have come since a read that took long.
        (self.taken_over_by.is_none() && now_ns < asked_ns + BEAT_NS).then(|| self.own.clone())
    }

    /// Ends a beat: prolongs the tenure to what the records that were found allow.
    pub(crate) fn end_beat(&mut self) {
        if self.taken_over_by.is_some() {
            self.until_ns = 0;
            return;
        }
        let mut times: Vec<u64> = self.seen_ns.clone();
        times.sort_unstable_by(|one, other| other.cmp(one));
        let renewed = times.into_iter().find(|&since_ns| since_ns > 0 && self.meets_all(since_ns));
        if let Some(since_ns) = renewed {
            self.until_ns = self.until_ns.max(since_ns + TENURE_NS);
        }
    }

    /// Whether every other owner would have written to one of the members whose records were found
    /// since then.
    fn meets_all(&self, since_ns: u64) -> bool {
        let unseen = self.seen_ns.iter().enumerate().filter(|(_, seen_ns)| **seen_ns < since_ns);
        let unseen = unseen.fold(MemberSet::default(), |set, (member, _)| set.with(member));
        !write_quorum(unseen, self.seen_ns.len(), self.parity_rows)
    }
}
