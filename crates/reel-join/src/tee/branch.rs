//! One branch of a chain: what it was offered, and how it kept up. Pure.

use super::NEVER_NS;
use super::runs::Runs;
use super::standing::Standing;
use crate::limits::{BRANCH_HOLD_FORGOTTEN, JOIN_LEAD_NS};
use crate::packet_times::PacketTimes;
use reel_ring::Chunk;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Branch {
    /// The position up to which it has finished.
    pub(super) done: u64,
    /// What was offered and is not finished.
    pub(super) pieces: VecDeque<Piece>,
    /// Bytes at the front of `pieces` that were taken and not reported.
    in_flight: usize,
    /// No byte is late before this time: what a viewer at the destination begins with is due at
    /// once, and the viewer begins to play now.
    begins_ns: u64,
    /// For how long it has kept others waiting because of its destination, beyond what is
    /// forgotten...
    pub(super) held_ns: u64,
    /// ...and because of the link, where bytes have deadlines.
    pub(super) link_held_ns: u64,
    /// When it last finished something, or was given something to begin with, by its own clock.
    pub(super) moved_ns: u64,
    /// Its waits for the link...
    pub(super) link: Standing,
    /// ...and for the time at which its next datagram leaves.
    pub(super) pace: Standing,
    /// For how long it had waited for the link when it last finished something.
    link_moved_ns: u64,
    /// What it sends in one go.
    pub(super) runs: Runs,
}

#[derive(Debug)]
pub(super) struct Piece {
    chunk: Chunk,
    pub(super) due_ns: u64,
    /// When it was offered, by the branch's own clock.
    pub(super) offered_ns: u64,
}

impl Branch {
    /// One that begins at this position.
    pub(super) fn new(position: u64, now_ns: u64) -> Branch {
        Branch {
            done: position,
            pieces: VecDeque::new(),
            in_flight: 0,
            begins_ns: now_ns.saturating_add(JOIN_LEAD_NS),
            held_ns: 0,
            link_held_ns: 0,
            moved_ns: now_ns,
            link: Standing::default(),
            pace: Standing::default(),
            link_moved_ns: 0,
            runs: Runs::default(),
        }
    }

    /// It is offered a chunk that begins at this position. It takes what is not before its own
    /// first byte.
    pub(super) fn offer(&mut self, chunk: &Chunk, position: u64, due_ns: u64, now_ns: u64) {
        let own_ns = self.own_ns(now_ns);
        if self.pieces.is_empty() {
            self.moved_ns = own_ns;
        }
        // Only before its first byte there is something to skip, less than a packet.
        let skipped = self.done.saturating_sub(position).min(chunk.len() as u64) as usize;
        if skipped < chunk.len() {
            let chunk = chunk.slice(skipped..chunk.len());
            self.pieces.push_back(Piece { chunk, due_ns, offered_ns: own_ns });
        }
    }

    /// Bytes that it may take.
    pub(super) fn waiting_bytes(&self) -> usize {
        match self.in_flight {
            0 => self.pieces.iter().map(|piece| piece.chunk.len()).sum(),
            _ => 0,
        }
    }

    /// When its next byte is due in the chain.
    pub(super) fn front_due_ns(&self) -> u64 {
        self.pieces.front().map_or(NEVER_NS, |piece| piece.due_ns)
    }

    pub(super) fn take(&mut self, bytes_max: usize, now_ns: u64) -> Vec<Chunk> {
        let mut left = bytes_max.min(self.waiting_bytes());
        if left > 0 {
            self.runs.begins(now_ns);
        }
        self.in_flight = self.in_flight.max(left);
        let mut chunks = Vec::new();
        for piece in &self.pieces {
            if left == 0 {
                break;
            }
            let bytes = left.min(piece.chunk.len());
            chunks.push(piece.chunk.slice(0..bytes));
            left -= bytes;
        }
        chunks
    }

    /// So many bytes of what it took are sent; those that were late.
    pub(super) fn sent(&mut self, bytes: usize, times: Option<&PacketTimes>, now_ns: u64) -> u64 {
        let mut left = bytes.min(self.in_flight);
        let mut position = self.done;
        self.in_flight = 0;
        self.runs.ends(left as u64, now_ns);
        self.done += left as u64;
        if left > 0 {
            self.moved_ns = self.own_ns(now_ns);
            self.link_moved_ns = self.link.waited_ns(now_ns);
        }
        let mut late_bytes = 0;
        while left > 0 {
            let Some(mut piece) = self.pieces.pop_front() else { break };
            let sent = left.min(piece.chunk.len());
            left -= sent;
            if self.due_there_ns(piece.due_ns) < now_ns {
                late_bytes += sent as u64;
            }
            let begun = position;
            position += sent as u64;
            if sent < piece.chunk.len() {
                let later_ns = times.map_or(0, |times| times.between_ns(begun, position));
                piece.due_ns = piece.due_ns.saturating_add(later_ns);
                piece.chunk = piece.chunk.slice(sent..piece.chunk.len());
                self.pieces.push_front(piece);
            }
        }
        late_bytes
    }

    /// When a byte is due at the destination that is due then in the chain.
    pub(super) fn due_there_ns(&self, due_ns: u64) -> u64 {
        due_ns.max(self.begins_ns)
    }

    /// When its next byte is due there. `offered_due_ns` is when the last one is due that was
    /// offered to any branch.
    pub(super) fn next_due_ns(&self, offered_due_ns: u64) -> u64 {
        let dues = self.pieces.iter().map(|piece| piece.due_ns);
        let next_ns = dues.filter(|due_ns| *due_ns != NEVER_NS).min();
        self.due_there_ns(next_ns.unwrap_or(offered_due_ns))
    }

    pub(super) fn is_sending(&self) -> bool {
        self.in_flight > 0
    }

    /// Another destination takes over from this position on, which is less than a packet ahead.
    pub(super) fn hand_over(&mut self, position: u64, now_ns: u64) {
        self.moves_on(now_ns);
        self.begins_ns = now_ns.saturating_add(JOIN_LEAD_NS);
        while self.done < position {
            let Some(mut piece) = self.pieces.pop_front() else { break };
            let skipped = (position - self.done).min(piece.chunk.len() as u64);
            self.done += skipped;
            // The cast fits: at most the length of a chunk.
            piece.chunk = piece.chunk.slice(skipped as usize..piece.chunk.len());
            if !piece.chunk.is_empty() {
                self.pieces.push_front(piece);
            }
        }
        self.done = position;
    }

    /// It waits for neither the link nor its time any more.
    pub(super) fn moves_on(&mut self, now_ns: u64) {
        self.link.stands(false, now_ns);
        self.pace.stands(false, now_ns);
    }

    /// Its own clock, which stands still while it waits for the link or for its time.
    pub(super) fn own_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.link.waited_ns(now_ns) + self.pace.waited_ns(now_ns))
    }

    /// For how long it has waited for the link since it last finished something.
    pub(super) fn turn_wait_ns(&self, now_ns: u64) -> u64 {
        self.link.waited_ns(now_ns) - self.link_moved_ns
    }

    /// A tenth of the time that passed is forgotten of both sums.
    pub(super) fn forget(&mut self, since_ns: u64) {
        let forgotten_ns = since_ns / BRANCH_HOLD_FORGOTTEN;
        self.held_ns = self.held_ns.saturating_sub(forgotten_ns);
        self.link_held_ns = self.link_held_ns.saturating_sub(forgotten_ns);
    }
}
