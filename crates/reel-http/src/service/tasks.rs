//! A connection as a task of its core: the order in which connections continue.
//!
//! Events from the ring and the mailbox are only noted on arrival ([`HttpThread::wake`]). A section
//! then does the work of one connection up to its next operation. It reads a request, asks for
//! units, seals at most one buffer, or gives at most
//! [`SEND_BYTES_MAX`](reel_cache::limits::SEND_BYTES_MAX) to its socket.

use super::HttpThread;
use crate::connection::{State, task_kind};
use reel_rt::{Next, TaskId};
use reel_serve::Serve;

impl HttpThread {
    /// An event that a connection waited for has arrived.
    pub(super) fn wake(&mut self, serve: &mut Serve<'_>, token: u64) {
        if let Some(connection) = self.connections.get_mut(token) {
            serve.core.tasks.ready(connection.task);
        }
    }

    /// One section of a connection's task.
    pub(super) fn section(&mut self, serve: &mut Serve<'_>, task: TaskId) -> Next {
        let Some(&token) = self.of_task.get(task.index()) else { return Next::Done };
        self.proceed(serve, token);
        // The connection may be closed already.
        let Some(connection) = self.connections.get_mut(token) else { return Next::Done };
        let order = connection.delivery().and_then(|delivery| serve.engine.order(delivery));
        let (kind, critical_ns) = task_kind(order);
        serve.core.tasks.set_kind(task, kind);
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
    fn proceed(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.in_ring {
            return;
        }
        if connection.secure.as_ref().is_some_and(|secure| secure.received.is_some()) {
            return self.received_sealed(serve, token);
        }
        match &connection.state {
            State::ShakingHands => self.shake_hands(serve, token),
            State::Heading => self.begin(serve, token),
            State::Opened(_) => self.answer_opened(serve, token),
            State::Sending(_) => self.pump(serve, token),
            State::Idle | State::Opening(_) | State::Lingering(_) => {}
        }
    }
}
