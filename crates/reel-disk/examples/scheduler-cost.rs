//! The cost of a scheduler: nanoseconds of processor per request for push, pop and done together,
//! with many requests waiting.
//!
//! `cargo run --release -p reel-disk --example scheduler-cost [-- WAITING REQUESTS]`

use reel_disk::{DepthBound, Policy, Queued, Requester};
use reel_qos::{Class, ClassSpec, ClassTable, DEADLINE_NONE_NS, DiskPrice, Kind};
use reel_testkit::Rng;
use rustix::time::{ClockId, clock_gettime};

const DISK: DiskPrice = DiskPrice {
    read_request_ns: 6_000_000,
    read_mib_ns: 6_000_000,
    write_request_ns: 6_000_000,
    write_mib_ns: 6_000_000,
    independent_limits: false,
};
const FLASH: DiskPrice = DiskPrice {
    read_request_ns: 100_000,
    read_mib_ns: 400_000,
    write_request_ns: 100_000,
    write_mib_ns: 400_000,
    independent_limits: false,
};
const UNIT: usize = 264 << 10;

/// Requesters of each class: as many as a server has connections.
const ASKERS: u64 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let waiting = args.next().map_or(Ok(10_000), |n| n.parse::<u64>())?;
    let requests = args.next().map_or(Ok(2_000_000), |n| n.parse::<u64>())?;
    println!(
        "ns per request (push + pop + done), {waiting} waiting, {requests} requests, the middle of 5 runs"
    );
    println!("{:8} {:>10} {:>10} {:>12} {:>12}", "policy", "disk", "flash", "31 classes", "all periodic");
    for policy in Policy::ALL {
        let runs = [(DISK, 3, 3), (FLASH, 3, 3), (DISK, 31, 31), (DISK, 3, 1)];
        let [disk, flash, many, periodic] = runs.map(|(price, classes, used)| {
            let mut costs: Vec<u64> =
                (0..5).map(|_| cost_ns(policy, price, classes, used, waiting, requests)).collect();
            costs.sort_unstable();
            costs[2]
        });
        println!("{policy:8} {disk:>10} {flash:>10} {many:>12} {periodic:>12}");
    }
    Ok(())
}

/// Each request that is done is followed by another, from one of `used` classes.
fn cost_ns(policy: Policy, price: DiskPrice, classes: usize, used: u64, waiting: u64, requests: u64) -> u64 {
    let mut scheduler = policy.scheduler(&table(classes), price, DepthBound::default());
    let mut rng = Rng::new(1);
    let mut now_ns = 1_000_000_000;
    for id in 0..waiting {
        scheduler.push(request(id, &mut rng, used, now_ns), now_ns);
    }
    let mut in_device = std::collections::VecDeque::new();
    let service_ns = if price == FLASH { 200_000 } else { 7_000_000 };
    let started_ns = cpu_ns();
    for id in waiting..waiting + requests {
        while let Some(next) = scheduler.pop(now_ns) {
            in_device.push_back(next.id);
        }
        now_ns += service_ns;
        if let Some(done) = in_device.pop_front() {
            scheduler.done(done, now_ns);
        }
        scheduler.push(request(id, &mut rng, used, now_ns), now_ns);
    }
    assert!(scheduler.len() as u64 + 16 > waiting, "the queue stays as long");
    (cpu_ns() - started_ns) / requests
}

/// Of this thread: the cost of other programs does not count.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn request(id: u64, rng: &mut Rng, classes: u64, now_ns: u64) -> Queued {
    let class = Class::new(rng.below(classes) as usize).unwrap_or(Class::APERIODIC);
    // A second to thirty seconds ahead.
    let deadline_ns = match class {
        Class::INTERACTIVE | Class::APERIODIC => DEADLINE_NONE_NS,
        _ => now_ns + 1_000_000_000 + rng.below(30_000_000_000),
    };
    let requester = Requester::default().of(rng.below(ASKERS));
    Queued { id, class, requester, deadline_ns, offset: rng.below(1 << 40), bytes: UNIT, write: false }
}

/// The built-in classes and others of all kinds.
fn table(classes: usize) -> ClassTable {
    let mut specs: Vec<ClassSpec> = ClassTable::default().iter().map(|(_, spec)| spec.clone()).collect();
    for number in specs.len()..classes {
        let kind = [Kind::Periodic, Kind::Interactive, Kind::Aperiodic][number % 3];
        specs.push(ClassSpec::new(format!("more-{number}"), kind, 10));
        specs[0].share_permille -= 10;
        specs[0].network_permille -= 10;
    }
    ClassTable::new(specs).unwrap_or_default()
}
