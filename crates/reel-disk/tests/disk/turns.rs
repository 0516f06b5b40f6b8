//! Each requester without deadlines gets an equal share of the device, however much it has waiting.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use proptest::prelude::*;
use reel_disk::{DepthBound, Policy, Queued, Requester, Scheduler};
use reel_qos::limits::{ROUND_NS, RUN_SEEKS};
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, DiskPrice};
use reel_testkit::Rng;
use std::collections::{HashMap, VecDeque};

const MS: u64 = 1_000_000;
const UNIT: u64 = 264 << 10;
const ROTATIONAL: DiskPrice = DiskPrice {
    read_request_ns: 12 * MS,
    read_mib_ns: 7 * MS,
    write_request_ns: 12 * MS,
    write_mib_ns: 7 * MS,
    independent_limits: false,
};
const FLASH: DiskPrice = DiskPrice {
    read_request_ns: MS / 10,
    read_mib_ns: 2 * MS / 5,
    write_request_ns: MS / 10,
    write_mib_ns: 2 * MS / 5,
    independent_limits: false,
};

/// A requester that asks for `run` reads behind one another whenever fewer than `waiting` of its
/// requests wait.
#[derive(Clone, Debug)]
struct Reader {
    requester: Requester,
    waiting: usize,
    bytes: u64,
    run: u64,
}

/// A device that serves one request after the other, and how much of its time each reader got.
struct Device {
    scheduler: Box<dyn Scheduler>,
    readers: Vec<Reader>,
    asked: Vec<usize>,
    inside: VecDeque<(Queued, usize)>,
    of: HashMap<u64, (usize, u64)>,
    got_ns: Vec<u64>,
    longest_ns: Vec<u64>,
    head: u64,
    seeks: u64,
    now_ns: u64,
    next: u64,
    rng: Rng,
    price: DiskPrice,
    /// What it takes, in thousandths of its price.
    permille: u64,
}

impl Device {
    fn new(price: DiskPrice, permille: u64, readers: Vec<Reader>) -> Self {
        let count = readers.len();
        // The requests that a device which is not rotational has at once cannot be told apart, and
        // this one serves one after the other.
        let requests = if price.is_rotational() { 8 } else { 1 };
        let bound = DepthBound { requests, ..DepthBound::default() };
        let scheduler = Policy::Rounds.scheduler(&ClassTable::default(), price, bound);
        let mut device = Device {
            scheduler,
            readers: Vec::new(),
            asked: vec![0; count],
            inside: VecDeque::new(),
            of: HashMap::new(),
            got_ns: vec![0; count],
            longest_ns: vec![0; count],
            head: 0,
            seeks: 0,
            now_ns: 10 * ROUND_NS,
            next: 0,
            rng: Rng::new(1),
            price,
            permille,
        };
        device.readers = readers;
        (0..count).for_each(|number| device.ask(number));
        device
    }

    fn ask(&mut self, number: usize) {
        let Reader { requester, waiting, bytes, run } = self.readers[number].clone();
        while self.asked[number] < waiting {
            let place = self.rng.below(1 << 40);
            for nth in 0..run {
                let (id, class, offset) = (self.next, Class::APERIODIC, place + nth * bytes);
                let (bytes, deadline_ns) = (bytes as usize, DEADLINE_NONE_NS);
                self.next += 1;
                self.of.insert(id, (number, self.now_ns));
                let request = Queued { id, class, requester, deadline_ns, offset, bytes, write: false };
                self.scheduler.push(request, self.now_ns);
            }
            self.asked[number] += run as usize;
        }
    }

    fn run(&mut self, for_ns: u64) {
        let until_ns = self.now_ns + for_ns;
        while self.now_ns < until_ns {
            while let Some(next) = self.scheduler.pop(self.now_ns) {
                let (number, _) = self.of[&next.id];
                self.inside.push_back((next, number));
            }
            let (request, number) = self.inside.pop_front().expect("the device idles while a request waits");
            let is_near = request.offset.wrapping_sub(self.head) <= self.price.passed_bytes();
            let continues = self.price.is_rotational() && is_near;
            let seek_ns = if continues { 0 } else { self.price.read_request_ns };
            self.seeks += u64::from(!continues);
            self.head = request.offset + request.bytes as u64;
            let took_ns = (seek_ns + self.price.transfer_ns(request.bytes as u64)) * self.permille / 1000;
            self.now_ns += took_ns;
            self.got_ns[number] += took_ns;
            self.scheduler.done(request.id, self.now_ns);
            let (_, since_ns) = self.of.remove(&request.id).unwrap();
            self.longest_ns[number] = self.longest_ns[number].max(self.now_ns - since_ns);
            self.asked[number] -= 1;
            self.ask(number);
        }
    }

    fn shares(&self) -> Vec<f64> {
        let all: u64 = self.got_ns.iter().sum();
        self.got_ns.iter().map(|&ns| ns as f64 / all as f64 * self.got_ns.len() as f64).collect()
    }
}

/// How long a turn is at most beside this many others.
fn turn_ns(price: DiskPrice, readers: u64) -> u64 {
    let seeks_ns = 4 * price.read_request_ns;
    if price.is_rotational() { (ROUND_NS / readers).max(seeks_ns) } else { price.read_ns(UNIT).max(seeks_ns) }
}

fn reader(number: u64, waiting: usize, bytes: u64, run: u64) -> Reader {
    Reader { requester: Requester::default().of(number), waiting, bytes, run }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn each_gets_an_equal_share_of_device_time_while_it_needs_it(
        is_rotational in any::<bool>(),
        permille in 500_u64..2000,
        queues in proptest::collection::vec((64_usize..600, 1_u64..5, 1_u64..64), 2..25),
    ) {
        let price = if is_rotational { ROTATIONAL } else { FLASH };
        let readers = queues.iter().enumerate();
        let readers = readers.map(|(number, &(waiting, quarters, run))| {
            let bytes = quarters * UNIT / 4 / 4096 * 4096;
            // Two turns, whatever they take.
            let most = 2 * 2 * RUN_SEEKS * ROTATIONAL.read_request_ns / price.transfer_ns(bytes);
            reader(number as u64, if is_rotational { most as usize } else { waiting }, bytes, run)
        });
        let mut device = Device::new(price, permille, readers.collect());
        device.run(20 * ROUND_NS);
        // However long it continues, no requester is more than some turns ahead or behind: a run is
        // not cut, and is paid for by the next turns.
        let mean_ns = device.got_ns.iter().sum::<u64>() / queues.len() as u64;
        let most_ns = 6 * turn_ns(price, queues.len() as u64) * permille.max(1000) / 1000;
        for (number, &got_ns) in device.got_ns.iter().enumerate() {
            let ahead_ms = got_ns as i64 / MS as i64 - mean_ns as i64 / MS as i64;
            prop_assert!(ahead_ms.unsigned_abs() <= most_ns / MS + mean_ns / MS / 50, "{number} is {ahead_ms} ms ahead");
        }
    }

    #[test]
    fn a_requester_with_few_requests_waits_for_one_turn_of_each_other(
        is_rotational in any::<bool>(),
        others in 1_u64..40,
        waiting in 10_usize..400,
        run in 1_u64..100,
    ) {
        let price = if is_rotational { ROTATIONAL } else { FLASH };
        let mut readers = vec![reader(1000, 1, UNIT, 1)];
        readers.extend((0..others).map(|number| reader(number, waiting, UNIT, run)));
        let mut device = Device::new(price, 1000, readers);
        device.run(30 * ROUND_NS);
        // The sweep that continues, and a turn of each. A turn may have become twice as long by the
        // run that it ended in.
        let most_ns = 2 * ROUND_NS + 2 * (others + 1) * turn_ns(price, others);
        prop_assert!(device.longest_ns[0] <= most_ns, "{} ms", device.longest_ns[0] / MS);
    }
}

#[test]
fn a_rebuild_has_every_second_turn_however_many_download() {
    for price in [ROTATIONAL, FLASH] {
        let mut readers = vec![Reader { requester: Requester::maintenance(), ..reader(0, 300, UNIT, 40) }];
        readers.extend((1..=60).map(|number| reader(number, 300, UNIT, 40)));
        let mut device = Device::new(price, 1000, readers);
        device.run(30 * ROUND_NS);
        let part = device.shares()[0] / 61.0;
        assert!((0.45..0.55).contains(&part), "{part}");
    }
}

#[test]
fn a_single_requester_has_the_whole_device() {
    let maintenance = Reader { requester: Requester::maintenance(), ..reader(0, 300, UNIT, 40) };
    let mut device = Device::new(ROTATIONAL, 1000, vec![maintenance, reader(1, 1, UNIT, 1)]);
    device.run(10 * ROUND_NS);
    assert!(device.got_ns[0] > 8 * ROUND_NS, "{} ms", device.got_ns[0] / MS);
}

#[test]
fn turns_are_long_enough_for_their_seeks() {
    // Runs as long as readers request them beside this many others.
    for (downloads, run) in [(4, 54), (20, 27), (60, 9)] {
        let readers = (0..downloads).map(|number| reader(number, run as usize / 4, UNIT, run));
        let mut device = Device::new(ROTATIONAL, 1000, readers.collect());
        device.run(30 * ROUND_NS);
        let units = device.next as usize - device.asked.iter().sum::<usize>();
        let per_seek = units as f64 / device.seeks as f64;
        assert!(per_seek > 0.9 * run as f64, "{downloads} downloads: {per_seek} units for each seek");
    }
}
