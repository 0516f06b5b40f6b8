//! TLS on a core: handshakes, and responses that are sealed before they are sent.
//!
//! The path is `received_sealed -> shake_hands` until both sides have keys. Then it is the same as
//! without TLS, with two more steps: received bytes are decrypted before they are parsed, and bytes
//! to be sent are sealed first ([`HttpThread::seal`]).

use super::HttpThread;
use crate::connection::{Connection, State};
use crate::limits::{PARKED_BYTES_MAX, SEAL_SMALL_BYTES_MAX};
use crate::peer::Headed;
use crate::secure::{Secure, looks_like_http, rest_of};
use reel_arena::Buffer;
use reel_ring::{Chunk, Op};
use reel_serve::Serve;
use reel_tls::Protocol;
use std::io;
use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The memory in which a response is sealed.
enum SealBuffer {
    Scratch(Buffer),
    Small(Vec<u8>),
}

impl HttpThread {
    /// Decrypts what was received, and continues according to the connection's state.
    pub(super) fn received_sealed(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Some(secure) = &mut connection.secure else { return };
        let Some(mut incoming) = secure.received.take() else { return };
        if connection.peer.awaits_header() {
            // What came before is a part of the header.
            incoming = [std::mem::take(&mut connection.input), incoming].concat();
        }
        match connection.peer.take_header(&mut incoming) {
            Headed::Done => {}
            Headed::Partial => {
                connection.input = incoming;
                return self.receive(serve, token);
            }
            Headed::Bad => return self.close(serve, token),
        }
        let shakes_hands = matches!(connection.state, State::ShakingHands);
        let is_http = shakes_hands && looks_like_http(&incoming);
        if let Err(error) = secure.tls.receive(incoming, &mut connection.input) {
            tracing::debug!(peer = %connection.peer.address(), %error, "a TLS connection ends");
            self.shared.http.counters.tls_failures.fetch_add(1, Ordering::Relaxed);
            if is_http {
                connection.send_unsealed(NOT_HTTP);
            } else {
                connection.send_last(&[]);
            }
            return self.close(serve, token);
        }
        if shakes_hands {
            return self.shake_hands(serve, token);
        }
        let has_closed = secure.tls.peer_has_closed();
        match (connection.input.is_empty(), &connection.state) {
            (true, _) if has_closed => self.close(serve, token),
            // A record is incomplete, or contained nothing for the application.
            (true, _) => self.receive(serve, token),
            (false, _) => {
                connection.begin_head(serve.now_ns());
                self.begin(serve, token);
            }
        }
    }

    /// Continues a handshake: sends what is to be sent, waits for the client, or begins with the
    /// first request.
    pub(super) fn shake_hands(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Some(secure) = &mut connection.secure else { return };
        let outgoing = secure.tls.take_outgoing();
        if !outgoing.is_empty() && secure.pending.is_none() {
            secure.pending = Some(Chunk::from(outgoing));
        }
        if let Some(chunk) = secure.pending.take() {
            connection.in_ring = true;
            let socket = Arc::clone(&connection.socket);
            return serve.core.ring.push(token, Op::Send { socket, chunks: vec![chunk] });
        }
        if !secure.tls.is_established() {
            if secure.tls.peer_has_closed() {
                return self.close(serve, token);
            }
            return self.receive(serve, token);
        }
        connection.handshake = None;
        self.shared.http.counters.handshakes.fetch_add(1, Ordering::Relaxed);
        if secure.tls.protocol() == Protocol::Http2 {
            return self.hand_over(serve, token);
        }
        self.await_request(serve, token);
    }

    /// Seals what is ready and sends it.
    pub(super) fn seal(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Some(delivery) = connection.delivery() else { return };
        let chunks = serve.engine.chunks(delivery);
        let mut seal_buffer = self.seal_buffer(serve, token, Secure::room_bytes(&chunks));
        let Some(connection) = self.connections.get_mut(token) else { return };
        let (State::Sending(sending), Some(secure)) = (&mut connection.state, &mut connection.secure) else {
            return;
        };
        let sealed = secure.seal(&chunks, &mut seal_buffer);
        // The reader's leases are released before its stripes.
        drop(chunks);
        let sealed = match sealed {
            Ok(sealed) if sealed.sealed > 0 => sealed,
            ended => {
                tracing::debug!(peer = %connection.peer.address(), error = ?ended.err(), "a response cannot be sealed");
                if let SealBuffer::Scratch(buffer) = seal_buffer {
                    self.scratch.give(token, Chunk::Lease(buffer.freeze()));
                }
                return self.close(serve, token);
            }
        };
        serve.engine.release_sent(delivery, sealed.plain as u64);
        secure.plain_bytes = sealed.plain as u64;
        let mut bytes = sealed.sealed;
        if serve.engine.unsent_bytes(delivery) == 0 && !sending.keep_alive {
            bytes += secure.tls.close(&mut seal_buffer[bytes..]);
        }
        let chunk = match seal_buffer {
            SealBuffer::Scratch(buffer) => Chunk::Lease(buffer.freeze().slice(0..bytes)),
            SealBuffer::Small(mut text) => {
                text.truncate(bytes);
                Chunk::from(text)
            }
        };
        connection.in_ring = true;
        serve.core.ring.push(token, Op::Send { socket: Arc::clone(&connection.socket), chunks: vec![chunk] });
    }

    /// The socket accepted some of the sealed bytes, or none.
    pub(super) fn sent_sealed(
        &mut self,
        serve: &mut Serve<'_>,
        token: u64,
        chunks: Vec<Chunk>,
        result: io::Result<usize>,
    ) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Some(secure) = &mut connection.secure else { return };
        let Some(chunk) = chunks.into_iter().next() else { return };
        match result {
            Ok(bytes) => {
                connection.since_ns = match connection.state {
                    // One time limit covers the whole handshake.
                    State::ShakingHands => connection.since_ns,
                    _ => serve.now_ns(),
                };
                let chunk = match rest_of(chunk, bytes) {
                    Ok(rest) => {
                        secure.pending = Some(rest);
                        if let Some(delivery) = connection.delivery() {
                            serve.engine.progressed(delivery, serve.now_ns());
                        }
                        return self.wake(serve, token);
                    }
                    Err(all) => all,
                };
                self.parked_bytes -= std::mem::take(&mut secure.parked_bytes);
                let plain_bytes = std::mem::take(&mut secure.plain_bytes);
                if let Some(delivery) = connection.delivery() {
                    serve.engine.count_taken(delivery, plain_bytes, serve.now_ns());
                }
                self.scratch.give(token, chunk);
                self.watch_reader(serve, token);
                self.wake(serve, token);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                secure.pending = Some(chunk);
                connection.in_ring = true;
                serve.core.ring.push(token, Op::AwaitWritable { socket: Arc::clone(&connection.socket) });
                self.set_blocked(serve, token, true);
            }
            Err(_gone) => {
                self.scratch.give(token, chunk);
                self.close(serve, token);
            }
        }
    }

    /// The memory in which up to `bytes` are sealed, with less room if there is less. It never
    /// waits.
    fn seal_buffer(&mut self, serve: &mut Serve<'_>, token: u64, bytes: usize) -> SealBuffer {
        if bytes <= SEAL_SMALL_BYTES_MAX {
            return SealBuffer::Small(vec![0; bytes]);
        }
        if let Some(buffer) = self.scratch.take(token) {
            return SealBuffer::Scratch(buffer);
        }
        self.park(serve);
        match self.scratch.take(token) {
            Some(buffer) => SealBuffer::Scratch(buffer),
            // All buffers are being sent in this turn.
            None => SealBuffer::Small(vec![0; SEAL_SMALL_BYTES_MAX]),
        }
    }

    /// Moves the sealed bytes of a client that accepts nothing at the moment out of their buffer.
    /// It chooses the connection that has held its buffer for the longest. If too many bytes are
    /// moved out already, the connection is cut off.
    fn park(&mut self, serve: &mut Serve<'_>) {
        let is_slow = |connection: &Connection| {
            let waits = connection
                .secure
                .as_ref()
                .is_some_and(|secure| matches!(secure.pending, Some(Chunk::Lease(_))));
            waits && matches!(&connection.state, State::Sending(sending) if sending.blocked)
        };
        let holders = self.scratch.holders().to_vec();
        let slow =
            |token: &u64| self.connections.get_mut(*token).is_some_and(|connection| is_slow(connection));
        let Some(token) = holders.into_iter().find(slow) else { return };
        let Some(secure) = self.connections.get_mut(token).and_then(|c| c.secure.as_mut()) else { return };
        let Some(chunk) = secure.pending.take() else { return };
        if self.parked_bytes + chunk.len() > PARKED_BYTES_MAX {
            secure.pending = Some(chunk);
            self.shared.http.counters.timed_out.fetch_add(1, Ordering::Relaxed);
            return self.close(serve, token);
        }
        secure.pending = Some(Chunk::from(chunk.to_vec()));
        secure.parked_bytes = chunk.len();
        self.parked_bytes += chunk.len();
        self.shared.http.counters.parked.fetch_add(1, Ordering::Relaxed);
        self.scratch.give(token, chunk);
    }
}

/// The text that a browser shows when it used the wrong port or the wrong scheme.
const NOT_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 57\r\nConnection: close\r\n\r\nThis port speaks HTTPS: begin the address with https://\r\n";

impl Connection {
    /// Sends a last message without waiting, as far as the socket accepts it. The connection is
    /// closed in any case.
    pub(super) fn send_last(&mut self, text: &[u8]) {
        // A send that is under way must not be interrupted by other bytes.
        let is_sending = self.in_ring && matches!(self.state, State::ShakingHands | State::Sending(_));
        match &mut self.secure {
            Some(secure) if secure.pending.is_none() && !is_sending => {
                let sealed = secure.seal_last(text);
                self.send_unsealed(&sealed);
            }
            Some(_) => {}
            None => self.send_unsealed(text),
        }
    }

    fn send_unsealed(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let _ = rustix::net::send(
                &self.socket,
                bytes,
                rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL,
            );
        }
    }
}

impl std::ops::Deref for SealBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            SealBuffer::Scratch(buffer) => buffer,
            SealBuffer::Small(text) => text,
        }
    }
}

impl DerefMut for SealBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            SealBuffer::Scratch(buffer) => buffer,
            SealBuffer::Small(text) => text,
        }
    }
}
