//! One core of the data plane, which accepts connections and sends media. Nothing in it ever waits.
//!
//! The engine (`reel-play`) decides what is read, in which order, and which readers wait for
//! buffers. This module contains sockets, HTTP and TLS.
//!
//! Every connection is a task of the core. An event (a finished operation, a message) is noted and
//! makes its connection's task ready. When the task's turn has come by deadline and class
//! (`tasks.rs`), its section moves the connection one step. A step ends with at most one new
//! operation in the ring.
//!
//! An event finds its connection once. The steps that follow have it in a [`Turn`], and say at
//! their end what becomes of it ([`Then`]).
//!
//! The path of a request: [`Turn::proceed`] -> [`Turn::begin`] -> [`Turn::respond`] ->
//! [`Turn::pump`].

mod connecting;
mod ending;
mod live;
mod panics;
mod paths;
mod playing;
mod reading;
mod requests;
mod secure;
mod sending;
mod tasks;
mod zero_copy;

pub(crate) use reading::Watched;

use crate::connection::{Connection, State};
use crate::file_readers::FileReaders;
use crate::front_end::{HttpParts, Transport};
use crate::limits::{ASIDE_CONNECTIONS_MAX, SWEEP_EVERY_NS};
use crate::scratch::Scratch;
use reel_play::Slots;
use reel_ring::{Chunk, Done, Op};
use reel_rt::{Core, Next, TaskId};
use reel_serve::{Accepted, NoPlace, OpenConnections, OpenResult, Protocol, Serve, Step};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The state that all serve threads share.
pub(crate) struct HttpShared {
    pub(crate) http: HttpParts,
    /// Whether every media request is logged.
    pub(crate) access_log: bool,
    /// The protocol of each listening socket.
    pub(crate) transports: Vec<Transport>,
    /// Buffers of the arena that may be lent to the kernel at once.
    pub(crate) lent_buffers: usize,
    /// The congestion control of the system, if connections begin with another one.
    pub(crate) system_congestion: Option<String>,
    /// Handshakes of one thread that are under way at once.
    pub(crate) handshakes_max: usize,
    /// The clients that read titles as files.
    pub(crate) file_readers: FileReaders,
    /// Set if TLS is served.
    pub(crate) tls_acceptor: Option<reel_tls::Acceptor>,
}

/// HTTP on one serve thread.
pub(crate) struct HttpThread {
    own: Own,
    connections: Slots<Connection>,
    /// The connections that shake hands. Each thread has its own, so that the one that ends for
    /// another one is always at hand.
    handshakes: Arc<OpenConnections>,
    /// The connections beyond those there may be, whose requests may be for health.
    aside: Arc<OpenConnections>,
    /// The token of the connection of each task, by the task's number.
    of_task: Vec<u64>,
    /// How many connections the next look at their paths passes over.
    paths_seen: usize,
}

/// A connection during its steps, and what they work with.
struct Turn<'a, 's> {
    own: &'a mut Own,
    serve: &'a mut Serve<'s>,
    connection: &'a mut Connection,
}

/// What a thread has for the steps of all its connections.
struct Own {
    shared: Arc<HttpShared>,
    /// Whether the next look at the paths of connections is planned.
    paths_planned: bool,
    /// The buffers in which responses are sealed.
    scratch: Scratch,
    /// Sealed bytes of slow clients that were moved out of the arena.
    parked_bytes: usize,
}

/// What becomes of a connection after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Then {
    Stays,
    Closes,
    /// It continues in the control plane, perhaps with a request for health.
    HandsOver {
        is_health: bool,
    },
    /// It has bytes to seal, and all buffers for that are with other clients.
    NeedsBuffer,
}

/// The result of a finished operation of a connection.
enum Ended {
    AwaitReadable,
    Receive(Vec<u8>),
    /// The chunk of sealed bytes; empty for a connection without TLS.
    Send(Vec<Chunk>),
    /// For a send that was to be without a copy: the chunks that the kernel copied at once, or none
    /// if all of it was lent.
    SendZeroCopy(Vec<Chunk>),
    /// Lent memory was returned; whether it was copied after all.
    Lent(bool),
    AwaitWritable,
}

impl Ended {
    /// Takes the operation apart and releases all that it held except what was sent. The connection
    /// may be handed over next, which requires that its socket has only one holder.
    fn of(op: Op) -> Option<Ended> {
        // By value: what a pattern does not name is dropped with `op`, before the caller continues.
        match op {
            Op::AwaitReadable { .. } => Some(Ended::AwaitReadable),
            Op::AwaitWritable { .. } => Some(Ended::AwaitWritable),
            Op::Receive { buffer, .. } => Some(Ended::Receive(buffer)),
            Op::Send { chunks, .. } => Some(Ended::Send(chunks)),
            Op::SendZeroCopy { chunks, .. } => Some(Ended::SendZeroCopy(chunks)),
            Op::Lent { copied, .. } => Some(Ended::Lent(copied)),
            _ => None,
        }
    }
}

const SWEEP: u64 = 0;
const PATHS: u64 = 1;

impl HttpThread {
    pub(crate) fn new(core: &mut Core, shared: Arc<HttpShared>, scratch: Scratch) -> Self {
        core.at(core.now_ns() + SWEEP_EVERY_NS, SWEEP);
        let shares = shared.http.open.shares().clone();
        let handshakes = OpenConnections::new(1, shared.handshakes_max, shares.clone());
        let aside = OpenConnections::new(1, ASIDE_CONNECTIONS_MAX, shares);
        Self {
            own: Own { shared, paths_planned: false, scratch, parked_bytes: 0 },
            handshakes,
            aside,
            connections: Slots::new(),
            of_task: Vec::new(),
            paths_seen: 0,
        }
    }

    /// The turn of a connection; `None` if it is gone.
    fn turn<'a, 's>(&'a mut self, serve: &'a mut Serve<'s>, token: u64) -> Option<Turn<'a, 's>> {
        let connection = self.connections.get_mut(token)?;
        Some(Turn { own: &mut self.own, serve, connection })
    }

    /// A step of a connection, and what follows from it.
    fn step(&mut self, serve: &mut Serve<'_>, token: u64, step: impl FnOnce(&mut Turn<'_, '_>) -> Then) {
        if let Some(mut turn) = self.turn(serve, token) {
            let then = step(&mut turn);
            self.follow(serve, token, then);
        }
    }

    fn follow(&mut self, serve: &mut Serve<'_>, token: u64, then: Then) {
        match then {
            Then::Stays => {}
            Then::Closes => self.close(serve, token),
            Then::HandsOver { is_health } => self.hand_over(serve, token, is_health),
            Then::NeedsBuffer => {
                self.park(serve);
                self.step(serve, token, |turn| turn.seal(true));
            }
        }
    }
}

impl Turn<'_, '_> {
    /// An operation of the connection has ended.
    fn ended(&mut self, ended: Ended, result: io::Result<usize>) -> Then {
        self.connection.in_ring = false;
        match ended {
            Ended::AwaitReadable => self.receive(),
            Ended::Receive(buffer) => match (result, &mut self.connection.secure) {
                (Ok(0) | Err(_), _) => Then::Closes,
                (Ok(bytes), _) if matches!(self.connection.state, State::Lingering(_)) => {
                    self.connection.input = buffer;
                    self.lingered(bytes)
                }
                (Ok(_), Some(secure)) => {
                    secure.received = Some(buffer);
                    self.wake()
                }
                (Ok(_), None) => {
                    self.connection.input = buffer;
                    self.connection.begin_head(self.serve.now_ns());
                    self.wake()
                }
            },
            Ended::Send(chunks) if self.connection.secure.is_some() => self.sent_sealed(chunks, result),
            Ended::Send(chunks) => {
                // The chunks may hold the memory that other readers wait for.
                drop(chunks);
                let bytes = *result.as_ref().unwrap_or(&0) as u64;
                self.connection.zero_copy.copied(bytes);
                self.own.shared.http.counters.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
                self.sent(result)
            }
            Ended::SendZeroCopy(chunks) => self.sent_zero_copy(chunks, result),
            Ended::Lent(_) => Then::Stays,
            Ended::AwaitWritable if result.is_err() => Then::Closes,
            Ended::AwaitWritable => {
                self.set_blocked(false);
                self.wake()
            }
        }
    }
}

impl Protocol for HttpThread {
    fn connected(&mut self, serve: &mut Serve<'_>, accepted: Accepted) {
        self.connect(serve, accepted, None);
    }

    fn turned_away(&mut self, serve: &mut Serve<'_>, socket: OwnedFd, listener: usize, why: NoPlace) {
        self.hold_aside(serve, socket, listener, why);
    }

    fn make_room(&mut self, serve: &mut Serve<'_>, token: u64) {
        self.leave(serve, token);
    }

    fn opened(&mut self, serve: &mut Serve<'_>, tag: u64, result: OpenResult) {
        self.step(serve, tag, |turn| turn.note_opened(result));
    }

    fn done(&mut self, serve: &mut Serve<'_>, done: Done) {
        let token = done.token;
        let Some(ended) = Ended::of(done.op) else { return };
        match (self.turn(serve, token), ended) {
            (_, Ended::Lent(copied)) => self.returned(serve, token, done.result.unwrap_or(0), copied),
            (Some(mut turn), ended) => {
                let then = turn.ended(ended, done.result);
                self.follow(serve, token, then);
            }
            (None, Ended::Send(chunks)) => {
                chunks.into_iter().for_each(|chunk| self.own.scratch.give(token, chunk));
            }
            (None, _) => {}
        }
    }

    fn timer(&mut self, serve: &mut Serve<'_>, token: u64) {
        match token {
            PATHS => self.look_at_paths(serve),
            _ => self.sweep(serve),
        }
    }

    fn task(&mut self, serve: &mut Serve<'_>, task: TaskId) -> Next {
        self.section(serve, task)
    }

    fn ready(&mut self, serve: &mut Serve<'_>, tag: u64) {
        self.step(serve, tag, |turn| turn.wake());
    }

    fn lost(&mut self, serve: &mut Serve<'_>, tag: u64) {
        // The head is already sent. The only way to report the error is to end the connection
        // early.
        self.close(serve, tag);
    }

    fn woken(&mut self, serve: &mut Serve<'_>) {
        self.continue_live(serve);
    }

    fn drain(&mut self, serve: &mut Serve<'_>) {
        self.close_idle(serve);
    }

    fn has_drained(&self) -> bool {
        self.connections.is_empty()
    }

    fn cut_off_all(&mut self, serve: &mut Serve<'_>) {
        for token in self.connections.tokens(|_| true) {
            self.step(serve, token, |turn| turn.connection.cut_off());
        }
    }

    fn title_of(&self, step: Step) -> Option<String> {
        self.title_of_step(step)
    }

    fn end(&mut self, serve: &mut Serve<'_>, step: Step) -> bool {
        self.end_step(serve, step)
    }
}
