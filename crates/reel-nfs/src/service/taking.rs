//! Reads calls from sockets, as far as their clients take the replies.

use super::NfsThread;
use crate::connection::{Connection, Reply, ReplyState};
use crate::limits::{LONG_REPLY_BYTES, RECEIVE_BYTES, REQUESTS_MAX};
use crate::wrong_port::Spoken;
use reel_admit::client_network;
use reel_ring::{Done, Op};
use reel_serve::Serve;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl NfsThread {
    /// Waits for what a client sends, unless it has as many calls under way, or is owed as much, as
    /// it may be. Without a part of a call, no memory is held for it.
    pub(super) fn receive(&mut self, serve: &mut Serve<'_>, token: u64) {
        let may_take = self.may_take(token);
        let Some(connection) = self.connections.get_mut(token) else { return };
        let is_held_back = !may_take && connection.replies.len() < REQUESTS_MAX;
        if is_held_back && !connection.is_held_back {
            self.shared.counters.held_back.fetch_add(1, Ordering::Relaxed);
        }
        connection.is_held_back = is_held_back;
        if connection.is_receiving || !may_take {
            return;
        }
        connection.is_receiving = true;
        let socket = Arc::clone(&connection.socket);
        serve.core.ring.push(token, Op::AwaitReadable { socket });
    }

    /// Whether the next call of a connection may be read.
    pub(super) fn may_take(&self, token: u64) -> bool {
        self.connections.get(token).is_some_and(|connection| {
            connection.replies.len() < REQUESTS_MAX && self.is_owed_little(connection, |_| true)
        })
    }

    /// Whether the replies of a connection that count have less in memory than they may.
    fn is_owed_little(&self, connection: &Connection, counts: impl Fn(&Reply) -> bool) -> bool {
        let replies = connection.replies.iter().filter_map(|reply| self.replies.get(*reply));
        let owed_bytes = replies.filter(|reply| counts(reply)).map(|reply| reply.bytes).sum();
        self.owed.may_take(client_network(connection.client), owed_bytes)
    }

    /// Answers the calls that have waited for the listing of now, until a list was made. Returns
    /// whether that is so.
    pub(super) fn answer_listed(&mut self, serve: &mut Serve<'_>, token: u64) -> bool {
        while self.may_answer_listed(token) {
            let Some(connection) = self.connections.get_mut(token) else { break };
            let Some(reply) = connection.listed.pop_front() else { break };
            let Some(owed) = self.replies.get_mut(reply) else { continue };
            let ReplyState::AwaitsListing(record) = &mut owed.state else { continue };
            let record = std::mem::take(record);
            self.answer(serve, token, record, Some(reply));
            if self.has_listed(token, reply) {
                return true;
            }
        }
        false
    }

    /// Whether a call that has waited may be answered now. The calls that wait do not count, so
    /// that one of them is answered in any case.
    pub(super) fn may_answer_listed(&self, token: u64) -> bool {
        let is_made = |reply: &Reply| !matches!(reply.state, ReplyState::AwaitsListing(_));
        self.connections.get(token).is_some_and(|connection| {
            !connection.listed.is_empty() && self.is_owed_little(connection, is_made)
        })
    }

    /// Whether a reply is a list. What follows it is not as urgent as a read that came before.
    fn has_listed(&mut self, token: u64, reply: u64) -> bool {
        let is_list = self.replies.get(reply).is_some_and(|reply| reply.bytes >= LONG_REPLY_BYTES);
        if is_list && let Some(connection) = self.connections.get_mut(token) {
            connection.due_ns = None;
        }
        is_list
    }

    /// Reads the calls that have arrived, as far as there may be more, until a list was made.
    /// Returns whether that is so: then other connections have their turns first.
    pub(super) fn take_calls(&mut self, serve: &mut Serve<'_>, token: u64) -> bool {
        while self.may_take(token) {
            let Some(connection) = self.connections.get_mut(token) else { break };
            if connection.input.is_empty() {
                break;
            }
            let Ok(record) = connection.take_record(serve.now_ns()) else {
                let spoken = Spoken::of(connection.records.mark());
                self.close_garbage(serve, token, spoken);
                break;
            };
            let Some(record) = record else { continue };
            connection.busy();
            self.answer(serve, token, record, None);
            let newest =
                self.connections.get(token).and_then(|connection| connection.replies.back().copied());
            if newest.is_some_and(|reply| self.has_listed(token, reply)) {
                return true;
            }
        }
        false
    }

    pub(super) fn received(&mut self, serve: &mut Serve<'_>, token: u64, done: Done) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        match (done.op, done.result) {
            (Op::AwaitReadable { socket }, Ok(_)) => {
                let mut buffer = std::mem::take(&mut connection.input);
                buffer.reserve_exact(RECEIVE_BYTES);
                serve.core.ring.push(token, Op::Receive { socket, buffer });
            }
            (Op::Receive { buffer, .. }, Ok(bytes)) if bytes > 0 => {
                connection.input = buffer;
                connection.is_receiving = false;
                connection.times.received(serve.now_ns());
                self.wake(serve, token);
            }
            _ => self.close(serve, token),
        }
    }
}
