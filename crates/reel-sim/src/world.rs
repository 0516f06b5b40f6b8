//! The simulation: one thread, one clock, one event after another.

use crate::client::{Player, Touch, Want};
use crate::core::{Core, Outcome, Request};
use crate::desk::{Desk, Seat, Terms};
use crate::disks::SimDisks;
use crate::fault::{Fault, FaultSpan};
use crate::journal::{Deed, Happened, Journal};
use crate::limits::{
    CLOSES_PERMILLE, INTERACTIVE_DEADLINE_NS, LEDGER_CHECK_SECONDS, PREFETCH_EVERY_NS, RECOVERY_NS,
    SEGMENT_NS,
};
use crate::probe;
use crate::report::{Broken, Report};
use crate::rng::Rng;
use crate::scale::{self, MEMBER_SCALE, OBJECT_SCALE, ROW_BYTES, UNIT_BYTES};
use crate::scenario::Scenario;
use crate::shelf::{Shelf, Title};
use crate::writer::Writer;
use anyhow::{Context, Result};
use reel_arena::{Arena, ArenaConfig};
use reel_disk::{DepthBound, DiskBackend, Disks, DisksConfig};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, Class, DEADLINE_NONE_NS, DiskPrice, MemberCapacity, Resource, UNLIMITED};
use reel_stream::{Due, Units};
use reel_volume::{Health, MemberUse};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A simulated server with its disks and clients.
pub struct World {
    scenario: Scenario,
    start_ns: u64,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    next_event: u64,
    shelf: Arc<Shelf>,
    disks: Arc<SimDisks>,
    arena: Arena,
    core: Core,
    clients: Vec<Client>,
    writer: Writer,
    desk: Desk,
    faults: Vec<FaultSpan>,
    fault: Option<FaultSpan>,
    mended_ns: u64,
    journal: Journal,
    outcomes: Vec<(u32, Outcome)>,
    report: Report,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client wants to look at the time.
    Wake { client: u32, turn: u32 },
    /// A person does something.
    Touch { client: u32, visit: u32 },
    /// Bytes have arrived.
    Sent { client: u32, visit: u32 },
    /// Every second.
    Second,
    /// Ten times a second.
    Prefetch,
    /// At the border of every round.
    Round,
    /// A fault begins.
    Fault { number: u32 },
    /// The fault that is ends.
    Mend,
}

struct Client {
    kind: Kind,
    rng: Rng,
    bytes_per_s: u64,
    /// Changes whenever an older wake means nothing any more.
    turn: u32,
    /// Changes whenever what is under way means nothing any more.
    visit: u32,
    asked_ns: u64,
    seat: Option<Seat>,
}

enum Kind {
    Viewer(Player),
    Browser,
    Bulk,
}

const SECOND_NS: u64 = 1_000_000_000;

impl World {
    /// Makes the world of a scenario.
    pub fn new(scenario: Scenario) -> Result<World> {
        let seed = Rng::new(scenario.seed);
        let geometry =
            scale::geometry(scenario.members, scenario.data_rows).context("the scenario's geometry")?;
        let member_units = scenario.device.bytes() / scale::REAL_UNIT_BYTES;
        let shelf = Arc::new(Shelf::new(geometry, member_units, scenario.titles, &mut seed.part(2)));
        // A clock that has run for a while and is at no border of a round.
        let start_ns = seed.part(3).range(1_000_000_000_000, 2_000_000_000_000);
        let depth = DepthBound::default();
        // Devices count real bytes, so their queue's bound in bytes is that much smaller here.
        let depth = DepthBound { bytes: depth.bytes / MEMBER_SCALE as usize, ..depth };
        let real_price = probe::price(&scenario.device, depth.requests, &seed.part(4));
        let prices: Vec<DiskPrice> = vec![scale::simulated_price(real_price); scenario.members];
        let config = DisksConfig { depth, policy: scenario.policy, prices, ..DisksConfig::default() };
        let devices = (0..scenario.members)
            .map(|member| scenario.device.make(seed.part(100 + member as u64)))
            .collect();
        let disks = Arc::new(SimDisks::new(devices, &config, Arc::clone(&shelf), start_ns));
        let arena = Arena::new(ArenaConfig {
            buffer_bytes: UNIT_BYTES,
            buffer_count: scenario.buffers,
            cells_per_buffer: 1,
            huge_pages: false,
        })?;
        let uses = std::iter::repeat_n(MemberUse::InUse, scenario.members);
        let health = Health::tolerating(uses, geometry.parity_rows());
        let backend = Arc::clone(&disks) as Arc<dyn DiskBackend>;
        let handle = Disks::with_backend(backend);
        let units = Units::new(arena.clone(), handle.clone(), health.clone(), scenario.buffers / 16);
        let clients = clients(&scenario, &seed.part(5));
        let core = Core::new(units, clients.len());
        let end_ns = start_ns + scenario.duration_ns;
        let faults = scenario.faults.draw(
            scenario.members,
            start_ns + 20 * SECOND_NS,
            end_ns,
            scenario.fault_rest_ns,
            &mut seed.part(6),
        );
        let writer = Writer::new(handle, arena.clone(), Arc::clone(&shelf), health, seed.part(7));
        let capacities = capacities(&scenario, config.prices[0]);
        let desk = Desk::new(&scenario, capacities, &shelf).map_err(anyhow::Error::msg)?;
        let mut world = World {
            scenario,
            start_ns,
            now_ns: start_ns,
            events: BinaryHeap::new(),
            next_event: 0,
            shelf,
            disks,
            arena,
            core,
            clients,
            writer,
            desk,
            faults,
            fault: None,
            mended_ns: 0,
            journal: Journal::default(),
            outcomes: Vec::new(),
            report: Report::default(),
        };
        world.set_off(&mut seed.part(8));
        Ok(world)
    }

    /// Runs to the end of the scenario, or to the first broken invariant.
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

    /// Goes on to the next event; `false` at the end.
    fn step(&mut self, end_ns: u64) -> Result<bool, String> {
        let event_ns = self.events.peek().map(|Reverse((at_ns, ..))| *at_ns);
        let disk_ns = self.disks.next_ns();
        let due_ns = self.core.next_due_ns();
        let Some(at_ns) =
            [event_ns, disk_ns, due_ns].into_iter().flatten().min().filter(|at_ns| *at_ns <= end_ns)
        else {
            return Ok(false);
        };
        // What should have been looked at before is looked at now.
        let at_ns = at_ns.max(self.now_ns);
        self.now_ns = at_ns;
        self.report.steps += 1;
        self.disks.advance(at_ns)?;
        if due_ns.is_some_and(|due_ns| due_ns <= at_ns) {
            self.core.overdue(at_ns);
        }
        if event_ns == Some(at_ns)
            && let Some(Reverse((_, _, event))) = self.events.pop()
        {
            self.handle(event)?;
        }
        self.settle()?;
        self.keeps_deadlines()?;
        Ok(true)
    }

    /// No unit that was read for an admitted viewer, or ahead of one, came after its deadline.
    fn keeps_deadlines(&mut self) -> Result<(), String> {
        let counters = self.core.fetcher.units().counters();
        let misses = counters.deadline_misses[Class::PERIODIC.index()].load(Ordering::Relaxed);
        // Requests that were made late are due soon; a member that has a fault cannot be held to those.
        let healthy = self.fault.is_none() && self.now_ns > self.mended_ns + RECOVERY_NS;
        let promised = self.scenario.admission || self.scenario.strict;
        if misses > self.report.deadline_misses && healthy && promised {
            return Err("a unit for an admitted stream came after its deadline".to_owned());
        }
        self.report.deadline_misses = misses;
        Ok(())
    }

    /// Deals with everything that follows from the event at once.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let mut outcomes = std::mem::take(&mut self.outcomes);
            let some = self.core.turn(self.now_ns, &mut outcomes)? | self.writer.turn(self.now_ns)?;
            for (client, outcome) in outcomes.drain(..) {
                self.came(client, outcome)?;
            }
            if self.outcomes.is_empty() {
                self.outcomes = outcomes;
            }
            self.disks.turn();
            if !some && self.outcomes.is_empty() {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Wake { client, turn } if self.clients[client as usize].turn == turn => self.wake(client),
            Event::Touch { client, visit } if self.clients[client as usize].visit == visit => {
                self.touch(client)
            }
            Event::Sent { client, visit } if self.clients[client as usize].visit == visit => {
                let outcome = self.core.sent(client, self.now_ns)?;
                outcome.map_or(Ok(()), |outcome| self.came(client, outcome))
            }
            Event::Wake { .. } | Event::Touch { .. } | Event::Sent { .. } => Ok(()),
            Event::Second => self.second(),
            Event::Prefetch => {
                self.core.relieve_pressure();
                self.core.prefetch(self.now_ns);
                self.at(self.now_ns + PREFETCH_EVERY_NS, Event::Prefetch);
                Ok(())
            }
            Event::Round => {
                self.at(self.now_ns + ROUND_NS, Event::Round);
                let robbed = self.disks.round_ended().filter(|_| self.scenario.keeps_shares());
                robbed.map_or(Ok(()), Err)
            }
            Event::Fault { number } => {
                self.begin_fault(self.faults[number as usize]);
                Ok(())
            }
            Event::Mend => {
                self.mend();
                Ok(())
            }
        }
    }

    /// A client looks at the time.
    fn wake(&mut self, number: u32) -> Result<(), String> {
        if self.core.is_busy(number) {
            return Ok(());
        }
        let client = &mut self.clients[number as usize];
        match &mut client.kind {
            Kind::Viewer(player) if player.title().is_none() => {
                let title = player.choose(&self.shelf);
                self.open(number, title)
            }
            Kind::Viewer(_) => self.go_on(number),
            Kind::Browser => {
                let title = self.shelf.choose(&mut client.rng);
                let rows = title.map.bytes() / ROW_BYTES as u64;
                let row = client.rng.below(rows);
                let end = (row + client.rng.range(1, 5)).min(rows);
                let range = row * ROW_BYTES as u64..end * ROW_BYTES as u64;
                let (title, due) = (Arc::clone(title), Due::After(INTERACTIVE_DEADLINE_NS));
                self.ask(number, title, range, (Class::INTERACTIVE, due, None))
            }
            Kind::Bulk => {
                let title = Arc::clone(self.shelf.choose(&mut client.rng));
                let range = 0..title.map.bytes();
                self.ask(number, title, range, (Class::APERIODIC, Due::After(DEADLINE_NONE_NS), None))
            }
        }
    }

    fn open(&mut self, number: u32, title: Arc<Title>) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        match self.desk.open(number, &title, self.now_ns) {
            Ok(seat) => client.seat = Some(seat),
            Err(_) => {
                self.report.refused += 1;
                self.deed(number, Deed::Refused, title.number as u64);
                self.leave(number);
                return Ok(());
            }
        }
        let opened = title.number as u64;
        player.open(title);
        client.visit += 1;
        let (at_ns, visit) = (player.next_touch_ns(self.now_ns), client.visit);
        self.at(at_ns, Event::Touch { client: number, visit });
        self.report.opened += 1;
        self.deed(number, Deed::Opens, opened);
        self.go_on(number)
    }

    /// A viewer with nothing under way does what it wants next.
    fn go_on(&mut self, number: u32) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        match player.want(self.now_ns) {
            Want::Segment(segment) => {
                let Some(title) = player.title().cloned() else { return Ok(()) };
                let Some(seat) = client.seat.clone() else { return Ok(()) };
                let Ok(Terms { class, due, due_ns, plan }) = self.desk.ask(&seat, segment, self.now_ns)
                else {
                    self.report.refused += 1;
                    self.deed(number, Deed::Refused, title.number as u64);
                    self.leave(number);
                    return Ok(());
                };
                self.core.plan(seat.key(), plan);
                self.deed(number, Deed::Asks, segment as u64);
                let promised_ns = (class == Class::PERIODIC).then_some(due_ns);
                self.ask(number, title.clone(), title.segment(segment), (class, due, promised_ns))
            }
            Want::Sleep(at_ns) => {
                client.turn += 1;
                let turn = client.turn;
                self.at(at_ns, Event::Wake { client: number, turn });
                Ok(())
            }
            Want::Leave => {
                self.leave(number);
                Ok(())
            }
        }
    }

    fn ask(
        &mut self,
        number: u32,
        title: Arc<Title>,
        range: std::ops::Range<u64>,
        (class, due, promised_ns): (Class, Due, Option<u64>),
    ) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        client.asked_ns = self.now_ns;
        let request = Request { title, range, class, due, promised_ns, bytes_per_s: client.bytes_per_s };
        let outcome = self.core.begin(number, request, self.now_ns)?;
        outcome.map_or(Ok(()), |outcome| self.came(number, outcome))
    }

    /// Something came of what a client asked for.
    fn came(&mut self, number: u32, outcome: Outcome) -> Result<(), String> {
        let client = &mut self.clients[number as usize];
        match outcome {
            Outcome::Sends(until_ns) => {
                let visit = client.visit;
                self.at(until_ns, Event::Sent { client: number, visit });
                Ok(())
            }
            Outcome::Late(late_ns) => {
                let Kind::Viewer(player) = &client.kind else { return Ok(()) };
                let segment = player.next_segment() as u64;
                self.report.late_units += 1;
                self.deed(number, Deed::Late, segment);
                if !self.scenario.admission && !self.scenario.strict {
                    return Ok(());
                }
                let late_us = late_ns / 1000;
                Err(format!(
                    "segment {segment} of client {number} came into memory {late_us} us after it was due"
                ))
            }
            Outcome::Failed(why) => {
                self.deed(number, Deed::Fails, 0);
                Err(format!("client {number} cannot be given what is stored: {why}"))
            }
            Outcome::Done => match &mut client.kind {
                Kind::Viewer(_) => self.has(number),
                Kind::Browser => {
                    let took_ns = self.now_ns - client.asked_ns;
                    let at_ns = self.now_ns + 1 + client.rng.wait_ns(self.scenario.browse_ns);
                    client.turn += 1;
                    let turn = client.turn;
                    self.report.browsed(took_ns);
                    self.at(at_ns, Event::Wake { client: number, turn });
                    Ok(())
                }
                Kind::Bulk => {
                    self.report.downloads += 1;
                    client.turn += 1;
                    let turn = client.turn;
                    self.at(self.now_ns + SECOND_NS, Event::Wake { client: number, turn });
                    Ok(())
                }
            },
        }
    }

    /// A viewer has a whole segment.
    fn has(&mut self, number: u32) -> Result<(), String> {
        let (now_ns, client) = (self.now_ns, &mut self.clients[number as usize]);
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        let segment = player.next_segment() as u64;
        self.report.segments += 1;
        let began = player.begins();
        let late_ns = player.has(now_ns);
        if began {
            self.report.started(now_ns - client.asked_ns);
        }
        self.deed(number, if began { Deed::Plays } else { Deed::Has }, segment);
        if let Some(late_ns) = late_ns {
            self.late(number, segment, late_ns)?;
        }
        self.go_on(number)
    }

    fn late(&mut self, number: u32, segment: u64, late_ns: u64) -> Result<(), String> {
        self.deed(number, Deed::Stalls, segment);
        self.report.stalls += 1;
        self.report.stalled_ns += late_ns;
        if !self.scenario.admission && !self.scenario.strict {
            return Ok(());
        }
        let late_us = late_ns / 1000;
        Err(format!(
            "client {number} stood still for {late_us} us before segment {segment}: an admitted stream is late"
        ))
    }

    /// A person does something to a player.
    fn touch(&mut self, number: u32) -> Result<(), String> {
        let now_ns = self.now_ns;
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return Ok(()) };
        let touch = player.touch(now_ns);
        let segment = player.next_segment() as u64;
        let at_ns = player.next_touch_ns(now_ns);
        if matches!(touch, Touch::Seek | Touch::Stop) {
            self.core.cancel(number);
            client.visit += 1;
        }
        let visit = client.visit;
        match touch {
            Touch::Pause => self.deed(number, Deed::Pauses, segment),
            Touch::Resume => self.deed(number, Deed::Resumes, segment),
            Touch::Seek => self.deed(number, Deed::Seeks, segment),
            Touch::Skip => self.deed(number, Deed::Skips, segment),
            Touch::Stop => {
                self.leave(number);
                return Ok(());
            }
        }
        self.at(at_ns, Event::Touch { client: number, visit });
        if self.core.is_busy(number) { Ok(()) } else { self.go_on(number) }
    }

    fn leave(&mut self, number: u32) {
        let client = &mut self.clients[number as usize];
        let Kind::Viewer(player) = &mut client.kind else { return };
        let title = player.title().map_or(0, |title| title.number as u64);
        if let Some(seat) = client.seat.take()
            && client.rng.permille(CLOSES_PERMILLE)
        {
            self.desk.close(&seat);
        }
        let at_ns = player.leave(self.now_ns);
        client.visit += 1;
        client.turn += 1;
        let turn = client.turn;
        self.deed(number, Deed::Leaves, title);
        self.at(at_ns, Event::Wake { client: number, turn });
    }

    /// What is looked after every second: writers, and the invariants that nobody's request would show.
    fn second(&mut self) -> Result<(), String> {
        self.at(self.now_ns + SECOND_NS, Event::Second);
        for _ in 0..self.scenario.ingest_stripes_per_s {
            self.writer.ingest();
        }
        if let Some(starved) = self.disks.starved() {
            return Err(starved);
        }
        self.keeps_within_memory()?;
        self.keeps_promises()?;
        let mut late = None;
        let mut viewing = 0;
        for (number, client) in self.clients.iter().enumerate() {
            if let Kind::Viewer(player) = &client.kind {
                viewing += u64::from(player.title().is_some());
                // One that stands still for longer is found here even if its segment never comes.
                late = late.or(player
                    .late_ns(self.now_ns)
                    .filter(|ns| *ns > SEGMENT_NS)
                    .map(|ns| (number, player, ns)));
            }
        }
        self.report.viewing_most = self.report.viewing_most.max(viewing);
        if let Some((number, player, late_ns)) = late
            && (self.scenario.admission || self.scenario.strict)
        {
            let segment = player.next_segment() as u64;
            return self.late(number as u32, segment, late_ns);
        }
        Ok(())
    }

    fn keeps_promises(&mut self) -> Result<(), String> {
        if !self.scenario.admission {
            return Ok(());
        }
        self.desk.tend(self.now_ns);
        for used in self.desk.usage(self.now_ns) {
            if used.peak_used > used.capacity {
                let (resource, round) = (used.resource, used.peak_round);
                return Err(format!("more is promised of {resource} in round {round} than there is"));
            }
            if let Resource::Member(_) = used.resource {
                let permille = used.used * 1000 / used.capacity.max(1);
                self.report.promised_most_permille = self.report.promised_most_permille.max(permille);
            }
        }
        // It takes as long as promising everything anew, so not every second.
        let second = (self.now_ns - self.start_ns) / SECOND_NS;
        if second.is_multiple_of(LEDGER_CHECK_SECONDS) && !self.desk.adds_up() {
            return Err("the ledger is not the sum of its reservations".to_owned());
        }
        Ok(())
    }

    fn keeps_within_memory(&mut self) -> Result<(), String> {
        let budget = self.core.fetcher.units().budget();
        if budget.reserved() > budget.total() {
            return Err(format!("{} buffers are reserved of {}", budget.reserved(), budget.total()));
        }
        let taken = self.arena.usage().buffers_taken;
        self.report.buffers_most = self.report.buffers_most.max(taken as u64);
        if taken > self.scenario.buffers {
            return Err(format!("{taken} buffers are taken of {}", self.scenario.buffers));
        }
        Ok(())
    }

    fn begin_fault(&mut self, span: FaultSpan) {
        // The one before may have to wait for its rebuild.
        if self.fault.is_none() {
            self.report.faults += 1;
            self.fault = Some(span);
            for member in self.struck(span) {
                self.disks.set_fault(member, Some(FaultSpan { member, ..span }));
            }
            if span.fault == Fault::Replaced {
                self.writer.rebuild(span.member);
            }
            self.at(span.until_ns, Event::Mend);
        }
    }

    fn mend(&mut self) {
        let Some(span) = self.fault else { return };
        if span.fault == Fault::Replaced && self.disks.blank_units(span.member) > 0 {
            return self.at(self.now_ns + SECOND_NS, Event::Mend);
        }
        self.struck(span).for_each(|member| self.disks.set_fault(member, None));
        self.mended_ns = self.now_ns;
        let health = self.core.fetcher.units().health();
        if !health.readable(span.member) {
            // Nothing was written to titles meanwhile, so it holds all it should.
            if health.member(span.member) == MemberUse::Out {
                health.begin_to_rebuild(span.member, "back");
            }
            health.rebuilt(span.member);
        }
        self.fault = None;
    }

    /// The members that a fault strikes.
    fn struck(&self, span: FaultSpan) -> impl Iterator<Item = usize> + use<> {
        let members = self.scenario.members;
        (0..self.scenario.members_at_fault).map(move |next| (span.member + next) % members)
    }

    /// Everything that happens by itself.
    fn set_off(&mut self, rng: &mut Rng) {
        for number in 0..self.clients.len() as u32 {
            let at_ns = self.now_ns + rng.below(60 * SECOND_NS);
            self.at(at_ns, Event::Wake { client: number, turn: 0 });
        }
        for number in 0..self.faults.len() {
            self.at(self.faults[number].from_ns, Event::Fault { number: number as u32 });
        }
        self.at(self.now_ns + SECOND_NS, Event::Second);
        self.at(self.now_ns + PREFETCH_EVERY_NS, Event::Prefetch);
        self.at(self.now_ns.next_multiple_of(ROUND_NS), Event::Round);
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.events.push(Reverse((at_ns, self.next_event, event)));
        self.next_event += 1;
    }

    fn deed(&mut self, client: u32, what: Deed, number: u64) {
        self.journal.note(self.now_ns, Happened::Client { client, what, number });
    }

    fn reported(mut self) -> Report {
        let disks = self.disks.journal();
        let counters = self.core.fetcher.units().counters();
        self.report.digest = self.journal.digest() ^ disks.digest().rotate_left(1);
        self.report.happened = self.journal.entries() + disks.entries();
        self.report.simulated_ns = self.now_ns - self.start_ns;
        self.report.units_read = counters.reads.load(Ordering::Relaxed);
        self.report.shares_looked_at = self.disks.shares_looked_at();
        self.report.prefetched = self.core.prefetched();
        self.report.units_shared =
            counters.hits.load(Ordering::Relaxed) + counters.joins.load(Ordering::Relaxed);
        self.report.rows_decoded = self.shelf.counters.rows_decoded.get();
        self.report.reads = self.disks.stats().iter().map(|stats| stats.reads).sum();
        self.report.writes = self.disks.stats().iter().map(|stats| stats.writes).sum();
        self.report
    }

    fn broken(&self, what: String) -> Broken {
        let disks = self.disks.journal();
        let mut story: Vec<(u64, Happened)> = self.journal.last().chain(disks.last()).collect();
        story.sort_by_key(|(at_ns, _)| *at_ns);
        Broken {
            what,
            seed: self.scenario.seed,
            start_ns: self.start_ns,
            at_ns: self.now_ns,
            fault: self.fault,
            story,
        }
    }
}

/// What there is to promise.
fn capacities(scenario: &Scenario, price: DiskPrice) -> Capacities {
    Capacities {
        members: vec![MemberCapacity { price, round_ns: ROUND_NS }; scenario.members],
        network_bytes: UNLIMITED,
        core_ns: UNLIMITED,
        core_mib_ns: 0,
        arena_bytes: (scenario.buffers - scenario.buffers / 16) as u64 * UNIT_BYTES as u64,
    }
}

fn clients(scenario: &Scenario, seed: &Rng) -> Vec<Client> {
    let viewers = (0..scenario.viewers).map(|_| None::<Kind>);
    let others = (0..scenario.browsers)
        .map(|_| Some(Kind::Browser))
        .chain((0..scenario.bulks).map(|_| Some(Kind::Bulk)));
    let make = |(number, kind): (usize, Option<Kind>)| {
        let mut rng = seed.part(number as u64);
        let link_bps = match kind {
            Some(Kind::Bulk) => scenario.bulk_bps,
            _ => rng.range(scenario.link_bps.0, scenario.link_bps.1 + 1),
        };
        let kind = kind.unwrap_or_else(|| Kind::Viewer(Player::new(scenario.player, rng.part(1))));
        let bytes_per_s = (link_bps / 8 / OBJECT_SCALE).max(1);
        Client { kind, rng, bytes_per_s, turn: 0, visit: 0, asked_ns: 0, seat: None }
    };
    viewers.chain(others).enumerate().map(make).collect()
}
