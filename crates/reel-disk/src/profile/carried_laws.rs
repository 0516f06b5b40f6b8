//! What a price says a device carries is what it carries: the windows of a measurement, the price that follows from them and the scheduler
//! that goes by it, all on the same simulated device.

use super::{Window, WindowKind, expected_price_of, price_of, runs_are_ways};
use crate::limits::PROBE_RUN_UNITS;
use crate::{DepthBound, Policy, Queued};
use reel_qos::{Class, ClassTable, DiskDemand, DiskPrice};
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MS;
const UNIT: u64 = 264 << 10;
const DISK_BYTES: u64 = 4 << 30;

/// A segment of a viewer on one member: three units, with one of parity after the second. Another every four seconds.
const SEGMENT: [u64; 3] = [0, 1, 3];
const SEGMENT_NS: u64 = 4 * SECOND_NS;

/// One request after another.
#[derive(Clone, Copy)]
enum Model {
    /// Seeks of 2 to 16 ms, 7200 rpm, 150 MB/s; what is near ahead passes under the head.
    Arm,
    /// So many requests or bytes a second, whichever is used up first.
    Throttle { iops: u64, bps: u64 },
}

struct Device {
    model: Model,
    head: u64,
    free_ns: u64,
    random: u64,
}

impl Device {
    fn new(model: Model) -> Self {
        Self { model, head: 0, free_ns: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// When a request that comes at `now_ns` is done.
    fn serve(&mut self, offset: u64, bytes: u64, now_ns: u64) -> u64 {
        const TURN_NS: u64 = 8_333_333;
        let transfer_ns = |bytes: u64| bytes * 1000 / 150;
        let start_ns = self.free_ns.max(now_ns);
        let took_ns = match self.model {
            Model::Throttle { iops, bps } => (SECOND_NS / iops).max(bytes * SECOND_NS / bps),
            Model::Arm => {
                let track = TURN_NS * 150 / 1000;
                let way_ns = match offset.checked_sub(self.head) {
                    Some(passed) if passed < track => transfer_ns(passed),
                    _ => {
                        let way = self.head.abs_diff(offset) as f64 / DISK_BYTES as f64;
                        let seek_ns = 2 * MS + (14e6 * (0.6 * way.sqrt() + 0.4 * way)) as u64;
                        let angle_ns = (start_ns + seek_ns) % TURN_NS;
                        seek_ns + (transfer_ns(offset % track) + TURN_NS - angle_ns) % TURN_NS
                    }
                };
                way_ns + transfer_ns(bytes)
            }
        };
        self.head = offset + bytes;
        self.free_ns = start_ns + took_ns;
        self.free_ns
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// What a measurement finds: sorted sweeps over all of it, its last and its first eighth.
    fn windows(&mut self) -> Vec<Window> {
        let sizes = [4 << 10, 68 << 10, UNIT].map(|bytes| (WindowKind::Read, bytes, 1));
        let runs = [(WindowKind::ReadRun, PROBE_RUN_UNITS as u64 * UNIT, PROBE_RUN_UNITS as u64)];
        sizes.into_iter().chain(runs).map(|(kind, bytes, parts)| self.window(kind, bytes, parts)).collect()
    }

    fn window(&mut self, kind: WindowKind, bytes: u64, parts: u64) -> Window {
        const COUNT: u64 = 64;
        let mut times: Vec<u64> = (0..20)
            .map(|number| {
                let zone = match number % 4 {
                    1 => DISK_BYTES / 8 * 7..DISK_BYTES,
                    3 => 0..DISK_BYTES / 8,
                    _ => 0..DISK_BYTES,
                };
                let mut places: Vec<u64> =
                    (0..COUNT).map(|_| zone.start + self.random(zone.end - zone.start - bytes)).collect();
                places.sort_unstable();
                let begun_ns = self.free_ns;
                for place in places {
                    (0..parts).for_each(|part| {
                        self.serve(place + part * bytes / parts, bytes / parts, 0);
                    });
                }
                self.free_ns - begun_ns
            })
            .collect();
        times.sort_unstable();
        let (requests, windows) = (COUNT as u32, times.len() as u32);
        Window { kind, bytes, requests, writes: 0, windows, p50_ns: times[10], p99_ns: times[19] }
    }
}

/// How many segments come too late in two minutes of so many viewers who ask for each when the one before it is shown.
fn late(model: Model, price: DiskPrice, viewers: u64) -> u64 {
    let mut device = Device::new(model);
    let mut scheduler = Policy::Rounds.scheduler(&ClassTable::default(), price, DepthBound::default());
    let mut places: Vec<u64> = (0..viewers).map(|_| device.random(DISK_BYTES / UNIT - 200) * UNIT).collect();
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
            for unit in SEGMENT {
                let request = Queued {
                    asker: crate::request::Asker::default(),
                    id,
                    class: Class::PERIODIC,
                    deadline_ns: now_ns + SEGMENT_NS,
                    offset: *place + unit * UNIT,
                    bytes: UNIT as usize,
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

/// Viewers whose segments fill all of a member's time.
fn predicted(price: DiskPrice, windows: &[Window]) -> u64 {
    let units = if price.has_arm() && runs_are_ways(windows) { 4 } else { 3 };
    SEGMENT_NS / price.demand_ns(&DiskDemand { reads: 3, ways: 1, bytes: units * UNIT })
}

#[test]
fn a_price_is_neither_optimistic_nor_far_below() {
    let throttle = |iops, bps| Model::Throttle { iops, bps };
    for (name, model) in [
        ("disk", Model::Arm),
        ("throttled by both", throttle(100, 20_000_000)),
        ("throttled by bytes, and like an arm by requests", throttle(300, 40_000_000)),
        ("flash", throttle(20_000, 40_000_000)),
    ] {
        let windows = Device::new(model).windows();
        let price = price_of(&windows).expect("windows of several sizes");
        let viewers = predicted(price, &windows);
        assert_eq!(late(model, price, viewers), 0, "{name}: {viewers} viewers by {price:?}");
        assert!(late(model, price, viewers * 6 / 5) > 0, "{name}: more than {viewers} by {price:?}");
        // What is expected is nearer, and not above either.
        let expected = predicted(expected_price_of(&windows).expect("the same windows"), &windows);
        assert!(expected >= viewers);
        assert_eq!(late(model, price, expected), 0, "{name}: {expected} viewers expected by {price:?}");
        assert!(late(model, price, expected * 10 / 9) > 0, "{name}: more than {expected} by {price:?}");
    }
}

#[test]
fn without_runs_a_throttle_would_be_promised_what_it_cannot_do() {
    let model = Model::Throttle { iops: 300, bps: 40_000_000 };
    let mut windows = Device::new(model).windows();
    windows.retain(|window| window.kind != WindowKind::ReadRun);
    let price = price_of(&windows).expect("windows of several sizes");
    assert!(late(model, price, predicted(price, &windows)) > 0);
}
