//! A thread that plays bodies: a mailbox and a loop.

use reel_cache::{
    Arrival, Body, Due, Fetched, Fetcher, Inbox, Prefetcher, PromisedBuffers, Reader, ReaderState, Units,
};
use reel_disk::DiskDone;
use reel_qos::{Class, DEADLINE_NONE_NS};
use reel_ring::Chunk;
use reel_testkit::Rng;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// When a read is due that nothing makes late while the clock of a core stands.
pub const IN_TIME_NS: u64 = 1_000_000_000;

/// One thread with its fetcher, its readers and its clock.
pub struct Core {
    /// Its reads.
    pub fetcher: Fetcher,
    arrivals: Receiver<Arrival>,
    /// Members whose answers are held back, and those answers. So how late a member is does not
    /// depend on the machine.
    silent: HashSet<usize>,
    withheld: Vec<DiskDone>,
    /// Units that came for a prefetcher.
    pub prefetched: Vec<Fetched>,
    viewers: HashMap<u64, Viewer>,
    next_viewer: u64,
    /// Viewers that take nothing.
    stopped: HashSet<u64>,
    rng: Rng,
    /// What the last sends hold until the sockets have taken it.
    sending: Vec<Chunk>,
    /// Deadlines and misses are counted from here.
    pub now_ns: u64,
    /// The most buffers that one of the core's readers held.
    pub most_held: usize,
    /// Bytes that a client takes in a turn; `None` for a random number.
    pub pace: Option<usize>,
    /// The most turns in which one of the core's clients found nothing to take.
    pub most_late: usize,
}

/// How the clients of a core behave, as chances in a hundred per turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientBehaviour {
    /// The client leaves.
    pub vanish: u64,
    /// The client takes nothing, and its memory is taken back.
    pub stall: u64,
}

/// How many of a core's viewers ended in which way.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Viewers that took all bytes.
    pub complete: usize,
    /// Viewers that left.
    pub vanished: usize,
    /// Viewers whose bytes could not be read.
    pub lost: usize,
}

struct Viewer {
    reader: Reader,
    expected: Vec<u8>,
    got: usize,
    late: usize,
}

/// An inbox that another thread can fill.
pub struct ArrivalSender(pub Sender<Arrival>);

impl Core {
    /// A core without viewers.
    pub fn new(units: &Units, seed: u64) -> Core {
        let (sender, arrivals) = channel();
        let post = Arc::new(ArrivalSender(sender));
        let fetcher = Fetcher::new(units.clone(), post);
        let rng = Rng::new(seed);
        let (viewers, sending) = (HashMap::new(), Vec::new());
        let prefetched = Vec::new();
        let (next_viewer, now_ns, most_held, pace, most_late) = (0, 0, 0, None, 0);
        Core {
            fetcher,
            arrivals,
            silent: HashSet::new(),
            withheld: Vec::new(),
            prefetched,
            viewers,
            next_viewer,
            stopped: HashSet::new(),
            rng,
            sending,
            now_ns,
            most_held,
            pace,
            most_late,
        }
    }

    /// A viewer of `body`, which must be these bytes.
    pub fn watch(&mut self, body: Body, expected: Vec<u8>) -> u64 {
        self.watch_in_class(body, expected, Class::PERIODIC, 1)
    }

    /// The same, due long after the moment at which the clock of the core stands. So no read is
    /// late and read around, however slow the machine is: for tests that count reads.
    pub fn watch_in_time(&mut self, body: Body, expected: Vec<u8>) -> u64 {
        self.watch_in_class(body, expected, Class::PERIODIC, IN_TIME_NS)
    }

    /// The same in a class, with each read due after this time.
    pub fn watch_in_class(&mut self, body: Body, expected: Vec<u8>, class: Class, due_ns: u64) -> u64 {
        self.watch_due(body, expected, class, Due::After(due_ns))
    }

    /// The same with other due times.
    pub fn watch_due(&mut self, body: Body, expected: Vec<u8>, class: Class, due: Due) -> u64 {
        let number = self.next_viewer;
        self.next_viewer += 1;
        assert_eq!(body.bytes(), expected.len() as u64);
        self.watch_by(Reader::new(body, class, due, number).in_runs(), expected)
    }

    /// A viewer of a segment that plays on, as others do.
    pub fn watch_on(&mut self, body: Body, expected: Vec<u8>, due: Due, reads_on: bool) -> u64 {
        let number = self.next_viewer;
        self.next_viewer += 1;
        self.watch_by(Reader::new(body, Class::PERIODIC, due, number).reading_on(reads_on), expected)
    }

    /// A viewer of `body` with promised memory.
    pub fn watch_promised(
        &mut self,
        body: Body,
        expected: Vec<u8>,
        due: Due,
        promised: Option<Arc<PromisedBuffers>>,
    ) -> u64 {
        let number = self.next_viewer;
        self.next_viewer += 1;
        self.watch_by(Reader::new(body, Class::PERIODIC, due, number).promised(promised), expected)
    }

    /// From now on no answer of `member` arrives, although the member gives it.
    pub fn hold(&mut self, member: usize) {
        self.silent.insert(member);
    }

    /// [`Core::hold`], for every member.
    pub fn hold_all(&mut self) {
        self.silent.extend(0..self.members());
    }

    /// The answers of `member` that were held back arrive now. From now on it answers as before.
    pub fn release(&mut self, member: usize) {
        self.silent.remove(&member);
        let (come, withheld): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.withheld).into_iter().partition(|done| done.member == member);
        self.withheld = withheld;
        for done in come {
            // The answer of a disk is for the fetcher alone. Its results are read in the next turn.
            assert!(self.fetcher.arrived(Arrival::Disk(done), self.now_ns).is_none());
        }
    }

    /// [`Core::release`], for every member.
    pub fn release_all(&mut self) {
        (0..self.members()).for_each(|member| self.release(member));
    }

    fn members(&self) -> usize {
        self.fetcher.units().disks().members()
    }

    /// The client of a viewer has gone.
    pub fn leave(&mut self, viewer: u64) {
        self.viewers.remove(&viewer);
    }

    fn watch_by(&mut self, reader: Reader, expected: Vec<u8>) -> u64 {
        let number = reader.connection();
        self.viewers.insert(number, Viewer { reader, expected, got: 0, late: 0 });
        number
    }

    /// A download of `body`: it is due at no fixed time.
    pub fn download(&mut self, body: Body, expected: Vec<u8>) -> u64 {
        self.watch_in_class(body, expected, Class::APERIODIC, DEADLINE_NONE_NS)
    }

    /// From now on the client takes nothing.
    pub fn stop_taking(&mut self, viewer: u64) {
        self.stopped.insert(viewer);
    }

    /// Takes back the memory of viewers that take nothing, as a server does.
    pub fn release_stopped(&mut self) {
        for viewer in &self.stopped {
            if let Some(viewer) = self.viewers.get_mut(viewer) {
                viewer.reader.release(&self.fetcher);
            }
        }
    }

    /// Whether a viewer has not ended.
    pub fn is_watching(&self, viewer: u64) -> bool {
        self.viewers.contains_key(&viewer)
    }

    /// Plays until every viewer has ended. Panics when nothing has changed for long: that is a
    /// deadlock.
    pub fn play(&mut self, behaviour: ClientBehaviour) -> Ends {
        let mut ends = Ends::default();
        let mut moved = Instant::now();
        while !self.viewers.is_empty() {
            if self.turn(behaviour, &mut ends) {
                moved = Instant::now();
            }
            assert!(moved.elapsed() < Duration::from_secs(120), "nothing moves: {}", self.state());
        }
        self.sending.clear();
        ends
    }

    /// Takes turns until the condition holds. Panics when that takes long.
    pub fn wait_until(&mut self, behaviour: ClientBehaviour, mut is_so: impl FnMut(&Core) -> bool) {
        let until = Instant::now() + Duration::from_secs(120);
        while !is_so(self) {
            self.turn(behaviour, &mut Ends::default());
            assert!(Instant::now() < until, "the condition does not become true: {}", self.state());
        }
    }

    /// Every viewer takes what there is, once. `true` if anything changed.
    pub fn turn(&mut self, behaviour: ClientBehaviour, ends: &mut Ends) -> bool {
        let mut moved = self.take_arrivals(ends);
        self.fetcher.retry(self.now_ns);
        if self.fetcher.next_due_ns().is_some_and(|due_ns| due_ns <= self.now_ns) {
            self.fetcher.overdue(self.now_ns);
        }
        self.sending.clear();
        let mut numbers: Vec<u64> = self.viewers.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            moved |= self.step(number, behaviour, ends);
        }
        if !moved {
            // Memory may come free on another core, without an event for this one.
            if let Ok(arrivals) = self.arrivals.recv_timeout(Duration::from_millis(1)) {
                self.take(arrivals, ends);
                moved = true;
            }
        }
        moved
    }

    /// Waits until all requested units have come: as if reads took no time.
    pub fn settle(&mut self, ends: &mut Ends) {
        self.sending.clear();
        self.fetcher.retry(self.now_ns);
        while self.fetcher.in_flight() > 0 {
            if !self.take_arrivals(ends)
                && let Ok(arrival) = self.arrivals.recv_timeout(Duration::from_secs(10))
            {
                self.take(arrival, ends);
            }
            self.fetcher.retry(self.now_ns);
        }
        self.take_arrivals(ends);
    }

    fn step(&mut self, number: u64, behaviour: ClientBehaviour, ends: &mut Ends) -> bool {
        let Some(viewer) = self.viewers.get_mut(&number) else { return false };
        if self.rng.permille(behaviour.vanish * 10) {
            self.viewers.remove(&number);
            ends.vanished += 1;
            return true;
        }
        if self.stopped.contains(&number) {
            viewer.reader.give_back_early(&self.fetcher);
            return false;
        }
        if self.rng.permille(behaviour.stall * 10) {
            viewer.reader.release(&self.fetcher);
            return false;
        }
        // As a server does with clients that wait for their sockets.
        viewer.reader.give_back_early(&self.fetcher);
        let state = viewer.reader.fill(&mut self.fetcher, self.now_ns);
        self.most_held = self.most_held.max(viewer.reader.held_buffers());
        match state {
            ReaderState::Done => {
                assert_eq!(viewer.got, viewer.expected.len());
                self.viewers.remove(&number);
                ends.complete += 1;
                true
            }
            ReaderState::Ready => {
                let chunks = viewer.reader.chunks(usize::MAX);
                let offered: usize = chunks.iter().map(|chunk| chunk.len()).sum();
                assert!(offered > 0, "a reader is ready but has no bytes");
                let some = 1 + self.rng.below(offered as u64) as usize;
                let taken = self.pace.map_or(some, |pace| pace.min(offered));
                let mut left = taken;
                for chunk in &chunks {
                    let part = &chunk[..left.min(chunk.len())];
                    assert!(part == &viewer.expected[viewer.got..viewer.got + part.len()], "wrong bytes");
                    viewer.got += part.len();
                    left -= part.len();
                }
                viewer.reader.advance(taken as u64);
                // As a server does: a reader that has just given memory back takes the next at once
                // if it may.
                viewer.reader.fill(&mut self.fetcher, self.now_ns);
                self.most_held = self.most_held.max(viewer.reader.held_buffers());
                self.sending.extend(chunks);
                true
            }
            ReaderState::AwaitUnits | ReaderState::AwaitMemory => {
                viewer.late += 1;
                self.most_late = self.most_late.max(viewer.late);
                false
            }
        }
    }

    fn take_arrivals(&mut self, ends: &mut Ends) -> bool {
        let mut any = false;
        while let Some(arrival) = self.fetcher.next_own().or_else(|| self.arrivals.try_recv().ok()) {
            self.take(arrival, ends);
            any = true;
        }
        any
    }

    fn take(&mut self, arrival: Arrival, ends: &mut Ends) {
        let arrival = match arrival {
            Arrival::Disk(done) if self.silent.contains(&done.member) => return self.withheld.push(done),
            arrival => arrival,
        };
        let Some(fetched) = self.fetcher.arrived(arrival, self.now_ns) else { return };
        if Prefetcher::is_for_prefetch(fetched.connection) {
            return self.prefetched.push(fetched);
        }
        let Some(viewer) = self.viewers.get_mut(&fetched.connection) else { return };
        if let Err(error) = viewer.reader.fetched(&fetched) {
            println!("lost: {error}");
            self.viewers.remove(&fetched.connection);
            ends.lost += 1;
        }
    }

    fn state(&self) -> String {
        let budget = self.fetcher.units().budget();
        let states: Vec<ReaderState> = self.viewers.values().map(|viewer| viewer.reader.state()).collect();
        format!(
            "{states:?}; {} of {} reserved, {} waiting for memory, fetches waiting: {}, {} reads under way",
            budget.reserved(),
            budget.total(),
            budget.waiting_readers(),
            self.fetcher.has_waiting_fetches(),
            self.fetcher.in_flight()
        )
    }
}

impl Inbox for ArrivalSender {
    fn post(&self, arrival: Arrival) {
        let _ = self.0.send(arrival);
    }
}
