//! Responses on their way out: what is ready is sent, what is missing is asked for.

use super::{Data, OVERDUE};
use crate::data::connection::State;
use crate::data::terms::TermsDesk;
use reel_cache::{Prefetcher, ReaderState};
use reel_ring::Op;
use reel_rt::Core;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Data {
    /// Sends what can be sent, or asks for what is missing. The heart of the server.
    pub(super) fn pump(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.in_ring || !matches!(connection.state, State::Sending(_)) {
            return;
        }
        if let Some(secure) = &mut connection.secure
            && let Some(chunk) = secure.pending.take()
        {
            connection.in_ring = true;
            let socket = Arc::clone(&connection.socket);
            return core.ring.push(token, Op::Send { socket, chunks: vec![chunk] });
        }
        let is_secure = connection.secure.is_some();
        match self.fill(core, token) {
            None | Some(ReaderState::AwaitUnits | ReaderState::AwaitMemory) => {}
            Some(ReaderState::Done) => self.finish(core, token),
            Some(ReaderState::Ready) if is_secure => self.seal(core, token),
            Some(ReaderState::Ready) => {
                let Some(connection) = self.connections.get_mut(token) else { return };
                let State::Sending(sending) = &mut connection.state else { return };
                let may_lend = self.shared.arena.pieces_sending() < self.shared.lent_buffers;
                let chunks = sending.reader.chunks();
                connection.in_ring = true;
                let op = connection.send(chunks, may_lend, core.now_ns());
                core.ring.push(token, op);
            }
        }
    }

    /// Asks for what a response needs next, and keeps its place among those who wait for memory. `None`: no response is under way.
    pub(super) fn fill(&mut self, core: &Core, token: u64) -> Option<ReaderState> {
        let State::Sending(sending) = &mut self.connections.get_mut(token)?.state else { return None };
        let state = sending.reader.fill(&mut self.fetcher, core.now_ns());
        let place = sending.reader.place();
        let before = std::mem::replace(&mut sending.starved, place);
        // Its place here must go with its place in the line, or the two orders differ one day and all wait for ever.
        if before != place {
            before.and_then(|before| self.starved.remove(&before));
            place.and_then(|place| self.starved.insert(place, token));
        }
        Some(state)
    }

    pub(super) fn sent(&mut self, core: &mut Core, token: u64, result: io::Result<usize>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Sending(sending) = &mut connection.state else { return };
        match result {
            Ok(bytes) => {
                connection.since_ns = core.now_ns();
                sending.taken(bytes as u64, core.now_ns());
                self.count_sent(core, token, bytes as u64);
                self.ready(core, token);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sending.blocked = true;
                connection.in_ring = true;
                core.ring.push(token, Op::AwaitWritable { socket: Arc::clone(&connection.socket) });
            }
            Err(_gone) => self.close(core, token),
        }
    }

    /// The client took so many bytes of its response: its schedule may follow that.
    pub(super) fn count_sent(&mut self, core: &Core, token: u64, bytes: u64) {
        let Some(State::Sending(sending)) = self.connections.get_mut(token).map(|c| &mut c.state) else {
            return;
        };
        if let Some(offset) = sending.paced_offset() {
            let classes = self.fetcher.units().disks().classes();
            let desk =
                TermsDesk { sessions: &self.shared.sessions, classes: &classes, now_ns: core.now_ns() };
            sending.follow(&desk, offset, &self.shared.counters);
        }
        self.shared.counters.sent_bytes[sending.class.index()].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn unit_came(&mut self, core: &mut Core, fetched: reel_cache::Fetched) {
        let token = fetched.connection;
        if Prefetcher::is_for_prefetch(token) {
            return self.prefetcher.fetched(&fetched);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Sending(sending) = &mut connection.state else { return };
        match sending.reader.fetched(&fetched) {
            Ok(_) => self.ready(core, token),
            Err(error) => {
                // The head is out already: all that is left is to end the connection before its time.
                tracing::error!(%error, "stored bytes are lost; a response is cut short");
                self.shared.counters.lost_bytes_responses.fetch_add(1, Ordering::Relaxed);
                self.close(core, token);
            }
        }
    }

    /// Has an eye on reads that members do not answer in time.
    pub(super) fn watch_overdue(&mut self, core: &mut Core) {
        if let Some(due_ns) = self.fetcher.next_due_ns()
            && self.overdue_timer_ns.is_none_or(|timer_ns| due_ns < timer_ns)
        {
            self.overdue_timer_ns = Some(due_ns);
            core.at(due_ns, OVERDUE);
        }
    }

    /// Timers cannot be taken back, so an earlier one may have left a later one behind: that finds nothing to do.
    pub(super) fn overdue(&mut self, core: &mut Core) {
        if self.overdue_timer_ns.is_some_and(|timer_ns| timer_ns <= core.now_ns()) {
            self.overdue_timer_ns = None;
        }
        self.fetcher.overdue(core.now_ns());
    }
}
