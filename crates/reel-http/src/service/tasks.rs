//! A connection as a task of its core: the order in which connections continue.
//!
//! Events from the ring and the mailbox are only noted on arrival ([`Turn::wake`]). A section
//! then does the work of one connection up to its next operation. It reads a request, asks for
//! units, seals at most one buffer, or gives at most
//! [`SEND_BYTES_MAX`](reel_cache::limits::SEND_BYTES_MAX) to its socket.

use super::{HttpThread, Then, Turn};
use crate::connection::{State, task_kind};
use reel_ring::Op;
use reel_rt::{Next, TaskId};
use reel_serve::Serve;
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl HttpThread {
    /// One section of a connection's task.
    pub(super) fn section(&mut self, serve: &mut Serve<'_>, task: TaskId) -> Next {
        let Some(&token) = self.of_task.get(task.index()) else { return Next::Done };
        let Some(mut turn) = self.turn(serve, token) else { return Next::Done };
        match turn.proceed() {
            Then::Stays => turn.waits(),
            then => {
                self.follow(serve, token, then);
                // The connection may be closed.
                self.turn(serve, token).map_or(Next::Done, |mut turn| turn.waits())
            }
        }
    }

    /// Notes that `task` is the task of the connection `token`.
    pub(super) fn set_token(&mut self, task: TaskId, token: u64) {
        if self.of_task.len() <= task.index() {
            self.of_task.resize(task.index() + 1, token);
        }
        self.of_task[task.index()] = token;
    }
}

impl Turn<'_, '_> {
    /// Continues with the connection according to its state.
    fn proceed(&mut self) -> Then {
        if self.connection.in_ring {
            return Then::Stays;
        }
        if let Some(incoming) = self.connection.secure.as_mut().and_then(|secure| secure.received.take()) {
            return self.received_sealed(incoming);
        }
        match &self.connection.state {
            State::ShakingHands => self.shake_hands(),
            State::Heading => self.begin(),
            State::Opened(_) => self.answer_opened(),
            State::Sending(_) => self.pump(),
            State::Idle | State::Opening(_) | State::Lingering(_) => Then::Stays,
        }
    }

    /// An event that the connection waited for has arrived.
    pub(super) fn wake(&mut self) -> Then {
        self.serve.core.tasks.ready(self.connection.task);
        Then::Stays
    }

    /// Puts the next operation of the connection into the ring.
    pub(super) fn push(&mut self, op: impl FnOnce(Arc<OwnedFd>) -> Op) -> Then {
        self.connection.in_ring = true;
        self.serve.core.ring.push(self.connection.token, op(Arc::clone(&self.connection.socket)));
        Then::Stays
    }

    /// How the task of the connection waits for what comes next.
    fn waits(&mut self) -> Next {
        let order = self.connection.delivery().and_then(|delivery| self.serve.engine.order(delivery));
        let (kind, critical_ns) = task_kind(order);
        self.serve.core.tasks.set_kind(self.connection.task, kind);
        Next::Wait { critical_ns }
    }
}
