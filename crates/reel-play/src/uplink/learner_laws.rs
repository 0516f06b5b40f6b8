use super::*;
use std::net::Ipv4Addr;

const MS: u64 = 1_000_000;
const STEP_NS: u64 = 10 * MS;
const BASE_NS: u64 = 20 * MS;
/// What the queue in front of a line holds.
const QUEUE_NS: u64 = 60 * MS;
const MEGABYTE: u64 = 1_000_000;

fn client(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
}

/// A queue in front of a line that carries so many bytes in a second.
struct Line {
    bytes_per_s: u64,
    queued_bytes: u64,
}

impl Line {
    fn new(bytes_per_s: u64) -> Line {
        Line { bytes_per_s, queued_bytes: 0 }
    }

    /// Takes what fits into the queue, and lets a step pass. What is acknowledged, and what is
    /// lost.
    fn pass(&mut self, bytes: u64) -> (u64, u64) {
        let most = part(self.bytes_per_s, QUEUE_NS / MS) + self.carried();
        let lost = (self.queued_bytes + bytes).saturating_sub(most).min(bytes);
        self.queued_bytes += bytes - lost;
        let sent = self.queued_bytes.min(self.carried());
        self.queued_bytes -= sent;
        (sent, lost)
    }

    fn carried(&self) -> u64 {
        self.bytes_per_s * STEP_NS / 1_000_000_000
    }

    fn delay_ns(&self) -> u64 {
        self.queued_bytes * 1_000_000_000 / self.bytes_per_s
    }
}

/// A server that sends as much as it may to clients that download: each has a line of its own
/// behind the shared one.
struct World {
    learner: Learner,
    shared: Line,
    own: Vec<Line>,
    /// What clients take in a second at most.
    wanted_bytes_per_s: u64,
    /// The clients that are viewers whose bytes are in danger.
    in_danger: Vec<bool>,
    now_ns: u64,
    acknowledged: Vec<u64>,
}

impl World {
    fn new(shared_bytes_per_s: u64, own_bytes_per_s: &[u64]) -> World {
        World {
            learner: Learner::default(),
            shared: Line::new(shared_bytes_per_s),
            own: own_bytes_per_s.iter().map(|rate| Line::new(*rate)).collect(),
            wanted_bytes_per_s: 2 * shared_bytes_per_s,
            in_danger: vec![false; own_bytes_per_s.len()],
            now_ns: 1_000 * MS,
            acknowledged: vec![0; own_bytes_per_s.len()],
        }
    }

    /// Lets time pass; what was acknowledged in a second by each client.
    fn run(&mut self, seconds: u64) -> Vec<u64> {
        self.acknowledged.fill(0);
        let mut sample_bytes = vec![0; self.own.len()];
        for step in 1..=seconds * 1_000 * MS / STEP_NS {
            self.now_ns += STEP_NS;
            // TCP fills the queues; the scheduler shares what was learnt.
            let limit = self.learner.bytes_per_s().unwrap_or(u64::MAX);
            let offered = limit.min(self.wanted_bytes_per_s) * STEP_NS / 1_000_000_000;
            let each = offered / self.own.len() as u64;
            let (sent, lost) = self.shared.pass(each * self.own.len() as u64);
            for (number, line) in self.own.iter_mut().enumerate() {
                // The share of a slow client is no larger than its line and its queue.
                let (own_sent, _) = line.pass((sent / sample_bytes.len() as u64).min(2 * line.carried()));
                sample_bytes[number] += own_sent;
                self.acknowledged[number] += own_sent;
            }
            if step % 10 == 0 {
                self.sample(&sample_bytes, lost);
                sample_bytes.fill(0);
            }
        }
        self.acknowledged.iter().map(|bytes| bytes / seconds).collect()
    }

    fn sample(&mut self, acknowledged: &[u64], lost: u64) {
        for (number, bytes) in acknowledged.iter().enumerate() {
            let sample = FlowSample {
                acknowledged_bytes: *bytes,
                resent_bytes: lost / acknowledged.len() as u64,
                round_trip_ns: BASE_NS + self.shared.delay_ns() + self.own[number].delay_ns(),
                round_trip_min_ns: BASE_NS,
                is_backlogged: true,
                is_window_limited: false,
                ..FlowSample::default()
            };
            self.learner.observe(client(number as u8), sample, self.in_danger[number], self.now_ns);
            self.learner.pass(true, self.now_ns);
        }
    }
}

const FAST: u64 = 1_000 * MEGABYTE;

#[test]
fn nothing_is_learnt_while_nothing_promised_is_in_danger() {
    let mut world = World::new(6 * MEGABYTE, &[FAST; 5]);
    world.run(20);
    assert_eq!((world.learner.bytes_per_s(), world.learner.full_bytes_per_s()), (None, None));
}

#[test]
fn a_full_link_is_learnt_within_a_second_and_then_has_no_lasting_queue() {
    let mut world = World::new(6 * MEGABYTE, &[FAST; 5]);
    world.run(5);
    world.in_danger[0] = true;
    world.run(1);
    let counted = world.learner.counted_bytes_per_s().expect("it is full");
    assert!((5 * MEGABYTE..6 * MEGABYTE).contains(&counted), "{counted}");
    assert_eq!(world.learner.full_bytes_per_s(), Some(counted));
    world.in_danger[0] = false;
    let carried: u64 = world.run(30).iter().sum();
    assert!(carried > 54 * MEGABYTE / 10, "{carried} of 6,000,000 bytes in a second are used");
    let mut waits_ns = 0;
    for _ in 0..20 {
        world.run(1);
        waits_ns += world.shared.delay_ns() / 20;
    }
    assert!(waits_ns < QUEUE_NS / 2, "a queue of {waits_ns} ns on average");
}

#[test]
fn a_slow_client_is_not_taken_for_the_link() {
    let mut world = World::new(50 * MEGABYTE, &[FAST, FAST, MEGABYTE]);
    // Less than the link carries, so only the slow client sees a queue.
    world.wanted_bytes_per_s = 9 * MEGABYTE;
    world.in_danger[2] = true;
    world.run(20);
    assert_eq!(world.learner.bytes_per_s(), None);
}

/// What a connection shows in half a window.
fn shows(acknowledged_bytes: u64, queue_ns: u64) -> FlowSample {
    FlowSample {
        acknowledged_bytes,
        round_trip_ns: BASE_NS + queue_ns,
        round_trip_min_ns: BASE_NS,
        is_backlogged: true,
        ..FlowSample::default()
    }
}

/// Lets windows pass in which each client shows the same, and the first one is in danger.
fn windows(learner: &mut Learner, now_ns: &mut u64, count: usize, clients: &[FlowSample]) {
    for _ in 0..2 * count {
        *now_ns += LEARN_WINDOW_NS / 2;
        for (number, sample) in clients.iter().enumerate() {
            learner.observe(client(number as u8), *sample, number == 0, *now_ns);
        }
        learner.pass(true, *now_ns);
    }
}

#[test]
fn what_one_client_shows_limits_it_until_another_one_comes() {
    let (mut learner, mut now_ns) = (Learner::default(), 1_000 * MS);
    let slow = shows(20_000, QUEUE_NS);
    windows(&mut learner, &mut now_ns, 10, &[slow]);
    assert!(learner.bytes_per_s().expect("it is alone") <= 200_000);
    assert_eq!(learner.counted_bytes_per_s(), None);
    // The other client has not even acknowledged anything.
    now_ns += MS;
    learner.observe(client(1), shows(0, 0), false, now_ns);
    assert!(learner.pass(true, now_ns), "the change is reported at once");
    assert_eq!((learner.bytes_per_s(), learner.full_bytes_per_s()), (None, None));
    // Nor does it come back while the other one shows nothing of the path.
    let reads_slowly = FlowSample { is_window_limited: true, ..shows(20_000, QUEUE_NS) };
    windows(&mut learner, &mut now_ns, 50, &[slow, reads_slowly]);
    assert_eq!(learner.bytes_per_s(), None);
}

#[test]
fn what_one_client_shows_leaves_what_several_have_shown() {
    let (mut learner, mut now_ns) = (Learner::default(), 1_000 * MS);
    windows(&mut learner, &mut now_ns, 10, &[shows(100_000, QUEUE_NS); 4]);
    let shared = learner.bytes_per_s().expect("it is full");
    windows(&mut learner, &mut now_ns, 10, &[shows(1_000, QUEUE_NS)]);
    assert!(learner.bytes_per_s().expect("it is alone") < shared / 10);
    let counted = learner.counted_bytes_per_s().expect("several have shown it");
    assert!(counted >= shared * 8 / 10, "{counted} of {shared}");
    windows(&mut learner, &mut now_ns, 1, &[shows(1_000, QUEUE_NS), shows(1_000, 0)]);
    assert!(learner.bytes_per_s().expect("it is known") >= counted);
}

#[test]
fn two_clients_with_slow_lines_cause_no_refusal() {
    let (mut learner, mut now_ns) = (Learner::default(), 1_000 * MS);
    windows(&mut learner, &mut now_ns, 10, &[shows(20_000, QUEUE_NS); 2]);
    assert!(learner.bytes_per_s().is_some());
    assert_eq!(learner.counted_bytes_per_s(), None);
}

/// The link was idle for most of that time, so what was acknowledged is not what it carries.
#[test]
fn a_short_burst_does_not_lower_what_is_known() {
    let (mut learner, mut now_ns) = (Learner::default(), 1_000 * MS);
    windows(&mut learner, &mut now_ns, 10, &[shows(100_000, QUEUE_NS); 4]);
    let known =
        |learner: &Learner| [learner.bytes_per_s(), learner.counted_bytes_per_s()].map(Option::unwrap);
    let before = known(&learner);
    windows(&mut learner, &mut now_ns, 10, &[shows(0, 0); 4]);
    windows(&mut learner, &mut now_ns, 1, &[shows(5_000, QUEUE_NS); 4]);
    windows(&mut learner, &mut now_ns, 1, &[shows(0, 0); 4]);
    for (after, before) in known(&learner).into_iter().zip(before) {
        assert!(after >= before * 85 / 100, "{after} of {before}");
    }
}

#[test]
fn a_link_that_becomes_slower_and_faster_is_followed() {
    let mut world = World::new(6 * MEGABYTE, &[FAST; 4]);
    world.in_danger[0] = true;
    world.run(5);
    world.shared.bytes_per_s = 2 * MEGABYTE;
    world.run(5);
    let slower = world.learner.bytes_per_s().expect("it is full");
    assert!(slower < 23 * MEGABYTE / 10, "{slower}");
    world.shared.bytes_per_s = 20 * MEGABYTE;
    world.wanted_bytes_per_s = 40 * MEGABYTE;
    world.in_danger[0] = false;
    world.run(20);
    assert!(world.run(5).iter().sum::<u64>() > 16 * MEGABYTE, "{:?}", world.acknowledged);
}

#[test]
fn a_rate_is_forgotten_when_the_link_was_not_full_for_long() {
    let mut world = World::new(6 * MEGABYTE, &[FAST; 4]);
    world.in_danger[0] = true;
    world.run(5);
    assert!(world.learner.bytes_per_s().is_some());
    world.now_ns += LEARN_KEEP_NS / 2;
    world.learner.pass(false, world.now_ns);
    assert!(world.learner.bytes_per_s().is_some());
    world.now_ns += LEARN_KEEP_NS;
    assert!(world.learner.pass(false, world.now_ns));
    assert_eq!((world.learner.bytes_per_s(), world.learner.full_bytes_per_s()), (None, None));
}

#[test]
fn a_crowd_of_clients_costs_bounded_memory() {
    let mut learner = Learner::default();
    let sample = FlowSample { acknowledged_bytes: 1, ..FlowSample::default() };
    for number in 0..LEARN_CLIENTS_MAX as u32 + 100 {
        let client = IpAddr::V4(Ipv4Addr::from(number));
        learner.observe(client, sample, false, u64::from(number) + 1);
    }
    assert_eq!(learner.clients.len(), LEARN_CLIENTS_MAX);
    assert!(!learner.clients.contains_key(&IpAddr::V4(Ipv4Addr::from(0))));
}
