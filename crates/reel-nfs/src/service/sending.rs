//! Sends replies, one after another on each connection.

use super::{LOOK, NfsThread};
use crate::answer::cannot_read;
use crate::connection::{Asked, Connection, Reply, ReplyState};
use crate::limits::{LOOK_EVERY_NS, REPLIES_FILLED_MAX};
use crate::rpc::record;
use nfs3_types::nfs3::nfsstat3;
use reel_cache::Body;
use reel_play::{DeliveryId, DeliveryPolicy, NetworkPath, NewDelivery, PlayableTitle, Readiness};
use reel_ring::{Op, tcp_status};
use reel_serve::Serve;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl NfsThread {
    /// Sends a reply that is in memory.
    pub(super) fn reply(&mut self, serve: &mut Serve<'_>, reply: u64, bytes: &[u8]) {
        self.note_owed(reply, bytes.len());
        let body = Body::text(record(bytes, 0));
        let preamble_bytes = body.bytes();
        self.deliver(serve, reply, |tag, path| NewDelivery {
            tag,
            session: None,
            policy: DeliveryPolicy::interactive(),
            body,
            preamble_bytes,
            file_offset: 0,
            in_runs: false,
            path,
        });
    }

    /// Begins to deliver a reply.
    pub(super) fn deliver(
        &mut self,
        serve: &mut Serve<'_>,
        reply: u64,
        make: impl FnOnce(u64, NetworkPath) -> NewDelivery<PlayableTitle>,
    ) {
        self.shared.counters.calls.fetch_add(1, Ordering::Relaxed);
        let Some(owed) = self.replies.get(reply) else { return };
        let Some(connection) = self.connections.get(owed.connection) else { return };
        let path = connection.path();
        let now_ns = serve.now_ns();
        let delivery = serve.engine.open(make(reply, path), now_ns);
        self.set_state(reply, ReplyState::Delivered(delivery));
        if path != NetworkPath::Local && !self.is_looking {
            self.is_looking = true;
            serve.core.at(now_ns + LOOK_EVERY_NS, LOOK);
        }
    }

    /// Sends what can be sent, or requests what is missing. A reply that has begun is sent to its
    /// end before another one. Of the others, the first that has bytes in memory is next.
    pub(super) fn pump(&mut self, serve: &mut Serve<'_>, token: u64) {
        loop {
            let Some(connection) = self.connections.get_mut(token) else { return };
            if connection.is_sending || connection.times.is_blocked() {
                return;
            }
            let next = match connection.current {
                Some(current) => Some(current),
                None => self.next_reply(serve, token),
            };
            let Some(reply) = next else { return };
            let Some(delivery) = self.delivery(reply) else { return };
            match serve.engine.fill(delivery, serve.now_ns()) {
                Some(Readiness::Ready) => return self.send(serve, token, reply, delivery),
                Some(Readiness::Waiting) => return,
                None | Some(Readiness::Done) => self.finish(serve, token, reply),
            }
        }
    }

    pub(super) fn sent(&mut self, serve: &mut Serve<'_>, token: u64, result: io::Result<usize>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.is_sending = false;
        let Some(delivery) = connection.current.and_then(|reply| self.delivery(reply)) else { return };
        let now_ns = serve.now_ns();
        let Some(connection) = self.connections.get_mut(token) else { return };
        match result {
            Ok(bytes) => {
                connection.times.taken(now_ns);
                serve.engine.taken(delivery, bytes as u64, now_ns);
                self.wake(serve, token);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.times.blocked(now_ns);
                let socket = Arc::clone(&connection.socket);
                serve.core.ring.push(token, Op::AwaitWritable { socket });
                serve.engine.set_blocked(delivery, true, now_ns);
            }
            Err(_gone) => self.close(serve, token),
        }
    }

    /// The client takes bytes again.
    pub(super) fn writable(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.times.unblocked(serve.now_ns());
        if let Some(delivery) = connection.current.and_then(|reply| self.delivery(reply)) {
            serve.engine.set_blocked(delivery, false, serve.now_ns());
        }
        self.wake(serve, token);
    }

    /// Stored bytes of a reply are lost. If a part of it was sent, only the end of the connection
    /// can say so.
    pub(super) fn lose(&mut self, serve: &mut Serve<'_>, reply: u64) {
        self.shared.counters.failed_reads.fetch_add(1, Ordering::Relaxed);
        let Some(Reply { connection, xid, state, .. }) = self.replies.get(reply) else { return };
        let (connection, xid) = (*connection, *xid);
        let ReplyState::Delivered(delivery) = *state else { return };
        if self.connections.get(connection).is_none_or(|own| own.current == Some(reply)) {
            if let Some(Asked::Read(read)) = self.replies.get(reply).map(|owed| owed.asked.clone()) {
                self.note_lost(&read, serve.now_ns());
            }
            return self.close(serve, connection);
        }
        serve.engine.close(delivery);
        self.reply(serve, reply, &cannot_read(xid, nfsstat3::NFS3ERR_IO));
        self.wake(serve, connection);
    }

    /// Ends what is left of a reply.
    pub(super) fn end_reply(&mut self, serve: &mut Serve<'_>, reply: u64) {
        self.note_owed(reply, 0);
        let Some(owed) = self.replies.remove(reply) else { return };
        if let ReplyState::Delivered(delivery) = owed.state
            && let Some(report) = serve.engine.close(delivery)
        {
            self.shared.counters.read_bytes.fetch_add(report.media_bytes, Ordering::Relaxed);
        }
    }

    /// The delivery of a reply.
    pub(super) fn delivery(&self, reply: u64) -> Option<DeliveryId> {
        match self.replies.get(reply)?.state {
            ReplyState::Delivered(delivery) => Some(delivery),
            ReplyState::AwaitsListing(_) | ReplyState::AwaitsTitle(..) => None,
        }
    }

    /// Looks at the connections that send through the uplink, so that the engine can learn what the
    /// network carries.
    pub(super) fn look(&mut self, serve: &mut Serve<'_>) {
        self.is_looking = false;
        let sends =
            |connection: &Connection| connection.current.is_some() && connection.path() != NetworkPath::Local;
        let tokens = self.connections.tokens(sends);
        for token in &tokens {
            let Some(connection) = self.connections.get_mut(*token) else { continue };
            let (Some(status), Some(current)) = (tcp_status(&connection.socket), connection.current) else {
                continue;
            };
            let Some(sample) = connection.observe(status) else { continue };
            if let Some(delivery) = self.delivery(current) {
                serve.engine.observe(delivery, sample, serve.now_ns());
            }
        }
        if !tokens.is_empty() {
            self.is_looking = true;
            serve.core.at(serve.now_ns() + LOOK_EVERY_NS, LOOK);
        }
    }

    /// The reply to send next: one without bytes of a title, or the first that has them in memory.
    /// The bytes of a few replies are requested at once.
    fn next_reply(&mut self, serve: &mut Serve<'_>, token: u64) -> Option<u64> {
        let replies: Vec<u64> = self.connections.get(token)?.replies.iter().copied().collect();
        let is_plain =
            |reply: &u64| self.replies.get(*reply).is_some_and(|owed| !matches!(owed.asked, Asked::Read(_)));
        let plain = replies.iter().find(|reply| is_plain(reply) && self.delivery(**reply).is_some());
        if let Some(&plain) = plain {
            return Some(plain);
        }
        let delivered = replies.into_iter().filter_map(|reply| Some((reply, self.delivery(reply)?)));
        let delivered: Vec<_> = delivered.take(REPLIES_FILLED_MAX).collect();
        let now_ns = serve.now_ns();
        let mut next = None;
        for (reply, delivery) in &delivered {
            serve.engine.set_blocked(*delivery, false, now_ns);
            let readiness = serve.engine.fill(*delivery, now_ns);
            if next.is_none() && readiness != Some(Readiness::Waiting) {
                next = Some(*reply);
            }
        }
        // What the others hold may be given to those that need it more, until it is their turn.
        for (_, delivery) in delivered.iter().filter(|(reply, _)| next.is_some_and(|next| next != *reply)) {
            serve.engine.set_blocked(*delivery, true, now_ns);
        }
        next
    }

    fn send(&mut self, serve: &mut Serve<'_>, token: u64, reply: u64, delivery: DeliveryId) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.current = Some(reply);
        connection.is_sending = true;
        let (socket, chunks) = (Arc::clone(&connection.socket), serve.engine.chunks(delivery));
        serve.core.ring.push(token, Op::Send { socket, chunks });
    }

    /// The client has taken a whole reply.
    fn finish(&mut self, serve: &mut Serve<'_>, token: u64, reply: u64) {
        self.end_reply(serve, reply);
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.finish(reply, serve.now_ns());
    }
}
