//! What can be promised, as it changes while the server runs: prices of members, and the shares of
//! classes.

use crate::counters::{FrontEndCounters, PlayCounters};
use crate::limits::{LINK_PAYLOAD_PERMILLE, PRICE_CHANGE_PERCENT};
use crate::processor::{Done, ProcessorPrice};
use crate::uplink::Uplink;
use reel_admit::Sessions;
use reel_disk::Disks;
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, ClassTable, DiskPrice, MemberCapacity, UNLIMITED};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Keeps the ledger's capacities equal to what the disks and the processors can do.
pub struct Capacity {
    /// The price measured before the server started. A device that turns out faster is not promised
    /// more until it is measured again.
    measured: Vec<DiskPrice>,
    /// One for each front end.
    processors: Vec<ProcessorPrice>,
    reported: Capacities,
    classes: Arc<ClassTable>,
}

/// The resources of a server beside its disks.
#[derive(Debug)]
pub struct CapacityConfig {
    /// Nanoseconds of serving threads in a round.
    pub core_ns: u64,
    /// Bytes of memory that can be promised to readers.
    pub arena_bytes: u64,
    /// The rate of the network; `None` if it is not known.
    pub network_bps: Option<u64>,
    /// The cost of sending before it is learnt, for each of the front ends. Admission counts with
    /// that of the first.
    pub processors: Vec<ProcessorPrice>,
}

impl Capacity {
    /// What can be promised of these disks at their present prices, and of the rest of the machine.
    pub fn new(disks: &Disks, config: CapacityConfig) -> Self {
        let CapacityConfig { core_ns, arena_bytes, network_bps, processors } = config;
        let measured: Vec<DiskPrice> = (0..disks.members()).map(|member| disks.price(member)).collect();
        let reported = Capacities {
            members: measured
                .iter()
                .map(|price| MemberCapacity { price: *price, round_ns: ROUND_NS })
                .collect(),
            network_bytes: network_bps.map_or(UNLIMITED, network_bytes),
            core_ns,
            core_mib_ns: processors.first().map_or(0, ProcessorPrice::mib_ns),
            arena_bytes,
        };
        Self { measured, processors, reported, classes: disks.classes() }
    }

    /// What can be promised now.
    pub fn capacities(&self) -> Capacities {
        self.reported.clone()
    }

    /// The classes and their shares now.
    pub fn classes(&self) -> &ClassTable {
        &self.classes
    }

    /// Changes the ledger where prices, shares or the rate of the uplink have changed. To be called
    /// every round. Returns whether anything has changed.
    pub fn refresh<T>(
        &mut self,
        disks: &Disks,
        uplink: &Uplink,
        sessions: &Sessions<T>,
        counters: &PlayCounters,
        now_ns: u64,
    ) -> bool {
        let classes = disks.classes();
        let reclassed = !Arc::ptr_eq(&classes, &self.classes);
        if reclassed {
            self.classes = classes;
            sessions.admission().set_classes(ClassTable::clone(&self.classes));
        }
        let mut changed = false;
        for (member, (reported, measured)) in self.reported.members.iter_mut().zip(&self.measured).enumerate()
        {
            let found = MemberCapacity::found(*measured, disks.price(member));
            if differs(*reported, found) {
                *reported = found;
                changed = true;
            }
        }
        if changed {
            tracing::info!("the prices of members have changed; admission uses the new ones from now on");
        }
        changed |= self.follow_uplink(uplink.view().round_bytes);
        self.learn_prices(counters, disks.cpu_ns(), now_ns);
        let core_mib_ns = self.processors.first().map_or(0, ProcessorPrice::mib_ns);
        if is_far(self.reported.core_mib_ns, core_mib_ns) {
            self.reported.core_mib_ns = core_mib_ns;
            changed = true;
            let us = core_mib_ns / 1000;
            tracing::info!(
                "sending a MiB takes {us} us of the processors; admission uses this price from now on"
            );
        }
        if changed {
            sessions.admission().set_capacities(self.reported.clone());
        }
        changed || reclassed
    }

    /// Measures what each front end has done. The time of the disk threads belongs to the front
    /// ends by what each has sent.
    fn learn_prices(&mut self, counters: &PlayCounters, disks_ns: u64, at_ns: u64) {
        let sent = |front_end: &FrontEndCounters| front_end.sent_bytes.load(Ordering::Relaxed);
        let all_bytes: u64 = counters.front_ends.iter().map(sent).sum();
        for (price, front_end) in self.processors.iter_mut().zip(&counters.front_ends) {
            let sent_bytes = sent(front_end);
            let part = u128::from(disks_ns) * u128::from(sent_bytes) / u128::from(all_bytes.max(1));
            price.update(Done {
                at_ns,
                serve_ns: front_end.threads_ns.iter().map(|ns| ns.load(Ordering::Relaxed)).sum(),
                // Fits: a part of it.
                disks_ns: part as u64,
                sent_bytes,
            });
            front_end.mib_ns.store(price.mib_ns(), Ordering::Relaxed);
        }
    }

    /// Takes over how many bytes the uplink carries in a round; whether that has changed.
    fn follow_uplink(&mut self, round_bytes: Option<u64>) -> bool {
        let network_bytes = round_bytes.unwrap_or(UNLIMITED);
        if !is_far(self.reported.network_bytes, network_bytes) {
            return false;
        }
        self.reported.network_bytes = network_bytes;
        match round_bytes {
            Some(bytes) => tracing::info!(
                "the network carries {} Mb/s of media; admission uses this rate from now on",
                bytes / 125_000
            ),
            None => tracing::info!("the network has not been full for a while; its rate counts no more"),
        }
        true
    }
}

/// Media bytes that a network of this rate carries in a round. Headers of packets take the rest.
pub fn network_bytes(rate_bps: u64) -> u64 {
    let per_mille_of_bits = 8 * 1000 * 1_000_000_000;
    let bytes = u128::from(rate_bps) * u128::from(LINK_PAYLOAD_PERMILLE) * u128::from(ROUND_NS);
    // Fits: less than the rate.
    (bytes / per_mille_of_bits) as u64
}

/// Whether the cost of a member's reads, or its time, differs by more than is worth a change.
fn differs(one: MemberCapacity, other: MemberCapacity) -> bool {
    one.price.independent_limits != other.price.independent_limits
        || is_far(one.round_ns, other.round_ns)
        || is_far(one.price.read_request_ns, other.price.read_request_ns)
        || is_far(one.price.read_mib_ns, other.price.read_mib_ns)
}

fn is_far(one: u64, other: u64) -> bool {
    u128::from(one.abs_diff(other)) * 100 > u128::from(one.max(other)) * PRICE_CHANGE_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UplinkRate;
    use reel_admit::SessionsConfig;
    use reel_arena::{Arena, ArenaConfig};
    use reel_disk::{DisksConfig, start_disks};
    use reel_qos::{Class, Demand};

    #[test]
    fn less_is_promised_of_a_slow_processor() {
        const GIVEN_NS: u64 = 500_000;
        const SLOW_NS: u64 = 1_500_000;
        let shape =
            ArenaConfig { buffer_bytes: 1 << 16, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
        let arena = Arena::new(shape).expect("a small arena");
        let disks = start_disks(Vec::new(), &arena, DisksConfig::default()).expect("no disks");
        let config = CapacityConfig {
            core_ns: ROUND_NS,
            arena_bytes: UNLIMITED,
            network_bps: None,
            processors: vec![ProcessorPrice::new(GIVEN_NS, 1, 1), ProcessorPrice::new(GIVEN_NS, 1, 1)],
        };
        let mut capacity = Capacity::new(&disks, config);
        let sessions = Sessions::<()>::new(SessionsConfig {
            sessions_max: 1,
            idle_max_ns: u64::MAX,
            capacities: Some(capacity.capacities()),
            classes: capacity.classes().clone(),
            start_wait_s: 0,
            client_share: reel_qos::ClientShare::ALL,
        });
        let film = Demand::new(Vec::new(), vec![1 << 20; 60], 0);
        let viewers = || {
            sessions.admission().how_many(Class::PERIODIC, &film).expect("it promises").expect("room").viewers
        };
        // 0.7 of a second in each round.
        assert_eq!(viewers(), 1_400);
        let (counters, uplink) =
            (PlayCounters::new(&[("http", 1), ("programs", 1)]), Uplink::of(UplinkRate::Learnt));
        for second in 1..=60 {
            capacity.refresh(&disks, &uplink, &sessions, &counters, second * ROUND_NS);
            let [http, programs] = &counters.front_ends[..] else { panic!("two front ends") };
            http.sent_bytes.fetch_add(500 << 20, Ordering::Relaxed);
            http.threads_ns[0].fetch_add(500 * SLOW_NS, Ordering::Relaxed);
            // A program that reads much and costs little has no part in the price of HTTP.
            programs.sent_bytes.fetch_add(2_000 << 20, Ordering::Relaxed);
            programs.threads_ns[0].fetch_add(2_000 * SLOW_NS / 16, Ordering::Relaxed);
        }
        assert!((466..=490).contains(&viewers()), "{}", viewers());
        disks.stop().expect("it ends");
    }
}
