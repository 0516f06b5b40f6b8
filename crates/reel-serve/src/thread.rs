//! A serve thread: one core, one engine and one protocol. Nothing in it ever waits.
//!
//! The thread does what is the same for all protocols. It gives the engine what the disks answer,
//! sets the engine's timer, accepts connections, has titles opened, reports its processor time, and
//! ends when the protocol has ended its responses. A [`Protocol`] has the sockets and the format of
//! requests and responses.

use crate::accept::{Accepted, Acceptor, Placed};
use crate::limits::{DRAIN_TIME_MAX_NS, REPORT_EVERY_NS};
use crate::{Opener, Refusal};
use reel_admit::Sessions;
use reel_cache::{Arrival, Inbox, Units};
use reel_play::{Engine, Event, PlayCounters, PlayableTitle, Uplink};
use reel_ring::Done;
use reel_rt::{Core, Mailbox, Next, Service, TaskId, Workers};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The parts of the server that all front ends use.
#[derive(Clone)]
pub struct Parts {
    /// Units in memory.
    pub units: Units,
    /// All sessions.
    pub sessions: Arc<Sessions<PlayableTitle>>,
    /// Counters of all engines.
    pub play: Arc<PlayCounters>,
    /// The link to clients on other machines.
    pub uplink: Arc<Uplink>,
    /// Opens titles and sessions...
    pub opener: Opener,
    /// ...on these threads.
    pub openers: Workers,
}

/// A title that was opened, or the reason why it was not.
pub type OpenResult = Result<Arc<PlayableTitle>, Refusal>;

/// What a front end does on one of its threads. Each call must be short and must not wait.
///
/// The highest bit of a protocol's tokens is clear, for operations, timers and deliveries alike.
pub trait Protocol: 'static {
    /// A client has connected.
    fn connected(&mut self, serve: &mut Serve<'_>, accepted: Accepted);

    /// There are too many connections. This one, of the listener of this number, is closed.
    fn turned_away(&mut self, socket: OwnedFd, listener: usize);

    /// A title was opened that [`Serve::open_title`] was asked for.
    fn opened(&mut self, serve: &mut Serve<'_>, tag: u64, result: OpenResult);

    /// An operation that was pushed to the ring has ended.
    fn done(&mut self, serve: &mut Serve<'_>, done: Done);

    /// A timer is due.
    fn timer(&mut self, serve: &mut Serve<'_>, token: u64);

    /// One section of a task.
    fn task(&mut self, serve: &mut Serve<'_>, task: TaskId) -> Next {
        let _ = (serve, task);
        Next::Done
    }

    /// More of the delivery with this tag can be sent.
    fn ready(&mut self, serve: &mut Serve<'_>, tag: u64);

    /// Stored bytes of the delivery with this tag are lost, which was logged. It cannot continue.
    fn lost(&mut self, serve: &mut Serve<'_>, tag: u64);

    /// The server stops: what has no response under way is closed. Called once.
    fn drain(&mut self, serve: &mut Serve<'_>);

    /// Whether nothing is under way any more after [`Protocol::drain`].
    fn has_drained(&self) -> bool;

    /// The time to drain is over: what is still under way is closed.
    fn cut_off_all(&mut self, serve: &mut Serve<'_>);
}

/// What a protocol works with.
pub struct Serve<'a> {
    /// The ring, the tasks and the timers of this thread.
    pub core: &'a mut Core,
    /// The engine of this thread.
    pub engine: &'a mut Engine<PlayableTitle>,
    own: &'a Own,
}

/// A message to a serve thread.
pub(crate) enum Message {
    /// A disk or another thread has something for the thread's engine.
    Arrival(Arrival),
    /// This thread accepts connections from now on.
    Accept(Acceptor),
    /// A new connection for this thread.
    Accepted(Accepted),
    /// A title was opened, or cannot be.
    Opened(u64, OpenResult),
}

/// The state of a serve thread.
pub(crate) struct ServeThread<P> {
    protocol: P,
    engine: Engine<PlayableTitle>,
    own: Own,
    /// The time of the next timer for the engine.
    engine_timer_ns: Option<u64>,
    /// Set on the thread that accepts.
    acceptor: Option<Acceptor>,
}

/// What a thread has for itself beside its protocol and its engine.
struct Own {
    /// Its place among the threads of its front end.
    number: usize,
    /// The place of its front end in [`PlayCounters::front_ends`].
    front_end: usize,
    parts: Parts,
    mailbox: Mailbox<Message>,
    draining_since_ns: Option<u64>,
}

const ENGINE: u64 = 1 << 63;
const REPORT: u64 = ENGINE + 1;

impl Serve<'_> {
    /// The time of this turn.
    pub fn now_ns(&self) -> u64 {
        self.core.now_ns()
    }

    /// The parts of the server.
    pub fn parts(&self) -> &Parts {
        &self.own.parts
    }

    /// Opens titles and sessions.
    pub fn opener(&self) -> &Opener {
        &self.own.parts.opener
    }

    /// Whether the server stops: nothing new begins.
    pub fn is_draining(&self) -> bool {
        self.own.draining_since_ns.is_some()
    }

    /// Lets another thread open a title. [`Protocol::opened`] is called with this tag.
    ///
    /// # Errors
    /// [`Refusal::TooManyOpenings`]; then nothing is called.
    pub fn open_title(&self, tag: u64, id: String) -> Result<(), Refusal> {
        let (mailbox, parts) = (self.own.mailbox.clone(), &self.own.parts);
        let reply = move |result| mailbox.post(Message::Opened(tag, result));
        parts.opener.title_later(&parts.openers, id, reply)
    }
}

impl<P: Protocol> ServeThread<P> {
    /// The thread of this number of a front end. Its clients are behind the uplink if
    /// `uses_uplink`.
    pub(crate) fn new(
        core: &mut Core,
        parts: Parts,
        (front_end, number): (usize, usize),
        uses_uplink: bool,
        protocol: P,
        mailbox: Mailbox<Message>,
    ) -> Self {
        let inbox = Arc::new(Post(mailbox.clone()));
        let (sessions, play) = (Arc::clone(&parts.sessions), Arc::clone(&parts.play));
        let uplink = uses_uplink.then(|| parts.uplink.port());
        let engine = Engine::new(parts.units.clone(), inbox, sessions, play);
        let engine = engine.for_front_end(front_end).through(uplink);
        core.at(core.now_ns() + REPORT_EVERY_NS, REPORT);
        let own = Own { number, front_end, parts, mailbox, draining_since_ns: None };
        Self { protocol, engine, own, engine_timer_ns: None, acceptor: None }
    }

    fn split<'a>(&'a mut self, core: &'a mut Core) -> (&'a mut P, Serve<'a>) {
        (&mut self.protocol, Serve { core, engine: &mut self.engine, own: &self.own })
    }

    /// Continues the deliveries that can continue.
    fn continue_deliveries(&mut self, core: &mut Core) {
        while let Some(event) = self.engine.next_event() {
            let (protocol, mut serve) = self.split(core);
            match event {
                Event::Ready(tag) | Event::Unit(tag, _) => protocol.ready(&mut serve, tag),
                Event::Lost(tag, error) => {
                    tracing::error!(%error, "stored bytes are lost; a response is cut short");
                    protocol.lost(&mut serve, tag);
                }
            }
        }
    }

    /// Sets a timer for the engine's next action.
    fn watch_engine(&mut self, core: &mut Core) {
        if let Some(due_ns) = self.engine.next_tick_ns()
            && self.engine_timer_ns.is_none_or(|timer_ns| due_ns < timer_ns)
        {
            self.engine_timer_ns = Some(due_ns);
            core.at(due_ns, ENGINE);
        }
    }

    /// Timers cannot be cancelled, so an earlier timer may have left a later one behind. The later
    /// one finds nothing to do.
    fn tick_engine(&mut self, core: &mut Core) {
        if self.engine_timer_ns.is_some_and(|timer_ns| timer_ns <= core.now_ns()) {
            self.engine_timer_ns = None;
        }
        self.engine.tick(core.now_ns());
        self.continue_deliveries(core);
    }

    fn place(&mut self, core: &mut Core, listener: usize, done: Done) {
        let Some(acceptor) = &self.acceptor else { return };
        match acceptor.accepted(core, listener, done) {
            Some(Placed::On(thread, accepted)) => acceptor.threads[thread].post(Message::Accepted(accepted)),
            Some(Placed::TurnedAway(socket, listener)) => self.protocol.turned_away(socket, listener),
            None => {}
        }
    }

    /// Reports the processor time of this thread.
    fn report(&self, core: &mut Core) {
        let front_end = self.own.parts.play.front_ends.get(self.own.front_end);
        if let Some(thread_ns) = front_end.and_then(|own| own.threads_ns.get(self.own.number)) {
            thread_ns.store(reel_rt::thread_cpu_ns(), Ordering::Relaxed);
        }
        core.at(core.now_ns() + REPORT_EVERY_NS, REPORT);
    }

    /// Ends the thread when it has drained, at the latest after [`DRAIN_TIME_MAX_NS`]. Sessions of
    /// other threads may have joined its reads.
    fn end_if_drained(&mut self, core: &mut Core) {
        let Some(since_ns) = self.own.draining_since_ns else { return };
        let is_over = core.now_ns().saturating_sub(since_ns) > DRAIN_TIME_MAX_NS;
        if is_over {
            let (protocol, mut serve) = self.split(core);
            protocol.cut_off_all(&mut serve);
        }
        if is_over || (self.protocol.has_drained() && self.engine.reads_in_flight() == 0) {
            core.stop();
        }
    }
}

impl<P: Protocol> Service for ServeThread<P> {
    type Message = Message;

    fn message(&mut self, core: &mut Core, message: Message) {
        match message {
            Message::Arrival(arrival) => {
                self.engine.arrived(arrival, core.now_ns());
                self.continue_deliveries(core);
            }
            Message::Accept(acceptor) => {
                for listener in 0..acceptor.listeners.len() {
                    acceptor.accept(core, listener);
                }
                self.acceptor = Some(acceptor);
            }
            Message::Accepted(accepted) => {
                let (protocol, mut serve) = self.split(core);
                protocol.connected(&mut serve, accepted);
            }
            Message::Opened(tag, result) => {
                let (protocol, mut serve) = self.split(core);
                protocol.opened(&mut serve, tag, result);
            }
        }
    }

    fn done(&mut self, core: &mut Core, done: Done) {
        match Acceptor::listener_of(done.token) {
            Some(listener) => self.place(core, listener, done),
            None => {
                let (protocol, mut serve) = self.split(core);
                protocol.done(&mut serve, done);
            }
        }
    }

    fn task(&mut self, core: &mut Core, task: TaskId) -> Next {
        let (protocol, mut serve) = self.split(core);
        protocol.task(&mut serve, task)
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        match (token, Acceptor::listener_of(token)) {
            (ENGINE, _) => self.tick_engine(core),
            (REPORT, _) => self.report(core),
            (_, Some(listener)) => {
                if let Some(acceptor) = &self.acceptor {
                    acceptor.accept(core, listener);
                }
            }
            (_, None) => {
                let (protocol, mut serve) = self.split(core);
                protocol.timer(&mut serve, token);
            }
        }
    }

    fn stopping(&mut self, core: &mut Core) {
        self.own.draining_since_ns = Some(core.now_ns());
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.stop(core);
        }
        let (protocol, mut serve) = self.split(core);
        protocol.drain(&mut serve);
    }

    fn turn(&mut self, core: &mut Core) {
        self.engine.turn(core.now_ns());
        self.continue_deliveries(core);
        self.watch_engine(core);
        self.end_if_drained(core);
    }
}

/// Puts arrivals from other threads into a serve thread's mailbox.
struct Post(Mailbox<Message>);

impl Inbox for Post {
    fn post(&self, arrival: Arrival) {
        self.0.post(Message::Arrival(arrival));
    }
}
