//! What there is to promise, as it changes while the server runs: prices of members, and the shares of classes.

use super::film::Film;
use crate::limits::PRICE_CHANGE_PERCENT;
use reel_disk::Disks;
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, ClassTable, DiskPrice, MemberCapacity, UNLIMITED};
use reel_stream::Sessions;
use std::sync::Arc;

/// Keeps the ledger's capacities true to the disks.
pub(crate) struct Capacity {
    disks: Disks,
    /// As measured before the server started. A device that proves quicker is not promised more until it is measured again.
    measured: Vec<DiskPrice>,
    told: Capacities,
    classes: Arc<ClassTable>,
}

impl Capacity {
    /// The capacities of a server with so many serve threads, so many bytes of memory for readers, and a network of this rate (`None` if
    /// it is not known). To send a MiB costs a core `core_mib_ns`.
    pub(crate) fn new(
        disks: Disks,
        threads: usize,
        arena_bytes: u64,
        network_bps: Option<u64>,
        core_mib_ns: u64,
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
            core_mib_ns,
            arena_bytes,
        };
        let classes = disks.classes();
        Self { disks, measured, told, classes }
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
    pub(crate) fn refresh(&mut self, sessions: &Sessions<Film>) {
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
            sessions.set_capacities(self.told.clone());
        }
    }
}

/// Whether what reads of a member cost, or its time, differs by more than is worth telling.
fn differs(one: MemberCapacity, other: MemberCapacity) -> bool {
    let far = |one: u64, other: u64| {
        u128::from(one.abs_diff(other)) * 100 > u128::from(one.max(other)) * PRICE_CHANGE_PERCENT
    };
    one.price.apart != other.price.apart
        || far(one.round_ns, other.round_ns)
        || far(one.price.read_request_ns, other.price.read_request_ns)
        || far(one.price.read_mib_ns, other.price.read_mib_ns)
}
