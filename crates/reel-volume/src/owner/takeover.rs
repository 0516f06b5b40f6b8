//! Takes a volume over: pure. The caller does the reads, writes and waiting that are asked for.

use crate::catalogue::{MemberSet, write_quorum};
use crate::limits::{BEAT_NS, CLAIM_WITHIN_NS, CONFIRM_NS, WATCH_NS};
use crate::owner::host::Life;
use crate::owner::record::OwnerRecord;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read the record of a member, then call [`Takeover::read`].
    Read(usize),
    /// Write this record to a member, then call [`Takeover::wrote`].
    Write(usize, OwnerRecord),
    /// Do nothing until this time.
    Wait { until_ns: u64 },
    /// The volume may be written until the tenure that begins at this time ends.
    Owned { since_ns: u64 },
    /// The volume has this owner.
    Refused(Box<OwnerRecord>),
    /// Too few members took the record.
    Failed,
}

/// One attempt to become the owner of a volume.
pub(crate) struct Takeover {
    own: OwnerRecord,
    /// The members that are present.
    members: Vec<usize>,
    volume_members: usize,
    parity_rows: usize,
    /// What is known about a session from its record.
    knows: Box<dyn Fn(&OwnerRecord) -> Life + Send>,
    phase: Phase,
    /// The next member in `members` to be read or written.
    next: usize,
    round_begun_ns: u64,
    /// What this round has found, and the last one.
    found: Vec<Option<OwnerRecord>>,
    before: Vec<Option<OwnerRecord>>,
    /// The members that took the record in this round.
    taken: MemberSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Reads the records for the first time.
    Look,
    /// Reads them repeatedly, to see whether one changes.
    Watch { until_ns: u64, at_ns: u64 },
    /// Writes its own. `looked_ns` is when the round of reads before it began.
    Claim { looked_ns: u64, confirm: bool },
    /// Reads its own again, until no other host can still write.
    Confirm { until_ns: u64, at_ns: u64 },
    /// Writes its own again, so that others see a change.
    Beat { looked_ns: u64, until_ns: u64 },
    /// Nothing is left to do.
    Done { since_ns: u64 },
}

impl Takeover {
    /// `own` is the record to write. `members` are those that are present.
    pub(crate) fn new(
        own: OwnerRecord,
        members: Vec<usize>,
        (volume_members, parity_rows): (usize, usize),
        knows: impl Fn(&OwnerRecord) -> Life + Send + 'static,
    ) -> Takeover {
        Takeover {
            own,
            members,
            volume_members,
            parity_rows,
            knows: Box::new(knows),
            phase: Phase::Look,
            next: 0,
            round_begun_ns: 0,
            found: Vec::new(),
            before: Vec::new(),
            taken: MemberSet::default(),
        }
    }

    /// The record as it was last written.
    pub(crate) fn into_own(self) -> OwnerRecord {
        self.own
    }

    /// The session whose end is waited for, and for how long at most.
    pub(crate) fn waits_for(&self, now_ns: u64) -> Option<(&OwnerRecord, u64)> {
        let Phase::Watch { until_ns, .. } = self.phase else { return None };
        let unknown = |record: &&OwnerRecord| (self.knows)(record) == Life::Unknown;
        let other = self.before.iter().flatten().find(unknown)?;
        Some((other, until_ns.saturating_sub(now_ns) + CONFIRM_NS))
    }

    /// What to do now.
    pub(crate) fn step(&mut self, now_ns: u64) -> Step {
        loop {
            let (reads, at_ns) = match self.phase {
                Phase::Look => (true, 0),
                Phase::Watch { at_ns, .. } | Phase::Confirm { at_ns, .. } => (true, at_ns),
                Phase::Claim { looked_ns, .. } | Phase::Beat { looked_ns, .. }
                    if now_ns > looked_ns + CLAIM_WITHIN_NS =>
                {
                    // Another host may have come since: what was read is too old to write by.
                    (self.phase, self.next) = (Phase::Look, 0);
                    continue;
                }
                Phase::Claim { .. } | Phase::Beat { .. } => (false, 0),
                Phase::Done { since_ns } => return Step::Owned { since_ns },
            };
            if self.next == 0 {
                if now_ns < at_ns {
                    return Step::Wait { until_ns: at_ns };
                }
                self.round_begun_ns = now_ns;
                self.found.clear();
                self.taken = MemberSet::default();
            }
            if let Some(&member) = self.members.get(self.next) {
                return if reads { Step::Read(member) } else { Step::Write(member, self.own.clone()) };
            }
            self.next = 0;
            if let Some(end) = self.end_round(now_ns) {
                return end;
            }
        }
    }

    /// The record that was read from the member of the last step; `None` if it has none.
    pub(crate) fn read(&mut self, record: Option<OwnerRecord>) {
        self.found.push(record);
        self.next += 1;
    }

    /// Whether the member of the last step took the record.
    pub(crate) fn wrote(&mut self, succeeded: bool) {
        if let (true, Some(&member)) = (succeeded, self.members.get(self.next)) {
            self.taken = self.taken.with(member);
        }
        self.next += 1;
    }

    fn end_round(&mut self, now_ns: u64) -> Option<Step> {
        let looked_ns = self.round_begun_ns;
        match self.phase {
            Phase::Look => self.looked(now_ns),
            Phase::Watch { until_ns, .. } => return self.watched(until_ns),
            Phase::Claim { .. } | Phase::Beat { .. } if !self.is_quorum() => return Some(Step::Failed),
            Phase::Claim { confirm: true, .. } => {
                self.phase = Phase::Confirm { until_ns: now_ns + CONFIRM_NS, at_ns: now_ns + BEAT_NS };
            }
            Phase::Claim { looked_ns, confirm: false } => self.phase = Phase::Done { since_ns: looked_ns },
            Phase::Confirm { until_ns, .. } => {
                if let Some(other) = self.found.iter().flatten().find(|found| !self.is_own(found)) {
                    return Some(Step::Refused(Box::new(other.clone())));
                }
                self.phase = match looked_ns >= until_ns {
                    true => Phase::Done { since_ns: looked_ns },
                    false => Phase::Beat { looked_ns, until_ns },
                };
                self.own.beat += 1;
            }
            Phase::Beat { until_ns, looked_ns } => {
                self.phase = Phase::Confirm { until_ns, at_ns: (looked_ns + BEAT_NS).min(until_ns) };
            }
            Phase::Done { .. } => {}
        }
        None
    }

    /// Decides by the records alone whether to wait before and after claiming.
    fn looked(&mut self, now_ns: u64) {
        let over = |record: &OwnerRecord| {
            let session =
                self.found.iter().flatten().find(|one| one.session == record.session && one.is_over);
            (self.knows)(session.unwrap_or(record))
        };
        // The own record is there if its round of writes took too long. What it replaced is not
        // known any more, so the next claim is confirmed.
        let others = self.found.iter().flatten().filter(|record| !self.is_own(record));
        let lives: Vec<Life> = others.map(over).collect();
        self.phase = if lives.contains(&Life::Unknown) {
            Phase::Watch { until_ns: now_ns + WATCH_NS, at_ns: now_ns + BEAT_NS }
        } else {
            // If every session was on this machine, other machines see a live owner from now on.
            // Another machine that wants the volume at this moment waits for longer than this one
            // takes to notice it.
            let confirm = lives.is_empty() || lives.contains(&Life::OverElsewhere);
            Phase::Claim { looked_ns: self.round_begun_ns, confirm }
        };
        self.before = self.found.clone();
    }

    fn watched(&mut self, until_ns: u64) -> Option<Step> {
        for (before, found) in self.before.iter_mut().zip(&self.found) {
            let Some(found) = found else { continue };
            match before {
                Some(old) if old.session == found.session && found.is_over && !old.is_over => {
                    self.phase = Phase::Look;
                    return None;
                }
                Some(old) if old != found => return Some(Step::Refused(Box::new(found.clone()))),
                // It could not be read before.
                _ => *before = Some(found.clone()),
            }
        }
        self.phase = match self.round_begun_ns >= until_ns {
            true => Phase::Claim { looked_ns: self.round_begun_ns, confirm: true },
            false => Phase::Watch { until_ns, at_ns: (self.round_begun_ns + BEAT_NS).min(until_ns) },
        };
        None
    }

    fn is_own(&self, record: &OwnerRecord) -> bool {
        record.session == self.own.session
    }

    /// Whether enough members took the record that every other owner meets one of them.
    fn is_quorum(&self) -> bool {
        write_quorum(self.taken, self.volume_members, self.parity_rows)
    }
}
