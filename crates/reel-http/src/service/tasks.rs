//! A connection as a task of its core: in which order connections are gone on with.
//!
//! What the ring and the mailbox bring is only noted when it comes ([`Data::ready`]). A section
//! then does the work of one connection up to its next operation: reads a request, asks for units,
//! seals at most a buffer, hands at most [`SEND_BYTES_MAX`](reel_cache::limits::SEND_BYTES_MAX) to
//! its socket.

use super::Data;
use crate::connection::{State, task_kind};
use reel_rt::{Core, Next, TaskId};

impl Data {
    /// Something has come that a connection waited for.
    pub(super) fn ready(&mut self, core: &mut Core, token: u64) {
        if let Some(connection) = self.connections.get_mut(token) {
            core.tasks.ready(connection.task);
        }
    }

    /// One section of a connection's task.
    pub(super) fn section(&mut self, core: &mut Core, task: TaskId) -> Next {
        let Some(&token) = self.of_task.get(task.index()) else { return Next::Done };
        self.go_on(core, token);
        // It may be gone.
        let Some(connection) = self.connections.get_mut(token) else { return Next::Done };
        let order = connection.delivery().and_then(|delivery| self.engine.order(delivery));
        let (kind, critical_ns) = task_kind(order);
        core.tasks.set_kind(task, kind);
        Next::Wait { critical_ns }
    }

    /// `task` is that of the connection `token`.
    pub(super) fn owns(&mut self, task: TaskId, token: u64) {
        if self.of_task.len() <= task.index() {
            self.of_task.resize(task.index() + 1, token);
        }
        self.of_task[task.index()] = token;
    }

    /// Goes on where the connection stands.
    fn go_on(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.in_ring {
            return;
        }
        if connection.secure.as_ref().is_some_and(|secure| secure.received.is_some()) {
            return self.received_sealed(core, token);
        }
        match &connection.state {
            State::ShakingHands => self.shake_hands(core, token),
            State::Heading => self.received(core, token),
            State::Opened(_) => self.answer_opened(core, token),
            State::Sending(_) => self.pump(core, token),
            State::Idle | State::Opening(_) | State::Lingering(_) => {}
        }
    }
}
