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

use crate::limits::{
    BRANCH_BYTE_MAX_NS, BRANCH_HELD_UNDER_PRESSURE_MAX_NS, BRANCH_HOLD_FORGOTTEN, BRANCH_HOLD_MAX_NS,
    JOIN_LEAD_NS,
};
use reel_arena::mms::Ending;
use reel_ring::Chunk;
use reel_serve::streams::{Offer, Outlet, Settled};
use std::collections::{BTreeMap, VecDeque};

/// No deadline.
const NEVER_NS: u64 = u64::MAX;

/// The branches of a chain, by number.
#[derive(Debug)]
pub struct Tee {
    branches: BTreeMap<u64, Branch>,
    now_ns: u64,
    /// The position after the last byte that was offered.
    offered: u64,
    /// The position up to which the chain was released.
    released: u64,
    /// When the next byte may be offered, if that is later.
    early_until_ns: u64,
    /// Whether the last byte that was offered has a deadline.
    has_deadlines: bool,
    /// Whether more will be offered.
    more: bool,
    /// When it was last looked for slow branches.
    looked_ns: u64,
}

#[derive(Debug)]
struct Branch {
    /// The position up to which it has finished.
    done: u64,
    /// What was offered and is not finished.
    pieces: VecDeque<Piece>,
    /// Bytes at the front of `pieces` that were taken and not reported.
    in_flight: usize,
    late_bytes: u64,
    /// No byte is late before this time: what a viewer at the destination begins with is due at
    /// once, and the viewer begins to play now.
    begins_ns: u64,
    /// For how long it has kept others waiting, beyond what is forgotten.
    held_ns: u64,
    /// When it last finished something, or was given something to begin with.
    moved_ns: u64,
}

#[derive(Debug)]
struct Piece {
    chunk: Chunk,
    due_ns: u64,
    offered_ns: u64,
}

impl Tee {
    /// A chain that begins at this position, without branches.
    pub fn new(position: u64, now_ns: u64) -> Tee {
        Tee {
            branches: BTreeMap::new(),
            now_ns,
            offered: position,
            released: position,
            early_until_ns: 0,
            has_deadlines: false,
            more: true,
            looked_ns: now_ns,
        }
    }

    /// A branch joins. Returns the position of its first byte: the next one that is offered.
    pub fn join(&mut self, number: u64) -> u64 {
        let branch = Branch {
            done: self.offered,
            pieces: VecDeque::new(),
            in_flight: 0,
            late_bytes: 0,
            begins_ns: self.now_ns.saturating_add(JOIN_LEAD_NS),
            held_ns: 0,
            moved_ns: self.now_ns,
        };
        self.branches.insert(number, branch);
        self.offered
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

    /// What a branch is to send next: all that was offered to it. Nothing if it sends already, so
    /// bytes leave in order.
    pub fn take(&mut self, number: u64) -> Vec<Chunk> {
        let Some(branch) = self.branches.get_mut(&number).filter(|branch| branch.in_flight == 0) else {
            return Vec::new();
        };
        branch.in_flight = branch.pieces.iter().map(|piece| piece.chunk.len()).sum();
        branch.pieces.iter().map(|piece| piece.chunk.clone()).collect()
    }

    /// A branch has sent so many bytes of what it took. The rest is to be taken again. Returns
    /// those that were late.
    pub fn sent(&mut self, number: u64, bytes: usize) -> u64 {
        let now_ns = self.now_ns;
        let Some(branch) = self.branches.get_mut(&number) else { return 0 };
        let mut left = bytes.min(branch.in_flight);
        branch.in_flight = 0;
        branch.done += left as u64;
        let late_before = branch.late_bytes;
        if left > 0 {
            branch.moved_ns = now_ns;
        }
        while left > 0 {
            let Some(mut piece) = branch.pieces.pop_front() else { break };
            let sent = left.min(piece.chunk.len());
            left -= sent;
            if piece.due_ns.max(branch.begins_ns) < now_ns {
                branch.late_bytes += sent as u64;
            }
            if sent < piece.chunk.len() {
                piece.chunk = piece.chunk.slice(sent..piece.chunk.len());
                branch.pieces.push_front(piece);
            }
        }
        branch.late_bytes - late_before
    }

    /// Whether a branch has sent everything to the end.
    pub fn is_complete(&self, number: u64) -> bool {
        !self.more && self.branches.get(&number).is_some_and(|branch| branch.done == self.offered)
    }

    /// The branches that keep another one waiting for longer than they may, or that hold memory for
    /// which others wait, if they do (`is_pressed`).
    ///
    /// A branch keeps another one waiting while that has sent all that was offered, more is to be
    /// sent now, and the branch has not sent all. Where bytes have deadlines, it may do so for
    /// [`BRANCH_HOLD_MAX_NS`] in sum, and for a tenth of the time. Without deadlines all branches
    /// go as fast as the slowest one, as long as that finishes each byte within
    /// [`BRANCH_BYTE_MAX_NS`].
    pub fn too_slow(&mut self, is_pressed: bool) -> Vec<u64> {
        let (now_ns, has_deadlines) = (self.now_ns, self.has_deadlines);
        let since_ns = now_ns.saturating_sub(std::mem::replace(&mut self.looked_ns, now_ns));
        let waits = self.more
            && self.early_until_ns <= now_ns
            && self.branches.values().any(|branch| branch.pieces.is_empty());
        let mut slow = Vec::new();
        for (number, branch) in &mut self.branches {
            let Some(first) = branch.pieces.front() else {
                branch.forget(since_ns);
                continue;
            };
            let age_ns = now_ns.saturating_sub(first.offered_ns.max(branch.moved_ns));
            let byte_ns = now_ns.saturating_sub(first.offered_ns);
            if waits {
                branch.held_ns += since_ns;
            } else {
                branch.forget(since_ns);
            }
            let is_slow = match has_deadlines {
                true => branch.held_ns > BRANCH_HOLD_MAX_NS,
                false => waits && byte_ns > BRANCH_BYTE_MAX_NS,
            };
            if is_slow || (is_pressed && age_ns > BRANCH_HELD_UNDER_PRESSURE_MAX_NS) {
                slow.push(*number);
            }
        }
        slow
    }

    fn least_done(&self) -> u64 {
        self.branches.values().map(|branch| branch.done).min().unwrap_or(self.offered)
    }
}

impl Branch {
    fn forget(&mut self, since_ns: u64) {
        self.held_ns = self.held_ns.saturating_sub(since_ns / BRANCH_HOLD_FORGOTTEN);
    }
}

impl Outlet for Tee {
    fn offer(&mut self, message: &Offer<'_>) -> u64 {
        self.has_deadlines = message.due_ns != NEVER_NS;
        self.early_until_ns =
            if self.has_deadlines { message.due_ns.saturating_sub(JOIN_LEAD_NS) } else { 0 };
        if self.branches.is_empty() || self.early_until_ns > self.now_ns {
            return 0;
        }
        for branch in self.branches.values_mut() {
            if branch.pieces.is_empty() {
                branch.moved_ns = self.now_ns;
            }
            let (chunk, due_ns) = (message.chunk.clone(), message.due_ns);
            branch.pieces.push_back(Piece { chunk, due_ns, offered_ns: self.now_ns });
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
