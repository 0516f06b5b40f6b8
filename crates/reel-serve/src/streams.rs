//! Streams in sets: one call serves many.
//!
//! The calls are those of the MARS stream API (Buddhikot and others, WUCS-97-38): open, read, send,
//! both at once, state, close. A stream has a chain of bytes that were read and that its reader
//! still holds or has to get. It sends them to its [`Outlet`].
//!
//! ```text
//!   Reader --read--> chain [.. offered, not done with ..|.. not offered ..] --send--> Outlet
//!     ^------------------ what its reader is done with ----------------------------------'
//! ```
//! Bytes count as sent only when the outlet's reader is done with them. So the memory that a chain
//! holds is reserved all the time.

mod step;

pub use step::StepOpening;

use reel_admit::Session;
use reel_arena::mms::Ending;
use reel_cache::Body;
use reel_cache::limits::SEND_BYTES_MAX;
use reel_play::{DeliveryId, DeliveryPolicy, Engine, NetworkPath, NewDelivery, Playable, Readiness};
use reel_qos::Class;
use reel_ring::Chunk;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use step::{InStep, Step};

/// A stream of a set. Its number is never used again for another stream. It is also the connection
/// under which its units are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// The destination of a stream.
pub trait Outlet {
    /// Takes a message, or its beginning, and returns how many bytes it took; 0 if it has no room.
    fn offer(&mut self, message: &Offer<'_>) -> u64;

    /// The same for a message of a stream in step, whose first byte has this media time.
    fn offer_in_step(&mut self, message: &Offer<'_>, _shown_ns: u64) -> u64 {
        self.offer(message)
    }

    /// The clock of a stream in step was moved: all that was offered, and what follows, is due so
    /// much later.
    fn clock_moved(&mut self, _by_ns: u64) {}

    /// How many bytes its reader has finished with since the last call.
    ///
    /// # Errors
    /// Why the stream must end.
    fn done_bytes(&mut self) -> Result<u64, Ending>;

    /// Everything that could be offered was offered. `more` says whether more will come. Returns
    /// what to do next.
    fn settle(&mut self, more: bool) -> Settled;

    /// No more bytes are offered. `true` if its reader is to be woken.
    fn end(&mut self, ending: Ending) -> bool;
}

/// A message on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Its bytes.
    pub chunk: &'a Chunk,
    /// The position of its first byte in the stream.
    pub position: u64,
    /// When that byte is due, or `u64::MAX`.
    pub due_ns: u64,
}

/// What an outlet wants after a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Its reader waits and is to be woken.
    pub ring: bool,
    /// There is room again already: send once more.
    pub again: bool,
}

/// How a stream begins.
pub struct Opening<T, O> {
    /// The session that it belongs to, if there is one.
    pub session: Option<Arc<Session<T>>>,
    /// What is streamed.
    pub body: Body,
    /// The position of its first byte in the stream, which is not 0 if it begins later.
    pub position: u64,
    /// How it is delivered.
    pub policy: DeliveryPolicy,
    /// Most bytes that its chain holds; bounded by [`SEND_BYTES_MAX`].
    pub chain_bytes_max: usize,
    /// The outlet that it is sent to.
    pub outlet: O,
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// Bytes that were read and that the reader has not finished with.
    pub chain_bytes: u64,
    /// Bytes among those that were offered to the outlet and taken.
    pub offered_bytes: u64,
    /// Bytes that the reader has finished with.
    pub done_bytes: u64,
    /// Bytes to come, including those of the chain.
    pub left_bytes: u64,
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Streams whose readers are to be woken.
    pub ring: Vec<StreamId>,
    /// Streams whose readers finished with bytes, and how many bytes.
    pub done: Vec<(StreamId, u64)>,
    /// Streams that have ended, and why.
    pub ended: Vec<(StreamId, Ending)>,
}

/// The streams of one core.
pub struct Streams<O> {
    streams: BTreeMap<StreamId, Stream<O>>,
    next: u64,
    /// The clocks of sets in step.
    steps: BTreeMap<u64, Step>,
    next_step: u64,
}

struct Stream<O> {
    delivery: DeliveryId,
    outlet: O,
    /// Bytes that the reader has finished with, and bytes to come.
    done_bytes: u64,
    left_bytes: u64,
    first_position: u64,
    chain: VecDeque<Chunk>,
    chain_bytes: u64,
    /// Bytes of the chain that were offered, from its front.
    offered_bytes: u64,
    chain_bytes_max: u64,
    /// All of it was offered, and the outlet was informed.
    complete: bool,
    /// More of it is to be appended.
    grows: bool,
    /// Set if it is in step with others.
    in_step: Option<InStep>,
}

impl<O: Outlet> Default for Streams<O> {
    fn default() -> Self {
        Self { streams: BTreeMap::new(), next: 0, steps: BTreeMap::new(), next_step: 0 }
    }
}

impl<O: Outlet> Streams<O> {
    /// Opens streams. Nothing is read yet.
    pub fn open<T: Playable>(
        &mut self,
        engine: &mut Engine<T>,
        set: impl IntoIterator<Item = Opening<T, O>>,
        now_ns: u64,
    ) -> Vec<StreamId> {
        set.into_iter().map(|opening| self.open_one(engine, opening, now_ns)).collect()
    }

    /// Requests what comes next for each stream, and appends to its chain what has come. Never
    /// waits.
    pub fn read<T: Playable>(&mut self, set: &[StreamId], engine: &mut Engine<T>, now_ns: u64) {
        for id in set {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.read(engine, now_ns);
            }
        }
    }

    /// Offers each stream's chain to its outlet, and drops what its reader has finished with. Never
    /// waits.
    pub fn send<T: Playable>(&mut self, set: &[StreamId], engine: &mut Engine<T>, now_ns: u64) -> Batch {
        let mut batch = Batch::default();
        self.keep_step(set, engine, &mut batch, now_ns);
        for id in set {
            if let Some(stream) = self.streams.get_mut(id).filter(|_| !batch.has_ended(*id)) {
                stream.send(*id, &self.steps, engine, &mut batch, now_ns);
            }
        }
        batch
    }

    /// Reads and sends for each stream, in turn, until there is nothing more to do at once.
    pub fn read_send<T: Playable>(&mut self, set: &[StreamId], engine: &mut Engine<T>, now_ns: u64) -> Batch {
        let mut batch = Batch::default();
        self.keep_step(set, engine, &mut batch, now_ns);
        for id in set {
            let stream = self.streams.get_mut(id).filter(|_| !batch.has_ended(*id));
            let Some(stream) = stream else { continue };
            for _ in 0..ROUNDS_MAX {
                // What readers have finished with makes room for reading more.
                let done = stream.let_go(*id, engine, &mut batch, now_ns);
                stream.read(engine, now_ns);
                if !done || !stream.send(*id, &self.steps, engine, &mut batch, now_ns) {
                    break;
                }
            }
        }
        batch
    }

    /// The state of each stream; `None` for one that is closed.
    pub fn state(&self, set: &[StreamId]) -> Vec<Option<StreamState>> {
        set.iter().map(|id| self.streams.get(id).map(Stream::state)).collect()
    }

    /// Ends streams. Reads under way for them are finished for other readers that joined them, and
    /// are withdrawn otherwise. `true` for a stream whose reader is to be woken.
    pub fn close<T: Playable>(
        &mut self,
        set: &[StreamId],
        engine: &mut Engine<T>,
        ending: Ending,
    ) -> Vec<bool> {
        let mut end = |id: &StreamId| {
            self.streams.remove(id).is_some_and(|mut stream| {
                if let Some(in_step) = &stream.in_step {
                    self.leave_step(*id, in_step.step);
                }
                // The outlet first: its reader must be told before the memory is used again.
                let ring = stream.outlet.end(ending);
                engine.close(stream.delivery);
                ring
            })
        };
        set.iter().map(&mut end).collect()
    }

    /// Changes how many bytes the chains of streams may hold, from now on.
    pub fn resize(&mut self, set: &[StreamId], chain_bytes_max: usize) {
        for id in set {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.chain_bytes_max = chain_bytes_max.min(SEND_BYTES_MAX) as u64;
            }
        }
    }

    /// The body of a stream is still being made: the stream continues with
    /// [`Streams::append`], and ends after [`Streams::complete`].
    pub fn stay_open<T: Playable>(&mut self, id: StreamId, engine: &mut Engine<T>) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.grows = true;
            engine.stay_open(stream.delivery);
        }
    }

    /// Whether all that was made of a stream was offered, and more is to be appended.
    pub fn awaits_more(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(|stream| stream.grows && stream.offered_bytes == stream.left_bytes)
    }

    /// More of a stream that is still being made; see [`Engine::append`].
    pub fn append<T: Playable>(
        &mut self,
        id: StreamId,
        engine: &mut Engine<T>,
        more: Body,
        class: Class,
        due_ns: Option<u64>,
    ) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.left_bytes += more.bytes();
            engine.append(stream.delivery, more, class, due_ns);
        }
    }

    /// All of a stream was made.
    pub fn complete<T: Playable>(&mut self, id: StreamId, engine: &mut Engine<T>) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.grows = false;
            engine.complete(stream.delivery);
        }
    }

    /// All streams.
    pub fn ids(&self) -> Vec<StreamId> {
        self.streams.keys().copied().collect()
    }

    /// How many streams there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are no streams.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The outlet of a stream.
    pub fn outlet_mut(&mut self, id: StreamId) -> Option<&mut O> {
        self.streams.get_mut(&id).map(|stream| &mut stream.outlet)
    }

    fn open_one<T: Playable>(
        &mut self,
        engine: &mut Engine<T>,
        opening: Opening<T, O>,
        now_ns: u64,
    ) -> StreamId {
        let Opening { session, body, position, policy, chain_bytes_max, outlet } = opening;
        let delivery = NewDelivery {
            tag: 0,
            session,
            policy,
            body,
            preamble_bytes: 0,
            file_offset: position,
            // A chain holds what it was given until its reader has finished with it: a long run
            // would hold much memory for long.
            in_runs: false,
            path: NetworkPath::Local,
        };
        self.insert(engine, delivery, outlet, chain_bytes_max, None, now_ns)
    }

    fn insert<T: Playable>(
        &mut self,
        engine: &mut Engine<T>,
        delivery: NewDelivery<T>,
        outlet: O,
        chain_bytes_max: usize,
        in_step: Option<InStep>,
        now_ns: u64,
    ) -> StreamId {
        let id = StreamId(self.next);
        self.next += 1;
        let (left_bytes, first_position) = (delivery.body.bytes(), delivery.file_offset);
        let stream = Stream {
            delivery: engine.open(NewDelivery { tag: id.0, ..delivery }, now_ns),
            outlet,
            done_bytes: 0,
            left_bytes,
            first_position,
            chain: VecDeque::new(),
            chain_bytes: 0,
            offered_bytes: 0,
            chain_bytes_max: chain_bytes_max.min(SEND_BYTES_MAX) as u64,
            complete: false,
            grows: false,
            in_step,
        };
        self.streams.insert(id, stream);
        id
    }
}

/// How many times one stream is served in a row if its reader frees bytes as fast as it gets them.
/// After that it is the next stream's turn.
const ROUNDS_MAX: usize = 4;

impl<O: Outlet> Stream<O> {
    fn read<T: Playable>(&mut self, engine: &mut Engine<T>, now_ns: u64) {
        if engine.fill(self.delivery, now_ns) != Some(Readiness::Ready) {
            return;
        }
        let mut skip_bytes = self.chain_bytes;
        for chunk in engine.chunks(self.delivery) {
            let bytes = chunk.len() as u64;
            if skip_bytes >= bytes {
                skip_bytes -= bytes;
                continue;
            }
            if self.chain_bytes >= self.chain_bytes_max {
                break;
            }
            // The cast fits: less than the length of a chunk.
            let chunk = tail(&chunk, skip_bytes as usize);
            skip_bytes = 0;
            self.chain_bytes += chunk.len() as u64;
            self.chain.push_back(chunk);
        }
    }

    /// Drops what the reader has finished with. `false` if the stream has ended.
    fn let_go<T: Playable>(
        &mut self,
        id: StreamId,
        engine: &mut Engine<T>,
        batch: &mut Batch,
        now_ns: u64,
    ) -> bool {
        let bytes = match self.outlet.done_bytes() {
            Ok(bytes) if bytes <= self.offered_bytes => bytes,
            Ok(_) => {
                batch.ended.push((id, Ending::BadCounter));
                return false;
            }
            Err(ending) => {
                batch.ended.push((id, ending));
                return false;
            }
        };
        if bytes == 0 {
            return true;
        }
        let mut left = bytes;
        while left > 0 {
            let Some(chunk) = self.chain.pop_front() else { break };
            let whole = chunk.len() as u64;
            if whole > left {
                // The cast fits: less than the length of a chunk.
                self.chain.push_front(tail(&chunk, left as usize));
                break;
            }
            left -= whole;
        }
        self.chain_bytes -= bytes;
        self.offered_bytes -= bytes;
        self.done_bytes += bytes;
        self.left_bytes -= bytes;
        if let Some(in_step) = &mut self.in_step {
            in_step.let_go(self.done_bytes, now_ns);
        }
        engine.taken(self.delivery, bytes, now_ns);
        batch.done.push((id, bytes));
        true
    }

    /// Offers what was not offered yet. `true` if there was room again at once.
    fn send<T: Playable>(
        &mut self,
        id: StreamId,
        steps: &BTreeMap<u64, Step>,
        engine: &mut Engine<T>,
        batch: &mut Batch,
        now_ns: u64,
    ) -> bool {
        if !self.let_go(id, engine, batch, now_ns) {
            return false;
        }
        let step = self.in_step.as_ref().and_then(|in_step| steps.get(&in_step.step));
        let mut start = 0;
        'chain: for chunk in &self.chain {
            let bytes = chunk.len() as u64;
            while self.offered_bytes < start + bytes {
                // The cast fits: less than the length of a chunk.
                let rest = tail(chunk, (self.offered_bytes - start) as usize);
                let offset = self.done_bytes + self.offered_bytes;
                let taken = match (&mut self.in_step, step) {
                    (Some(in_step), Some(step)) => in_step.offer(step, &rest, offset, &mut self.outlet),
                    _ => {
                        let position = self.first_position + offset;
                        let due_ns = engine.due_ns(self.delivery, offset).unwrap_or(u64::MAX);
                        self.outlet.offer(&Offer { chunk: &rest, position, due_ns })
                    }
                };
                let taken = taken.min(rest.len() as u64);
                if taken == 0 {
                    break 'chain;
                }
                self.offered_bytes += taken;
            }
            start += bytes;
        }
        let more = self.grows || self.offered_bytes < self.left_bytes;
        let mut settled = self.outlet.settle(more);
        if !more && !self.complete {
            self.complete = true;
            settled.ring |= self.outlet.end(Ending::Complete);
        }
        if settled.ring && !batch.ring.contains(&id) {
            batch.ring.push(id);
        }
        if self.left_bytes == 0 && !self.grows {
            batch.ended.push((id, Ending::Complete));
            return false;
        }
        settled.again
    }

    fn state(&self) -> StreamState {
        StreamState {
            chain_bytes: self.chain_bytes,
            offered_bytes: self.offered_bytes,
            done_bytes: self.done_bytes,
            left_bytes: self.left_bytes,
        }
    }
}

/// A chunk without its first bytes.
fn tail(chunk: &Chunk, skip: usize) -> Chunk {
    match chunk {
        Chunk::Lease(lease) => Chunk::Lease(lease.slice(skip..lease.len())),
        Chunk::Bytes(bytes, range) => Chunk::Bytes(Arc::clone(bytes), range.start + skip..range.end),
    }
}

/// The first bytes of a chunk.
fn front(chunk: &Chunk, bytes: usize) -> Chunk {
    match chunk {
        Chunk::Lease(lease) => Chunk::Lease(lease.slice(0..bytes)),
        Chunk::Bytes(shared, range) => Chunk::Bytes(Arc::clone(shared), range.start..range.start + bytes),
    }
}
