//! Streams for programs on this machine: one core that reads titles into memory that programs map.
//!
//! A program's socket carries its requests, and bells. Its messages go through shared memory
//! (`reel-client`). Its streams are admitted like any viewer's. To follow one stream:
//! [`Programs::heard`] -> [`Programs::opened`] -> [`Programs::pump`].

mod opening;
mod playing;

use crate::limits::{
    ACCEPT_RETRY_NS, DRAIN_TIME_MAX_NS, PROGRAM_HELD_MAX_NS, PROGRAM_HELD_UNDER_PRESSURE_MAX_NS,
    PROGRAM_MESSAGES_PER_TURN, PROGRAM_STREAMS_MAX, PROGRAM_TICK_NS, PROGRAMS_MAX,
};
use crate::outlet::{ArenaMap, MappedOutlet};
use crate::streams::{Batch, StreamId, Streams};
use opening::Opened;
use playing::Playing;
use reel_admit::Sessions;
use reel_arena::mms::Ending;
use reel_cache::{Arrival, Inbox, Units};
use reel_client::{Heard, Reply, Request, accept_peer, hear, say};
use reel_play::{Engine, Event, PlayCounters, PlayableTitle, Slots};
use reel_ring::{Done, DriverChoice, Op, RingConfig};
use reel_rt::{Core, CoreConfig, CoreHandle, Mailbox, RtError, Service, Workers};
use reel_serve::Opener;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The front end: where programs connect, and the parts of the server that it uses.
pub struct LocalFrontEnd {
    /// All sessions.
    pub sessions: Arc<Sessions<PlayableTitle>>,
    /// The counters of all engines.
    pub play: Arc<PlayCounters>,
    /// Which of their front ends this one is.
    pub front_end: usize,
    /// The counters of this front end.
    pub counters: Arc<LocalCounters>,
    /// Opens titles and sessions...
    pub opener: Opener,
    /// ...on these threads.
    pub openers: Workers,
    /// Media memory, as programs map it.
    pub arena: ArenaMap,
    /// Buffers that the window of one stream takes.
    pub window_buffers: usize,
    /// The socket to which programs connect.
    pub listener: Arc<OwnedFd>,
    /// The path of that socket. It is removed at the end.
    pub path: PathBuf,
}

impl LocalFrontEnd {
    /// Starts the thread that serves programs.
    ///
    /// # Errors
    /// The system provides no thread or no ring.
    pub fn start(self, units: Units, driver: DriverChoice) -> Result<CoreHandle<Message>, RtError> {
        let config = CoreConfig {
            name: "reel-programs".to_owned(),
            cpu: None,
            ring: RingConfig { entries: 256, driver },
            arena: None,
        };
        reel_rt::spawn(config, move |core, own: Mailbox<Message>| Programs::new(core, self, units, own))
    }
}

/// The events of the thread of programs.
pub enum Message {
    /// A disk or another thread has an arrival for the engine.
    Arrival(Arrival),
    /// A title was opened, or cannot be.
    Opened(Opened),
}

/// Brings arrivals of other threads into the thread's mailbox.
struct Post(Mailbox<Message>);

impl Inbox for Post {
    fn post(&self, arrival: Arrival) {
        self.0.post(Message::Arrival(arrival));
    }
}

/// Counters of streams for programs, for metrics.
#[derive(Debug, Default)]
pub struct LocalCounters {
    /// Programs connected now.
    pub programs: AtomicU64,
    /// Their streams.
    pub streams: AtomicU64,
    /// Streams opened.
    pub opened: AtomicU64,
    /// Streams that were not opened.
    pub refused: AtomicU64,
    /// Streams that were ended because of what their program did or did not do.
    pub cut: AtomicU64,
    /// Bells rung for programs. Each is a call of the kernel.
    pub rung: AtomicU64,
    /// Bells that programs rang.
    pub heard: AtomicU64,
    /// Bytes given back.
    pub bytes: AtomicU64,
}

/// The state of the thread.
struct Programs {
    shared: LocalFrontEnd,
    engine: Engine<PlayableTitle>,
    own: Mailbox<Message>,
    programs: Slots<Program>,
    streams: Streams<MappedOutlet>,
    playing: HashMap<StreamId, Playing>,
    openings: Slots<opening::Wanted>,
    ticking: bool,
    /// When the next timer for the engine goes off.
    engine_timer_ns: Option<u64>,
    draining_since_ns: Option<u64>,
}

/// A program that is connected.
struct Program {
    socket: Arc<OwnedFd>,
    user: u32,
    /// Its streams by its own names.
    streams: HashMap<u64, Named>,
}

/// What a name refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// A stream that is being opened.
    Opening,
    /// A stream that is being opened, and was closed in the meantime.
    Unwanted,
    Open(StreamId),
}

const ACCEPT: u64 = u64::MAX;
const TICK: u64 = 0;
const ACCEPT_AGAIN: u64 = 1;
const ENGINE: u64 = 2;

impl Programs {
    fn new(core: &mut Core, shared: LocalFrontEnd, units: Units, own: Mailbox<Message>) -> Self {
        let inbox = Arc::new(Post(own.clone()));
        let (sessions, play) = (Arc::clone(&shared.sessions), Arc::clone(&shared.play));
        core.ring.push(ACCEPT, Op::Accept { listener: Arc::clone(&shared.listener) });
        let engine = Engine::new(units, inbox, sessions, play).for_front_end(shared.front_end);
        Self {
            shared,
            engine,
            own,
            programs: Slots::new(),
            streams: Streams::default(),
            playing: HashMap::new(),
            openings: Slots::new(),
            ticking: false,
            engine_timer_ns: None,
            draining_since_ns: None,
        }
    }

    fn accepted(&mut self, core: &mut Core, done: Done) {
        match (done.result, done.accepted) {
            (Ok(_), Some(socket)) => self.connected(core, socket),
            (Ok(_), None) => {}
            (Err(error), _) if error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error()) => {
                return;
            }
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept a program; trying again shortly");
                return core.at(core.now_ns() + ACCEPT_RETRY_NS, ACCEPT_AGAIN);
            }
        }
        self.accept(core);
    }

    fn accept(&self, core: &mut Core) {
        if self.draining_since_ns.is_none() {
            core.ring.push(ACCEPT, Op::Accept { listener: Arc::clone(&self.shared.listener) });
        }
    }

    fn connected(&mut self, core: &mut Core, socket: OwnedFd) {
        let user = match accept_peer(&socket) {
            Ok(user) if self.programs.len() < PROGRAMS_MAX => user,
            Ok(_) => {
                tracing::warn!(
                    "{PROGRAMS_MAX} programs are connected, the most there may be; another is refused"
                );
                return;
            }
            Err(error) => {
                return tracing::warn!(%error, "the kernel does not give the user of a program that connects");
            }
        };
        let socket = Arc::new(socket);
        let program = Program { socket: Arc::clone(&socket), user, streams: HashMap::new() };
        let token = self.programs.insert(program);
        self.count();
        core.ring.push(token, Op::AwaitReadable { socket });
    }

    /// Takes some of the messages that a program has sent. The number is limited because other
    /// programs wait, too.
    fn heard(&mut self, core: &mut Core, token: u64) {
        for _ in 0..PROGRAM_MESSAGES_PER_TURN {
            let Some(program) = self.programs.get_mut(token) else { return };
            let bytes = match hear(&program.socket) {
                Ok(Heard::Message(bytes, _)) => bytes,
                Ok(Heard::Nothing) => break,
                Ok(Heard::Gone) => return self.gone(token),
                Err(error) => {
                    tracing::debug!(%error, "a program's socket failed");
                    return self.gone(token);
                }
            };
            match Request::decode(&bytes) {
                Ok(Request::Bell) => {
                    self.shared.counters.heard.fetch_add(1, Ordering::Relaxed);
                    let Some(program) = self.programs.get_mut(token) else { return };
                    let set: Vec<StreamId> =
                        program.streams.values().copied().filter_map(Named::id).collect();
                    self.pump(core, &set);
                }
                Ok(Request::Close { tag }) => {
                    let Some(program) = self.programs.get_mut(token) else { return };
                    match program.streams.get_mut(&tag) {
                        Some(Named::Open(id)) => {
                            let id = *id;
                            self.end(id, Ending::Closed);
                        }
                        Some(opening) => *opening = Named::Unwanted,
                        None => {}
                    }
                }
                Ok(Request::Open { tag, from_bytes, title, class }) => {
                    self.open(opening::Wanted { program: token, tag, from_bytes, title, class });
                }
                Err(error) => {
                    tracing::warn!(%error, "a program sent a message that is not valid; it is disconnected");
                    return self.gone(token);
                }
            }
        }
        if let Some(program) = self.programs.get_mut(token) {
            core.ring.push(token, Op::AwaitReadable { socket: Arc::clone(&program.socket) });
        }
    }

    /// A program has disconnected. Everything it had is freed, whatever its streams were doing.
    fn gone(&mut self, token: u64) {
        let Some(program) = self.programs.remove(token) else { return };
        let _ = rustix::net::shutdown(&program.socket, rustix::net::Shutdown::Both);
        for id in program.streams.into_values().filter_map(Named::id) {
            self.end(id, Ending::Closed);
        }
        self.count();
    }

    /// Reads and sends all that is available, for each stream of a set.
    fn pump(&mut self, core: &mut Core, set: &[StreamId]) {
        let batch = self.streams.read_send(set, &mut self.engine, core.now_ns());
        self.follow(core, batch);
    }

    /// Does what the result of a batch requires.
    fn follow(&mut self, core: &mut Core, batch: Batch) {
        let Batch { ring, done, ended } = batch;
        for (id, bytes) in done {
            let Some(playing) = self.playing.get_mut(&id) else { continue };
            playing.taken(core.now_ns());
            self.shared.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        for id in ring {
            self.ring(id);
        }
        for (id, ending) in ended {
            self.end(id, ending);
        }
    }

    /// Wakes the program that waits for a stream.
    fn ring(&mut self, id: StreamId) {
        let Some(playing) = self.playing.get(&id) else { return };
        let Some(program) = self.programs.get_mut(playing.program()) else { return };
        self.shared.counters.rung.fetch_add(1, Ordering::Relaxed);
        // A program with a full socket has bells to take. A program that has disconnected is
        // noticed by the end of its socket.
        let _ = say(&program.socket, &Reply::Bell.encode(), &[]);
    }

    /// Ends a stream, its session, and its reservation.
    fn end(&mut self, id: StreamId, ending: Ending) {
        let ring = self.streams.close(&[id], &mut self.engine, ending).contains(&true);
        if ring {
            self.ring(id);
        }
        let Some(playing) = self.playing.remove(&id) else { return };
        if let Some(program) = self.programs.get_mut(playing.program()) {
            program.streams.remove(&playing.tag());
        }
        if matches!(ending, Ending::HeldTooLong | Ending::BadCounter) {
            self.shared.counters.cut.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(title = playing.title(), "a program's stream was ended: {}", ending.text());
        }
        self.shared.sessions.close(&playing.key());
        self.count();
    }

    fn count(&self) {
        self.shared.counters.programs.store(self.programs.len() as u64, Ordering::Relaxed);
        self.shared.counters.streams.store(self.playing.len() as u64, Ordering::Relaxed);
    }

    /// Polls all streams, so that a reader that keeps to its schedule need not ring.
    fn tick(&mut self, core: &mut Core) {
        self.ticking = false;
        let set = self.streams.ids();
        self.pump(core, &set);
        let pressed = self.engine.is_pressed();
        // A session that was forgotten in the meantime has no reservation any more.
        let patience_ns = PROGRAM_HELD_MAX_NS.min(self.shared.sessions.idle_max_ns());
        let bound_ns =
            if pressed { PROGRAM_HELD_UNDER_PRESSURE_MAX_NS.min(patience_ns) } else { patience_ns };
        for id in set {
            let held = self.streams.outlet_mut(id).is_some_and(|outlet| outlet.held() > 0);
            let Some(playing) = self.playing.get_mut(&id) else { continue };
            if playing.has_held(held, core.now_ns()) > bound_ns {
                self.end(id, Ending::HeldTooLong);
            }
        }
        self.report();
        self.watch(core);
    }

    /// Reports the processor time of this thread.
    fn report(&self) {
        let own = self.shared.play.front_ends.get(self.shared.front_end);
        if let Some(thread_ns) = own.and_then(|own| own.threads_ns.first()) {
            thread_ns.store(reel_rt::thread_cpu_ns(), Ordering::Relaxed);
        }
    }

    fn watch(&mut self, core: &mut Core) {
        if !self.ticking && !self.streams.is_empty() {
            self.ticking = true;
            core.at(core.now_ns() + PROGRAM_TICK_NS, TICK);
        }
    }

    /// Continues the streams that can continue.
    fn continue_with_events(&mut self, core: &mut Core) {
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Ready(stream) | Event::Unit(stream, _) => self.pump(core, &[StreamId(stream)]),
                Event::Lost(stream, error) => {
                    tracing::error!(%error, "stored bytes are lost; a program's stream is ended");
                    self.end(StreamId(stream), Ending::Lost);
                }
            }
        }
    }
}

impl Named {
    fn id(self) -> Option<StreamId> {
        match self {
            Named::Open(id) => Some(id),
            Named::Opening | Named::Unwanted => None,
        }
    }
}

impl Service for Programs {
    type Message = Message;

    fn message(&mut self, core: &mut Core, message: Message) {
        match message {
            Message::Arrival(arrival) => {
                self.engine.arrived(arrival, core.now_ns());
                self.continue_with_events(core);
            }
            Message::Opened(opened) => self.opened(core, opened),
        }
    }

    fn done(&mut self, core: &mut Core, done: Done) {
        match done.token {
            ACCEPT => self.accepted(core, done),
            token => self.heard(core, token),
        }
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        match token {
            TICK => self.tick(core),
            ENGINE => {
                if self.engine_timer_ns.is_some_and(|timer_ns| timer_ns <= core.now_ns()) {
                    self.engine_timer_ns = None;
                }
                self.engine.tick(core.now_ns());
                self.continue_with_events(core);
            }
            _ => self.accept(core),
        }
    }

    fn turn(&mut self, core: &mut Core) {
        self.engine.turn(core.now_ns());
        self.continue_with_events(core);
        if let Some(due_ns) = self.engine.next_tick_ns()
            && self.engine_timer_ns.is_none_or(|timer_ns| due_ns < timer_ns)
        {
            self.engine_timer_ns = Some(due_ns);
            core.at(due_ns, ENGINE);
        }
        self.watch(core);
        if let Some(since_ns) = self.draining_since_ns
            && (self.engine.reads_in_flight() == 0
                || core.now_ns().saturating_sub(since_ns) > DRAIN_TIME_MAX_NS)
        {
            core.stop();
        }
    }

    fn stopping(&mut self, core: &mut Core) {
        self.draining_since_ns = Some(core.now_ns());
        core.ring.cancel(ACCEPT);
        // Removes the socket, so that no program connects to a server that does not answer.
        let _ = std::fs::remove_file(&self.shared.path);
        for id in self.streams.ids() {
            self.end(id, Ending::Stopped);
        }
        for token in self.programs.tokens(|_| true) {
            self.gone(token);
        }
    }
}
