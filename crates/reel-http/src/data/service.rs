//! One core of the data plane: connections in, media out. Nothing here ever waits.
//!
//! Every event (an operation done, a message, a timer) moves one connection one step; the step ends with at most one new
//! operation in the ring. Follow a request: [`Data::received`] -> [`Data::begin`] -> [`Data::respond`] -> [`Data::pump`].

use super::access_log::AccessLog;
use super::capacity::Capacity;
use super::connection::{Connection, Sending, State, TimeOut};
use super::counters::DataCounters;
use super::film::Film;
use super::offers::Form;
use super::opener::{Opened, Opener, Opening};
use super::request::{Head, Request};
use super::response::Response;
use super::route::{Route, SessionFile};
use super::slots::Slots;
use super::terms::{Terms, TermsDesk, open_session};
use super::{Handover, Message};
use crate::limits::{
    ACCEPT_RETRY_NS, DRAIN_TIME_MAX_NS, LINGER_BYTES_MAX, PREFETCH_EVERY_NS, PRESSURE_EVERY_NS,
    RECEIVE_BYTES, RELEASE_AFTER_NS, SWEEP_EVERY_NS,
};
use reel_qos::Class;
use reel_ring::{Done, Op};
use reel_rt::{Core, Mailbox, Service};
use reel_stream::{Fetcher, OpenRefused, Prefetcher, ReaderState, Session, Sessions};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What every core shares.
pub(crate) struct Shared {
    pub(crate) sessions: Arc<Sessions<Film>>,
    pub(crate) counters: Arc<DataCounters>,
    pub(crate) access_log: AccessLog,
    pub(crate) opener: Opener,
    pub(crate) handover: tokio::sync::mpsc::Sender<Handover>,
    pub(crate) connections_max: usize,
}

/// The state of one core.
pub(crate) struct Data {
    core: usize,
    shared: Arc<Shared>,
    fetcher: Fetcher,
    prefetcher: Prefetcher,
    prefetch_timer: bool,
    /// Set on the core that looks after the sessions and what can be promised.
    capacity: Option<Capacity>,
    connections: Slots<Connection>,
    /// Set on the core that accepts.
    door: Option<Door>,
    own: Mailbox<Message>,
    draining_since_ns: Option<u64>,
    pressure_timer: bool,
    /// When the next timer for reads that are overdue goes off.
    overdue_timer_ns: Option<u64>,
    /// Connections whose readers wait for memory, the first to come first, as in the line for memory. Some may be gone.
    starved: VecDeque<u64>,
}

/// The listening socket, and the cores that connections are given to.
pub(crate) struct Door {
    pub(crate) listener: Arc<OwnedFd>,
    pub(crate) cores: Vec<Mailbox<Message>>,
}

/// What is left of an operation of a connection.
enum Ended {
    AwaitReadable,
    Receive(Vec<u8>),
    Send,
    AwaitWritable,
}

impl Ended {
    /// Takes the operation apart and gives back all it held: the connection may be given away next, which only the one holder of
    /// its socket can do, and what was sent may be the memory that others wait for.
    fn of(op: Op) -> Option<Ended> {
        // By value: what a pattern does not name is dropped with `op`, before the caller goes on.
        match op {
            Op::AwaitReadable { .. } => Some(Ended::AwaitReadable),
            Op::AwaitWritable { .. } => Some(Ended::AwaitWritable),
            Op::Receive { buffer, .. } => Some(Ended::Receive(buffer)),
            Op::Send { .. } => Some(Ended::Send),
            _ => None,
        }
    }
}

const ACCEPT: u64 = u64::MAX;
const SWEEP: u64 = 0;
const PRESSURE: u64 = 1;
const ACCEPT_AGAIN: u64 = 2;
const PREFETCH: u64 = 3;
const OVERDUE: u64 = 4;

impl Data {
    pub(crate) fn new(
        core: &mut Core,
        number: usize,
        shared: Arc<Shared>,
        fetcher: Fetcher,
        own: Mailbox<Message>,
        capacity: Option<Capacity>,
    ) -> Self {
        core.at(core.now_ns() + SWEEP_EVERY_NS, SWEEP);
        Self {
            core: number,
            shared,
            fetcher,
            prefetcher: Prefetcher::default(),
            prefetch_timer: false,
            capacity,
            connections: Slots::new(),
            door: None,
            own,
            draining_since_ns: None,
            pressure_timer: false,
            overdue_timer_ns: None,
            starved: VecDeque::new(),
        }
    }

    fn accept(&self, core: &mut Core) {
        if let (Some(door), None) = (&self.door, self.draining_since_ns) {
            core.ring.push(ACCEPT, Op::Accept { listener: Arc::clone(&door.listener) });
        }
    }

    fn accepted(&mut self, core: &mut Core, done: Done) {
        let socket = match (done.result, done.accepted) {
            (Ok(_), Some(socket)) => socket,
            (Err(error), _) if error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error()) => {
                return;
            }
            // The client was gone before we came: no reason to keep others waiting.
            (Err(error), _) if error.kind() == io::ErrorKind::ConnectionAborted => return self.accept(core),
            (Err(error), _) => {
                // Out of descriptors, most likely: those who are connected go on, the others wait in the backlog.
                tracing::warn!(%error, "cannot accept a connection; trying again shortly (raise LimitNOFILE if this repeats)");
                core.at(core.now_ns() + ACCEPT_RETRY_NS, ACCEPT_AGAIN);
                return;
            }
            (Ok(_), None) => return self.accept(core),
        };
        let counters = &self.shared.counters;
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        if counters.open_total() >= self.shared.connections_max {
            counters.turned_away.fetch_add(1, Ordering::Relaxed);
            turn_away(socket);
        } else if let Some(peer) = peer_of(&socket)
            && let Some(door) = &self.door
        {
            let open = |core: &usize| counters.open[*core].load(Ordering::Relaxed);
            let least = (0..door.cores.len()).min_by_key(open).unwrap_or(self.core);
            counters.open[least].fetch_add(1, Ordering::Relaxed);
            door.cores[least].post(Message::Connection(socket, peer));
        }
        self.accept(core);
    }

    fn connected(&mut self, core: &mut Core, socket: OwnedFd, peer: SocketAddr) {
        // A response's last bytes must not wait for the client's acknowledgement. A socket that is already dead says so later.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let token = self.connections.insert(Connection::new(socket, peer, core.now_ns()));
        self.await_request(core, token);
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
        let mut buffer = std::mem::take(&mut connection.input);
        // A head that is not complete is shorter than the most it may be: there is always room for more.
        buffer.reserve_exact(RECEIVE_BYTES.max(buffer.len()));
        connection.in_ring = true;
        core.ring.push(token, Op::Receive { socket: Arc::clone(&connection.socket), buffer });
    }

    /// Looks at what was received: not enough, a request, or nonsense.
    fn received(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        match Head::parse(&connection.input) {
            Head::Partial => self.receive(core, token),
            Head::Bad(status, detail) => {
                connection.input.clear();
                let request = Request { method: "-".into(), path: "-".into(), ..Request::default() };
                let response = Response::problem(&request, status, detail, "");
                self.respond(core, token, request, response, None, Terms::interactive());
            }
            Head::Complete(request, head_bytes) => self.begin(core, token, request, head_bytes),
        }
    }

    /// Decides what a request is, and answers it or has it answered.
    fn begin(&mut self, core: &mut Core, token: u64, mut request: Request, head_bytes: usize) {
        request.keep_alive &= self.draining_since_ns.is_none();
        let route = Route::of(&request.path);
        if route == Route::Elsewhere {
            return self.hand_over(token);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.input.drain(..head_bytes);
        if request.has_body {
            request.keep_alive = false;
            let response = Response::problem(&request, 400, "media is read without a request body", "");
            return self.respond(core, token, request, response, None, Terms::interactive());
        }
        let response = match request.method.as_str() {
            "GET" | "HEAD" => match route {
                Route::Session { key, file } => match self.shared.sessions.touch(&key, core.now_ns()) {
                    Some(session) => return self.play(core, token, request, file, session),
                    None => Response::problem(
                        &request,
                        410,
                        "this session has ended or never was; open the title again with /watch/TITLE/master.m3u8",
                        "",
                    ),
                },
                Route::Watch { title, .. } | Route::Download { title } => {
                    return self.open(core, token, request, title);
                }
                Route::Nothing | Route::Elsewhere => {
                    Response::problem(&request, 404, "there is nothing at this path", "")
                }
            },
            "OPTIONS" => Response::options(&request),
            _ => {
                let detail = "media can be read (GET, HEAD) and nothing else";
                Response::problem(&request, 405, detail, "Allow: GET, HEAD, OPTIONS\r\n")
            }
        };
        self.respond(core, token, request, response, None, Terms::interactive());
    }

    /// Answers a request of a session, if what was promised to it covers that.
    fn play(
        &mut self,
        core: &mut Core,
        token: u64,
        request: Request,
        file: SessionFile,
        session: Arc<Session<Film>>,
    ) {
        let response = session.playing().respond(&request, file, session.key(), session.offered());
        let classes = self.fetcher.units().disks().classes();
        let desk = TermsDesk { sessions: &self.shared.sessions, classes: &classes, now_ns: core.now_ns() };
        match desk.of(&session, &request, file, &response, &mut self.prefetcher) {
            Ok(terms) => {
                self.watch_prefetches(core);
                self.respond(core, token, request, response, Some(session), terms);
            }
            Err(refusal) => {
                self.shared.counters.not_admitted(&refusal);
                let response = Response::refused(&request, &refusal.into());
                self.respond(core, token, request, response, None, Terms::interactive());
            }
        }
    }

    /// Has a title opened off this core; [`Data::opened`] goes on.
    fn open(&mut self, core: &mut Core, token: u64, request: Request, title: String) {
        let opening = Opening { title, connection: token, reply: self.own.clone() };
        if !self.shared.opener.open(opening) {
            let detail = "too many titles are being opened at once; try again in a second";
            let response = Response::problem(&request, 503, detail, "Retry-After: 1\r\n");
            return self.respond(core, token, request, response, None, Terms::interactive());
        }
        if let Some(connection) = self.connections.get_mut(token) {
            connection.state = State::Opening(request);
        }
    }

    fn opened(&mut self, core: &mut Core, opened: Opened) {
        let token = opened.connection;
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Opening(mut request) = std::mem::replace(&mut connection.state, State::Idle) else {
            return;
        };
        request.keep_alive &= self.draining_since_ns.is_none();
        let peer = connection.peer;
        let film = match opened.result {
            Ok(film) => film,
            Err((status, detail)) => {
                let response = Response::problem(&request, status, &detail, "");
                return self.respond(core, token, request, response, None, Terms::interactive());
            }
        };
        match Route::of(&request.path) {
            Route::Watch { title, file } => {
                let response = self.start_session(&request, film, &title, file, peer);
                self.respond(core, token, request, response, None, Terms::interactive());
            }
            _ => {
                let response = film.download(&request);
                self.respond(core, token, request, response, None, Terms::unhurried(Class::APERIODIC));
            }
        }
    }

    fn start_session(
        &self,
        request: &Request,
        film: Arc<Film>,
        title: &str,
        file: SessionFile,
        peer: SocketAddr,
    ) -> Response {
        let classes = self.fetcher.units().disks().classes();
        let class = match request.class.as_deref().map(|name| classes.by_name(name)) {
            None => Class::PERIODIC,
            Some(Some(class)) => class,
            Some(None) => {
                let detail = "there is no such class; GET /api/v1/classes lists all";
                return Response::problem(request, 400, detail, "");
            }
        };
        let form = if file == SessionFile::Progressive { Form::File } else { Form::Ladder };
        let opened = match open_session(
            &self.shared.sessions,
            &classes,
            title,
            film,
            form,
            (peer.ip(), class),
        ) {
            Some(opened) => opened,
            None => {
                let detail = "this title is longer than what can be promised ahead, a day; download it, or ask for it with ?class=aperiodic";
                return Response::problem(request, 503, detail, "");
            }
        };
        match opened {
            Ok(session) => {
                let key = session.key();
                let file = match file {
                    SessionFile::Manifest => "manifest.mpd".to_owned(),
                    SessionFile::Progressive => format!("{title}.mp4"),
                    _ => "master.m3u8".to_owned(),
                };
                Response::redirect(request, &format!("/s/{key}/{file}"))
            }
            Err(refused) => {
                match &refused {
                    OpenRefused::NotAdmitted(refusal) => self.shared.counters.not_admitted(refusal),
                    _ => drop(self.shared.counters.sessions_refused.fetch_add(1, Ordering::Relaxed)),
                }
                Response::refused(request, &refused)
            }
        }
    }

    fn respond(
        &mut self,
        core: &mut Core,
        token: u64,
        request: Request,
        response: Response,
        session: Option<Arc<Session<Film>>>,
        terms: Terms,
    ) {
        self.shared.counters.response(response.status);
        let now_ns = core.now_ns();
        let sending = Sending::new(response, request, session, terms, token, now_ns);
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.state = State::Sending(Box::new(sending));
        connection.since_ns = now_ns;
        self.pump(core, token);
    }

    /// Sends what can be sent, or asks for what is missing. The heart of the server.
    fn pump(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Sending(sending) = &mut connection.state else { return };
        if connection.in_ring {
            return;
        }
        let state = sending.reader.fill(&mut self.fetcher, core.now_ns());
        let was_starved = std::mem::replace(&mut sending.starved, state == ReaderState::AwaitMemory);
        if was_starved && !sending.starved {
            // Its place here must go with its place in the line, or the two orders differ one day and all wait for ever.
            match self.starved.front() {
                Some(front) if *front == token => drop(self.starved.pop_front()),
                _ => self.starved.retain(|other| *other != token),
            }
        }
        match state {
            ReaderState::Ready => {
                let chunks = sending.reader.chunks();
                connection.in_ring = true;
                core.ring.push(token, Op::Send { socket: Arc::clone(&connection.socket), chunks });
            }
            ReaderState::AwaitUnits => {}
            ReaderState::AwaitMemory if was_starved => {}
            ReaderState::AwaitMemory => self.starved.push_back(token),
            ReaderState::Done => self.finish(core, token),
        }
    }

    fn sent(&mut self, core: &mut Core, token: u64, result: io::Result<usize>) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Sending(sending) = &mut connection.state else { return };
        match result {
            Ok(bytes) => {
                connection.since_ns = core.now_ns();
                sending.taken(bytes as u64, core.now_ns());
                if let Some(offset) = sending.paced_offset() {
                    let classes = self.fetcher.units().disks().classes();
                    let desk = TermsDesk {
                        sessions: &self.shared.sessions,
                        classes: &classes,
                        now_ns: core.now_ns(),
                    };
                    sending.follow(&desk, offset, &self.shared.counters);
                }
                self.shared.counters.sent_bytes[sending.class.index()]
                    .fetch_add(bytes as u64, Ordering::Relaxed);
                self.pump(core, token);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sending.blocked = true;
                connection.in_ring = true;
                core.ring.push(token, Op::AwaitWritable { socket: Arc::clone(&connection.socket) });
            }
            Err(_gone) => self.close(token),
        }
    }

    /// A response was taken whole.
    fn finish(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Sending(sending) = std::mem::replace(&mut connection.state, State::Idle) else { return };
        let keep_alive = sending.keep_alive;
        self.shared.access_log.record(sending.into_record(connection.peer, core.now_ns()));
        if keep_alive { self.await_request(core, token) } else { self.linger(core, token) }
    }

    /// Closes our side and waits for the client to close its own.
    fn linger(&mut self, core: &mut Core, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.state = State::Lingering(LINGER_BYTES_MAX);
        connection.since_ns = core.now_ns();
        connection.input = Vec::new();
        match rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Write) {
            Ok(()) => self.receive(core, token),
            Err(_gone) => self.close(token),
        }
    }

    /// Throws away what came after the last response.
    fn lingered(&mut self, core: &mut Core, token: u64, bytes: usize) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Lingering(left_bytes) = &mut connection.state else { return };
        connection.input.clear();
        match left_bytes.checked_sub(bytes) {
            None | Some(0) => self.close(token),
            Some(left) => {
                *left_bytes = left;
                self.receive(core, token);
            }
        }
    }

    fn unit_came(&mut self, core: &mut Core, fetched: reel_stream::Fetched) {
        let token = fetched.connection;
        if Prefetcher::is_for_prefetch(token) {
            return self.prefetcher.fetched(&fetched);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        let State::Sending(sending) = &mut connection.state else { return };
        match sending.reader.fetched(&fetched) {
            Ok(_) => self.pump(core, token),
            Err(error) => {
                // The head is out already: all that is left is to end the connection before its time.
                tracing::error!(%error, "stored bytes are lost; a response is cut short");
                self.shared.counters.lost_bytes_responses.fetch_add(1, Ordering::Relaxed);
                self.close(token);
            }
        }
    }

    /// Gives the connection, with all that was read from it, to the control plane.
    fn hand_over(&mut self, token: u64) {
        let Some(connection) = self.connections.remove(token) else { return };
        self.left();
        let Ok(socket) = Arc::try_unwrap(connection.socket) else {
            debug_assert!(false, "an operation in the ring still holds the socket");
            return;
        };
        let stream = TcpStream::from(socket);
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let handover = Handover { stream, already_read: connection.input, peer: connection.peer };
        match self.shared.handover.try_send(handover) {
            Ok(()) => self.shared.counters.handed_over.fetch_add(1, Ordering::Relaxed),
            Err(full) => {
                turn_away(full.into_inner().stream.into());
                self.shared.counters.turned_away.fetch_add(1, Ordering::Relaxed)
            }
        };
    }

    fn close(&mut self, token: u64) {
        let Some(connection) = self.connections.remove(token) else { return };
        self.left();
        // Ends an operation that is still in the ring; its answer finds no connection.
        let _ = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both);
        if let State::Sending(sending) = connection.state {
            self.shared.access_log.record(sending.into_record(connection.peer, reel_rt::now_ns()));
        }
    }

    fn left(&self) {
        self.shared.counters.open[self.core].fetch_sub(1, Ordering::Relaxed);
    }

    /// Closes connections that ran out of time; ends the core when it has drained.
    fn sweep(&mut self, core: &mut Core) {
        let now_ns = core.now_ns();
        for token in self.connections.tokens(|connection| connection.timed_out(now_ns).is_some()) {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            let Some(which) = connection.timed_out(now_ns) else { continue };
            // Its response is complete: this is a way to close, not a loss.
            if which != TimeOut::Linger {
                self.shared.counters.timed_out.fetch_add(1, Ordering::Relaxed);
            }
            if which == TimeOut::Head {
                let late = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                // Best effort: the connection is closed either way.
                let _ = rustix::net::send(&connection.socket, late, rustix::net::SendFlags::DONTWAIT);
            }
            self.close(token);
        }
        if let Some(capacity) = &mut self.capacity {
            capacity.refresh(&self.shared.sessions);
            self.shared.sessions.tend(now_ns);
        }
        if let Some(since_ns) = self.draining_since_ns {
            let out_of_time = now_ns.saturating_sub(since_ns) > DRAIN_TIME_MAX_NS;
            if out_of_time {
                for token in self.connections.tokens(|_| true) {
                    self.close(token);
                }
            }
            if out_of_time {
                return core.stop();
            }
        }
        core.at(now_ns + SWEEP_EVERY_NS, SWEEP);
    }

    fn drain(&mut self, core: &mut Core) {
        if self.draining_since_ns.is_some() {
            return;
        }
        self.draining_since_ns = Some(core.now_ns());
        if self.door.take().is_some() {
            core.ring.cancel(ACCEPT);
        }
        for token in
            self.connections.tokens(|connection| matches!(connection.state, State::Idle | State::Heading))
        {
            self.close(token);
        }
    }

    /// Nothing is left to do here; nor for the viewers of other cores who joined reads of this one.
    fn has_drained(&self) -> bool {
        self.draining_since_ns.is_some() && self.connections.len() == 0 && self.fetcher.in_flight() == 0
    }

    /// Reads ahead what is due to be, and looks again soon if more will be.
    fn prefetch(&mut self, core: &mut Core) {
        self.prefetch_timer = false;
        self.prefetcher.turn(&mut self.fetcher, core.now_ns());
        self.watch_prefetches(core);
    }

    fn watch_prefetches(&mut self, core: &mut Core) {
        if !self.prefetch_timer && !self.prefetcher.is_empty() {
            self.prefetch_timer = true;
            core.at(core.now_ns() + PREFETCH_EVERY_NS, PREFETCH);
        }
    }

    /// Somebody waits for memory: looks after it soon.
    fn watch_pressure(&mut self, core: &mut Core) {
        if !self.pressure_timer {
            self.pressure_timer = true;
            core.at(core.now_ns() + PRESSURE_EVERY_NS, PRESSURE);
        }
    }

    /// Has an eye on reads that members do not answer in time.
    fn watch_overdue(&mut self, core: &mut Core) {
        if let Some(due_ns) = self.fetcher.next_due_ns()
            && self.overdue_timer_ns.is_none_or(|timer_ns| due_ns < timer_ns)
        {
            self.overdue_timer_ns = Some(due_ns);
            core.at(due_ns, OVERDUE);
        }
    }

    /// Timers cannot be taken back, so an earlier one may have left a later one behind: that finds nothing to do.
    fn overdue(&mut self, core: &mut Core) {
        if self.overdue_timer_ns.is_some_and(|timer_ns| timer_ns <= core.now_ns()) {
            self.overdue_timer_ns = None;
        }
        self.fetcher.overdue(core.now_ns());
    }

    /// Takes buffers back from clients that take nothing; [`Data::turn`] gives them to those who wait.
    fn relieve_pressure(&mut self, core: &mut Core) {
        self.pressure_timer = false;
        if self.fetcher.units().budget().starved() == 0 && !self.fetcher.is_hungry() {
            return;
        }
        self.prefetcher.release();
        let now_ns = core.now_ns();
        let blocked = |connection: &Connection| {
            let waited = now_ns.saturating_sub(connection.since_ns) > RELEASE_AFTER_NS;
            matches!(&connection.state, State::Sending(sending) if sending.blocked && waited)
        };
        for token in self.connections.tokens(blocked) {
            if let Some(State::Sending(sending)) = self.connections.get_mut(token).map(|c| &mut c.state) {
                sending.reader.release(&self.fetcher);
            }
        }
    }

    /// Goes on with those who wait for memory, in their order, as long as there is some.
    fn feed_starved(&mut self, core: &mut Core) {
        while let Some(&token) = self.starved.front() {
            self.pump(core, token);
            if let Some(State::Sending(sending)) = self.connections.get_mut(token).map(|c| &c.state)
                && sending.starved
            {
                return;
            }
            // Served, and gone from here by that; or its connection is gone.
            if self.starved.front() == Some(&token) {
                self.starved.pop_front();
            }
        }
    }
}

impl Service for Data {
    type Message = Message;

    fn message(&mut self, core: &mut Core, message: Message) {
        match message {
            Message::Connection(socket, peer) => self.connected(core, socket, peer),
            Message::Disk(done) => self.fetcher.disk_done(done, core.now_ns()),
            Message::Door(door) => {
                self.door = Some(door);
                self.accept(core);
            }
            Message::Opened(opened) => self.opened(core, opened),
            Message::Unit(fetched) => self.unit_came(core, fetched),
        }
    }

    fn done(&mut self, core: &mut Core, done: Done) {
        let token = done.token;
        if token == ACCEPT {
            return self.accepted(core, done);
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.in_ring = false;
        let Some(ended) = Ended::of(done.op) else { return };
        match ended {
            Ended::AwaitReadable => self.receive(core, token),
            Ended::Receive(buffer) => {
                connection.input = buffer;
                match done.result {
                    Ok(0) | Err(_) => self.close(token),
                    Ok(bytes) if matches!(connection.state, State::Lingering(_)) => {
                        self.lingered(core, token, bytes);
                    }
                    Ok(_) => {
                        if matches!(connection.state, State::Idle) {
                            connection.state = State::Heading;
                            connection.since_ns = core.now_ns();
                        }
                        self.received(core, token);
                    }
                }
            }
            Ended::Send => self.sent(core, token, done.result),
            Ended::AwaitWritable => match done.result {
                Ok(_) => {
                    if let State::Sending(sending) = &mut connection.state {
                        sending.blocked = false;
                    }
                    self.pump(core, token);
                }
                Err(_) => self.close(token),
            },
        }
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        match token {
            SWEEP => self.sweep(core),
            PRESSURE => self.relieve_pressure(core),
            PREFETCH => self.prefetch(core),
            OVERDUE => self.overdue(core),
            _ => self.accept(core),
        }
    }

    fn stopping(&mut self, core: &mut Core) {
        self.drain(core);
    }

    fn turn(&mut self, core: &mut Core) {
        self.fetcher.retry(core.now_ns());
        self.feed_starved(core);
        self.watch_overdue(core);
        // Memory comes free on other cores, too, and nobody tells: so look again soon.
        if self.fetcher.is_hungry() || self.fetcher.units().budget().starved() > 0 {
            self.watch_pressure(core);
        }
        if self.has_drained() {
            core.stop();
        }
    }
}

/// Tells a client that the server is full, as far as its socket takes it at once.
fn turn_away(socket: OwnedFd) {
    let full = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = rustix::net::send(&socket, full, rustix::net::SendFlags::DONTWAIT);
    // A request that is here already would turn the close into a reset, which may overtake the answer.
    let mut request = [0; RECEIVE_BYTES];
    let _ = rustix::net::recv(&socket, &mut request, rustix::net::RecvFlags::DONTWAIT);
}

fn peer_of(socket: &OwnedFd) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getpeername(socket).ok()??).ok()
}
