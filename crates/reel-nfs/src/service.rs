//! NFS on one serve thread. Nothing in it ever waits.
//!
//! Every connection is a task of the core, as those of HTTP are. A section reads what has arrived,
//! answers it until a list was made, and sends at most one piece of a reply. Replies may come in
//! another order than their calls: the one whose bytes are in memory goes first.
//!
//! The path of a READ: [`NfsThread::take_calls`] -> [`NfsThread::answer`] ->
//! [`NfsThread::await_title`] -> [`NfsThread::send_title`] -> [`NfsThread::deliver`] ->
//! [`NfsThread::pump`].

mod datagrams;
mod playing;
mod reading;
mod sending;
mod taking;

use crate::answer::{Answer, Asking, answer, xid_of};
use crate::connection::{Asked, Connection, Reply, ReplyState};
use crate::counters::NfsCounters;
use crate::handle::{Handles, TitleKey};
use crate::limits::SWEEP_EVERY_NS;
use crate::listing::Listing;
use crate::owed::Owed;
use crate::readers::Readers;
use crate::tree::Tree;
use crate::wrong_port::{HttpPorts, Spoken, WrongPort};
use datagrams::DATAGRAMS;
pub(crate) use datagrams::Datagrams;
use reading::{LostRead, Opened, Opening};
use reel_admit::{AddressRange, client_network};
use reel_library::Library;
use reel_play::Slots;
use reel_ring::{Done, Op};
use reel_rt::{Core, Next, TaskId, TaskKind, Workers};
use reel_serve::{Accepted, NoPlace, OpenResult, Protocol, Serve, Step, Waker};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The state that all threads share.
pub(crate) struct NfsShared {
    pub(crate) library: Arc<Library>,
    pub(crate) counters: Arc<NfsCounters>,
    pub(crate) handles: Handles,
    pub(crate) fsid: u64,
    pub(crate) port: u16,
    /// The socket of the port mapper, if it has one.
    pub(crate) datagrams: Option<Datagrams>,
    /// The addresses that may read.
    pub(crate) clients: Vec<AddressRange>,
    pub(crate) http: HttpPorts,
    pub(crate) listing: Mutex<Arc<Listing>>,
    /// Reads listings.
    pub(crate) lister: Workers,
    pub(crate) is_listing: AtomicBool,
    pub(crate) waker: OnceLock<Waker>,
}

/// NFS on one serve thread.
pub(crate) struct NfsThread {
    shared: Arc<NfsShared>,
    connections: Slots<Connection>,
    replies: Slots<Reply>,
    owed: Owed,
    /// The connection of each task, by the task's number.
    of_task: Vec<u64>,
    /// Titles that are being opened, and the replies that wait for them...
    openings: Slots<Opening>,
    /// ...by title.
    opening: HashMap<TitleKey, u64>,
    opened: HashMap<TitleKey, Opened>,
    /// Reads that were cut off because stored bytes are lost.
    lost: Vec<LostRead>,
    readers: Readers,
    wrong_port: WrongPort,
    is_looking: bool,
}

const SWEEP: u64 = 0;
const LOOK: u64 = 1;

impl NfsShared {
    /// Whether clients of this address may read.
    fn is_allowed(&self, client: IpAddr) -> bool {
        self.clients.iter().any(|range| range.contains(client))
    }

    /// The newest listing, and whether it is of the titles of now. If not, the next one is read.
    fn listing(self: &Arc<Self>) -> (Arc<Listing>, bool) {
        let listing = Arc::clone(&self.listing.lock().unwrap_or_else(PoisonError::into_inner));
        let is_fresh = listing.is_of(&self.library);
        if !is_fresh {
            self.list();
        }
        (listing, is_fresh)
    }

    /// Has the titles listed again, unless that is under way.
    pub(crate) fn list(self: &Arc<Self>) {
        if self.is_listing.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(self);
        let is_taken = self.lister.run(move || {
            // A panic must not leave clients waiting for ever.
            let done = Listed(&shared);
            let listing = Arc::new(Listing::read(&shared.library));
            *shared.listing.lock().unwrap_or_else(PoisonError::into_inner) = listing;
            drop(done);
        });
        if !is_taken {
            self.is_listing.store(false, Ordering::Release);
        }
    }
}

/// Wakes the threads when a listing was read, or could not be.
struct Listed<'a>(&'a NfsShared);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.is_listing.store(false, Ordering::Release);
        if let Some(waker) = self.0.waker.get() {
            waker.wake();
        }
    }
}

impl NfsThread {
    pub(crate) fn new(core: &mut Core, shared: Arc<NfsShared>) -> Self {
        core.at(core.now_ns() + SWEEP_EVERY_NS, SWEEP);
        shared.counters.owed_bytes.store(0, Ordering::Relaxed);
        if let Some(datagrams) = &shared.datagrams {
            datagrams.wait(core);
        }
        Self {
            shared,
            connections: Slots::new(),
            replies: Slots::new(),
            owed: Owed::default(),
            of_task: Vec::new(),
            openings: Slots::new(),
            opening: HashMap::new(),
            opened: HashMap::new(),
            lost: Vec::new(),
            readers: Readers::default(),
            wrong_port: WrongPort::default(),
            is_looking: false,
        }
    }

    fn connect(&mut self, serve: &mut Serve<'_>, accepted: Accepted) {
        let Accepted { socket, counted, .. } = accepted;
        let (Some(client), Some(server)) = (peer_of(&socket), address_of(&socket)) else { return };
        // The last bytes of a reply must not wait for the client's acknowledgement.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        let is_allowed = self.shared.is_allowed(client);
        let asking = Asking { is_allowed, told: self.shared.told(server) };
        let Some(task) = serve.core.tasks.add(TaskKind::Interactive, 0) else { return };
        let connection = Connection::new(socket, counted, client, asking, task, serve.now_ns());
        let token = self.connections.insert(connection);
        if self.of_task.len() <= task.index() {
            self.of_task.resize(task.index() + 1, token);
        }
        self.of_task[task.index()] = token;
        if let Some(connection) = self.connections.get(token) {
            connection.quiet(token);
        }
        self.receive(serve, token);
    }

    /// Answers a call, or has it wait for what its answer needs. `again` is its reply if it has
    /// waited.
    fn answer(&mut self, serve: &mut Serve<'_>, token: u64, record: Vec<u8>, again: Option<u64>) {
        let Some(connection) = self.connections.get(token) else { return };
        let (listing, is_fresh) = self.shared.listing();
        let tree = Tree {
            listing: &listing,
            is_fresh,
            handles: &self.shared.handles,
            fsid: self.shared.fsid,
            free_bytes: self.shared.library.volume().free_bytes(),
            readers: &self.readers,
            client: connection.client,
            now_ns: serve.now_ns(),
        };
        let Ok(answer) = answer(&tree, connection.asking, &record) else {
            let first = record.first_chunk().copied().unwrap_or_default();
            return self.close_garbage(serve, token, Spoken::Other(first));
        };
        let reply = again.or_else(|| self.owe(token, xid_of(&record)));
        let Some(reply) = reply else { return };
        match answer {
            Answer::Reply(bytes) => self.reply(serve, reply, &bytes),
            Answer::Read(head, call) => self.await_title(serve, reply, head, Asked::Read(call)),
            Answer::Hold(head, call) => self.await_title(serve, reply, head, Asked::Hold(call)),
            Answer::AwaitListing => {
                self.note_owed(reply, record.len());
                self.set_state(reply, ReplyState::AwaitsListing(record));
            }
        }
    }

    /// A new reply of a connection.
    fn owe(&mut self, token: u64, xid: u32) -> Option<u64> {
        let connection = self.connections.get_mut(token)?;
        let state = ReplyState::AwaitsListing(Vec::new());
        let network = client_network(connection.client);
        let reply = Reply { connection: token, network, xid, asked: Asked::Nothing, state, bytes: 0 };
        let reply = self.replies.insert(reply);
        connection.replies.push_back(reply);
        Some(reply)
    }

    /// So many bytes are in memory for a reply, without those of its title.
    fn note_owed(&mut self, reply: u64, bytes: usize) {
        let Some(owed) = self.replies.get_mut(reply) else { return };
        let before = std::mem::replace(&mut owed.bytes, bytes);
        self.owed.change(owed.network, before, bytes);
        self.shared.counters.owed_bytes.store(self.owed.bytes() as u64, Ordering::Relaxed);
    }

    fn set_state(&mut self, reply: u64, state: ReplyState) {
        if let Some(owed) = self.replies.get_mut(reply) {
            owed.state = state;
        }
    }

    /// A new listing was read: calls that wait for it are answered in the turns of their
    /// connections.
    fn listed(&mut self, serve: &mut Serve<'_>) {
        let waits = |reply: &Reply| matches!(reply.state, ReplyState::AwaitsListing(_));
        for token in self.connections.tokens(|connection| !connection.is_quiet()) {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            let waiting = connection.replies.iter().copied();
            connection.listed = waiting.filter(|reply| self.replies.get(*reply).is_some_and(waits)).collect();
            if !connection.listed.is_empty() {
                self.wake(serve, token);
            }
        }
    }

    /// An event that a connection waited for has arrived.
    fn wake(&mut self, serve: &mut Serve<'_>, token: u64) {
        if let Some(connection) = self.connections.get(token) {
            serve.core.tasks.ready(connection.task);
        }
    }

    /// What a client has sent is no call, or no client sends such calls.
    fn close_garbage(&mut self, serve: &mut Serve<'_>, token: u64, spoken: Spoken) {
        self.shared.counters.garbage.fetch_add(1, Ordering::Relaxed);
        if let Some(connection) = self.connections.get(token) {
            self.wrong_port.note(spoken, connection.client, self.shared.http, serve.now_ns());
        }
        self.close(serve, token);
    }

    fn close(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.remove(token) else { return };
        serve.core.tasks.remove(connection.task);
        // Ends an operation that is still in the ring. Its completion finds no connection.
        let _ = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both);
        for reply in connection.replies {
            self.end_reply(serve, reply);
        }
    }

    /// Closes connections that exceeded a time limit, and titles that are not read any more. Opens
    /// titles for which there was no time.
    fn sweep(&mut self, serve: &mut Serve<'_>) {
        let now_ns = serve.now_ns();
        for token in self.connections.tokens(|connection| connection.is_overdue(now_ns)) {
            self.shared.counters.timed_out.fetch_add(1, Ordering::Relaxed);
            self.close(serve, token);
        }
        self.open_again(serve);
        self.forget_titles(now_ns);
        self.readers.forget(serve.now_ns());
        serve.core.at(now_ns + SWEEP_EVERY_NS, SWEEP);
    }

    /// One section of a connection's task. Returns whether there is another one at once.
    fn proceed(&mut self, serve: &mut Serve<'_>, token: u64) -> bool {
        // Replies that are done make room for calls.
        self.pump(serve, token);
        let has_listed = self.answer_listed(serve, token) || self.take_calls(serve, token);
        self.pump(serve, token);
        let (may_answer, may_take) = (self.may_answer_listed(token), self.may_take(token));
        let Some(connection) = self.connections.get_mut(token) else { return false };
        if has_listed && (may_answer || may_take && !connection.input.is_empty()) {
            return true;
        }
        if connection.is_quiet() {
            if connection.is_leaving || serve.is_draining() {
                self.close(serve, token);
                return false;
            }
            connection.quiet(token);
            // Most connections have nothing under way most of the time.
            connection.input.shrink_to_fit();
        }
        self.receive(serve, token);
        false
    }
}

impl Protocol for NfsThread {
    fn connected(&mut self, serve: &mut Serve<'_>, accepted: Accepted) {
        self.connect(serve, accepted);
    }

    fn turned_away(&mut self, _: &mut Serve<'_>, _: OwnedFd, _: usize, _: NoPlace) {
        self.shared.counters.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    fn make_room(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.is_leaving = true;
        if connection.is_quiet() {
            self.close(serve, token);
        }
    }

    fn opened(&mut self, serve: &mut Serve<'_>, tag: u64, result: OpenResult) {
        self.note_opened(serve, tag, result);
    }

    fn done(&mut self, serve: &mut Serve<'_>, done: Done) {
        let token = done.token;
        match done.op {
            // Waiting is withdrawn when the server stops.
            Op::AwaitReadable { .. } if token == DATAGRAMS => match done.result {
                Ok(_) => self.answer_datagrams(serve.core),
                Err(_ended) => {}
            },
            Op::Send { .. } => self.sent(serve, token, done.result),
            Op::AwaitWritable { .. } => self.writable(serve, token),
            _ => self.received(serve, token, done),
        }
    }

    fn timer(&mut self, serve: &mut Serve<'_>, token: u64) {
        match token {
            LOOK => self.look(serve),
            _ => self.sweep(serve),
        }
    }

    fn task(&mut self, serve: &mut Serve<'_>, task: TaskId) -> Next {
        let Some(&token) = self.of_task.get(task.index()) else { return Next::Done };
        let has_more = self.proceed(serve, token);
        // The connection may be closed already.
        let Some(connection) = self.connections.get(token) else { return Next::Done };
        if has_more {
            serve.core.tasks.set_kind(task, TaskKind::Interactive);
            return Next::Yield;
        }
        let delivery = connection.current.or(connection.replies.front().copied());
        let order = delivery.and_then(|reply| serve.engine.order(self.delivery(reply)?));
        let (kind, critical_ns) = connection.task_kind(order);
        serve.core.tasks.set_kind(task, kind);
        Next::Wait { critical_ns }
    }

    fn ready(&mut self, serve: &mut Serve<'_>, tag: u64) {
        if let Some(reply) = self.replies.get(tag) {
            let connection = reply.connection;
            self.wake(serve, connection);
        }
    }

    fn lost(&mut self, serve: &mut Serve<'_>, tag: u64) {
        self.lose(serve, tag);
    }

    fn woken(&mut self, serve: &mut Serve<'_>) {
        self.listed(serve);
    }

    fn drain(&mut self, serve: &mut Serve<'_>) {
        // Clients of NFS do not know their sessions, so the next process has no use for them.
        self.readers.end_sessions();
        serve.core.ring.cancel(DATAGRAMS);
        for token in self.connections.tokens(Connection::is_quiet) {
            self.close(serve, token);
        }
    }

    fn has_drained(&self) -> bool {
        self.connections.is_empty()
    }

    fn cut_off_all(&mut self, serve: &mut Serve<'_>) {
        for token in self.connections.tokens(|_| true) {
            self.close(serve, token);
        }
    }

    fn title_of(&self, step: Step) -> Option<String> {
        match step {
            Step::Delivery(reply) => Some(self.replies.get(reply)?.asked.title()?.to_owned()),
            Step::Opened(opening) => Some(self.openings.get(opening)?.id.clone()),
            Step::Done(_) | Step::Task(_) => None,
        }
    }
}

/// The address of the client.
fn peer_of(socket: &OwnedFd) -> Option<IpAddr> {
    Some(SocketAddr::try_from(rustix::net::getpeername(socket).ok()??).ok()?.ip().to_canonical())
}

/// The address to which the client has connected.
fn address_of(socket: &OwnedFd) -> Option<IpAddr> {
    Some(SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?.ip())
}
