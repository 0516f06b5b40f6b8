//! TLS on a core: handshakes, and responses that are sealed before they are sent.
//!
//! The path is `received_sealed -> shake_hands` until both sides have keys. Then it is the same as
//! without TLS, with two more steps: received bytes are decrypted before they are parsed, and bytes
//! to be sent are sealed first ([`Turn::seal`]).

use super::{HttpThread, Then, Turn};
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
use std::sync::atomic::Ordering;

/// The memory in which a response is sealed.
enum SealBuffer {
    Scratch(Buffer),
    Small(Vec<u8>),
}

impl Turn<'_, '_> {
    /// Decrypts what was received, and continues according to the connection's state.
    pub(super) fn received_sealed(&mut self, mut incoming: Vec<u8>) -> Then {
        let Some(secure) = &mut self.connection.secure else { return Then::Stays };
        if self.connection.peer.awaits_header() {
            // What came before is a part of the header.
            incoming = [std::mem::take(&mut self.connection.input), incoming].concat();
        }
        match self.connection.peer.take_header(&mut incoming) {
            Headed::Done => {}
            Headed::Partial => {
                self.connection.input = incoming;
                return self.receive();
            }
            Headed::Bad => return Then::Closes,
        }
        let shakes_hands = matches!(self.connection.state, State::ShakingHands);
        let is_http = shakes_hands && looks_like_http(&incoming);
        if let Err(error) = secure.tls.receive(incoming, &mut self.connection.input) {
            tracing::debug!(peer = %self.connection.peer.address(), %error, "a TLS connection ends");
            self.own.shared.http.counters.tls_failures.fetch_add(1, Ordering::Relaxed);
            if is_http {
                self.connection.send_unsealed(NOT_HTTP);
            } else {
                self.connection.send_last(&[]);
            }
            return Then::Closes;
        }
        if shakes_hands {
            return self.shake_hands();
        }
        let has_closed = secure.tls.peer_has_closed();
        match (self.connection.input.is_empty(), &self.connection.state) {
            (true, _) if has_closed => Then::Closes,
            // A record is incomplete, or contained nothing for the application.
            (true, _) => self.receive(),
            (false, _) => {
                self.connection.begin_head(self.serve.now_ns());
                self.begin()
            }
        }
    }

    /// Continues a handshake: sends what is to be sent, waits for the client, or begins with the
    /// first request.
    pub(super) fn shake_hands(&mut self) -> Then {
        let Some(secure) = &mut self.connection.secure else { return Then::Stays };
        let outgoing = secure.tls.take_outgoing();
        if !outgoing.is_empty() && secure.pending.is_none() {
            secure.pending = Some(Chunk::from(outgoing));
        }
        if let Some(chunk) = secure.pending.take() {
            return self.push(|socket| Op::Send { socket, chunks: vec![chunk] });
        }
        if !secure.tls.is_established() {
            if secure.tls.peer_has_closed() {
                return Then::Closes;
            }
            return self.receive();
        }
        self.connection.handshake = None;
        self.own.shared.http.counters.handshakes.fetch_add(1, Ordering::Relaxed);
        if secure.tls.protocol() == Protocol::Http2 {
            return Then::HandsOver { is_health: false };
        }
        self.await_request()
    }

    /// Seals what is ready and sends it. `has_parked`: whether a slow client had to give its buffer
    /// for it, if there was one.
    pub(super) fn seal(&mut self, has_parked: bool) -> Then {
        let (State::Sending(sending), Some(secure)) = (&self.connection.state, &mut self.connection.secure)
        else {
            return Then::Stays;
        };
        let (token, delivery) = (self.connection.token, sending.delivery);
        let chunks = self.serve.engine.chunks(delivery);
        let mut seal_buffer = match Secure::room_bytes(&chunks) {
            bytes @ ..=SEAL_SMALL_BYTES_MAX => SealBuffer::Small(vec![0; bytes]),
            _ => match self.own.scratch.take(token) {
                Some(buffer) => SealBuffer::Scratch(buffer),
                // All buffers are being sent in this turn.
                None if has_parked => SealBuffer::Small(vec![0; SEAL_SMALL_BYTES_MAX]),
                None => return Then::NeedsBuffer,
            },
        };
        let sealed = secure.seal(&chunks, &mut seal_buffer);
        // The reader's leases are released before its stripes.
        drop(chunks);
        let sealed = match sealed {
            Ok(sealed) if sealed.sealed > 0 => sealed,
            ended => {
                tracing::debug!(peer = %self.connection.peer.address(), error = ?ended.err(), "a response cannot be sealed");
                if let SealBuffer::Scratch(buffer) = seal_buffer {
                    self.own.scratch.give(token, Chunk::Lease(buffer.freeze()));
                }
                return Then::Closes;
            }
        };
        self.serve.engine.release_sent(delivery, sealed.plain as u64);
        secure.plain_bytes = sealed.plain as u64;
        let mut bytes = sealed.sealed;
        if self.serve.engine.unsent_bytes(delivery) == 0 && !sending.keep_alive && sending.live.is_none() {
            bytes += secure.tls.close(&mut seal_buffer[bytes..]);
        }
        let chunk = match seal_buffer {
            SealBuffer::Scratch(buffer) => Chunk::Lease(buffer.freeze().slice(0..bytes)),
            SealBuffer::Small(mut text) => {
                text.truncate(bytes);
                Chunk::from(text)
            }
        };
        self.push(|socket| Op::Send { socket, chunks: vec![chunk] })
    }

    /// The socket accepted some of the sealed bytes, or none.
    pub(super) fn sent_sealed(&mut self, chunks: Vec<Chunk>, result: io::Result<usize>) -> Then {
        let Some(secure) = &mut self.connection.secure else { return Then::Stays };
        let Some(chunk) = chunks.into_iter().next() else { return Then::Stays };
        match result {
            Ok(bytes) => {
                self.connection.since_ns = match self.connection.state {
                    // One time limit covers the whole handshake.
                    State::ShakingHands => self.connection.since_ns,
                    _ => self.serve.now_ns(),
                };
                let chunk = match rest_of(chunk, bytes) {
                    Ok(rest) => {
                        secure.pending = Some(rest);
                        if let Some(delivery) = self.connection.delivery() {
                            self.serve.engine.progressed(delivery, self.serve.now_ns());
                        }
                        return self.wake();
                    }
                    Err(all) => all,
                };
                self.own.parked_bytes -= std::mem::take(&mut secure.parked_bytes);
                let plain_bytes = std::mem::take(&mut secure.plain_bytes);
                if let Some(delivery) = self.connection.delivery() {
                    self.serve.engine.count_taken(delivery, plain_bytes, self.serve.now_ns());
                }
                self.own.scratch.give(self.connection.token, chunk);
                self.watch_reader();
                self.wake()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                secure.pending = Some(chunk);
                self.set_blocked(true);
                self.push(|socket| Op::AwaitWritable { socket })
            }
            Err(_gone) => {
                self.own.scratch.give(self.connection.token, chunk);
                Then::Closes
            }
        }
    }
}

impl HttpThread {
    /// Moves the sealed bytes of a client that accepts nothing at the moment out of their buffer.
    /// It chooses the connection that has held its buffer for the longest. If too many bytes are
    /// moved out already, the connection is cut off.
    pub(super) fn park(&mut self, serve: &mut Serve<'_>) {
        let is_slow = |connection: &Connection| {
            let waits = connection
                .secure
                .as_ref()
                .is_some_and(|secure| matches!(secure.pending, Some(Chunk::Lease(_))));
            waits && matches!(&connection.state, State::Sending(sending) if sending.blocked)
        };
        let own = &mut self.own;
        for token in own.scratch.holders().to_vec() {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            if !is_slow(connection) {
                continue;
            }
            let Some(secure) = &mut connection.secure else { return };
            let Some(chunk) = secure.pending.take() else { return };
            if own.parked_bytes + chunk.len() > PARKED_BYTES_MAX {
                secure.pending = Some(chunk);
                own.shared.http.counters.timed_out.fetch_add(1, Ordering::Relaxed);
                return self.close(serve, token);
            }
            secure.pending = Some(Chunk::from(chunk.to_vec()));
            secure.parked_bytes = chunk.len();
            own.parked_bytes += chunk.len();
            own.shared.http.counters.parked.fetch_add(1, Ordering::Relaxed);
            return own.scratch.give(token, chunk);
        }
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
