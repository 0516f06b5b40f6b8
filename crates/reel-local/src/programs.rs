//! Streams for programs on this machine: one core that reads titles into memory that programs map,
//! and takes what programs pour.
//!
//! A program's socket carries its requests, and bells. Its messages go through shared memory
//! (`reel-client`). Its streams are admitted like any viewer's. To follow one stream:
//! [`Programs::heard`] -> [`Programs::begin_opened`] -> [`Programs::pump`].

mod in_step;
mod live;
mod opening;
mod playing;
mod pouring;

use crate::limits::{
    FEEDS_PER_TURN, PROGRAM_HELD_MAX_NS, PROGRAM_HELD_UNDER_PRESSURE_MAX_NS, PROGRAM_MESSAGES_PER_TURN,
    PROGRAM_POURS_MAX, PROGRAM_STREAMS_MAX, PROGRAM_TICK_NS, PROGRAMS_MAX,
};
use crate::outlet::{ArenaMap, MappedOutlet};
use playing::Playing;
use pouring::{Pouring, WRONG_POUR};
use reel_arena::mms::Ending;
use reel_client::{Heard, Reply, Request, accept_peer, hear, say};
use reel_play::Slots;
use reel_pour::Pours;
use reel_ring::{Done, DriverChoice, Op, RingConfig};
use reel_rt::{Core, RtError};
use reel_serve::streams::{Batch, StreamId, Streams};
use reel_serve::{
    Accepted, Counted, Listening, NoPlace, OpenConnections, OpenResult, Parts, PlaceShares, Protocol, Serve,
    ServeThreads, Step, ThreadsConfig,
};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The front end: where programs connect, and the parts of the server that only it uses.
pub struct LocalFrontEnd {
    /// Which of [`PlayCounters::front_ends`](reel_play::PlayCounters) is this one's.
    pub front_end: usize,
    /// The counters of this front end.
    pub counters: Arc<LocalCounters>,
    /// Media memory, as programs map it.
    pub arena: ArenaMap,
    /// Buffers that the window of one stream takes.
    pub window_buffers: usize,
    /// The streams that programs pour.
    pub pours: Pours,
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
    pub fn start(self, parts: &Parts, driver: DriverChoice) -> Result<ServeThreads, RtError> {
        let config = ThreadsConfig {
            names: vec!["reel-programs".to_owned()],
            pin: false,
            real_time_priority: 0,
            ring: RingConfig { entries: 256, driver },
            front_end: self.front_end,
            uses_uplink: false,
        };
        let listening = Listening {
            listeners: vec![Arc::clone(&self.listener)],
            open: OpenConnections::new(1, PROGRAMS_MAX, PlaceShares::default()),
        };
        let shared = Arc::new(self);
        ServeThreads::start(config, parts, listening, |_| {
            let shared = Arc::clone(&shared);
            move |_: &mut Core| Programs::new(Arc::clone(&shared))
        })
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
    shared: Arc<LocalFrontEnd>,
    programs: Slots<Program>,
    streams: Streams<MappedOutlet>,
    playing: HashMap<StreamId, Playing>,
    openings: Slots<opening::Wanted>,
    ticking: bool,
}

/// A program that is connected.
struct Program {
    socket: Arc<OwnedFd>,
    /// The program is counted as connected as long as this exists.
    _counted: Counted,
    user: u32,
    /// Its streams by its own names.
    streams: HashMap<u64, Named>,
    /// Sets in step of which not all is there yet, by the name of the first stream.
    sets: HashMap<u64, in_step::Gathering>,
    /// Those that it pours.
    pours: HashMap<u64, Pouring>,
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

/// The timer of [`Programs::tick`].
const TICK: u64 = 0;

impl Programs {
    fn new(shared: Arc<LocalFrontEnd>) -> Self {
        let programs = Self {
            shared,
            programs: Slots::new(),
            streams: Streams::default(),
            playing: HashMap::new(),
            openings: Slots::new(),
            ticking: false,
        };
        // After a restart of the thread there are none.
        programs.count();
        programs
    }

    /// Takes some of the messages that a program has sent. The number is limited because other
    /// programs wait, too.
    fn heard(&mut self, serve: &mut Serve<'_>, token: u64) {
        for _ in 0..PROGRAM_MESSAGES_PER_TURN {
            let Some(program) = self.programs.get_mut(token) else { return };
            let (bytes, descriptors) = match hear(&program.socket) {
                Ok(Heard::Message(bytes, descriptors)) => (bytes, descriptors),
                Ok(Heard::Nothing) => break,
                Ok(Heard::Gone) => return self.gone(serve, token),
                Err(error) => {
                    tracing::debug!(%error, "a program's socket failed");
                    return self.gone(serve, token);
                }
            };
            match Request::decode(&bytes) {
                Ok(Request::Bell) => {
                    self.shared.counters.heard.fetch_add(1, Ordering::Relaxed);
                    if !self.poured(serve, token) {
                        tracing::warn!("{WRONG_POUR}");
                        return self.gone(serve, token);
                    }
                    let Some(program) = self.programs.get_mut(token) else { return };
                    let set: Vec<StreamId> =
                        program.streams.values().copied().filter_map(Named::id).collect();
                    self.pump(serve, &set);
                }
                Ok(Request::Pour(request)) => self.pour(serve, token, request, descriptors),
                Ok(Request::Close { tag }) => {
                    let Some(program) = self.programs.get_mut(token) else { return };
                    if let Some(pouring) = program.pours.remove(&tag) {
                        pouring.end(serve.now_ns());
                        continue;
                    }
                    match program.streams.get_mut(&tag) {
                        Some(Named::Open(id)) => {
                            let id = *id;
                            self.end(serve, id, Ending::Closed);
                        }
                        Some(opening) => *opening = Named::Unwanted,
                        None => {}
                    }
                }
                Ok(Request::Resize { tag, held_bytes }) => {
                    let Some(program) = self.programs.get_mut(token) else { return };
                    let held_bytes = usize::try_from(held_bytes).unwrap_or(usize::MAX);
                    if let Some(id) = program.streams.get(&tag).copied().and_then(Named::id) {
                        self.streams.resize(&[id], held_bytes.max(1));
                        self.pump(serve, &[id]);
                    }
                }
                Ok(Request::Change { tag, class }) => self.change_class(serve, (token, tag), &class),
                Ok(Request::Open { tag, from_bytes, title, class }) => {
                    self.open(
                        serve,
                        opening::Wanted { program: token, tag, from_bytes, title, class, step: None },
                    );
                }
                Ok(Request::OpenInStep(request)) => self.open_in_step(serve, token, request),
                Err(error) => {
                    tracing::warn!(%error, "a program sent a message that is not valid; it is disconnected");
                    return self.gone(serve, token);
                }
            }
        }
        if let Some(program) = self.programs.get_mut(token) {
            serve.core.ring.push(token, Op::AwaitReadable { socket: Arc::clone(&program.socket) });
        }
    }

    /// A program has disconnected. Everything it had is freed, whatever its streams were doing.
    fn gone(&mut self, serve: &mut Serve<'_>, token: u64) {
        let Some(mut program) = self.programs.remove(token) else { return };
        // What has come to its end is complete, although its program has not said so.
        program.pours.drain().for_each(|(_, pouring)| pouring.end(serve.now_ns()));
        let _ = rustix::net::shutdown(&program.socket, rustix::net::Shutdown::Both);
        for id in program.streams.into_values().filter_map(Named::id) {
            self.end(serve, id, Ending::Closed);
        }
        self.count();
    }

    /// Reads and sends all that is available, for each stream of a set.
    fn pump(&mut self, serve: &mut Serve<'_>, set: &[StreamId]) {
        let batch = self.streams.read_send(set, serve.engine, serve.now_ns());
        self.follow(serve, batch);
        let mut set = self.feed(serve, set);
        for _ in 0..FEEDS_PER_TURN {
            if set.is_empty() {
                return;
            }
            let batch = self.streams.read_send(&set, serve.engine, serve.now_ns());
            self.follow(serve, batch);
            set = self.feed(serve, &set);
        }
    }

    /// Does what the result of a batch requires.
    fn follow(&mut self, serve: &mut Serve<'_>, batch: Batch) {
        let Batch { ring, done, ended } = batch;
        for (id, bytes) in done {
            let Some(playing) = self.playing.get_mut(&id) else { continue };
            playing.taken(serve.now_ns());
            self.shared.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        for id in ring {
            self.ring(id);
        }
        for (id, ending) in ended {
            self.end(serve, id, ending);
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
    fn end(&mut self, serve: &mut Serve<'_>, id: StreamId, ending: Ending) {
        let ring = self.streams.close(&[id], serve.engine, ending).contains(&true);
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
        self.count();
    }

    fn count(&self) {
        self.shared.counters.programs.store(self.programs.len() as u64, Ordering::Relaxed);
        self.shared.counters.streams.store(self.playing.len() as u64, Ordering::Relaxed);
    }

    /// Polls all streams, so that a reader that keeps to its schedule need not ring.
    fn tick(&mut self, serve: &mut Serve<'_>) {
        self.ticking = false;
        self.take_poured(serve);
        self.drop_live(serve);
        let set = self.streams.ids();
        self.pump(serve, &set);
        let pressed = serve.engine.is_pressed();
        // A session that was forgotten in the meantime has no reservation any more.
        let patience_ns = PROGRAM_HELD_MAX_NS.min(serve.parts().sessions.idle_max_ns());
        let bound_ns =
            if pressed { PROGRAM_HELD_UNDER_PRESSURE_MAX_NS.min(patience_ns) } else { patience_ns };
        for id in set {
            let held = self.streams.outlet_mut(id).is_some_and(|outlet| outlet.held() > 0);
            let Some(playing) = self.playing.get_mut(&id) else { continue };
            if playing.has_held(held, serve.now_ns()) > bound_ns {
                self.end(serve, id, Ending::HeldTooLong);
            }
        }
        self.watch(serve);
    }

    fn watch(&mut self, serve: &mut Serve<'_>) {
        if !self.ticking && (!self.streams.is_empty() || self.pours()) {
            self.ticking = true;
            serve.core.at(serve.now_ns() + PROGRAM_TICK_NS, TICK);
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

impl Protocol for Programs {
    fn connected(&mut self, serve: &mut Serve<'_>, accepted: Accepted) {
        let Accepted { socket, counted, .. } = accepted;
        let user = match accept_peer(&socket) {
            Ok(user) => user,
            Err(error) => {
                return tracing::warn!(%error, "the kernel does not give the user of a program that connects");
            }
        };
        let socket = Arc::new(socket);
        let program = Program {
            socket: Arc::clone(&socket),
            _counted: counted,
            user,
            streams: HashMap::new(),
            sets: HashMap::new(),
            pours: HashMap::new(),
        };
        let token = self.programs.insert(program);
        self.count();
        serve.core.ring.push(token, Op::AwaitReadable { socket });
    }

    fn turned_away(&mut self, _: &mut Serve<'_>, _: OwnedFd, _: usize, _: NoPlace) {
        tracing::warn!("{PROGRAMS_MAX} programs are connected, the most there may be; another is refused");
    }

    fn opened(&mut self, serve: &mut Serve<'_>, tag: u64, result: OpenResult) {
        self.begin_opened(serve, tag, result);
    }

    fn done(&mut self, serve: &mut Serve<'_>, done: Done) {
        self.heard(serve, done.token);
    }

    fn timer(&mut self, serve: &mut Serve<'_>, _: u64) {
        self.tick(serve);
    }

    fn ready(&mut self, serve: &mut Serve<'_>, tag: u64) {
        self.pump(serve, &[StreamId(tag)]);
    }

    fn lost(&mut self, serve: &mut Serve<'_>, tag: u64) {
        self.end(serve, StreamId(tag), Ending::Lost);
    }

    fn drain(&mut self, serve: &mut Serve<'_>) {
        // Removes the socket, so that no program connects to a server that does not answer.
        let _ = std::fs::remove_file(&self.shared.path);
        for id in self.streams.ids() {
            self.end(serve, id, Ending::Stopped);
        }
        for token in self.programs.tokens(|_| true) {
            self.gone(serve, token);
        }
    }

    fn has_drained(&self) -> bool {
        true
    }

    fn cut_off_all(&mut self, _: &mut Serve<'_>) {}

    /// Streams of all programs share one state, so every panic ends the work of the thread.
    fn title_of(&self, step: Step) -> Option<String> {
        let Step::Delivery(tag) = step else { return None };
        self.playing.get(&StreamId(tag)).map(|playing| playing.title().to_owned())
    }
}
