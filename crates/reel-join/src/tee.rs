//! One chain of bytes for several branches, each with a place of its own. Pure.
//!
//! ```text
//!            least done: released               offered
//!   chain ---|==========|=======================|
//!   branch 0            |--- in flight ---|-----|   (the slowest)
//!   branch 1                                    |   (waits for more)
//! ```
//! Branches hold what they have not finished as leases of the same buffers. The chain is released
//! up to the least that all branches have finished. So what is held is what the chain may hold,
//! however many branches there are, and the slowest branch decides how fast it goes.
//! [`Tee::too_slow`] names branches that keep others waiting for longer than they may.

mod branch;
mod runs;
mod standing;

use crate::limits::{
    BRANCH_BYTE_MAX_NS, BRANCH_HELD_UNDER_PRESSURE_MAX_NS, BRANCH_HOLD_MAX_NS, DATAGRAM_AHEAD_NS,
    JOIN_LEAD_NS, LINK_AHEAD_NS,
};
use crate::packet_times::{PACKET_BYTES, PacketTimes};
use branch::Branch;
use reel_arena::mms::Ending;
use reel_ring::Chunk;
use reel_serve::streams::{Offer, Outlet, Settled};
pub use runs::SentRuns;
use std::collections::BTreeMap;

/// No deadline.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// The branches of a chain, by number.
#[derive(Debug)]
pub struct Tee {
    branches: BTreeMap<u64, Branch>,
    /// When packets are due, if the chain is a transport stream.
    times: Option<PacketTimes>,
    /// When the beginning of that stream was due at the earliest, since it has deadlines.
    epoch_ns: Option<i128>,
    /// How long before a byte is due it is offered at most.
    lead_ns: u64,
    now_ns: u64,
    /// The position after the last byte that was offered.
    offered: u64,
    /// The position up to which the chain was released.
    released: u64,
    /// When the next byte is due, or the last one that was offered.
    due_ns: u64,
    /// Whether more will be offered.
    more: bool,
    /// When it was last looked for slow branches.
    looked_ns: u64,
}

/// What a branch may send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The position of its first byte.
    pub position: u64,
    /// When that is due in the chain; `u64::MAX` if at no fixed time.
    pub due_ns: u64,
    /// How many bytes wait.
    pub bytes: usize,
    /// Whether these are all to the end.
    pub is_rest: bool,
}

/// What keeps a branch, and others with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptBy {
    /// Its destination, which takes too little.
    Destination,
    /// The link to other machines, which has no time for it.
    Link,
}

impl Tee {
    /// A chain that begins at this position, without branches.
    pub fn new(position: u64, now_ns: u64) -> Tee {
        Tee {
            branches: BTreeMap::new(),
            times: None,
            epoch_ns: None,
            lead_ns: JOIN_LEAD_NS,
            now_ns,
            offered: position,
            released: position,
            due_ns: NEVER_NS,
            more: true,
            looked_ns: now_ns,
        }
    }

    /// The same for a transport stream, each packet of which has a time of its own. It is offered
    /// as much earlier that a whole stretch may leave before that is due: then what was read for it
    /// is not taken later than the session's schedule says.
    pub fn of_packets(position: u64, times: PacketTimes, now_ns: u64) -> Tee {
        let lead_ns = JOIN_LEAD_NS - DATAGRAM_AHEAD_NS + ahead_of(&times);
        Tee { times: Some(times), lead_ns, ..Tee::new(position, now_ns) }
    }

    /// How long before it is due a datagram leaves.
    pub fn datagrams_ahead_ns(&self) -> u64 {
        self.times.as_ref().map_or(DATAGRAM_AHEAD_NS, ahead_of)
    }

    /// A branch joins. Returns the position of its first byte: the next one that is offered.
    pub fn join(&mut self, number: u64) -> u64 {
        self.join_at(number, self.offered)
    }

    /// A branch joins that begins with the next packet of a transport stream.
    pub fn join_at_packet(&mut self, number: u64) -> u64 {
        self.join_at(number, self.offered.next_multiple_of(PACKET_BYTES))
    }

    fn join_at(&mut self, number: u64, position: u64) -> u64 {
        self.branches.insert(number, Branch::new(position, self.now_ns));
        position
    }

    /// Another destination takes over what waits for a branch that sends nothing at present; from
    /// its next packet on if that is wanted. Returns the position of its first byte. How long the
    /// branch has kept others waiting is not forgotten.
    pub fn hand_over(&mut self, number: u64, at_packet: bool) -> u64 {
        let now_ns = self.now_ns;
        let Some(branch) = self.branches.get_mut(&number) else { return self.offered };
        let position = if at_packet { branch.done.next_multiple_of(PACKET_BYTES) } else { branch.done };
        branch.hand_over(position, now_ns);
        position
    }

    /// Whether a branch sends something at present.
    pub fn is_sending(&self, number: u64) -> bool {
        self.branches.get(&number).is_some_and(Branch::is_sending)
    }

    /// A branch leaves.
    pub fn leave(&mut self, number: u64) {
        self.branches.remove(&number);
    }

    /// The time until it is set again.
    pub fn set_now(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// The branches.
    pub fn branches(&self) -> Vec<u64> {
        self.branches.keys().copied().collect()
    }

    /// Bytes that a branch may take; none while it sends.
    pub fn waiting_bytes(&self, number: u64) -> usize {
        self.branches.get(&number).map_or(0, Branch::waiting_bytes)
    }

    /// When the next byte of a branch is due, if it has one, or else the last one that it was
    /// offered; `u64::MAX` if that is due at no fixed time. Nothing is due before a viewer at the
    /// destination begins to play. What was offered before its session had deadlines is due with
    /// what comes after it.
    pub fn due_ns(&self, number: u64) -> u64 {
        self.branches.get(&number).map_or(self.due_ns, |branch| branch.next_due_ns(self.due_ns))
    }

    /// What waits for a branch; nothing while it sends.
    pub fn waiting(&self, number: u64) -> Option<Waiting> {
        let branch = self.branches.get(&number)?;
        let bytes = branch.waiting_bytes();
        let is_rest = !self.more && branch.done + bytes as u64 == self.offered;
        (bytes > 0).then(|| Waiting { position: branch.done, due_ns: branch.front_due_ns(), bytes, is_rest })
    }

    /// When packets are due, if the chain is a transport stream.
    pub fn times(&self) -> Option<&PacketTimes> {
        self.times.as_ref()
    }

    /// What a branch is to send next: at most so many bytes of what was offered to it. Nothing if
    /// it sends already, so bytes leave in order.
    pub fn take(&mut self, number: u64, bytes_max: usize) -> Vec<Chunk> {
        let now_ns = self.now_ns;
        let Some(branch) = self.branches.get_mut(&number) else { return Vec::new() };
        branch.moves_on(now_ns);
        branch.take(bytes_max, now_ns)
    }

    /// A branch waits from now on until the link to other machines has time for it.
    pub fn awaits_link(&mut self, number: u64) {
        let now_ns = self.now_ns;
        if let Some(branch) = self.branches.get_mut(&number) {
            branch.pace.stands(false, now_ns);
            branch.link.stands(true, now_ns);
        }
    }

    /// A branch waits from now on until its next datagram is to leave. It keeps no other one
    /// waiting meanwhile: these bytes were offered to all.
    pub fn awaits_pace(&mut self, number: u64) {
        let now_ns = self.now_ns;
        if let Some(branch) = self.branches.get_mut(&number) {
            branch.link.stands(false, now_ns);
            branch.pace.stands(true, now_ns);
        }
    }

    /// A branch has sent so many bytes of what it took. The rest is to be taken again. Returns
    /// those that were late.
    pub fn sent(&mut self, number: u64, bytes: usize) -> u64 {
        let now_ns = self.now_ns;
        let times = self.times.as_ref();
        self.branches.get_mut(&number).map_or(0, |branch| branch.sent(bytes, times, now_ns))
    }

    /// How a branch sends.
    pub fn runs(&self, number: u64) -> SentRuns {
        self.branches.get(&number).map_or(SentRuns::default(), |branch| branch.runs.means())
    }

    /// Whether a branch has sent everything to the end.
    pub fn is_complete(&self, number: u64) -> bool {
        !self.more && self.branches.get(&number).is_some_and(|branch| branch.done >= self.offered)
    }

    /// The branches that keep another one waiting for longer than they may, or that hold memory for
    /// which others wait, if they do (`is_pressed`); and what keeps them.
    ///
    /// A branch keeps another one waiting while that has sent all that was offered, more is to be
    /// sent now, and the branch has not sent all. Where bytes have deadlines, it may do so for
    /// [`BRANCH_HOLD_MAX_NS`] in sum, and for a tenth of the time. Without deadlines all branches
    /// go as fast as the slowest one, as long as that finishes each byte within
    /// [`BRANCH_BYTE_MAX_NS`].
    ///
    /// The time for which a branch waits for the link is none of its destination's. Where bytes
    /// have deadlines, it has a sum of its own with the same bound, and what is due after more than
    /// [`LINK_AHEAD_NS`] may wait: no other branch is late because of it. Without deadlines, each
    /// turn must come within [`BRANCH_BYTE_MAX_NS`].
    pub fn too_slow(&mut self, is_pressed: bool) -> Vec<(u64, KeptBy)> {
        let (now_ns, has_deadlines) = (self.now_ns, self.due_ns != NEVER_NS);
        let since_ns = now_ns.saturating_sub(std::mem::replace(&mut self.looked_ns, now_ns));
        let waits = self.more
            && self.due_ns_or_now().saturating_sub(self.lead_ns) <= now_ns
            && self.branches.values().any(|branch| branch.pieces.is_empty());
        let mut slow = Vec::new();
        for (number, branch) in &mut self.branches {
            let link_ns = branch.link.since_look_ns(now_ns);
            let pace_ns = branch.pace.since_look_ns(now_ns);
            let Some(first) = branch.pieces.front() else {
                branch.forget(since_ns);
                continue;
            };
            let own_ns = branch.own_ns(now_ns);
            let age_ns = own_ns.saturating_sub(first.offered_ns.max(branch.moved_ns));
            let byte_ns = own_ns.saturating_sub(first.offered_ns);
            let is_ahead = branch.next_due_ns(self.due_ns) > now_ns.saturating_add(LINK_AHEAD_NS);
            if waits && has_deadlines {
                branch.held_ns += since_ns.saturating_sub(link_ns + pace_ns);
                branch.link_held_ns += if is_ahead { 0 } else { link_ns };
            } else {
                branch.forget(since_ns);
            }
            let is_slow = match has_deadlines {
                true => branch.held_ns > BRANCH_HOLD_MAX_NS,
                false => waits && byte_ns > BRANCH_BYTE_MAX_NS,
            };
            if is_slow || (is_pressed && age_ns > BRANCH_HELD_UNDER_PRESSURE_MAX_NS) {
                slow.push((*number, KeptBy::Destination));
                continue;
            }
            let is_kept = match has_deadlines {
                true => branch.link_held_ns > BRANCH_HOLD_MAX_NS,
                false => waits && branch.turn_wait_ns(now_ns) > BRANCH_BYTE_MAX_NS,
            };
            if is_kept {
                slow.push((*number, KeptBy::Link));
            }
        }
        slow
    }

    /// When the next byte is due; at once if at no fixed time.
    fn due_ns_or_now(&self) -> u64 {
        if self.due_ns == NEVER_NS { self.now_ns } else { self.due_ns }
    }

    /// When the first byte of a message is due. In a transport stream that is the time of its
    /// packet, counted from the earliest time at which the beginning of the stream was due: a
    /// stretch that was not taken whole when it was due is due at once, each time that it is asked
    /// for, and what follows it so much later.
    fn due_of(&mut self, message: &Offer<'_>) -> u64 {
        let Some(times) = &self.times else { return message.due_ns };
        if message.due_ns == NEVER_NS {
            self.epoch_ns = None;
            return NEVER_NS;
        }
        let epoch_ns = times.epoch_ns(message.position, message.due_ns);
        let epoch_ns = self.epoch_ns.map_or(epoch_ns, |before_ns| before_ns.min(epoch_ns));
        self.epoch_ns = Some(epoch_ns);
        times.due_ns(message.position, epoch_ns)
    }

    fn least_done(&self) -> u64 {
        // A branch that begins with the next packet may be ahead of what was offered.
        self.branches.values().map(|branch| branch.done).fold(self.offered, u64::min)
    }
}

/// How long before it is due a datagram of a stream with these times leaves.
fn ahead_of(times: &PacketTimes) -> u64 {
    DATAGRAM_AHEAD_NS.max(times.longest_stretch_ns())
}

impl Outlet for Tee {
    fn offer(&mut self, message: &Offer<'_>) -> u64 {
        self.due_ns = self.due_of(message);
        let is_early = self.due_ns_or_now().saturating_sub(self.lead_ns) > self.now_ns;
        if self.branches.is_empty() || is_early {
            return 0;
        }
        for branch in self.branches.values_mut() {
            branch.offer(message.chunk, message.position, self.due_ns, self.now_ns);
        }
        let bytes = message.chunk.len() as u64;
        self.offered += bytes;
        bytes
    }

    fn done_bytes(&mut self) -> Result<u64, Ending> {
        let done = self.least_done();
        Ok(done - std::mem::replace(&mut self.released, done))
    }

    fn settle(&mut self, more: bool) -> Settled {
        self.more = more;
        Settled::default()
    }

    fn end(&mut self, _: Ending) -> bool {
        false
    }
}
