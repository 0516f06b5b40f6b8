//! Laws of the schedulers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use proptest::prelude::*;
use reel_disk::{CScan, DepthBound, Queued, Scheduler};
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, DiskPrice};
use std::collections::{BTreeMap, BTreeSet};

const CHEAP: DiskPrice =
    DiskPrice { read_request_ns: 1, read_mib_ns: 1, write_request_ns: 1, write_mib_ns: 1 };

fn cscan(requests: usize, bytes: usize) -> CScan {
    let bound = DepthBound { requests, bytes, device_ns: u64::MAX };
    CScan::new(&ClassTable::default(), CHEAP, bound)
}

fn queued(id: u64, offset: u64, bytes: usize) -> Queued {
    Queued { id, class: Class::APERIODIC, deadline_ns: DEADLINE_NONE_NS, offset, bytes, write: false }
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
            // Behind the arm: not before the next sweep.
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
    fn each_once_within_the_bound_and_nobody_starves(
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
            prop_assert!(scan.is_empty() || !in_device.is_empty(), "the device idles while somebody waits");
        }
        // Without newcomers, two sweeps serve everybody, each of them ascending.
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
fn asking_for_one_place_again_and_again_holds_nobody_up() {
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
