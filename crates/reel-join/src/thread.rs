//! The thread of joins: one core that plays sessions into their outlets.

mod chain;
mod datagrams;
mod link;
mod live;
mod pacing;
mod poured;
mod replacing;
mod sends;
mod writing;

use crate::joins::{From, Joins, Opened, Wanted};
use crate::limits::{
    DATAGRAM_AHEAD_NS, JOIN_MEMORY_SHARE, JOIN_TICK_NS, SESSION_LOOK_NS, WRITERS, WRITES_MAX,
};
use crate::outlet::{OutletState, SharedOutlet};
use crate::packet_times::packet_times;
use crate::refused::{JoinRefused, plain};
use crate::tee::{KeptBy, Tee};
use chain::{Chain, Sink, SinkTo};
use datagrams::{Answer, Datagrams, Next};
use link::{LinkUse, Sent};
use live::LiveSink;
use pacing::Pacing;
use reel_admit::Session;
use reel_arena::mms::Ending;
use reel_cache::limits::SEND_BYTES_MAX;
use reel_play::{MediaRequest, Playable, PlayableTitle, UplinkGate};
use reel_ring::{Done, DriverChoice, Op, RingConfig};
use reel_rt::{Core, RtError, Workers};
use reel_serve::streams::{Opening, StreamId, Streams};
use reel_serve::{
    Accepted, FrontEnd, Listening, NoPlace, OpenConnections, OpenResult, Parts, PlaceShares, Protocol, Serve,
    ServeThreads, Step, ThreadsConfig,
};
use sends::Sends;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use writing::{Of, Work, Worked, Writing};

/// The front end.
pub struct JoinFrontEnd {
    /// The joins that it plays.
    pub joins: Joins,
    /// Which of [`PlayCounters::front_ends`](reel_play::PlayCounters) is this one's.
    pub front_end: usize,
    /// Buffers that the window of one chain takes.
    pub window_buffers: usize,
}

/// The running thread, and those that write files.
pub struct JoinThreads {
    threads: ServeThreads,
    writers: Vec<JoinHandle<()>>,
}

impl JoinFrontEnd {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system provides no thread or no ring.
    pub fn start(self, parts: &Parts, driver: DriverChoice) -> Result<JoinThreads, RtError> {
        let config = ThreadsConfig {
            names: vec!["reel-joins".to_owned()],
            pin: false,
            real_time_priority: 0,
            ring: RingConfig { entries: 256, driver },
            front_end: self.front_end,
            uses_uplink: false,
        };
        let (workers, writers) = Workers::start(WRITER, WRITERS, WRITES_MAX)
            .map_err(|source| RtError::Thread { name: WRITER.to_owned(), source })?;
        let open = OpenConnections::new(1, 0, PlaceShares::default());
        let listening = Listening { listeners: Vec::new(), open };
        let (joins, window_buffers) = (self.joins.clone(), self.window_buffers);
        let gate = parts.uplink_gate();
        let threads = ServeThreads::start(config, parts, listening, |_| {
            let (joins, workers, gate) = (joins.clone(), workers.clone(), Arc::clone(&gate));
            move |_: &mut Core| {
                let writing = Writing::new(joins.clone(), workers.clone());
                JoinThread::new(joins.clone(), writing, Arc::clone(&gate), window_buffers)
            }
        })?;
        self.joins.played_by(threads.waker());
        Ok(JoinThreads { threads, writers })
    }
}

impl FrontEnd for JoinThreads {
    fn is_whole(&self) -> bool {
        self.threads.is_whole() && !self.writers.iter().any(JoinHandle::is_finished)
    }

    fn restarts(&self) -> u32 {
        self.threads.restarts()
    }

    fn stop(&self) {
        self.threads.stop();
    }

    /// The writing threads end with the thread that they write for, when they have removed what is
    /// not complete.
    fn join(self: Box<Self>) -> Result<(), RtError> {
        let ended = Box::new(self.threads).join();
        for writer in self.writers {
            // A panic of a thread was logged when it happened.
            let _ = writer.join();
        }
        ended
    }
}

/// Why outlets end with their session.
const SESSION_ENDED: &str = "its session has ended";

/// Why outlets end with their client.
const FORSAKEN: &str = "its client has not asked for it for longer than its lease";

/// What the threads that write are called.
const WRITER: &str = "reel-join";

/// The state of the thread.
struct JoinThread {
    joins: Joins,
    writing: Writing,
    sends: Sends,
    pacing: Pacing,
    /// The link to other machines.
    gate: Arc<UplinkGate>,
    window_buffers: usize,
    streams: Streams<Tee>,
    chains: BTreeMap<StreamId, Chain>,
    /// Outlets that have ended, and whose files are being completed.
    completing: BTreeMap<u64, Sink>,
    /// How many there were.
    completed: u64,
    is_ticking: bool,
    /// When it was last looked whether sessions still exist.
    looked_ns: u64,
}

/// The timers of [`JoinThread::tick`], [`JoinThread::collect`] and [`JoinThread::paced`].
const TICK: u64 = 0;
const COLLECT: u64 = 1;
const PACED: u64 = 2;

impl JoinThread {
    fn new(joins: Joins, writing: Writing, gate: Arc<UplinkGate>, window_buffers: usize) -> Self {
        // After a restart of the thread there are none.
        joins.were_lost();
        Self {
            joins,
            writing,
            sends: Sends::default(),
            pacing: Pacing::default(),
            gate,
            window_buffers,
            streams: Streams::default(),
            chains: BTreeMap::new(),
            completing: BTreeMap::new(),
            completed: 0,
            is_ticking: false,
            looked_ns: 0,
        }
    }

    /// Begins an outlet, or refuses it.
    fn begin(&mut self, serve: &mut Serve<'_>, wanted: Wanted) {
        if wanted.outlet.is_unwanted() {
            return self.give_up(wanted.to);
        }
        let from_byte = match wanted.from {
            From::Byte(from_byte) => from_byte,
            From::Outlet(number) => return self.replace(serve, number, wanted),
        };
        let Wanted { session, outlet, to, place, answer, .. } = wanted;
        let key = session.key();
        let chain = self.chains.iter().find(|(_, chain)| chain.session.key() == key).map(|(id, _)| *id);
        let id = match (chain, from_byte) {
            (Some(_), Some(_)) => Err(JoinRefused::Plays),
            (Some(id), None) => Ok(id),
            (None, from_byte) => self.open(serve, session, from_byte.unwrap_or(0)),
        };
        let begun = id.and_then(|id| {
            let tee = self.streams.outlet_mut(id).ok_or(JoinRefused::Stopping)?;
            let number = outlet.number;
            Ok((id, if outlet.takes_packets { tee.join_at_packet(number) } else { tee.join(number) }))
        });
        match begun {
            Ok((id, from_byte)) => {
                outlet.from_byte.store(from_byte, Ordering::Relaxed);
                tracing::info!(to = outlet.to, from_byte, "a session is joined");
                let sink = Sink::new(Arc::clone(&outlet), self.sink_to(id, &outlet, to), place);
                if let Some(chain) = self.chains.get_mut(&id) {
                    chain.sinks.insert(outlet.number, sink);
                }
                // The client may have given up waiting: then it is removed with the next tick.
                let _ = answer.send(Ok(()));
                self.pump(serve, id);
                self.watch(serve);
            }
            Err(refused) => {
                self.give_up(to);
                let _ = answer.send(Err(refused));
            }
        }
    }

    fn sink_to(&mut self, id: StreamId, outlet: &SharedOutlet, to: Opened) -> SinkTo {
        let link = outlet.uplink_client.map(|client| LinkUse::new(&self.gate, client));
        let ahead_ns = self.streams.outlet_mut(id).map_or(DATAGRAM_AHEAD_NS, |tee| tee.datagrams_ahead_ns());
        match to {
            Opened::File(part) => SinkTo::File(Some(part)),
            Opened::Tcp(socket) => SinkTo::Tcp(Arc::new(socket), link),
            Opened::Live(writer) => SinkTo::Live(Box::new(LiveSink::new(writer, ahead_ns))),
            Opened::Datagrams(socket) => SinkTo::Datagrams(Box::new(Datagrams::new(socket, ahead_ns, link))),
        }
    }

    /// What was opened for an outlet is not needed.
    fn give_up(&self, to: Opened) {
        if let Opened::File(part) = to {
            self.writing.discard(Some(part));
        }
    }

    fn refuse(&self, wanted: Wanted, refused: JoinRefused) {
        self.give_up(wanted.to);
        // The client may have given up waiting.
        let _ = wanted.answer.send(Err(refused));
    }

    /// Begins the chain of a session, at this byte of its title as one file.
    fn open(
        &mut self,
        serve: &mut Serve<'_>,
        session: Arc<Session<PlayableTitle>>,
        from_byte: u64,
    ) -> Result<StreamId, JoinRefused> {
        if serve.is_draining() {
            return Err(JoinRefused::Stopping);
        }
        if session.playing().is_poured() {
            self.has_memory(serve)?;
            return self.open_poured(serve, session, from_byte);
        }
        let body = session.playing().file().map(|file| file.body.clone());
        let body = body.ok_or_else(|| JoinRefused::NoFile(session.title_id().to_owned()))?;
        let file_bytes = body.bytes();
        if from_byte > file_bytes {
            return Err(JoinRefused::BeyondEnd(file_bytes));
        }
        self.has_memory(serve)?;
        let times = packet_times(session.playing());
        let media = MediaRequest::File(from_byte..file_bytes);
        let now_ns = serve.now_ns();
        let policy = serve
            .engine
            .policy(&session, &media, now_ns)
            .map_err(|refusal| JoinRefused::NotAdmitted(refusal.into()))?;
        let opening = Opening {
            session: Some(Arc::clone(&session)),
            body: body.slice(from_byte..file_bytes),
            position: from_byte,
            policy,
            chain_bytes_max: SEND_BYTES_MAX,
            outlet: match times {
                Some(times) => Tee::of_packets(from_byte, times, now_ns),
                None => Tee::new(from_byte, now_ns),
            },
        };
        let set = self.streams.open(serve.engine, [opening], now_ns);
        // One opening gives one stream.
        let id = *set.first().ok_or(JoinRefused::Stopping)?;
        self.chains.insert(id, Chain::new(session));
        Ok(id)
    }

    /// Whether there is memory for another chain.
    fn has_memory(&self, serve: &Serve<'_>) -> Result<(), JoinRefused> {
        let buffers = serve.engine.units().budget().total();
        let chains_max = (buffers / JOIN_MEMORY_SHARE / self.window_buffers.max(1)).max(1);
        if self.chains.len() >= chains_max { Err(JoinRefused::NoMemory(chains_max)) } else { Ok(()) }
    }

    /// Reads what can be read, and has each branch take what was offered to it.
    fn pump(&mut self, serve: &mut Serve<'_>, id: StreamId) {
        if let Some(tee) = self.streams.outlet_mut(id) {
            tee.set_now(serve.now_ns());
        }
        self.replace_idle(id);
        let ending = self.read(serve, id);
        self.send(serve, id);
        if let Some(ending) = ending {
            self.end(serve, id, ending);
        }
    }

    /// Has each branch of a chain send what it has, and ends those that have sent all.
    fn send(&mut self, serve: &mut Serve<'_>, id: StreamId) {
        let (Some(tee), Some(chain)) = (self.streams.outlet_mut(id), self.chains.get_mut(&id)) else {
            return;
        };
        let (classes, now_ns) = (serve.engine.units().disks().classes(), serve.now_ns());
        tee.set_now(now_ns);
        let on_reservation = chain.on_reservation();
        let (session, sinks) = (&chain.session, &mut chain.sinks);
        let mut complete = Vec::new();
        for number in tee.branches() {
            let Some(sink) = sinks.get_mut(&number) else { continue };
            sink.outlet.sends_in(tee.runs(number));
            let of = (id, number);
            if tee.is_complete(number) && sink.is_idle() {
                tee.leave(number);
                complete.extend(sinks.remove(&number));
                continue;
            }
            let whose =
                Sent { session, classes: &classes, is_on_reservation: on_reservation == Some(number) };
            match &mut sink.to {
                SinkTo::File(slot) => {
                    let Some(part) = slot.take() else { continue };
                    let chunks = tee.take(number, usize::MAX);
                    if chunks.is_empty() {
                        *slot = Some(part);
                    } else {
                        self.writing.begin(Work { of: Of::Outlet(id, number), part, chunks });
                    }
                }
                SinkTo::Tcp(socket, link) => {
                    let chunks = match link {
                        None => Ok(tee.take(number, usize::MAX)),
                        Some(link) => link.take((tee, number), &whose, now_ns),
                    };
                    match chunks {
                        Ok(chunks) if chunks.is_empty() => {}
                        Ok(chunks) => {
                            let socket = Arc::clone(socket);
                            self.sends.begin(serve.core, of, Op::Send { socket, chunks });
                        }
                        Err(is_first) if is_first => serve.core.at(now_ns, COLLECT),
                        Err(_) => {}
                    }
                }
                SinkTo::Live(live) => {
                    let counted = (&*sink.outlet, self.joins.counters());
                    let next_ns = live.write_all((tee, number), counted, now_ns);
                    next_ns.into_iter().for_each(|at_ns| self.pacing.leaves(serve.core, at_ns));
                }
                SinkTo::Datagrams(datagrams) => match datagrams.next((tee, number), &whose, now_ns) {
                    Next::Train(train) => self.sends.begin(serve.core, of, Op::Train(train)),
                    Next::At(at_ns) => self.pacing.leaves(serve.core, at_ns),
                    Next::Granted { is_first: true } => serve.core.at(now_ns, COLLECT),
                    Next::Granted { is_first: false } | Next::Nothing => {}
                },
            }
        }
        let is_over = chain.sinks.is_empty();
        // What was closed before its end is not published, also if it has come to its end since.
        let is_closed = !complete.is_empty() && !chain.has_session(serve.engine.sessions(), now_ns);
        for sink in complete {
            match is_closed {
                true => self.has_ended(sink, OutletState::Ended(SESSION_ENDED.to_owned())),
                false => self.complete(sink),
            }
        }
        if is_over {
            self.end(serve, id, Ending::Complete);
        }
    }

    /// Has datagrams leave whose time has come.
    fn paced(&mut self, serve: &mut Serve<'_>) {
        if !self.pacing.has_come(serve.now_ns()) {
            return;
        }
        let has_datagrams = |chain: &Chain| chain.sinks.values().any(|sink| sink.outlet.takes_packets);
        let paced: Vec<_> =
            self.chains.iter().filter_map(|(id, chain)| has_datagrams(chain).then_some(*id)).collect();
        for id in paced {
            // A poured stream takes what is there at once, so more is to be read.
            self.pump(serve, id);
        }
    }

    /// A call of a writing thread has ended.
    fn worked(&mut self, serve: &mut Serve<'_>, worked: Worked) {
        let Worked { of, part, bytes, result } = worked;
        let (id, number) = match of {
            Of::Outlet(id, number) => (id, number),
            Of::Ended(end) => {
                let how = match result {
                    Ok(()) => OutletState::Complete,
                    Err(error) => OutletState::Ended(plain(&error)),
                };
                return self
                    .completing
                    .remove(&end)
                    .into_iter()
                    .for_each(|sink| self.has_ended(sink, how.clone()));
            }
        };
        let chain = self.chains.get_mut(&id);
        let Some(sink) = chain.and_then(|chain| chain.sinks.get_mut(&number)) else {
            // The outlet was ended meanwhile.
            return self.writing.discard(part);
        };
        sink.to = SinkTo::File(part);
        match result {
            Ok(()) => {
                let late = self.streams.outlet_mut(id).map_or(0, |tee| {
                    tee.set_now(serve.now_ns());
                    tee.sent(number, bytes)
                });
                sink.sent(bytes as u64, late, self.joins.counters());
                self.pump(serve, id);
            }
            Err(error) => self.end_branch(serve, (id, number), OutletState::Ended(plain(&error))),
        }
    }

    /// An operation on the socket of an outlet has ended.
    fn socket_done(&mut self, serve: &mut Serve<'_>, done: Done) {
        let Some((id, number)) = self.sends.ended(done.token) else { return };
        let chain = self.chains.get_mut(&id);
        // The outlet may have been ended meanwhile.
        let Some(chain) = chain else { return };
        let is_replaced = chain.replacing.contains_key(&number);
        let Some(sink) = chain.sinks.get_mut(&number) else { return };
        let bytes = match (done.op, done.result) {
            (Op::Train(train), result) => {
                let SinkTo::Datagrams(datagrams) = &mut sink.to else { return };
                match datagrams.answered(result) {
                    Answer::Sent(bytes) => bytes,
                    Answer::Again => 0,
                    Answer::Full if is_replaced => 0,
                    Answer::Full => {
                        self.joins.counters().waited.fetch_add(1, Ordering::Relaxed);
                        let socket = train.socket;
                        return self.sends.begin(serve.core, (id, number), Op::AwaitWritable { socket });
                    }
                    Answer::Failed(why) => {
                        return self.end_branch(serve, (id, number), OutletState::Ended(why));
                    }
                }
            }
            (Op::Send { .. }, Ok(bytes)) => {
                sink.link_mut().into_iter().for_each(|link| link.sent(bytes));
                bytes
            }
            (Op::Send { socket, .. }, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                sink.link_mut().into_iter().for_each(|link| link.sent(0));
                if !is_replaced {
                    return self.sends.begin(serve.core, (id, number), Op::AwaitWritable { socket });
                }
                0
            }
            // What is wrong with the socket, the next attempt to send says.
            (_, Ok(_)) => 0,
            (_, Err(error)) => {
                let why = format!("its connection has ended: {error}");
                return self.end_branch(serve, (id, number), OutletState::Ended(why));
            }
        };
        let Some(tee) = self.streams.outlet_mut(id) else { return };
        tee.set_now(serve.now_ns());
        let late = tee.sent(number, bytes);
        sink.sent(bytes as u64, late, self.joins.counters());
        self.pump(serve, id);
    }

    /// Ends a branch, and its chain if it was the last one. What it has not completed is removed.
    fn end_branch(&mut self, serve: &mut Serve<'_>, (id, number): (StreamId, u64), how: OutletState) {
        if let Some(tee) = self.streams.outlet_mut(id) {
            tee.leave(number);
        }
        let Some(chain) = self.chains.get_mut(&id) else { return };
        let Some(sink) = chain.sinks.remove(&number) else { return };
        let replacing = chain.replacing.remove(&number);
        let is_last = chain.sinks.is_empty();
        self.has_ended(sink, how);
        replacing.into_iter().for_each(|wanted| self.refuse(wanted, JoinRefused::NoSuchOutlet(number)));
        if is_last {
            self.end(serve, id, Ending::Closed);
        } else {
            // What it held back may be read now.
            self.pump(serve, id);
        }
    }

    /// An outlet was sent all that it gets. Its file is completed.
    fn complete(&mut self, mut sink: Sink) {
        match sink.take_part() {
            Some(part) => {
                self.completed += 1;
                self.completing.insert(self.completed, sink);
                self.writing.begin(Work { of: Of::Ended(self.completed), part, chunks: Vec::new() });
            }
            None => self.has_ended(sink, OutletState::Complete),
        }
    }

    /// An outlet has ended. What it has not completed is removed.
    fn has_ended(&self, sink: Sink, how: OutletState) {
        match &how {
            OutletState::Ended(why) => tracing::info!(to = sink.outlet.to, "an outlet has ended: {why}"),
            _ => {
                self.joins.counters().complete.fetch_add(1, Ordering::Relaxed);
                tracing::info!(to = sink.outlet.to, "an outlet is complete");
            }
        }
        self.writing.discard(sink.ends(how));
    }

    /// Ends a chain, and the outlets that it still has.
    fn end(&mut self, serve: &mut Serve<'_>, id: StreamId, ending: Ending) {
        let why = match ending {
            Ending::Lost => "stored bytes of the title are lost; the log of the server says which",
            Ending::Stopped => "the server stops",
            _ => SESSION_ENDED,
        };
        self.end_because(serve, id, ending, why);
    }

    fn end_because(&mut self, serve: &mut Serve<'_>, id: StreamId, ending: Ending, why: &str) {
        self.streams.close(&[id], serve.engine, ending);
        let Some(chain) = self.chains.remove(&id) else { return };
        for (number, wanted) in chain.replacing {
            self.refuse(wanted, JoinRefused::NoSuchOutlet(number));
        }
        for sink in chain.sinks.into_values() {
            self.has_ended(sink, OutletState::Ended(why.to_owned()));
        }
    }

    /// Looks at all chains: for bytes whose time has come, branches that are slow, outlets that
    /// were removed, and sessions that have ended.
    fn tick(&mut self, serve: &mut Serve<'_>) {
        self.is_ticking = false;
        let (now_ns, is_pressed) = (serve.now_ns(), serve.engine.is_pressed());
        let looks = now_ns.saturating_sub(self.looked_ns) >= SESSION_LOOK_NS;
        if looks {
            self.looked_ns = now_ns;
        }
        for id in self.chains.keys().copied().collect::<Vec<_>>() {
            let Some(chain) = self.chains.get(&id) else { continue };
            if looks && !chain.has_session(serve.engine.sessions(), now_ns) {
                self.end(serve, id, Ending::Closed);
                continue;
            }
            if looks && self.joins.are_forsaken(&chain.session.key(), now_ns) {
                self.end_because(serve, id, Ending::Closed, FORSAKEN);
                continue;
            }
            self.end_unwanted(serve, id);
            self.pump(serve, id);
            self.cut_slow(serve, id, is_pressed);
            if looks && self.gate.learns() {
                self.show_ways(serve, id);
            }
        }
        self.watch(serve);
    }

    /// Shows the uplink the ways to the destinations of a chain.
    fn show_ways(&mut self, serve: &Serve<'_>, id: StreamId) {
        let (Some(tee), Some(chain)) = (self.streams.outlet_mut(id), self.chains.get_mut(&id)) else {
            return;
        };
        let (classes, now_ns) = (serve.engine.units().disks().classes(), serve.now_ns());
        let on_reservation = chain.on_reservation();
        for (number, sink) in &mut chain.sinks {
            if let SinkTo::Tcp(socket, Some(link)) = &mut sink.to {
                let is_on_reservation = on_reservation == Some(*number);
                let whose = Sent { session: &chain.session, classes: &classes, is_on_reservation };
                link.look(&self.gate, socket, (tee.due_ns(*number), &whose), now_ns);
            }
        }
    }

    /// Has branches send what the link has granted them, as long as one of them waits.
    fn collect(&mut self, serve: &mut Serve<'_>) {
        if let Some(look_ns) = self.gate.collect(serve.now_ns()) {
            serve.core.at(look_ns, COLLECT);
        }
        let is_waiting = |chain: &mut Chain| {
            chain.sinks.values_mut().filter_map(Sink::link_mut).any(|link| link.has_turn())
        };
        let waiting: Vec<_> =
            self.chains.iter_mut().filter_map(|(id, chain)| is_waiting(chain).then_some(*id)).collect();
        for id in waiting {
            self.send(serve, id);
        }
    }

    fn end_unwanted(&mut self, serve: &mut Serve<'_>, id: StreamId) {
        let Some(chain) = self.chains.get(&id) else { return };
        for number in chain.unwanted() {
            self.end_branch(serve, (id, number), OutletState::Ended("it was removed".to_owned()));
        }
    }

    fn cut_slow(&mut self, serve: &mut Serve<'_>, id: StreamId, is_pressed: bool) {
        let Some(tee) = self.streams.outlet_mut(id) else { return };
        tee.set_now(serve.now_ns());
        for (number, kept_by) in tee.too_slow(is_pressed) {
            self.joins.counters().cut.fetch_add(1, Ordering::Relaxed);
            let why = match kept_by {
                KeptBy::Destination => {
                    "its destination was too slow: it kept others waiting for longer than it may"
                }
                KeptBy::Link => {
                    "the network had no time for it: it kept others waiting for longer than it may; open a session for this destination alone"
                }
            };
            self.end_branch(serve, (id, number), OutletState::Ended(why.to_owned()));
        }
    }

    fn watch(&mut self, serve: &mut Serve<'_>) {
        if !self.is_ticking && !self.chains.is_empty() {
            self.is_ticking = true;
            serve.core.at(serve.now_ns() + JOIN_TICK_NS, TICK);
        }
    }
}

impl Protocol for JoinThread {
    fn connected(&mut self, _: &mut Serve<'_>, _: Accepted) {}

    fn turned_away(&mut self, _: &mut Serve<'_>, _: OwnedFd, _: usize, _: NoPlace) {}

    fn opened(&mut self, _: &mut Serve<'_>, _: u64, _: OpenResult) {}

    fn done(&mut self, serve: &mut Serve<'_>, done: Done) {
        self.socket_done(serve, done);
    }

    fn timer(&mut self, serve: &mut Serve<'_>, token: u64) {
        match token {
            COLLECT => self.collect(serve),
            PACED => self.paced(serve),
            _ => self.tick(serve),
        }
    }

    fn ready(&mut self, serve: &mut Serve<'_>, tag: u64) {
        self.pump(serve, StreamId(tag));
    }

    fn lost(&mut self, serve: &mut Serve<'_>, tag: u64) {
        self.end(serve, StreamId(tag), Ending::Lost);
    }

    fn woken(&mut self, serve: &mut Serve<'_>) {
        while let Some(wanted) = self.joins.take_wanted() {
            self.begin(serve, wanted);
        }
        while let Some(worked) = self.writing.next_worked() {
            self.worked(serve, worked);
        }
        for id in self.chains.keys().copied().collect::<Vec<_>>() {
            self.end_unwanted(serve, id);
        }
    }

    fn drain(&mut self, serve: &mut Serve<'_>) {
        self.joins.stops();
        while let Some(wanted) = self.joins.take_wanted() {
            self.refuse(wanted, JoinRefused::Stopping);
        }
        for id in self.chains.keys().copied().collect::<Vec<_>>() {
            self.end(serve, id, Ending::Stopped);
        }
    }

    /// A file that has come to its end is completed.
    fn has_drained(&self) -> bool {
        self.completing.is_empty()
    }

    fn cut_off_all(&mut self, _: &mut Serve<'_>) {}

    /// Chains of all sessions share one state, so every panic ends the work of the thread.
    fn title_of(&self, step: Step) -> Option<String> {
        let Step::Delivery(tag) = step else { return None };
        self.chains.get(&StreamId(tag)).map(|chain| chain.session.title_id().to_owned())
    }
}
