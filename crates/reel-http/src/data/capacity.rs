//! What there is to promise, as it changes while the server runs: prices of members, and the shares of classes.

use super::DataCounters;
use super::film::Film;
use super::processor::{Done, ProcessorPrice};
use crate::limits::PRICE_CHANGE_PERCENT;
use reel_admit::Sessions;
use reel_disk::Disks;
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, ClassTable, DiskPrice, MemberCapacity, UNLIMITED};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keeps the ledger's capacities true to the disks.
pub(crate) struct Capacity {
    disks: Disks,
    /// As measured before the server started. A device that proves quicker is not promised more until it is measured again.
    measured: Vec<DiskPrice>,
    processor: ProcessorPrice,
    told: Capacities,
    classes: Arc<ClassTable>,
}

impl Capacity {
    /// The capacities of a server with so many serve threads, so many bytes of memory for readers, and a network of this rate (`None` if
    /// it is not known). `processor` is what sending costs before that is learnt.
    pub(crate) fn new(
        disks: Disks,
        threads: usize,
        arena_bytes: u64,
        network_bps: Option<u64>,
        processor: ProcessorPrice,
    ) -> Self {
        let measured: Vec<DiskPrice> = (0..disks.members()).map(|member| disks.price(member)).collect();
        let per_round = |bps: u64| (u128::from(bps) * u128::from(ROUND_NS) / 8_000_000_000) as u64;
        let told = Capacities {
            members: measured
                .iter()
                .map(|price| MemberCapacity { price: *price, round_ns: ROUND_NS })
                .collect(),
            network_bytes: network_bps.map_or(UNLIMITED, per_round),
            core_ns: ROUND_NS * threads as u64,
            core_mib_ns: processor.mib_ns(),
            arena_bytes,
        };
        let classes = disks.classes();
        Self { disks, measured, processor, told, classes }
    }

    /// What there is to promise now.
    pub(crate) fn capacities(&self) -> Capacities {
        self.told.clone()
    }

    /// The classes and their shares now.
    pub(crate) fn classes(&self) -> &ClassTable {
        &self.classes
    }

    /// Tells the ledger what has changed; to be called every round.
    pub(crate) fn refresh(&mut self, sessions: &Sessions<Film>, counters: &DataCounters, now_ns: u64) {
        let classes = self.disks.classes();
        if !Arc::ptr_eq(&classes, &self.classes) {
            self.classes = classes;
            sessions.set_classes(ClassTable::clone(&self.classes));
        }
        let mut changed = false;
        for (member, (told, measured)) in self.told.members.iter_mut().zip(&self.measured).enumerate() {
            let found = MemberCapacity::found(*measured, self.disks.price(member));
            if differs(*told, found) {
                *told = found;
                changed = true;
            }
        }
        if changed {
            tracing::info!("members take another time than they did; admission counts with it from here on");
        }
        self.processor.look(done(counters, &self.disks, now_ns));
        let core_mib_ns = self.processor.mib_ns();
        counters.core_mib_ns.store(core_mib_ns, Ordering::Relaxed);
        if is_far(self.told.core_mib_ns, core_mib_ns) {
            self.told.core_mib_ns = core_mib_ns;
            changed = true;
            let us = core_mib_ns / 1000;
            tracing::info!(
                "to send a MiB takes {us} us of the processors; admission counts with it from here on"
            );
        }
        if changed {
            sessions.set_capacities(self.told.clone());
        }
    }
}

/// Whether what reads of a member cost, or its time, differs by more than is worth telling.
fn differs(one: MemberCapacity, other: MemberCapacity) -> bool {
    one.price.apart != other.price.apart
        || is_far(one.round_ns, other.round_ns)
        || is_far(one.price.read_request_ns, other.price.read_request_ns)
        || is_far(one.price.read_mib_ns, other.price.read_mib_ns)
}

fn is_far(one: u64, other: u64) -> bool {
    u128::from(one.abs_diff(other)) * 100 > u128::from(one.max(other)) * PRICE_CHANGE_PERCENT
}

/// What cores and disk threads have done so far.
fn done(counters: &DataCounters, disks: &Disks, at_ns: u64) -> Done {
    let sum = |all: &[AtomicU64]| all.iter().map(|one| one.load(Ordering::Relaxed)).sum();
    let (serve_ns, sent_bytes) = (sum(&counters.cpu_ns), sum(&counters.sent_bytes));
    Done { at_ns, serve_ns, disks_ns: disks.cpu_ns(), sent_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_admit::SessionsConfig;
    use reel_arena::{Arena, ArenaConfig};
    use reel_disk::DisksConfig;
    use reel_qos::{Class, Demand};

    #[test]
    fn who_is_promised_a_slow_processor_is_promised_less() {
        const GIVEN_NS: u64 = 500_000;
        const SLOW_NS: u64 = 1_500_000;
        let shape =
            ArenaConfig { buffer_bytes: 1 << 16, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
        let arena = Arena::new(shape).expect("a small arena");
        let disks = Disks::start(Vec::new(), &arena, DisksConfig::default()).expect("no disks");
        let mut capacity =
            Capacity::new(disks.clone(), 1, UNLIMITED, None, ProcessorPrice::new(GIVEN_NS, 1, 1));
        let sessions = Sessions::new(SessionsConfig {
            sessions_max: 1,
            idle_max_ns: u64::MAX,
            capacities: Some(capacity.capacities()),
            classes: capacity.classes().clone(),
        });
        let film = Demand::new(Vec::new(), vec![1 << 20; 60], 0);
        let viewers =
            || sessions.how_many(Class::PERIODIC, &film).expect("it promises").expect("room").viewers;
        // 0.7 of a second in each.
        assert_eq!(viewers(), 1_400);
        let counters = DataCounters::new(1);
        for second in 1..=60 {
            capacity.refresh(&sessions, &counters, second * ROUND_NS);
            counters.sent_bytes[0].fetch_add(500 << 20, Ordering::Relaxed);
            counters.cpu_ns[0].fetch_add(500 * SLOW_NS, Ordering::Relaxed);
        }
        assert!((466..=490).contains(&viewers()), "{}", viewers());
        disks.stop().expect("it ends");
    }
}
