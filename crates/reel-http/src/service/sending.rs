//! Sends the bytes of responses that are in memory, and requests those that are missing.

use super::{Data, ENGINE};
use crate::connection::State;
use reel_play::{Event, Readiness};
use reel_ring::Op;
use reel_rt::Core;
use std::io;
use std::sync::Arc;

impl Data {
    /// Sends what can be sent, or requests what is missing. All media passes through this function.
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
        let Some(delivery) = connection.delivery() else { return };
        match self.engine.fill(delivery, core.now_ns()) {
            None | Some(Readiness::Waiting) => {}
            Some(Readiness::Done) => self.finish(core, token),
            Some(Readiness::Ready) if is_secure => self.seal(core, token),
            Some(Readiness::Ready) => {
                let Some(connection) = self.connections.get_mut(token) else { return };
                let may_lend = self.shared.server.arena.pieces_sending() < self.shared.lent_buffers;
                let chunks = self.engine.chunks(delivery);
                connection.in_ring = true;
                let op = connection.send(chunks, may_lend, core.now_ns());
                core.ring.push(token, op);
            }
        }
    }

    pub(super) fn sent(&mut self, core: &mut Core, token: u64, result: io::Result<usize>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Some(delivery) = connection.delivery() else { return };
        match result {
            Ok(bytes) => {
                connection.since_ns = core.now_ns();
                self.engine.taken(delivery, bytes as u64, core.now_ns());
                self.ready(core, token);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.in_ring = true;
                core.ring.push(token, Op::AwaitWritable { socket: Arc::clone(&connection.socket) });
                self.set_blocked(core, token, true);
            }
            Err(_gone) => self.close(core, token),
        }
    }

    /// Notes whether a client accepts nothing at the moment.
    pub(super) fn set_blocked(&mut self, core: &Core, token: u64, is_blocked: bool) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if let State::Sending(sending) = &mut connection.state {
            sending.blocked = is_blocked;
            self.engine.set_blocked(sending.delivery, is_blocked, core.now_ns());
        }
    }

    /// Continues with the connections whose deliveries can continue.
    pub(super) fn continue_with_events(&mut self, core: &mut Core) {
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Ready(token) | Event::Unit(token, _) => self.ready(core, token),
                Event::Lost(token, error) => {
                    // The head is already sent. The only way to report the error is to end the
                    // connection early.
                    tracing::error!(%error, "stored bytes are lost; a response is cut short");
                    self.close(core, token);
                }
            }
        }
    }

    /// Sets a timer for the engine's next action.
    pub(super) fn watch_engine(&mut self, core: &mut Core) {
        if let Some(due_ns) = self.engine.next_tick_ns()
            && self.engine_timer_ns.is_none_or(|timer_ns| due_ns < timer_ns)
        {
            self.engine_timer_ns = Some(due_ns);
            core.at(due_ns, ENGINE);
        }
    }

    /// Timers cannot be cancelled, so an earlier timer may have left a later one behind. The later
    /// one finds nothing to do.
    pub(super) fn tick_engine(&mut self, core: &mut Core) {
        if self.engine_timer_ns.is_some_and(|timer_ns| timer_ns <= core.now_ns()) {
            self.engine_timer_ns = None;
        }
        self.engine.tick(core.now_ns());
        self.continue_with_events(core);
    }
}
