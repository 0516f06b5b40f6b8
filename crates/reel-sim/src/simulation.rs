//! The simulation: one thread, one clock, one event after another.

mod checks;
mod client_actions;
mod clients;
mod ending;
mod faults;
mod maintenance;
mod mounted;
mod nfs_readers;

use crate::capacity::Capacity;
use crate::casts::Casts;
use crate::changes::{self, Change};
use crate::cooperative_threads::CooperativeThreads;
use crate::core::{Core, Outcome};
use crate::disks::SimDisks;
use crate::fault::FaultSpan;
use crate::journal::{ClientAction, Journal, JournalEvent};
use crate::library::Library;
use crate::limits::{CRASH_REST_NS, SCRUB_REST_NS};
use crate::maintenance::Maintenance;
use crate::pours::Pourers;
use crate::probe;
use crate::report::{Broken, Report};
use crate::scale::{self, MEMBER_SCALE, REAL_UNIT_BYTES, UNIT_BYTES};
use crate::scenario::Scenario;
use crate::sessions::ClientSessions;
use crate::stored_titles::StoredTitles;
use anyhow::{Context, Result};
use clients::{Client, lanes, make_clients};
use reel_arena::Arena;
use reel_cache::{Depth, Units};
use reel_disk::{DepthBound, Disks, DisksConfig, MeasuredPrice, MemberFile};
use reel_play::PlayCounters;
use reel_qos::limits::ROUND_NS;
use reel_testkit::Rng;
use reel_volume::limits::{MAINTENANCE_STRIPES, WRITER_STRIPES_IN_FLIGHT};
use reel_volume::{ArenaBudget, CooperativeWait, OpenOptions, Simulated, Volume};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use tempfile::TempDir;

/// A simulated server with its disks and clients.
pub struct Simulation {
    scenario: Scenario,
    start_ns: u64,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    next_event: u64,
    stored: Arc<StoredTitles>,
    disks: Arc<SimDisks>,
    arena: Arena,
    core: Core,
    clients: Vec<Client>,
    maintenance: Maintenance,
    /// Where the volume keeps what is in files; removed with the simulation.
    directory: TempDir,
    rng: Rng,
    /// Changes of the catalogue of which it is decided whether the server might stop in them.
    changes_seen: u64,
    sessions: ClientSessions,
    casts: Casts,
    pourers: Pourers,
    capacity: Capacity,
    counters: Arc<PlayCounters>,
    changes: Vec<(u64, Change)>,
    faults: Vec<FaultSpan>,
    fault: Option<FaultSpan>,
    /// Whether its member is as it was, but for what it holds.
    fault_over: bool,
    repaired_ns: u64,
    journal: Journal,
    outcomes: Vec<(u32, Outcome)>,
    report: Report,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client checks the time.
    Wake { client: u32, turn: u32 },
    /// A viewer controls its player.
    PlayerControl { client: u32, generation: u32 },
    /// Bytes have arrived.
    Sent { lane: u32, generation: u32 },
    /// Every second.
    Second,
    /// At the border of every round.
    Round,
    /// A fault begins.
    Fault { number: u32 },
    /// The fault that is ends.
    Repair,
    /// The removed member gets a replacement.
    Replace,
    /// A device or the classes change.
    Change { number: u32 },
    /// The server might stop now; whether it does so repeatedly.
    Crash { again: bool },
    /// All that is stored is verified.
    Scrub,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Simulation {
    /// Makes the simulation of a scenario.
    ///
    /// # Errors
    /// The scenario's geometry is not valid, its volume cannot be made, filled or opened, a title
    /// is longer than can be promised, or a thread cannot be started.
    pub fn new(scenario: Scenario) -> Result<Simulation> {
        let seed = Rng::new(scenario.seed);
        let geometry =
            scale::geometry(scenario.members, scenario.data_rows).context("the scenario's geometry")?;
        let depth = DepthBound::default();
        let real_price = probe::price(&scenario.device.without_tail(), depth.requests, &seed.part(4));
        let price = scale::simulated_price(real_price);
        let given = scenario.given(price);
        let ahead = Depth::of(given.price.is_rotational());
        let library = Library::make(geometry, &scenario.titles, ahead, &mut seed.part(2))?;
        let Library { directory, stored, media, units } = library;
        // A clock that has run for a while and is at no border of a round.
        let start_ns = seed.part(3).range(1_000_000_000_000, 2_000_000_000_000);
        let config = disks_config(&scenario, given, depth);
        let devices = (0..scenario.members).map(|member| scenario.make_device(member, &seed)).collect();
        let media = (media, units, scenario.device.bytes() / REAL_UNIT_BYTES);
        let disks = Arc::new(SimDisks::new(devices, &config, media, Arc::clone(&stored), start_ns));
        let threads = CooperativeThreads::new(start_ns);
        let bytes = scenario.buffers * UNIT_BYTES;
        let volume = Volume::open(directory.path(), open_options(&disks, threads.clock(), bytes))?;
        let (arena, units) = (volume.arena().clone(), shared_units(&volume));
        let clients = make_clients(&scenario, &seed.part(5));
        let end_ns = start_ns + scenario.duration_ns;
        let faults = faults_of(&scenario, start_ns, &mut seed.part(6));
        let maintenance = Maintenance::new(volume, threads);
        let arena_bytes = units.budget().promisable() as u64 * UNIT_BYTES as u64;
        let capacity = Capacity::new(price, units.disks(), arena_bytes, &scenario);
        let sessions = ClientSessions::new(&scenario, capacity.capacities(), &units);
        let counters = Arc::new(PlayCounters::new(&[]));
        let lanes = clients.len() * lanes::LANES as usize;
        let core = Core::new(units, Arc::clone(sessions.for_engine()), Arc::clone(&counters), lanes);
        let core = core.through(capacity.uplink());
        let casts =
            Casts::new(&scenario.casts, stored.titles(), ahead).context("the casts of the scenario")?;
        let pourers = Pourers::new(&scenario.pours, stored.titles(), &seed.part(12), start_ns);
        let changes = scenario
            .change_rest_ns
            .map(|rest_ns| changes::draw(scenario.members, start_ns, end_ns, rest_ns, &mut seed.part(9)));
        let mut simulation = Simulation {
            scenario,
            start_ns,
            now_ns: start_ns,
            events: BinaryHeap::new(),
            next_event: 0,
            stored,
            disks,
            arena,
            core,
            clients,
            maintenance,
            directory,
            rng: seed.part(10),
            changes_seen: 0,
            sessions,
            casts,
            pourers,
            capacity,
            counters,
            changes: changes.unwrap_or_default(),
            faults,
            fault: None,
            fault_over: false,
            repaired_ns: 0,
            journal: Journal::default(),
            outcomes: Vec::new(),
            report: Report::default(),
        };
        simulation.schedule_first_events(&mut seed.part(8));
        if let Some(stripes_per_s) = Some(simulation.scenario.ingest_stripes_per_s).filter(|rate| *rate > 0) {
            simulation.maintenance.ingest(stripes_per_s, seed.part(7))?;
        }
        Ok(simulation)
    }

    /// Runs to the end of the scenario, or to the first broken invariant.
    ///
    /// # Errors
    /// An invariant broke: which one, when, and what happened before.
    pub fn run(mut self) -> Result<Report, Box<Broken>> {
        let end_ns = self.start_ns + self.scenario.duration_ns;
        loop {
            match self.step(end_ns) {
                Ok(true) => {}
                Ok(false) => break,
                Err(what) => return Err(Box::new(self.broken(what))),
            }
        }
        Ok(self.reported())
    }

    /// Continues with the next event; `false` at the end.
    fn step(&mut self, end_ns: u64) -> Result<bool, String> {
        let event_ns = self.events.peek().map(|Reverse((at_ns, ..))| *at_ns);
        let disk_ns = self.disks.next_ns();
        let due_ns = self.core.engine.next_tick_ns();
        let turn_ns = self.maintenance.next_ns();
        let cast_ns = self.casts.next_ns(self.now_ns);
        let pour_ns = self.pourers.next_ns();
        let Some(at_ns) = [event_ns, disk_ns, due_ns, turn_ns, cast_ns, pour_ns]
            .into_iter()
            .flatten()
            .min()
            .filter(|at_ns| *at_ns <= end_ns)
        else {
            return Ok(false);
        };
        // What should have been looked at before is looked at now.
        let at_ns = at_ns.max(self.now_ns);
        self.now_ns = at_ns;
        self.report.steps += 1;
        self.disks.advance(at_ns)?;
        if due_ns.is_some_and(|due_ns| due_ns <= at_ns) {
            self.core.engine.tick(at_ns);
        }
        if event_ns == Some(at_ns)
            && let Some(Reverse((_, _, event))) = self.events.pop()
        {
            self.handle(event)?;
        }
        self.settle()?;
        self.maybe_crash_in_commit();
        self.keeps_deadlines()?;
        Ok(true)
    }

    /// Deals with everything that follows from the event at once.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let mut outcomes = std::mem::take(&mut self.outcomes);
            let some = self.core.turn(self.now_ns, &mut outcomes)?
                | self.maintenance.turn(self.now_ns)?
                | self.send_casts()?
                | self.pour()?;
            for (client, outcome) in outcomes.drain(..) {
                self.handle_outcome(client, outcome)?;
            }
            if self.outcomes.is_empty() {
                self.outcomes = outcomes;
            }
            self.disks.turn()?;
            if !some && self.outcomes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sends what is due of casts. Those that were admitted are as punctual as viewers are
    /// promised.
    fn send_casts(&mut self) -> Result<bool, String> {
        let has_arrived = self.core.take_cast_event();
        let served = (&mut self.core.engine, &mut self.sessions);
        let late = self.report.casts.late_packets;
        let some = self.casts.turn(served, has_arrived, self.now_ns, &mut self.report.casts)?;
        if self.report.casts.late_packets > late && self.is_promised() {
            return Err(format!("packets of a cast are late: {}", self.report.casts));
        }
        Ok(some)
    }

    /// Has programs pour, and their viewers get what has come. Who was admitted and has caught up
    /// once is never late again, whatever programs do.
    fn pour(&mut self) -> Result<bool, String> {
        let late_bytes = self.report.pours.late_bytes;
        let served = (&mut self.core, &mut self.sessions);
        let some = self.pourers.turn(served, self.now_ns, &mut self.report.pours)?;
        if self.report.pours.late_bytes > late_bytes && self.is_promised() {
            return Err(format!("bytes of a poured stream are late: {}", self.report.pours));
        }
        Ok(some)
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Wake { client, turn } if self.clients[client as usize].turn == turn => self.wake(client),
            Event::PlayerControl { client, generation }
                if self.clients[client as usize].generation == generation =>
            {
                self.touch(client)
            }
            Event::Sent { lane, generation }
                if self.clients[lanes::client(lane) as usize].generation == generation =>
            {
                let outcome = self.core.sent(lane, self.now_ns)?;
                outcome.map_or(Ok(()), |outcome| self.handle_outcome(lane, outcome))
            }
            Event::Wake { .. } | Event::PlayerControl { .. } | Event::Sent { .. } => Ok(()),
            Event::Second => self.second(),
            Event::Round => {
                self.at(self.now_ns + ROUND_NS, Event::Round);
                self.refresh_capacity();
                let taken = self.disks.round_ended().filter(|_| self.scenario.keeps_shares());
                taken.map_or(Ok(()), Err)
            }
            Event::Fault { number } => self.begin_fault(self.faults[number as usize]),
            Event::Repair => self.repair(),
            Event::Replace => self.replace(),
            Event::Crash { again } => self.crash(again),
            Event::Scrub => self.scrub(),
            Event::Change { number } => self.change(number as usize),
        }
    }

    /// Tells the ledger what has changed, as the server's housekeeping does.
    fn refresh_capacity(&mut self) {
        let disks = self.core.engine.units().disks();
        self.capacity.refresh(disks, &self.sessions, &self.counters, self.now_ns);
    }

    /// Everything that happens by itself.
    fn schedule_first_events(&mut self, rng: &mut Rng) {
        for number in 0..self.clients.len() as u32 {
            let at_ns = self.now_ns + rng.below(60 * SECOND_NS);
            self.at(at_ns, Event::Wake { client: number, turn: 0 });
        }
        for number in 0..self.faults.len() {
            self.at(self.faults[number].from_ns, Event::Fault { number: number as u32 });
        }
        for number in 0..self.changes.len() {
            self.at(self.changes[number].0, Event::Change { number: number as u32 });
        }
        if self.scenario.crashes {
            let crash_ns = self.now_ns + self.rng.wait_ns(CRASH_REST_NS);
            self.at(crash_ns, Event::Crash { again: true });
        }
        if self.scenario.scrubs {
            let scrub_ns = self.now_ns + self.rng.wait_ns(SCRUB_REST_NS);
            self.at(scrub_ns, Event::Scrub);
        }
        self.at(self.now_ns + SECOND_NS, Event::Second);
        self.at(self.now_ns.next_multiple_of(ROUND_NS), Event::Round);
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.events.push(Reverse((at_ns, self.next_event, event)));
        self.next_event += 1;
    }

    fn note_action(&mut self, client: u32, what: ClientAction, number: u64) {
        self.journal.note(self.now_ns, JournalEvent::Client { client, what, number });
    }
}

/// How the simulated disks are set up, at this price of each.
fn disks_config(scenario: &Scenario, given: MeasuredPrice, depth: DepthBound) -> DisksConfig {
    DisksConfig {
        // Devices count real bytes, so their queue's bound in bytes is that much smaller here.
        depth: DepthBound { bytes: depth.bytes / MEMBER_SCALE as usize, ..depth },
        policy: scenario.policy,
        prices: vec![given; scenario.members],
        ..DisksConfig::default()
    }
}

/// The table of units over the memory of a volume. As the server does, it sets buffers aside: for
/// one ingest with its checksums and what it is read from, one decoding, and maintenance.
fn shared_units(volume: &Volume) -> Units {
    let stripes = WRITER_STRIPES_IN_FLIGHT + 8 + 1 + MAINTENANCE_STRIPES;
    let spare_buffers = stripes * volume.geometry().width();
    Units::new(volume.arena().clone(), volume.disks().clone(), volume.health().clone(), spare_buffers)
}

/// The faults of a run. The first seconds have none, so that some viewers have been admitted.
fn faults_of(scenario: &Scenario, start_ns: u64, rng: &mut Rng) -> Vec<FaultSpan> {
    let end_ns = start_ns + scenario.duration_ns;
    let (members, rest_ns) = (scenario.members, scenario.fault_rest_ns);
    scenario.faults.draw(members, start_ns + 20 * SECOND_NS, end_ns, rest_ns, rng)
}

/// A volume on simulated disks.
fn open_options(disks: &Arc<SimDisks>, turns: Arc<dyn CooperativeWait>, bytes: usize) -> OpenOptions {
    let disks = Arc::clone(disks);
    let open = move |files: Vec<Option<MemberFile>>| {
        disks.opened(files);
        Arc::clone(&disks) as Disks
    };
    OpenOptions {
        arena: ArenaBudget { bytes, huge_pages: false },
        simulated: Some(Simulated { disks: Arc::new(open), turns }),
        ..OpenOptions::default()
    }
}
