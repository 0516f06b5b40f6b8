//! Two hundred clients of one broadcast. Its packets are recorded once, and replayed to each client
//! in virtual time, each at the time when it was due. Ten others receive it live.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reel_broadcast::limits::JOIN_NS;
use reel_broadcast::receivers_wait_ns;
use reel_receive::{
    Arrival, Arrivals, Broadcast, BroadcastClient, Member, Plan, Played, Port, SYMBOL_BYTES, SenderTime,
    Tune, Wait,
};
use reel_rtp::Packet;
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
/// What a busy machine takes until a process is started, and until its output is noticed.
const BUSY: Duration = Duration::from_millis(1500);
/// Time between two looks of a client in virtual time.
const LOOK_NS: u64 = 10_000_000;
/// A server reports what it sent each five seconds, and a moment passes until that is heard.
const REPORT_NS: u64 = 6_000_000_000;
const SEED: u64 = 31;

#[test]
fn clients_of_a_broadcast_wait_no_longer_than_the_bound() {
    in_a_network("cli::replaying::inside::replayed");
}

#[test]
fn clients_of_other_schemes_wait_no_longer_than_the_bound() {
    in_a_network("cli::replaying::inside::other_schemes");
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "child of clients_of_a_broadcast_wait_no_longer_than_the_bound, in a name space of its own"]
    fn replayed() {
        let film = broadcast_stream();
        let (dir, server) = serving(&film);
        add(
            &dir,
            &server,
            "broadcast",
            &["--group", "239.1.1.3:5000", "--scheme", "rfs", "--wait", "2500ms"],
        );
        let mut record = Record::begin(&server.text("/casts/broadcast.sdp"));
        let url = format!("http://{}/casts/broadcast.sdp", server.address());
        let (broadcast, first_slot) = (record.broadcast.clone(), record.first_slot);
        let live = std::thread::spawn(move || live(dir, &url, &broadcast, first_slot));
        record.finish();
        let bound_ns = check_replays(&record, &film);
        check_other_clocks(&record, &film);
        let (dir, waits) = live.join().unwrap();
        let bound = Duration::from_nanos(bound_ns) + BUSY;
        println!("figures: {LIVE} clients waited live for {:?} at most", waits.iter().max());
        let stored = fs::read(film).unwrap();
        for (number, wait) in waits.iter().enumerate() {
            assert!(fs::read(dir.path(&format!("out-{number}.ts"))).unwrap() == stored, "client {number}");
            assert!(*wait <= bound, "client {number} waited for {wait:?}, {bound:?} are allowed");
        }
    }

    #[test]
    #[ignore = "child of clients_of_other_schemes_wait_no_longer_than_the_bound, in a name space of its own"]
    fn other_schemes() {
        let film = broadcast_stream();
        let (dir, server) = serving(&film);
        for (number, scheme) in ["fast", "skyscraper-12", "staggered"].into_iter().enumerate() {
            let group = format!("239.1.{number}.3:5000");
            let wanted = ["--group", &group, "--scheme", scheme, "--wait", "3s", "--name", scheme];
            add(&dir, &server, "broadcast", &wanted);
            let mut record = Record::begin(&server.text(&format!("/casts/{scheme}.sdp")));
            record.finish();
            check_replays(&record, &film);
            let url = format!("http://{}", server.address());
            dir.reel(&["cast", "stop", scheme, "--server", &url]).done();
        }
    }
}

/// Each client of a record plays the whole title, and none waits for longer than is promised.
fn check_replays(record: &Record, film: &Path) -> u64 {
    let stored = fs::read(film).unwrap();
    let mut longest_ns = 0;
    let mut rng = Rng::new(SEED);
    for _ in 0..REPLAYED {
        let joins_ns = record.any_time(&mut rng);
        let (output, wait_ns) = record.replay(joins_ns, 0);
        assert!(output == stored, "a client at {joins_ns} ns");
        longest_ns = longest_ns.max(wait_ns);
    }
    let bound_ns = receivers_wait_ns(record.broadcast.slot_ns());
    println!("figures: {REPLAYED} clients waited for {longest_ns} ns at most, {bound_ns} ns are promised");
    assert!(longest_ns <= bound_ns, "{longest_ns} of {bound_ns} ns");
    bound_ns
}

/// Clients whose clocks differ from that of the server wait a little longer, until they know it.
fn check_other_clocks(record: &Record, film: &Path) {
    let stored = fs::read(film).unwrap();
    let mut rng = Rng::new(SEED).part(2);
    let slot_ns = record.broadcast.slot_ns();
    for ahead_s in [-3600, -30, -3, 3, 30, 3600_i64] {
        for _ in 0..5 {
            let joins_ns = record.any_time(&mut rng);
            let (output, wait_ns) = record.replay(joins_ns, ahead_s * 1_000_000_000);
            assert!(output == stored, "a client that is {ahead_s} s behind, at {joins_ns} ns");
            let report_ns = if ahead_s.abs() > 600 { REPORT_NS } else { 0 };
            let bound_ns = receivers_wait_ns(slot_ns) + slot_ns + report_ns;
            assert!(wait_ns <= bound_ns, "a client that is {ahead_s} s behind waited for {wait_ns} ns");
        }
    }
}

/// Starts receivers at random times; how long each waited until it wrote, when all have ended.
fn live(dir: TestDir, url: &str, broadcast: &Broadcast, first_slot: u64) -> (TestDir, Vec<Duration>) {
    let mut rng = Rng::new(SEED).part(1);
    let [first_ns, last_ns] = [0, ARRIVAL_SLOTS].map(|slot| broadcast.slot_starts_ns(first_slot + slot));
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

/// What arrived of all channels of a broadcast, with the times when it was due. A busy machine
/// sends later than that, and the waits of clients are those of the schedule.
struct Record {
    broadcast: Broadcast,
    plans: Vec<Plan>,
    arrivals: Arrivals,
    /// The time of day from which the times of arrivals count.
    begun_unix_ns: u64,
    /// The first slot that clients may join.
    first_slot: u64,
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
                let member = Member::join(address, &plan.sources, None).unwrap();
                arrivals.also(channel, port, Arc::new(member)).unwrap();
            }
        }
        let broadcast = Broadcast::new(told, plans.len()).unwrap();
        // The cast begins with one of the next slots.
        let first_slot = broadcast.slot_from(begun_unix_ns) + 3_000_000_000_u64.div_ceil(broadcast.slot_ns());
        Record { broadcast, plans, arrivals, begun_unix_ns, first_slot, packets: Vec::new() }
    }

    /// Records until the last client has all of the title, also one whose clock is wrong.
    fn finish(&mut self) {
        let last_slot = self.first_slot + ARRIVAL_SLOTS + 2;
        let last = self.broadcast.visit(last_slot).segments.last().unwrap().played_slot;
        let until_ns = self.broadcast.slot_starts_ns(last + 1) + REPORT_NS;
        while unix_ns() < until_ns {
            if let Wait::Arrived(arrival) = self.arrivals.wait(Duration::from_millis(50)) {
                self.packets.push(arrival);
            }
        }
        assert_eq!(self.arrivals.dropped(), 0);
        self.packets.sort_by_key(|arrival| arrival.at_ns);
        let (begun_unix_ns, broadcast) = (self.begun_unix_ns, self.broadcast.clone());
        let mut due_ns = vec![None; self.plans.len()];
        for Arrival { channel, port, at_ns, bytes, .. } in &mut self.packets {
            if *port == Port::Media {
                let time_stamp = Packet::parse(bytes).unwrap().time_stamp;
                let sent_ns = broadcast.sent_ns(*channel, time_stamp, begun_unix_ns + *at_ns).unwrap();
                due_ns[*channel] = Some(sent_ns.saturating_sub(begun_unix_ns));
            }
            // FEC and reports are sent with the packets before them.
            *at_ns = due_ns[*channel].unwrap_or(*at_ns);
        }
        self.packets.sort_by_key(|arrival| arrival.at_ns);
    }

    /// A time at which a client may join, as the times of arrivals.
    fn any_time(&self, rng: &mut Rng) -> u64 {
        let of_slot = |slot| self.broadcast.slot_starts_ns(self.first_slot + slot) - self.begun_unix_ns;
        rng.range(of_slot(0), of_slot(ARRIVAL_SLOTS))
    }

    /// Replays it to a client that joins at a time, and than whose clock that of the server is so
    /// much ahead. Returns what the client plays, and how long it waits for that.
    fn replay(&self, joins_ns: u64, ahead_ns: i64) -> (Vec<u8>, u64) {
        let zero_unix_ns = self.begun_unix_ns.saturating_add_signed(-ahead_ns);
        let mut client = Client {
            client: BroadcastClient::new(self.broadcast.clone(), self.plans.clone(), zero_unix_ns, joins_ns),
            joined: BTreeSet::new(),
            kept: vec![0; usize::try_from(self.broadcast.symbols()).unwrap() * SYMBOL_BYTES],
            output: Vec::new(),
            first_ns: None,
        };
        let mut look_ns = joins_ns;
        for arrival in self.packets.iter().filter(|arrival| arrival.at_ns >= joins_ns) {
            while look_ns <= arrival.at_ns {
                client.look(look_ns);
                look_ns += LOOK_NS;
            }
            if client.joined.contains(&arrival.channel) {
                let Arrival { channel, port, from, at_ns, bytes } = arrival;
                client.client.push(*channel, *port, bytes, *from, *at_ns);
                client.look(arrival.at_ns);
            }
        }
        let SenderTime::Known(found_ns) = client.client.sender_time() else { panic!("not known") };
        assert!(found_ns.abs_diff(ahead_ns) < JOIN_NS, "{found_ns} of {ahead_ns}");
        assert_eq!((client.client.misplaced(), client.client.counts().undescribed), (0, 0));
        client.output.truncate(usize::try_from(self.broadcast.title_bytes()).unwrap());
        (client.output, client.first_ns.expect("it plays") - joins_ns)
    }
}

/// A client in virtual time.
struct Client {
    client: BroadcastClient,
    joined: BTreeSet<usize>,
    kept: Vec<u8>,
    output: Vec<u8>,
    first_ns: Option<u64>,
}

impl Client {
    /// Does what is due.
    fn look(&mut self, now_ns: u64) {
        while let Some(tune) = self.client.tune(now_ns) {
            match tune {
                Tune::Join(channel) => self.joined.insert(channel),
                Tune::Leave(channel) => self.joined.remove(&channel),
            };
        }
        self.client.advance(now_ns);
        while let Some(kept) = self.client.next_kept() {
            let at = usize::try_from(kept.symbol).unwrap() * SYMBOL_BYTES;
            self.kept[at..at + SYMBOL_BYTES].copy_from_slice(&kept.bytes);
        }
        loop {
            match self.client.play(now_ns, 256) {
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
