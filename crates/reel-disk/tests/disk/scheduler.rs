//! The policies for comparison, and the laws of C-SCAN.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use proptest::prelude::*;
use reel_disk::{DepthBound, Ordered, OrderedBy, Policy, Queued, Requester, Scheduler};
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, DiskPrice};
use std::collections::{BTreeMap, BTreeSet};

const CHEAP: DiskPrice = DiskPrice {
    read_request_ns: 1,
    read_mib_ns: 1,
    write_request_ns: 1,
    write_mib_ns: 1,
    independent_limits: false,
};

fn cscan(requests: usize, bytes: usize) -> Ordered {
    let bound = DepthBound { requests, bytes, device_ns: u64::MAX };
    Ordered::new(OrderedBy::Offset, &ClassTable::default(), CHEAP, bound)
}

fn queued(id: u64, offset: u64, bytes: usize) -> Queued {
    Queued {
        id,
        class: Class::APERIODIC,
        requester: Requester::default(),
        deadline_ns: DEADLINE_NONE_NS,
        offset,
        bytes,
        write: false,
    }
}

#[test]
fn one_sweep_ascends_and_the_next_starts_low() {
    let mut scan = cscan(1, 1 << 20);
    for (id, offset) in [(0, 50), (1, 10), (2, 90)] {
        scan.push(queued(id, offset, 1), 0);
    }
    let mut order = Vec::new();
    while let Some(next) = scan.pop(0) {
        order.push(next.offset);
        if next.offset == 50 {
            // Behind the sweep: not before the next one.
            scan.push(queued(3, 20, 1), 0);
        }
        assert_eq!(scan.pop(0), None, "the device may have one");
        scan.done(next.id, 0);
    }
    assert_eq!(order, [10, 50, 90, 20]);
}

#[test]
fn a_request_larger_than_the_bound_goes_alone() {
    let mut scan = cscan(8, 100);
    scan.push(queued(0, 0, 1000), 0);
    scan.push(queued(1, 1, 1), 0);
    assert_eq!(scan.pop(0).map(|next| next.id), Some(0));
    assert_eq!(scan.pop(0), None);
    scan.done(0, 0);
    assert_eq!(scan.pop(0).map(|next| next.id), Some(1));
}

proptest! {
    #[test]
    fn each_once_within_the_bound_and_none_starves(
        steps in proptest::collection::vec((any::<bool>(), 0_u64..1000, 1_usize..300), 1..300),
        requests in 1_usize..6,
        bytes in 1_usize..600,
    ) {
        let mut scan = cscan(requests, bytes);
        let mut in_device: BTreeMap<u64, usize> = BTreeMap::new();
        let mut given = BTreeSet::new();
        let mut pushed = 0;
        for (push, offset, size) in steps {
            if push {
                scan.push(queued(pushed, offset, size), 0);
                pushed += 1;
            } else if let Some((&id, _)) = in_device.first_key_value() {
                scan.done(id, 0);
                in_device.remove(&id);
            }
            while let Some(next) = scan.pop(0) {
                prop_assert!(given.insert(next.id), "given twice");
                in_device.insert(next.id, next.bytes);
                let total: usize = in_device.values().sum();
                prop_assert!(in_device.len() <= requests);
                prop_assert!(in_device.len() == 1 || total <= bytes);
            }
            prop_assert!(scan.is_empty() || !in_device.is_empty(), "the device idles while a request waits");
        }
        // Without new requests, two sweeps serve all of them, each ascending.
        let mut turns = 0;
        let mut last = 0;
        loop {
            for id in std::mem::take(&mut in_device).into_keys() {
                scan.done(id, 0);
            }
            let Some(next) = scan.pop(0) else { break };
            prop_assert!(given.insert(next.id));
            in_device.insert(next.id, next.bytes);
            turns += usize::from(next.offset < last);
            last = next.offset;
        }
        prop_assert!(turns <= 2);
        prop_assert_eq!(given.len() as u64, pushed);
    }
}

#[test]
fn one_sweep_serves_all_that_wait_at_one_place() {
    let mut scan = cscan(1, 1 << 20);
    for (id, offset) in [(0, 10), (1, 10), (2, 10), (3, 5), (4, 20)] {
        scan.push(queued(id, offset, 1), 0);
    }
    let mut order = Vec::new();
    while let Some(next) = scan.pop(0) {
        scan.done(next.id, 0);
        order.push(next.id);
        if next.id == 1 {
            // The sweep is there already.
            scan.push(queued(5, 10, 1), 0);
        }
    }
    assert_eq!(order, [3, 0, 1, 2, 4, 5]);
}

#[test]
fn reading_one_place_repeatedly_delays_no_other_request() {
    let mut scan = cscan(1, 1 << 20);
    scan.push(queued(0, 100, 1), 0);
    scan.push(queued(1, 200, 1), 0);
    let mut waited = 0;
    for id in 2.. {
        let next = scan.pop(0).unwrap();
        scan.done(next.id, 0);
        if next.id == 1 {
            break;
        }
        scan.push(queued(id, 100, 1), 0);
        waited += 1;
        assert!(waited < 3, "the sweep stays at 100");
    }
}

/// Ids in the order in which a policy gives (class, deadline, offset), each done before the next is
/// popped.
fn order_of(policy: Policy, requests: &[(Class, u64, u64)]) -> Vec<u64> {
    let bound = DepthBound { requests: 1, ..DepthBound::default() };
    let mut scheduler = policy.scheduler(&ClassTable::default(), PRICE, bound);
    for (id, &(class, deadline_ns, offset)) in requests.iter().enumerate() {
        let request = Queued {
            id: id as u64,
            class,
            requester: Requester::default(),
            deadline_ns,
            offset,
            bytes: 1,
            write: false,
        };
        scheduler.push(request, 0);
    }
    std::iter::from_fn(|| {
        let next = scheduler.pop(0)?;
        scheduler.done(next.id, 0);
        Some(next.id)
    })
    .collect()
}

/// A round holds 7 periodic requests, and one of each other class.
const PRICE: DiskPrice = DiskPrice {
    read_request_ns: 100_000_000,
    read_mib_ns: 0,
    write_request_ns: 100_000_000,
    write_mib_ns: 0,
    independent_limits: false,
};

#[test]
fn each_policy_orders_by_what_it_says() {
    let (p, i, a) = (Class::PERIODIC, Class::INTERACTIVE, Class::APERIODIC);
    let requests = [(a, 900, 3), (p, 500, 9), (i, DEADLINE_NONE_NS, 1), (p, 100, 5), (a, 300, 7)];
    assert_eq!(order_of(Policy::Fifo, &requests), [0, 1, 2, 3, 4]);
    assert_eq!(order_of(Policy::Edf, &requests), [3, 4, 1, 0, 2]);
    assert_eq!(order_of(Policy::CScan, &requests), [2, 0, 3, 4, 1]);
    // The first round has room for both periodic ones and one of each other class; in it the order
    // is the sweep's.
    assert_eq!(order_of(Policy::Drr, &requests), [2, 0, 3, 1, 4]);
}

#[test]
fn deficit_round_robin_gives_each_class_its_quantum() {
    let flood: Vec<(Class, u64, u64)> = (0..60)
        .map(|n| ([Class::PERIODIC, Class::INTERACTIVE, Class::APERIODIC][n % 3], 0, n as u64 * 7919 % 61))
        .collect();
    // Two rounds: 14, 3 and 3 requests of 0.1 s each.
    let order = order_of(Policy::Drr, &flood);
    let mut given = [0; 3];
    order[..20].iter().for_each(|&id| given[id as usize % 3] += 1);
    assert_eq!(given, [14, 3, 3]);
    assert_eq!(order.len(), 60);
}
