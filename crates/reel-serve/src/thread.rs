//! A serve thread: one core, one engine and one protocol. Nothing in it ever waits.
//!
//! The thread does what is the same for all protocols. It gives the engine what the disks answer,
//! sets the engine's timer, accepts connections, has titles opened, reports its processor time, and
//! ends when the protocol has ended its responses. A [`Protocol`] has the sockets and the format of
//! requests and responses.

use crate::accept::{Accepted, Acceptor, Placed};
use crate::limits::REPORT_EVERY_NS;
use crate::openings::Openings;
use crate::places::NoPlace;
use crate::{Opener, Refusal};
use reel_admit::{Client, SessionClient, Sessions};
use reel_cache::{Arrival, Inbox, Units};
use reel_library::Form;
use reel_play::{Engine, Event, PlayCounters, PlayableTitle, SessionFile, Uplink, UplinkGate};
use reel_qos::Class;
use reel_ring::Done;
use reel_rt::{Core, Mailbox, Next, Service, TaskId, Workers};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Write the playlists of long titles.
    pub writers: Workers,
    /// How long responses and streams may take to end after the server was asked to stop.
    pub drain_time_ns: u64,
}

impl Parts {
    /// The uplink for what sends without an engine, with the shares that classes have at present.
    pub fn uplink_gate(&self) -> Arc<UplinkGate> {
        let disks = self.units.disks().clone();
        UplinkGate::new(&self.uplink, move |class| disks.classes().spec(class).network_permille)
    }
}

/// A title that was opened, or the reason why it was not.
pub type OpenResult = Result<Arc<PlayableTitle>, Refusal>;

/// What a front end does on one of its threads. Each call must be short and must not wait.
///
/// The highest bit of a protocol's tokens is clear, for operations, timers and deliveries alike.
pub trait Protocol: 'static {
    /// A client has connected.
    fn connected(&mut self, serve: &mut Serve<'_>, accepted: Accepted);

    /// There are too many connections, or too many of this client. This one, of the listener of
    /// this number, is not counted: it is closed, or held aside for a moment.
    fn turned_away(&mut self, serve: &mut Serve<'_>, socket: OwnedFd, listener: usize, why: NoPlace);

    /// A connection that was called quiet with this token is to end for another one, unless a
    /// request has arrived. Then it ends after its response.
    fn make_room(&mut self, serve: &mut Serve<'_>, token: u64) {
        let _ = (serve, token);
    }

    /// A title was opened that [`Serve::open_title`] was asked for, or a text of it was written
    /// that [`Serve::write_text`] was asked for.
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

    /// Another thread has called [`Waker::wake`](crate::Waker::wake), or the thread begins again
    /// after a panic: what the protocol shares with that thread has changed.
    fn woken(&mut self, serve: &mut Serve<'_>) {
        let _ = serve;
    }

    /// The server stops: what has no response under way is closed. Called once.
    fn drain(&mut self, serve: &mut Serve<'_>);

    /// Whether nothing is under way any more after [`Protocol::drain`].
    fn has_drained(&self) -> bool;

    /// The time to drain is over: what is still under way is closed.
    fn cut_off_all(&mut self, serve: &mut Serve<'_>);

    /// The title that a step works on, if that is known.
    fn title_of(&self, step: Step) -> Option<String> {
        let _ = step;
        None
    }

    /// A step has panicked, outside the engine. Cuts off its client and releases all that the
    /// client had, whatever the step has left behind. `false` if more than that may be half
    /// changed: then the thread ends all of its clients and begins again.
    fn end(&mut self, serve: &mut Serve<'_>, step: Step) -> bool {
        let _ = (serve, step);
        false
    }
}

/// A call of a [`Protocol`] that concerns one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// [`Protocol::done`] with this token.
    Done(u64),
    /// [`Protocol::task`].
    Task(TaskId),
    /// [`Protocol::ready`] or [`Protocol::lost`] with this tag.
    Delivery(u64),
    /// [`Protocol::opened`] with this tag.
    Opened(u64),
}

/// What a protocol works with.
pub struct Serve<'a> {
    /// The ring, the tasks and the timers of this thread.
    pub core: &'a mut Core,
    /// The engine of this thread.
    pub engine: &'a mut Engine<PlayableTitle>,
    own: &'a mut Own,
}

/// A message to a serve thread.
pub(crate) enum Message {
    /// A disk or another thread has something for the engine of this generation.
    Arrival(u32, Arrival),
    /// This thread accepts connections from now on.
    Accept(Arc<Acceptor>),
    /// A new connection for this thread.
    Accepted(Accepted),
    /// The connection with this token is to end for another one.
    MakeRoom(u64),
    /// The title of this opening of this generation was opened, or cannot be.
    Opened(u32, u64, OpenResult),
    /// See [`Protocol::woken`]. The flag says that this is on its way.
    Wake(Arc<AtomicBool>),
}

/// The state of a serve thread.
pub(crate) struct ServeThread<P> {
    protocol: P,
    engine: Engine<PlayableTitle>,
    own: Own,
    /// The time of the next timer for the engine.
    engine_timer_ns: Option<u64>,
    /// Set on the thread that accepts.
    acceptor: Option<Arc<Acceptor>>,
}

/// Which thread it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The place of its front end in [`PlayCounters::front_ends`].
    pub(crate) front_end: usize,
    /// Its place among the threads of its front end.
    pub(crate) number: usize,
    /// How often the thread has begun again after a panic. What is sent to an engine that was
    /// dropped is not given to the next one.
    pub(crate) generation: u32,
}

/// What a thread has for itself beside its protocol and its engine.
struct Own {
    place: Place,
    parts: Parts,
    mailbox: Mailbox<Message>,
    /// Titles that other threads open for this one.
    openings: Openings,
    draining_since_ns: Option<u64>,
}

const ENGINE: u64 = 1 << 63;
const REPORT: u64 = ENGINE + 1;
const OPENINGS: u64 = ENGINE + 2;

impl Serve<'_> {
    /// The time of this turn.
    pub fn now_ns(&self) -> u64 {
        self.core.now_ns()
    }

    /// The parts of the server.
    pub fn parts(&self) -> &Parts {
        &self.own.parts
    }

    /// A client of a session that this thread's front end sends to.
    pub fn session_client(&self, client: impl Into<Client>, class: Class) -> SessionClient {
        SessionClient::new(client, class).through(self.own.place.front_end)
    }

    /// Opens titles and sessions.
    pub fn opener(&self) -> &Opener {
        &self.own.parts.opener
    }

    /// Whether the server stops: nothing new begins.
    pub fn is_draining(&self) -> bool {
        self.own.draining_since_ns.is_some()
    }

    /// Lets another thread open a title in the form that players use. [`Protocol::opened`] is
    /// called with this tag, after [`Opener::time_max_ns`] at the latest.
    ///
    /// # Errors
    /// [`Refusal::TooManyOpenings`]; then nothing is called.
    pub fn open_title(&mut self, tag: u64, id: String) -> Result<(), Refusal> {
        self.open_form(tag, id, Form::Cmaf)
    }

    /// The same for a form of a title.
    ///
    /// # Errors
    /// As of [`Serve::open_title`].
    pub fn open_form(&mut self, tag: u64, id: String, form: Form) -> Result<(), Refusal> {
        let (mailbox, parts) = (self.own.mailbox.clone(), &self.own.parts);
        let (generation, opening) = (self.own.place.generation, self.own.openings.next());
        let reply = move |result| mailbox.post(Message::Opened(generation, opening, result));
        parts.opener.title_later(&parts.openers, (id, form), reply)?;
        self.await_opening(tag);
        Ok(())
    }

    /// Lets another thread write a text of a title, for sessions that were offered `choice`.
    /// [`Protocol::opened`] is called with this tag and the title.
    ///
    /// # Errors
    /// [`Refusal::TooManyOpenings`]; then nothing is called.
    pub fn write_text(
        &mut self,
        tag: u64,
        title: Arc<PlayableTitle>,
        file: SessionFile,
        choice: usize,
    ) -> Result<(), Refusal> {
        let (mailbox, generation) = (self.own.mailbox.clone(), self.own.place.generation);
        let opening = self.own.openings.next();
        let is_taken = self.own.parts.writers.run(move || {
            title.write_text(file, choice);
            mailbox.post(Message::Opened(generation, opening, Ok(title)));
        });
        if !is_taken {
            return Err(Refusal::TooManyOpenings);
        }
        self.await_opening(tag);
        Ok(())
    }

    /// The answer of another thread, which will have the next number, is waited for until it is
    /// given up.
    fn await_opening(&mut self, tag: u64) {
        let until_ns = self.core.now_ns().saturating_add(self.own.parts.opener.time_max_ns());
        self.own.openings.begin(tag, until_ns);
        self.core.at(until_ns, OPENINGS);
    }
}

impl<P: Protocol> ServeThread<P> {
    /// The thread of this place. Its clients are behind the uplink if `uses_uplink`.
    pub(crate) fn new(
        core: &mut Core,
        parts: Parts,
        place: Place,
        uses_uplink: bool,
        protocol: P,
        mailbox: Mailbox<Message>,
    ) -> Self {
        let inbox = Arc::new(Post(mailbox.clone(), place.generation));
        let (sessions, play) = (Arc::clone(&parts.sessions), Arc::clone(&parts.play));
        let uplink = uses_uplink.then(|| parts.uplink.port());
        let engine = Engine::new(parts.units.clone(), inbox, sessions, play);
        let engine = engine.for_front_end(place.front_end).through(uplink);
        core.at(core.now_ns() + REPORT_EVERY_NS, REPORT);
        let own = Own { place, parts, mailbox, openings: Openings::default(), draining_since_ns: None };
        Self { protocol, engine, own, engine_timer_ns: None, acceptor: None }
    }

    fn split<'a>(&'a mut self, core: &'a mut Core) -> (&'a mut P, Serve<'a>) {
        (&mut self.protocol, Serve { core, engine: &mut self.engine, own: &mut self.own })
    }

    /// Continues the deliveries that can continue.
    fn continue_deliveries(&mut self, core: &mut Core) {
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Ready(tag) | Event::Unit(tag, _) => {
                    self.step(core, Step::Delivery(tag), |protocol, serve| protocol.ready(serve, tag));
                }
                Event::Lost(tag, error) => {
                    tracing::error!(%error, "stored bytes are lost; a response is cut short");
                    self.step(core, Step::Delivery(tag), |protocol, serve| protocol.lost(serve, tag));
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
            Some(Placed::On(thread, accepted, leaving)) => {
                if let Some(leaving) = leaving {
                    acceptor.threads[leaving.thread].post(Message::MakeRoom(leaving.token));
                }
                acceptor.threads[thread].post(Message::Accepted(accepted));
            }
            Some(Placed::TurnedAway(socket, listener, why)) => {
                let (protocol, mut serve) = self.split(core);
                protocol.turned_away(&mut serve, socket, listener, why);
            }
            None => {}
        }
    }

    fn opened(&mut self, core: &mut Core, tag: u64, result: OpenResult) {
        self.step(core, Step::Opened(tag), |protocol, serve| protocol.opened(serve, tag, result));
    }

    /// Accepts connections from now on.
    pub(crate) fn accept(&mut self, core: &mut Core, acceptor: Arc<Acceptor>) {
        for listener in 0..acceptor.listeners.len() {
            acceptor.accept(core, listener);
        }
        self.acceptor = Some(acceptor);
    }

    /// One step of the work on one client. `None` if it panicked, and the client was cut off.
    fn step<R>(
        &mut self,
        core: &mut Core,
        step: Step,
        work: impl FnOnce(&mut P, &mut Serve<'_>) -> R,
    ) -> Option<R> {
        let done = catch_unwind(AssertUnwindSafe(|| {
            let (protocol, mut serve) = self.split(core);
            work(protocol, &mut serve)
        }));
        done.map_err(|panic| self.panicked(core, step, panic)).ok()
    }

    /// A step has panicked. Ends what may be half changed: the client, or else all that this thread
    /// does, by continuing the panic.
    fn panicked(&mut self, core: &mut Core, step: Step, panic: Box<dyn Any + Send>) {
        if let Some(title) = self.protocol.title_of(step) {
            self.own.parts.opener.panicked(&title);
        }
        let is_sound = self.engine.is_sound();
        let (protocol, mut serve) = self.split(core);
        if !is_sound || !protocol.end(&mut serve, step) {
            resume_unwind(panic);
        }
        self.own.parts.play.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            "a client was disconnected because of a panic, which is a defect (the reason is above)"
        );
    }

    /// Refuses the titles that no thread has opened in time.
    fn give_up_openings(&mut self, core: &mut Core) {
        while let Some(tag) = self.own.openings.overdue(core.now_ns()) {
            self.opened(core, tag, Err(Refusal::OpeningTooLong));
        }
    }

    /// Reports the processor time of this thread.
    fn report(&self, core: &mut Core) {
        let front_end = self.own.parts.play.front_ends.get(self.own.place.front_end);
        if let Some(thread_ns) = front_end.and_then(|own| own.threads_ns.get(self.own.place.number)) {
            thread_ns.store(reel_rt::thread_cpu_ns(), Ordering::Relaxed);
        }
        core.at(core.now_ns() + REPORT_EVERY_NS, REPORT);
    }

    /// Ends the thread when it has drained, at the latest after [`Parts::drain_time_ns`]. Sessions
    /// of other threads may have joined its reads.
    fn end_if_drained(&mut self, core: &mut Core) {
        let Some(since_ns) = self.own.draining_since_ns else { return };
        let is_over = core.now_ns().saturating_sub(since_ns) > self.own.parts.drain_time_ns;
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
            Message::Arrival(generation, arrival) if generation == self.own.place.generation => {
                self.engine.arrived(arrival, core.now_ns());
                self.continue_deliveries(core);
            }
            Message::Accept(acceptor) => self.accept(core, acceptor),
            Message::Accepted(accepted) => {
                let (protocol, mut serve) = self.split(core);
                protocol.connected(&mut serve, accepted);
            }
            Message::MakeRoom(token) => {
                let (protocol, mut serve) = self.split(core);
                protocol.make_room(&mut serve, token);
            }
            // An answer that comes after its time was given up is to no client.
            Message::Opened(generation, opening, result) if generation == self.own.place.generation => {
                if let Some(tag) = self.own.openings.end(opening) {
                    self.opened(core, tag, result);
                }
            }
            Message::Wake(is_woken) => {
                // What changes from here on needs another one.
                is_woken.store(false, Ordering::Release);
                let (protocol, mut serve) = self.split(core);
                protocol.woken(&mut serve);
            }
            // To an engine that was dropped after a panic.
            Message::Arrival(..) | Message::Opened(..) => {}
        }
    }

    fn done(&mut self, core: &mut Core, done: Done) {
        match Acceptor::listener_of(done.token) {
            Some(listener) => self.place(core, listener, done),
            None => {
                let step = Step::Done(done.token);
                self.step(core, step, |protocol, serve| protocol.done(serve, done));
            }
        }
    }

    fn task(&mut self, core: &mut Core, task: TaskId) -> Next {
        self.step(core, Step::Task(task), |protocol, serve| protocol.task(serve, task)).unwrap_or(Next::Done)
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        match (token, Acceptor::listener_of(token)) {
            (ENGINE, _) => self.tick_engine(core),
            (REPORT, _) => self.report(core),
            (OPENINGS, _) => self.give_up_openings(core),
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
struct Post(Mailbox<Message>, u32);

impl Inbox for Post {
    fn post(&self, arrival: Arrival) {
        self.0.post(Message::Arrival(self.1, arrival));
    }
}
