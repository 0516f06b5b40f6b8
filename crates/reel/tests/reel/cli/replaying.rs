//! Two hundred clients of one broadcast. Its packets are recorded once, with the times of their
//! arrival, and replayed to each client in virtual time. Ten others receive it live.

use std::fs;
use std::net::SocketAddr;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reel_receive::{
    Arrival, Arrivals, Assembly, Broadcast, Member, Plan, Played, Port, Receiver, SYMBOL_BYTES, Wait,
};
use reel_rtp::sdp::Session;
use reel_testkit::Rng;

use crate::cli::films::broadcast_stream;
use crate::cli::receiving::{add, ended, in_a_network, serving, start};
use crate::cli::rig::TestDir;

/// Clients in virtual time, and those that receive live.
const REPLAYED: u64 = 200;
const LIVE: u64 = 10;
/// Clients join during so many slots, the first ones of the broadcast.
const ARRIVAL_SLOTS: u64 = 8;
/// `reel receive` joins so long before a slot begins.
const JOIN: Duration = Duration::from_millis(500);
/// What a busy machine takes until a process is started, and until its output is noticed.
const BUSY: Duration = Duration::from_millis(1500);
const SEED: u64 = 31;

#[test]
fn clients_of_a_broadcast_wait_no_longer_than_the_bound() {
    in_a_network("cli::replaying::inside::replayed");
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of clients_of_a_broadcast_wait_no_longer_than_the_bound, in a name space of its own"]
    fn replayed() {
        let film = broadcast_stream();
        let (dir, server) = serving(&film);
        add(&dir, &server, "broadcast", &["--group", "239.1.1.3:5000", "--scheme", "rfs", "--wait", "2s"]);
        let stored = fs::read(&film).unwrap();
        let mut record = Record::begin(&server.text("/casts/broadcast.sdp"));
        let url = format!("http://{}/casts/broadcast.sdp", server.address());
        let broadcast = record.broadcast.clone();
        let live = std::thread::spawn(move || live(dir, &url, &broadcast));
        record.finish();
        let mut longest_ns = 0;
        let mut rng = Rng::new(SEED);
        let [first_ns, last_ns] = [0, ARRIVAL_SLOTS].map(|slot| record.broadcast.slot_starts_ns(slot));
        for _ in 0..REPLAYED {
            let joins_ns = rng.range(first_ns, last_ns);
            let (output, wait_ns) = record.replay(joins_ns);
            assert!(output == stored, "a client after {} ns", joins_ns - first_ns);
            longest_ns = longest_ns.max(wait_ns);
        }
        let bound_ns = 2 * record.broadcast.slot_ns();
        println!(
            "figures: {REPLAYED} clients waited for {longest_ns} ns at most, {bound_ns} ns are promised"
        );
        assert!(longest_ns <= bound_ns, "{longest_ns} of {bound_ns} ns");
        let (dir, waits) = live.join().unwrap();
        let bound = Duration::from_nanos(bound_ns) + JOIN + BUSY;
        println!("figures: {LIVE} clients waited live for {:?} at most", waits.iter().max());
        for (number, wait) in waits.iter().enumerate() {
            assert!(fs::read(dir.path(&format!("out-{number}.ts"))).unwrap() == stored, "client {number}");
            assert!(*wait <= bound, "client {number} waited for {wait:?}, {bound:?} are allowed");
        }
    }
}

/// Starts receivers at random times; how long each waited until it wrote, when all have ended.
fn live(dir: TestDir, url: &str, broadcast: &Broadcast) -> (TestDir, Vec<Duration>) {
    let mut rng = Rng::new(SEED).part(1);
    let [first_ns, last_ns] = [0, ARRIVAL_SLOTS].map(|slot| broadcast.slot_starts_ns(slot));
    let mut times_ns: Vec<u64> = (0..LIVE).map(|_| rng.range(first_ns, last_ns)).collect();
    times_ns.sort_unstable();
    let mut running: Vec<(Child, Instant, Option<Duration>)> = Vec::new();
    let begun = Instant::now();
    while running.len() < times_ns.len() || running.iter().any(|(_, _, wait)| wait.is_none()) {
        assert!(begun.elapsed() < Duration::from_secs(120), "a client does not begin");
        if times_ns.get(running.len()).is_some_and(|at_ns| *at_ns <= unix_ns()) {
            let begins = Instant::now();
            let name = format!("out-{}.ts", running.len());
            running.push((start(&dir, &[url, "-o", &name, "--timeout", "60s"]), begins, None));
        }
        for (number, (_, begins, wait)) in running.iter_mut().enumerate() {
            let written = fs::metadata(dir.path(&format!("out-{number}.ts"))).map_or(0, |file| file.len());
            if written > 0 {
                wait.get_or_insert_with(|| begins.elapsed());
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let waits = running.iter().filter_map(|(_, _, wait)| *wait).collect();
    for (child, _, _) in running {
        let outcome = ended(child).done();
        assert!(outcome.stderr.trim_end().ends_with("missing 0"), "{}", outcome.stderr);
    }
    (dir, waits)
}

/// What arrived of all channels of a broadcast.
struct Record {
    broadcast: Broadcast,
    plans: Vec<Plan>,
    arrivals: Arrivals,
    /// The time of day from which the times of arrivals count.
    begun_unix_ns: u64,
    packets: Vec<Arrival>,
}

impl Record {
    /// Joins all channels of a description.
    fn begin(description: &str) -> Record {
        let session = Session::parse(description).unwrap();
        let told = session.schedule.clone().unwrap();
        let plans: Vec<Plan> = session.channels.iter().map(Plan::of).collect();
        let arrivals = Arrivals::none();
        let begun_unix_ns = unix_ns() - arrivals.now_ns();
        for (channel, plan) in plans.iter().enumerate() {
            for (port, address) in plan.ports() {
                if port != Port::Rtcp {
                    let member = Member::join(address, &plan.sources, None).unwrap();
                    arrivals.also(channel, port, Arc::new(member)).unwrap();
                }
            }
        }
        let broadcast = Broadcast::new(told, plans.len()).unwrap();
        Record { broadcast, plans, arrivals, begun_unix_ns, packets: Vec::new() }
    }

    /// Records until the last client has all of the title.
    fn finish(&mut self) {
        let last = self.broadcast.visit(ARRIVAL_SLOTS).segments.last().unwrap().played_slot;
        let until_ns = self.broadcast.slot_starts_ns(last + 1);
        while unix_ns() < until_ns {
            if let Wait::Arrived(arrival) = self.arrivals.wait(Duration::from_millis(50)) {
                self.packets.push(arrival);
            }
        }
        assert_eq!(self.arrivals.dropped(), 0);
        self.packets.sort_by_key(|arrival| arrival.at_ns);
    }

    /// Replays it to a client that joins at a time of day. Returns what the client plays, and how
    /// long it waits for that.
    fn replay(&self, joins_ns: u64) -> (Vec<u8>, u64) {
        let mut client = Client::new(self, joins_ns);
        let mut slot_ns = joins_ns;
        for arrival in &self.packets {
            let now_ns = self.begun_unix_ns + arrival.at_ns;
            // What is played begins with a slot.
            while slot_ns <= now_ns {
                client.play(slot_ns);
                slot_ns = self.broadcast.slot_starts_ns(self.broadcast.slot_from(slot_ns + 1));
            }
            client.take(self, arrival, now_ns);
            client.play(now_ns);
        }
        client.play(slot_ns);
        client.output.truncate(usize::try_from(self.broadcast.title_bytes()).unwrap());
        (client.output, client.first_ns.expect("it plays") - joins_ns)
    }
}

/// A client in virtual time.
struct Client {
    receivers: Vec<Receiver>,
    /// From when to when each channel is received.
    tuned: Vec<(u64, u64)>,
    assembly: Assembly,
    kept: Vec<u8>,
    output: Vec<u8>,
    first_ns: Option<u64>,
}

impl Client {
    fn new(record: &Record, joins_ns: u64) -> Client {
        let broadcast = &record.broadcast;
        let visit = broadcast.visit(broadcast.slot_from(joins_ns));
        let hold_ns = record.plans.iter().filter_map(|plan| Some(plan.fec?.repair_window_ns)).max().unwrap();
        let tuned = (0..record.plans.len()).map(|channel| {
            let of = |number: u64| broadcast.slot_starts_ns(number);
            let tunings = || visit.tunings.iter().filter(move |tuning| tuning.channel as usize == channel);
            let from_ns = tunings().map(|tuning| of(tuning.from_slot)).min().unwrap_or(u64::MAX);
            let until_ns = tunings().map(|tuning| of(tuning.until_slot)).max().unwrap_or(0);
            // The first train of a slot may leave a little earlier than the clock says.
            (from_ns.saturating_sub(JOIN.as_nanos() as u64).max(joins_ns), until_ns + hold_ns)
        });
        Client {
            tuned: tuned.collect(),
            receivers: record.plans.iter().cloned().map(Receiver::new).collect(),
            assembly: Assembly::new(broadcast, &visit, hold_ns),
            kept: vec![0; usize::try_from(broadcast.symbols()).unwrap() * SYMBOL_BYTES],
            output: Vec::new(),
            first_ns: None,
        }
    }

    /// Takes a packet, if its channel is received.
    fn take(&mut self, record: &Record, arrival: &Arrival, now_ns: u64) {
        let (from_ns, until_ns) = self.tuned[arrival.channel];
        if !(from_ns..until_ns).contains(&now_ns) {
            return;
        }
        let receiver = &mut self.receivers[arrival.channel];
        let from: SocketAddr = arrival.from;
        receiver.push(arrival.port, &arrival.bytes, from, arrival.at_ns);
        receiver.advance(arrival.at_ns);
        while let Some(payload) = receiver.next(arrival.at_ns) {
            let at_ns = record.begun_unix_ns + payload.arrival_ns;
            let symbol = record.broadcast.symbol_of(arrival.channel, payload.time_stamp, at_ns);
            if let Some(symbol) = symbol.filter(|symbol| self.assembly.arrived(*symbol)) {
                let at = usize::try_from(symbol).unwrap() * SYMBOL_BYTES;
                self.kept[at..at + SYMBOL_BYTES].copy_from_slice(&payload.bytes);
            }
        }
    }

    fn play(&mut self, now_ns: u64) {
        loop {
            match self.assembly.next(now_ns, 256) {
                Played::Arrived(symbols) => {
                    self.first_ns.get_or_insert(now_ns);
                    let [from, to] = [symbols.start, symbols.end].map(|at| at as usize * SYMBOL_BYTES);
                    self.output.extend_from_slice(&self.kept[from..to]);
                }
                Played::Missing(symbols) => panic!("{symbols:?} are missing"),
                Played::Wait | Played::End => return,
            }
        }
    }
}

/// The time of day, in nanoseconds since 1970.
fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}
