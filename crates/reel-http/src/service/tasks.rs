//! A connection as a task of its core: the order in which connections continue.
//!
//! Events from the ring and the mailbox are only noted on arrival ([`Data::ready`]). A section then
//! does the work of one connection up to its next operation. It reads a request, asks for units,
//! seals at most one buffer, or gives at most
//! [`SEND_BYTES_MAX`](reel_cache::limits::SEND_BYTES_MAX) to its socket.

use super::Data;
use crate::connection::{State, task_kind};
use reel_rt::{Core, Next, TaskId};

impl Data {
    /// An event that a connection waited for has arrived.
    pub(super) fn ready(&mut self, core: &mut Core, token: u64) {
        if let Some(connection) = self.connections.get_mut(token) {
            core.tasks.ready(connection.task);
        }
    }

    /// One section of a connection's task.
    pub(super) fn section(&mut self, core: &mut Core, task: TaskId) -> Next {
        let Some(&token) = self.of_task.get(task.index()) else { return Next::Done };
        self.proceed(core, token);
        // The connection may be closed already.
        let Some(connection) = self.connections.get_mut(token) else { return Next::Done };
        let order = connection.delivery().and_then(|delivery| self.engine.order(delivery));
        let (kind, critical_ns) = task_kind(order);
        core.tasks.set_kind(task, kind);
        Next::Wait { critical_ns }
    }

    /// Notes that `task` is the task of the connection `token`.
    pub(super) fn set_token(&mut self, task: TaskId, token: u64) {
        if self.of_task.len() <= task.index() {
            self.of_task.resize(task.index() + 1, token);
        }
        self.of_task[task.index()] = token;
    }

    /// Continues with the connection according to its state.
    fn proceed(&mut self, core: &mut Core, token: u64) {
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
