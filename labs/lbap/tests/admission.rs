//! Linear bounded arrival processes as demands of the ledger.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use lbap::Lbap;
use reel_qos::limits::ROUND_NS;
use reel_qos::{AdmitError, Capacities, Class, DiskDemand, DiskPrice, Ledger, MemberCapacity, Resource};
use std::sync::Arc;

const UNIT_BYTES: u64 = 264 << 10;

fn ledger(network_bytes: u64) -> Ledger {
    let price = DiskPrice { read_request_ns: 10_000_000, read_mib_ns: 5_000_000, ..DiskPrice::FREE };
    let capacities = Capacities {
        members: vec![MemberCapacity { price, round_ns: ROUND_NS }; 5],
        network_bytes,
        core_ns: ROUND_NS,
        core_mib_ns: vec![1_000_000],
        local_front_ends: Vec::new(),
        arena_bytes: 1 << 30,
    };
    Ledger::new(capacities, 100)
}

#[test]
fn an_lbap_is_admitted_for_its_rate_and_its_memory() {
    // 30 frames of 40,000 bytes in 1.001 seconds, four of which may come early.
    let lbap = Lbap { message_bytes: 40_000, rate_mhz: 29_970, workahead: 4 };
    let demand = lbap.demand(5, UNIT_BYTES, 60);
    assert_eq!(demand.sent_bytes()[59], 1_198_800);
    assert_eq!(demand.reads(4)[0], DiskDemand::scattered(2, 2 * UNIT_BYTES));
    assert_eq!(demand.held_bytes(), 200_000);
    assert_eq!(demand.average_bps(), lbap.average_bps());
    let demand = Arc::new(demand);
    let refused = ledger(1_000_000).admit(Class::PERIODIC, &demand, 0, 0, "").unwrap_err();
    assert!(matches!(refused, AdmitError::Refused(refusal) if refusal.resource == Resource::Network));
    ledger(125_000_000).admit(Class::PERIODIC, &demand, 0, 0, "").unwrap();
}
