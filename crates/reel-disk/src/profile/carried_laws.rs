//! What a price says a device can do is what it can do. The windows of a measurement, the price
//! that follows from them and the scheduler that uses it all run on the same simulated device.

use super::{Window, WindowKind, expected_price_of, price_of, runs_need_one_seek};
use crate::limits::{PROBE_MIXTURES, PROBE_RUN_UNITS};
use crate::probe::mixture::Mixture;
use crate::{DepthBound, Policy, Queued};
use proptest::prelude::*;
use reel_qos::{Class, ClassTable, DiskDemand, DiskPrice};
use reel_testkit::{DiskModel, Rng};
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MS;
const UNIT: u64 = 264 << 10;
const DISK_BYTES: u64 = 4 << 30;

/// A segment of a viewer on one member: three units (place and bytes), with one of parity after the
/// second. There is one every four seconds.
const SEGMENT: [(u64, u64); 3] = [(0, UNIT), (1, UNIT), (3, UNIT)];

/// A segment that ends within the third unit.
const SHORT_SEGMENT: [(u64, u64); 3] = [(0, UNIT), (1, UNIT), (3, 84 << 10)];
const SEGMENT_NS: u64 = 4 * SECOND_NS;

/// One request after another.
#[derive(Clone, Copy)]
enum Model {
    /// Seeks of 2 to 16 ms, 7200 rpm, 150 MB/s; what is a little ahead passes under the head.
    Rotational,
    /// A limit of requests and one of bytes a second; the longer of the two counts for each
    /// request.
    Throttle { iops: u64, bps: u64 },
    /// A limit of requests and one of bytes a second, each with a budget of its own.
    Budgets { iops: u64, bps: u64 },
}

struct Device {
    model: Model,
    head: u64,
    free_ns: u64,
    /// When the budget of requests is even, and that of bytes.
    even_ns: [u64; 2],
    rng: Rng,
}

impl Device {
    fn new(model: Model) -> Self {
        Self { model, head: 0, free_ns: 0, even_ns: [0; 2], rng: Rng::new(1) }
    }

    /// When a request that comes at `now_ns` is done.
    fn serve(&mut self, offset: u64, bytes: u64, now_ns: u64) -> u64 {
        let start_ns = self.free_ns.max(now_ns);
        let took_ns = match self.model {
            Model::Budgets { iops, bps } => {
                for (even_ns, takes_ns) in
                    self.even_ns.iter_mut().zip([SECOND_NS / iops, bytes * SECOND_NS / bps])
                {
                    *even_ns = (*even_ns).max(now_ns) + takes_ns;
                }
                self.even_ns[0].max(self.even_ns[1]).saturating_sub(start_ns)
            }
            Model::Throttle { iops, bps } => (SECOND_NS / iops).max(bytes * SECOND_NS / bps),
            Model::Rotational => {
                let disk = DiskModel::disk_7200(DISK_BYTES);
                disk.position_ns(self.head, offset, start_ns) + disk.transfer_ns(bytes)
            }
        };
        self.head = offset + bytes;
        self.free_ns = start_ns + took_ns;
        self.free_ns
    }

    /// What a measurement finds: sorted sweeps over all of it, its last and its first eighth.
    fn windows(&mut self) -> Vec<Window> {
        let mut windows =
            [4 << 10, 68 << 10, UNIT].map(|bytes| self.window(WindowKind::Read, bytes, 1, None)).to_vec();
        let units = PROBE_RUN_UNITS as u64;
        windows.push(self.window(WindowKind::ReadRun, units * UNIT, units, None));
        let each = |window: &Window| (window.bytes as usize, window.p50_ns / u64::from(window.requests));
        let mut mixture = Mixture::at_the_knee(each(&windows[0]), each(&windows[2]));
        for _ in 0..PROBE_MIXTURES {
            let Some(mixed) = mixture else { break };
            let window = self.window(WindowKind::ReadMixed, UNIT, 1, mixture);
            mixture = mixed.nearer_the_knee(each(&windows[0]).1, each(&window).1);
            windows.push(window);
        }
        windows
    }

    fn window(&mut self, kind: WindowKind, bytes: u64, parts: u64, mut mixture: Option<Mixture>) -> Window {
        const COUNT: u64 = 64;
        let mut times: Vec<u64> = (0..20)
            .map(|number| {
                let zone = match number % 4 {
                    1 => DISK_BYTES / 8 * 7..DISK_BYTES,
                    3 => 0..DISK_BYTES / 8,
                    _ => 0..DISK_BYTES,
                };
                let mut places: Vec<u64> =
                    (0..COUNT).map(|_| zone.start + self.rng.below(zone.end - zone.start - bytes)).collect();
                places.sort_unstable();
                let begun_ns = self.free_ns;
                self.even_ns = [begun_ns; 2];
                for place in places {
                    let bytes = mixture.as_mut().map_or(bytes, |mixture| mixture.next_bytes() as u64);
                    (0..parts).for_each(|part| {
                        self.serve(place + part * bytes / parts, bytes / parts, 0);
                    });
                }
                self.free_ns - begun_ns
            })
            .collect();
        times.sort_unstable();
        let (requests, windows) = (COUNT as u32, times.len() as u32);
        let bytes = mixture.map_or(bytes, |mixture| mixture.average_bytes() as u64);
        Window { kind, bytes, requests, writes: 0, windows, p50_ns: times[10], p99_ns: times[19] }
    }
}

/// How many segments are late in two minutes of `viewers` viewers, each of which requests a segment
/// when the one before it is shown.
fn late(model: Model, price: DiskPrice, segment: &[(u64, u64)], viewers: u64) -> u64 {
    let mut device = Device::new(model);
    let mut scheduler = Policy::Rounds.scheduler(&ClassTable::default(), price, DepthBound::default());
    let mut places: Vec<u64> =
        (0..viewers).map(|_| device.rng.below(DISK_BYTES / UNIT - 200) * UNIT).collect();
    let (mut inside, mut late, mut id): (VecDeque<(Queued, u64)>, _, _) = (VecDeque::new(), 0, 0);
    let mut now_ns = 10 * SECOND_NS;
    let end_ns = now_ns + 120 * SECOND_NS;
    let mut asks = 0;
    loop {
        let ask_ns = 10 * SECOND_NS + asks * SEGMENT_NS / viewers;
        let done_ns = inside.front().map_or(u64::MAX, |(_, done_ns)| *done_ns);
        now_ns = now_ns.max(ask_ns.min(done_ns));
        if now_ns > end_ns {
            return late;
        }
        if done_ns <= ask_ns {
            if let Some((request, _)) = inside.pop_front() {
                scheduler.done(request.id, now_ns);
                late += u64::from(now_ns > request.deadline_ns);
            }
        } else {
            let place = &mut places[(asks % viewers) as usize];
            for &(unit, bytes) in segment {
                let request = Queued {
                    requester: crate::request::Requester::default(),
                    id,
                    class: Class::PERIODIC,
                    deadline_ns: now_ns + SEGMENT_NS,
                    offset: *place + unit * UNIT,
                    bytes: bytes as usize,
                    write: false,
                };
                scheduler.push(request, now_ns);
                id += 1;
            }
            *place += 4 * UNIT;
            asks += 1;
        }
        while let Some(request) = scheduler.pop(now_ns) {
            let done_ns = device.serve(request.offset, request.bytes as u64, now_ns);
            inside.push_back((request, done_ns));
        }
    }
}

/// The number of viewers whose segments fill all of a member's time.
fn predicted(price: DiskPrice, windows: &[Window], segment: &[(u64, u64)]) -> u64 {
    let bytes: u64 = segment.iter().map(|(_, bytes)| bytes).sum();
    let passed = if price.is_rotational() && runs_need_one_seek(windows) { UNIT } else { 0 };
    let demand = DiskDemand { reads: segment.len() as u32, seeks: 1, bytes: bytes + passed };
    let [requests_ns, bytes_ns] = price.demand_parts_ns(&demand);
    SEGMENT_NS / requests_ns.max(bytes_ns)
}

#[test]
fn a_price_is_neither_optimistic_nor_far_below() {
    let throttle = |iops, bps| Model::Throttle { iops, bps };
    let budgets = |iops, bps| Model::Budgets { iops, bps };
    for (name, model, segment) in [
        ("disk", Model::Rotational, SEGMENT),
        ("throttled by both", throttle(100, 20_000_000), SEGMENT),
        ("throttled by bytes, and by requests as if rotational", throttle(300, 40_000_000), SEGMENT),
        ("flash", throttle(20_000, 40_000_000), SEGMENT),
        ("two budgets", budgets(100, 20_000_000), SEGMENT),
        ("two budgets, both used up", budgets(100, 20_000_000), SHORT_SEGMENT),
        ("two budgets, as of a small volume in a cloud", budgets(3_000, 125_000_000), SHORT_SEGMENT),
    ] {
        let windows = Device::new(model).windows();
        let price = price_of(&windows).expect("windows of several sizes");
        let viewers = predicted(price, &windows, &segment);
        let late = |viewers| late(model, price, &segment, viewers);
        assert_eq!(late(viewers), 0, "{name}: {viewers} viewers by {price:?}");
        assert!(late(viewers * 6 / 5) > 0, "{name}: more than {viewers} by {price:?}");
        // The expected number is nearer, and not above either.
        let expected = predicted(expected_price_of(&windows).expect("the same windows"), &windows, &segment);
        assert!(expected >= viewers);
        assert_eq!(late(expected), 0, "{name}: {expected} viewers expected by {price:?}");
        assert!(late(expected * 10 / 9) > 0, "{name}: more than {expected} by {price:?}");
    }
}

#[test]
fn without_runs_more_of_a_throttle_would_be_reserved_than_it_can_do() {
    let model = Model::Throttle { iops: 300, bps: 40_000_000 };
    let mut windows = Device::new(model).windows();
    windows.retain(|window| matches!(window.kind, WindowKind::Read));
    let price = price_of(&windows).expect("windows of several sizes");
    assert!(late(model, price, &SEGMENT, predicted(price, &windows, &SEGMENT)) > 0);
}

#[test]
fn two_budgets_are_distinguished_from_a_queue_and_from_a_sum() {
    let independent =
        |model| price_of(&Device::new(model).windows()).expect("windows of several sizes").independent_limits;
    assert!(independent(Model::Budgets { iops: 100, bps: 20_000_000 }));
    assert!(independent(Model::Budgets { iops: 300, bps: 40_000_000 }));
    assert!(
        !independent(Model::Throttle { iops: 100, bps: 20_000_000 }),
        "a request waits for both before the next begins"
    );
    assert!(!independent(Model::Rotational));
    // Without mixtures this is not known: by the sum of both, less is reserved.
    let mut windows = Device::new(Model::Budgets { iops: 100, bps: 20_000_000 }).windows();
    windows.retain(|window| window.kind != WindowKind::ReadMixed);
    assert!(!price_of(&windows).expect("windows of several sizes").independent_limits);
}

/// The time that any reads take of a device whose requests and bytes take this long by themselves.
#[derive(Clone, Copy, Debug)]
struct ModelDevice {
    request_ns: u64,
    byte_ns: f64,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
enum Limits {
    /// Two budgets side by side, plus this many thousandths of the one that is used less.
    Beside { permille: u64 },
    /// Two budgets side by side; that of bytes is this many thousandths larger while only units are
    /// read.
    Generous { permille: u64 },
    /// One request after another, each the longer of both.
    Queue,
}

impl ModelDevice {
    fn ns(&self, sizes: &[u64]) -> u64 {
        let bytes_ns = |bytes: u64| (bytes as f64 * self.byte_ns) as u64;
        match self.limits {
            Limits::Generous { permille } => {
                let units_alone = sizes.iter().all(|&bytes| bytes == UNIT);
                let bytes_ns =
                    bytes_ns(sizes.iter().sum()) * if units_alone { 1000 - permille } else { 1000 } / 1000;
                bytes_ns.max(sizes.len() as u64 * self.request_ns)
            }
            Limits::Queue => sizes.iter().map(|&bytes| self.request_ns.max(bytes_ns(bytes))).sum(),
            Limits::Beside { permille } => {
                let (requests_ns, bytes_ns) =
                    (sizes.len() as u64 * self.request_ns, bytes_ns(sizes.iter().sum()));
                requests_ns.max(bytes_ns) + requests_ns.min(bytes_ns) * permille / 1000
            }
        }
    }

    fn windows(&self) -> Vec<Window> {
        let window = |kind, bytes, sizes: &[u64], requests| {
            let ns = self.ns(sizes).max(1);
            Window { kind, bytes, requests, writes: 0, windows: 5, p50_ns: ns, p99_ns: ns }
        };
        let mut windows =
            [4 << 10, 68 << 10, UNIT].map(|bytes| window(WindowKind::Read, bytes, &[bytes; 64], 64)).to_vec();
        windows.push(window(WindowKind::ReadRun, 4 * UNIT, &[UNIT; 64], 16));
        let each = |at: usize| (windows[at].bytes as usize, windows[at].p50_ns / 64);
        let mut mixture = Mixture::at_the_knee(each(0), each(2));
        for _ in 0..PROBE_MIXTURES {
            let Some(mut mixed) = mixture else { break };
            let sizes: Vec<u64> = (0..64).map(|_| mixed.next_bytes() as u64).collect();
            let window = window(WindowKind::ReadMixed, mixed.average_bytes() as u64, &sizes, 64);
            mixture = mixed.nearer_the_knee(windows[0].p50_ns / 64, window.p50_ns / 64);
            windows.push(window);
        }
        windows
    }
}

#[test]
fn a_knee_is_found_where_single_sizes_mislead() {
    // A throttle of 100 requests and 20 MB a second, as measured with the kernel's: 9.86 ms for any
    // read below 195 KiB, 20.3 MB a second beside blocks, 21.6 for units alone.
    let takes = ModelDevice {
        request_ns: 9_860_000,
        byte_ns: 1000.0 / 20.3,
        limits: Limits::Generous { permille: 60 },
    };
    let price = price_of(&takes.windows()).expect("windows of several sizes");
    assert!(price.independent_limits, "{price:?}");
    let (request_ns, unit_ns) = (price.read_ns(4096), price.read_ns(UNIT));
    assert!((takes.request_ns..takes.request_ns * 101 / 100).contains(&request_ns), "{price:?}");
    let exact_ns = (UNIT as f64 * takes.byte_ns) as u64;
    assert!(
        (exact_ns * 99 / 100..exact_ns * 102 / 100).contains(&unit_ns),
        "{unit_ns} of {exact_ns} by {price:?}"
    );
}

proptest! {
    #[test]
    fn no_reads_take_longer_than_their_price_says(
        request_ns in 20_000u64..40_000_000, unit_ns in 20_000u64..40_000_000,
        limits in prop_oneof![
            2 => Just(Limits::Beside { permille: 0 }), 2 => (0u64..=1000).prop_map(|permille| Limits::Beside { permille }), 1 => Just(Limits::Queue),
        ],
        parts in prop::collection::vec((1u64..=66, 1usize..40), 1..6),
    ) {
        let takes = ModelDevice { request_ns, byte_ns: unit_ns as f64 / UNIT as f64, limits };
        let price = price_of(&takes.windows()).expect("windows of several sizes");
        let sizes: Vec<u64> =
            parts.iter().flat_map(|&(blocks, count)| std::iter::repeat_n(blocks * 4096, count)).collect();
        // What is reserved: all requests of a round, by each of two budgets. Not rotational: the
        // places do not matter.
        let (reads, bytes) = (sizes.len() as u32, sizes.iter().sum());
        let [one, other] = price.demand_parts_ns(&DiskDemand { reads, seeks: reads, bytes });
        let ns = takes.ns(&sizes);
        // Prices are whole nanoseconds: each request may be rounded, and the windows are of 64.
        let rounding_ns = 64 + sizes.len() as u64;
        prop_assert!(one.max(other) + rounding_ns >= ns, "{} of {ns} by {price:?}", one.max(other));
        // What a scheduler charges, request by request, is no less.
        let each_ns: u64 = sizes.iter().map(|&bytes| price.read_ns(bytes)).sum();
        prop_assert!(each_ns + rounding_ns >= one.max(other));
        // And two budgets are not far below what they can do, wherever their knee is in between.
        if matches!(limits, Limits::Beside { permille: 0 }) && (20..=60).contains(&(request_ns * 66 / unit_ns)) {
            prop_assert!(one.max(other) <= ns * 21 / 20 + rounding_ns, "{} of {ns} by {price:?}", one.max(other));
        }
    }
}
