//! The cost of the ledger's decisions: `cargo run --release -p reel-qos --example decisions
//! [reservations]`.
//!
//! Titles of three hours and variable rate on five members, and 10,000 reservations, each somewhere
//! in its title. Then each decision many times, where there is room and where there is none.
#![allow(clippy::unwrap_used, reason = "an experiment that cannot continue should stop")]

use reel_qos::{
    Capacities, Class, Demand, DiskDemand, DiskPrice, Ledger, MemberCapacity, ReservationId, Starts,
    UNLIMITED,
};
use reel_testkit::Rng;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const FILMS: usize = 40;
const MEMBERS: usize = 5;
const FILM_ROUNDS: usize = 3 * 3600;
const TIMELINE_ROUNDS: usize = 86_400;
const TIMES: usize = 500;
const UNIT_BYTES: u64 = 264 << 10;

fn main() {
    let wanted: usize = std::env::args().nth(1).map_or(10_000, |count| count.parse().unwrap());
    let mut rng = Rng::new(7);
    let titles: Vec<Arc<Demand>> = (0..FILMS).map(|_| Arc::new(title(&mut rng))).collect();
    let mut ledger = Ledger::new(plenty(), TIMELINE_ROUNDS);
    ledger.advance(1_000_000);
    let now_round = ledger.now_round();
    let mut held: Vec<ReservationId> = Vec::new();
    for _ in 0..wanted {
        let from_round = rng.below(FILM_ROUNDS as u64 * 19 / 20) as usize;
        let title = &titles[rng.below(FILMS as u64) as usize];
        held.push(ledger.admit(Class::PERIODIC, title, from_round, now_round, "a viewer").unwrap());
    }
    println!(
        "{} reservations; titles of {FILM_ROUNDS} rounds, {:.1} Mb/s on average; {MEMBERS} members; timelines of {TIMELINE_ROUNDS} rounds",
        held.len(),
        titles[0].average_bps() as f64 / 1e6,
    );
    println!("{:<58}{:>9}{:>9}{:>9}", "", "p50 us", "p99 us", "max us");

    where_there_is_room(&mut ledger, &titles, &mut rng);
    where_there_is_none(&mut ledger, &titles);
    new_prices_and_rounds(&mut ledger);
}

fn where_there_is_room(ledger: &mut Ledger, titles: &[Arc<Demand>], rng: &mut Rng) {
    let now_round = ledger.now_round();
    let mut admit = Times::new("admit, from the start of a title");
    let mut release = Times::new("release it");
    let mut check = Times::new("check, admitting nothing");
    let mut seek = Times::new("change: a seek");
    for turn in 0..TIMES {
        let title = &titles[turn % FILMS];
        check.time(|| ledger.check(Class::PERIODIC, title, 0, now_round).unwrap());
        let id = admit.time(|| ledger.admit(Class::PERIODIC, title, 0, now_round + 2, "a viewer").unwrap());
        let to = rng.below(FILM_ROUNDS as u64 / 2) as usize;
        seek.time(|| ledger.change(id, title, to, now_round + 2).unwrap());
        assert!(ledger.release(id));
        let id = ledger.admit(Class::PERIODIC, title, 0, now_round + 2, "a viewer").unwrap();
        release.time(|| assert!(ledger.release(id)));
    }
    let mut how_many = Times::new("how many more, together");
    let mut spread = Times::new("how many more, spread");
    let mut usage = Times::new("usage of everything");
    for turn in 0..TIMES {
        let title = &titles[turn % FILMS];
        how_many.time(|| ledger.how_many(Class::PERIODIC, title, Starts::Together).unwrap());
        spread.time(|| ledger.how_many(Class::PERIODIC, title, Starts::Spread).unwrap());
        usage.time(|| ledger.usage(now_round));
    }
    for times in [admit, release, check, seek, how_many, spread, usage] {
        times.print();
    }
}

/// Members that are full in their fullest round, then full more and more often.
fn where_there_is_none(ledger: &mut Ledger, titles: &[Arc<Demand>]) {
    let now_round = ledger.now_round();
    let usages = ledger.usage(now_round);
    for permille in [1000, 999, 950, 800, 500] {
        let mut tight = plenty();
        for (member, capacity) in tight.members.iter_mut().enumerate() {
            let peak = usages[usages.len() - MEMBERS + member].peak_used;
            capacity.round_ns = peak * permille / 700;
        }
        let started = Instant::now();
        let over = ledger.set_capacities(tight);
        let set_us = started.elapsed().as_micros();
        let mut refuse = Times::new(&format!("refuse; room for {permille} of 1000 promises"));
        let (mut refused, mut wait_s) = (0, 0);
        for turn in 0..TIMES {
            let title = &titles[turn % FILMS];
            let answer = refuse.time(|| ledger.check(Class::PERIODIC, title, 0, now_round));
            if let Err(reel_qos::AdmitError::Refused(refusal)) = answer {
                refused += 1;
                wait_s += refusal.retry_after_s.unwrap_or(0);
            }
        }
        refuse.print();
        println!(
            "  ({refused} of {TIMES} refused, told to wait {} s on average; set_capacities without new prices {set_us} us, {} resources \
             over-committed)",
            wait_s.checked_div(refused).unwrap_or(0),
            over.len(),
        );
    }
}

fn new_prices_and_rounds(ledger: &mut Ledger) {
    let mut dearer = plenty();
    dearer.members.iter_mut().for_each(|member| member.price.read_request_ns += 1);
    let started = Instant::now();
    black_box(ledger.set_capacities(dearer));
    println!("every member repriced, all reservations counted again: {} ms", started.elapsed().as_millis());

    let mut advance = Times::new("advance by one round");
    let first_round = ledger.now_round() + 1;
    for now_round in first_round..first_round + FILM_ROUNDS as u64 + 100 {
        advance.time(|| ledger.advance(now_round));
    }
    advance.print();
    assert_eq!(ledger.reservations().count(), 0);
}

/// A capacity that nothing of this reaches.
fn plenty() -> Capacities {
    let price = DiskPrice {
        read_request_ns: 100_000,
        read_mib_ns: 400_000,
        write_request_ns: 100_000,
        write_mib_ns: 400_000,
        independent_limits: false,
    };
    Capacities {
        members: vec![MemberCapacity { price, round_ns: 1 << 44 }; MEMBERS],
        network_bytes: UNLIMITED - 1,
        core_ns: 1 << 44,
        core_mib_ns: vec![250_000],
        local_front_ends: Vec::new(),
        arena_bytes: 1 << 45,
    }
}

/// Segments of four seconds, each between a third and two and a half times the mean rate.
fn title(rng: &mut Rng) -> Demand {
    let (mut reads, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..FILM_ROUNDS / 4 {
        let segment_bytes = 2_500_000 * (33 + rng.below(134)) / 100;
        let stripes = segment_bytes.div_ceil(4 * UNIT_BYTES) + 1;
        for quarter in 0..4 {
            let reads_of = |quarter: u64| (stripes * quarter).div_ceil(4);
            let units = reads_of(quarter + 1) - reads_of(quarter);
            reads.push(DiskDemand::scattered(units as u32, units * UNIT_BYTES));
            sent.push(segment_bytes / 4);
        }
    }
    Demand::new(vec![reads; MEMBERS], sent, 5 << 20)
}

/// How long something took, each time.
struct Times {
    name: String,
    us: Vec<f64>,
}

impl Times {
    fn new(name: &str) -> Times {
        Times { name: name.to_owned(), us: Vec::new() }
    }

    fn time<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let answer = black_box(act());
        self.us.push(started.elapsed().as_nanos() as f64 / 1000.0);
        answer
    }

    fn print(mut self) {
        self.us.sort_by(f64::total_cmp);
        let at = |permille: usize| self.us[(self.us.len() - 1) * permille / 1000];
        println!("{:<58}{:>9.1}{:>9.1}{:>9.1}", self.name, at(500), at(990), at(1000));
    }
}
