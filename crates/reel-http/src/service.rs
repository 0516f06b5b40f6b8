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
//! The path of a request: [`Data::proceed`] -> [`Data::received`] -> [`Data::begin`] ->
//! [`Data::respond`] -> [`Data::pump`].

mod acceptor;
mod ending;
mod paths;
mod playing;
mod secure;
mod sending;
mod tasks;
mod zero_copy;

use crate::access_log::AccessLog;
use crate::connection::{Connection, Sending, State};
use crate::front_end::{Message, Shared, Transport};
use crate::limits::{RECEIVE_BYTES, SWEEP_EVERY_NS};
use crate::request::{Head, Request};
use crate::response::Response;
use crate::route::Route;
use crate::scratch::Scratch;
use reel_admit::Session;
use reel_play::{DeliveryPolicy, Engine, NewDelivery, PlayableTitle, Slots};
use reel_ring::{Chunk, Done, Op};
use reel_rt::{Core, Mailbox, Next, Service, TaskId};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The state that all serve threads share.
pub(crate) struct ServeShared {
    pub(crate) server: Shared,
    pub(crate) access_log: AccessLog,
    pub(crate) connections_max: usize,
    /// Buffers of the arena that may be lent to the kernel at once.
    pub(crate) lent_buffers: usize,
    /// The congestion control of the system, if connections begin with another one.
    pub(crate) system_congestion: Option<String>,
    /// Set if TLS is served.
    pub(crate) tls_acceptor: Option<reel_tls::Acceptor>,
}

/// The state of one serve thread.
pub(crate) struct Data {
    core: usize,
    shared: Arc<ServeShared>,
    engine: Engine<PlayableTitle>,
    /// The time of the next timer for the engine.
    engine_timer_ns: Option<u64>,
    /// Whether the next look at the connections is planned...
    paths_planned: bool,
    /// ...and how many of them it passes over.
    paths_seen: usize,
    /// The buffers in which responses are sealed.
    scratch: Scratch,
    /// Sealed bytes of slow clients that were moved out of the arena.
    parked_bytes: usize,
    connections: Slots<Connection>,
    /// The token of the connection of each task, by the task's number.
    of_task: Vec<u64>,
    /// Set on the thread that accepts.
    acceptor: Option<Acceptor>,
    own: Mailbox<Message>,
    draining_since_ns: Option<u64>,
}

/// The listening sockets, and the cores to which connections are given.
pub(crate) struct Acceptor {
    pub(crate) listeners: Vec<(Arc<OwnedFd>, Transport)>,
    pub(crate) cores: Vec<Mailbox<Message>>,
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

const ACCEPT: u64 = u64::MAX;
const ACCEPT_TLS: u64 = u64::MAX - 1;
const SWEEP: u64 = 0;
const ENGINE: u64 = 1;
const ACCEPT_AGAIN: u64 = 2;
const ACCEPT_TLS_AGAIN: u64 = 3;
const PATHS: u64 = 4;

impl Data {
    pub(crate) fn new(
        core: &mut Core,
        number: usize,
        shared: Arc<ServeShared>,
        engine: Engine<PlayableTitle>,
        scratch: Scratch,
        own: Mailbox<Message>,
    ) -> Self {
        core.at(core.now_ns() + SWEEP_EVERY_NS, SWEEP);
        Self {
            core: number,
            shared,
            engine,
            engine_timer_ns: None,
            paths_planned: false,
            paths_seen: 0,
            scratch,
            parked_bytes: 0,
            connections: Slots::new(),
            of_task: Vec::new(),
            acceptor: None,
            own,
            draining_since_ns: None,
        }
    }

    /// Waits for the next request without holding memory for it.
    fn await_request(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.since_ns = core.now_ns();
        if !connection.input.is_empty() {
            connection.state = State::Heading;
            return self.received(core, token);
        }
        if self.draining_since_ns.is_some() {
            return self.linger(core, token);
        }
        connection.state = State::Idle;
        connection.input = Vec::new();
        connection.in_ring = true;
        core.ring.push(token, Op::AwaitReadable { socket: Arc::clone(&connection.socket) });
    }

    fn receive(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let mut buffer = match &mut connection.secure {
            // Bytes that are discarded need not be decrypted.
            Some(secure) if !matches!(connection.state, State::Lingering(_)) => secure.tls.take_incoming(),
            _ => std::mem::take(&mut connection.input),
        };
        // An incomplete head is shorter than the longest possible head: there is always room for
        // more.
        buffer.reserve_exact(RECEIVE_BYTES.max(buffer.len()));
        connection.in_ring = true;
        core.ring.push(token, Op::Receive { socket: Arc::clone(&connection.socket), buffer });
    }

    /// Parses what was received: an incomplete head, a request, or a malformed one.
    fn received(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        match Head::parse(&connection.input) {
            Head::Partial => self.receive(core, token),
            Head::Bad(status, detail) => {
                connection.input.clear();
                let request = Request { method: "-".into(), path: "-".into(), ..Request::default() };
                let response = Response::problem(&request, status, detail, "");
                self.respond_interactive(core, token, request, response);
            }
            Head::Complete(request, head_bytes) => self.begin(core, token, *request, head_bytes),
        }
    }

    /// Decides what a request is for, and answers it or passes it on.
    fn begin(&mut self, core: &mut Core, token: u64, mut request: Request, head_bytes: usize) {
        request.keep_alive &= self.draining_since_ns.is_none();
        let route = Route::of(&request.path);
        if route == Route::ControlPlane {
            return self.hand_over(core, token);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.input.drain(..head_bytes);
        if request.has_body {
            request.keep_alive = false;
            let response = Response::problem(&request, 400, "media is read without a request body", "");
            return self.respond_interactive(core, token, request, response);
        }
        let response = match request.method.as_str() {
            "GET" | "HEAD" => match route {
                Route::Session { key, file } => {
                    match self.shared.server.sessions.touch(&key, core.now_ns()) {
                        Some(session) => return self.play(core, token, request, file, session),
                        None => Response::problem(
                            &request,
                            410,
                            "this session has ended or never was; open the title again with /watch/TITLE/master.m3u8",
                            "",
                        ),
                    }
                }
                Route::Watch { title, .. } | Route::Download { title } => {
                    return self.open(core, token, request, title);
                }
                Route::NotFound | Route::ControlPlane => {
                    Response::problem(&request, 404, "there is nothing at this path", "")
                }
            },
            "OPTIONS" => Response::options(&request),
            _ => {
                let detail = "media can be read (GET, HEAD) and nothing else";
                Response::problem(&request, 405, detail, "Allow: GET, HEAD, OPTIONS\r\n")
            }
        };
        self.respond_interactive(core, token, request, response);
    }

    /// Answers with something that belongs to no session, and that an interactive client waits for.
    fn respond_interactive(&mut self, core: &mut Core, token: u64, request: Request, response: Response) {
        self.respond(core, token, request, response, (None, DeliveryPolicy::interactive()));
    }

    /// Begins to send a response.
    fn respond(
        &mut self,
        core: &mut Core,
        token: u64,
        request: Request,
        response: Response,
        (session, policy): (Option<Arc<Session<PlayableTitle>>>, DeliveryPolicy),
    ) {
        self.shared.server.counters.response(response.status);
        let now_ns = core.now_ns();
        let Some(connection) = self.connections.get_mut(token) else { return };
        let Response { status, body, body_bytes, body_offset, keep_alive } = response;
        let delivery = NewDelivery {
            tag: token,
            session,
            policy,
            preamble_bytes: body.bytes() - body_bytes,
            body,
            file_offset: body_offset,
            in_runs: true,
            path: connection.path(),
        };
        let is_watched = connection.uses_uplink();
        let delivery = self.engine.open(delivery, now_ns);
        let (blocked, started_ns) = (false, now_ns);
        connection.state =
            State::Sending(Box::new(Sending { delivery, blocked, keep_alive, started_ns, status, request }));
        connection.since_ns = now_ns;
        if is_watched {
            self.watch_paths(core);
        }
        self.pump(core, token);
    }
}

impl Service for Data {
    type Message = Message;

    fn message(&mut self, core: &mut Core, message: Message) {
        match message {
            Message::Connection(socket, peer, transport) => self.connected(core, socket, peer, transport),
            Message::Arrival(arrival) => {
                self.engine.arrived(arrival, core.now_ns());
                self.continue_with_events(core);
            }
            Message::Acceptor(acceptor) => {
                self.acceptor = Some(acceptor);
                self.accept_all(core);
            }
            Message::Opened { connection, result } => self.opened(core, connection, result),
        }
    }

    fn done(&mut self, core: &mut Core, done: Done) {
        let token = done.token;
        match token {
            ACCEPT => return self.accepted(core, done, Transport::Plain),
            ACCEPT_TLS => return self.accepted(core, done, Transport::Tls),
            _ => {}
        }
        let Some(ended) = Ended::of(done.op) else { return };
        if let Ended::Lent(copied) = ended {
            return self.returned(core, token, done.result.unwrap_or(0), copied);
        }
        let Some(connection) = self.connections.get_mut(token) else {
            if let Ended::Send(chunks) = ended {
                chunks.into_iter().for_each(|chunk| self.scratch.give(token, chunk));
            }
            return;
        };
        connection.in_ring = false;
        match ended {
            Ended::AwaitReadable => self.receive(core, token),
            Ended::Receive(buffer) => match (done.result, &mut connection.secure) {
                (Ok(0) | Err(_), _) => self.close(core, token),
                (Ok(bytes), _) if matches!(connection.state, State::Lingering(_)) => {
                    connection.input = buffer;
                    self.lingered(core, token, bytes);
                }
                (Ok(_), Some(secure)) => {
                    secure.received = Some(buffer);
                    self.ready(core, token);
                }
                (Ok(_), None) => {
                    connection.input = buffer;
                    connection.begin_head(core.now_ns());
                    self.ready(core, token);
                }
            },
            Ended::Send(chunks) if connection.secure.is_some() => {
                self.sent_sealed(core, token, chunks, done.result);
            }
            Ended::Send(chunks) => {
                // The chunks may hold the memory that other readers wait for.
                drop(chunks);
                let bytes = *done.result.as_ref().unwrap_or(&0) as u64;
                connection.zero_copy.copied(bytes);
                self.shared.server.counters.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
                self.sent(core, token, done.result);
            }
            Ended::SendZeroCopy(chunks) => self.sent_zero_copy(core, token, chunks, done.result),
            Ended::Lent(_) => {}
            Ended::AwaitWritable => match done.result {
                Ok(_) => {
                    self.set_blocked(core, token, false);
                    self.ready(core, token);
                }
                Err(_) => self.close(core, token),
            },
        }
    }

    fn task(&mut self, core: &mut Core, task: TaskId) -> Next {
        self.section(core, task)
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        match token {
            SWEEP => self.sweep(core),
            ENGINE => self.tick_engine(core),
            PATHS => self.look_at_paths(core),
            ACCEPT_TLS_AGAIN => self.accept(core, Transport::Tls),
            _ => self.accept(core, Transport::Plain),
        }
    }

    fn stopping(&mut self, core: &mut Core) {
        self.drain(core);
    }

    fn turn(&mut self, core: &mut Core) {
        self.engine.turn(core.now_ns());
        self.continue_with_events(core);
        self.watch_engine(core);
        if self.has_drained() {
            core.stop();
        }
    }
}
