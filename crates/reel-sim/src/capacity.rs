//! What there is to promise, as it changes: told to the ledger once a round, as `reel-http` does it. And what cannot be kept because of such
//! a change: what was promised stays promised, even where a device has become too slow for it or its class has less of it.

use crate::desk::Desk;
use crate::disks::SimDisks;
use crate::limits::{DEAR_PERMILLE, PRICE_CHANGE_PERCENT, RECOVERY_NS};
use reel_disk::DiskBackend;
use reel_qos::{Capacities, ClassTable, DiskPrice, Resource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keeps the ledger's capacities true to the disks.
pub(crate) struct Capacity {
    /// As measured before the server started.
    measured: DiskPrice,
    told: Capacities,
    classes: Arc<ClassTable>,
    /// What was promised of a resource, at most in a round, when it became less than that.
    over: BTreeMap<usize, u64>,
    /// When more was promised of a member than it can do, at last.
    strained_ns: Option<u64>,
    /// Since when the price of each member has been much too high, or the last time that it was not.
    dear_since_ns: Vec<u64>,
}

impl Capacity {
    pub(crate) fn new(measured: DiskPrice, told: Capacities, classes: Arc<ClassTable>) -> Capacity {
        Capacity {
            measured,
            told,
            classes,
            over: BTreeMap::new(),
            strained_ns: None,
            dear_since_ns: Vec::new(),
        }
    }

    /// Tells the ledger what has changed; to be called every round.
    pub(crate) fn refresh(&mut self, disks: &SimDisks, desk: &Desk, now_ns: u64) {
        let classes = disks.classes();
        let mut changed = !Arc::ptr_eq(&classes, &self.classes);
        if changed {
            self.classes = classes;
            desk.set_classes(ClassTable::clone(&self.classes));
        }
        let mut repriced = false;
        for (member, told) in self.told.members.iter_mut().enumerate() {
            let price = self.measured.slower(disks.price(member));
            if differs(told.price, price) {
                (told.price, repriced) = (price, true);
            }
        }
        if repriced {
            desk.set_capacities(self.told.clone());
        }
        changed |= repriced;
        if changed {
            let usage = desk.usage(now_ns);
            let over = usage.iter().enumerate().filter(|(_, used)| used.peak_used > used.capacity);
            self.over = over.map(|(place, used)| (place, used.peak_used)).collect();
        }
    }

    /// Looks at what is promised; the most of any member, in thousandths. The error is a broken invariant.
    pub(crate) fn look(&mut self, disks: &SimDisks, desk: &Desk, now_ns: u64) -> Result<u64, String> {
        let mut most_permille = 0;
        for (place, used) in desk.usage(now_ns).into_iter().enumerate() {
            if used.peak_used <= used.capacity {
                self.over.remove(&place);
            } else if self.over.get(&place).is_none_or(|over| used.peak_used > *over) {
                let (resource, round) = (used.resource, used.peak_round);
                return Err(format!("more is promised of {resource} in round {round} than there is"));
            }
            if let Resource::Member(member) = used.resource {
                // What was counted at the price that was told takes the device another time.
                let told = self.told.members[member].price.read_mib_ns.max(1);
                let takes = u128::from(used.used) * u128::from(self.measured.read_mib_ns) / u128::from(told)
                    * u128::from(disks.drift_permille(member))
                    / 1000;
                if takes > u128::from(used.capacity) {
                    self.strained_ns = Some(now_ns);
                }
                most_permille = most_permille.max(used.used * 1000 / used.capacity.max(1));
            }
        }
        Ok(most_permille)
    }

    /// Whether more was promised of a member a while ago than it can do, so that what is late breaks no promise that can be kept.
    pub(crate) fn is_strained(&self, now_ns: u64) -> bool {
        self.strained_ns.is_some_and(|strained_ns| now_ns <= strained_ns + RECOVERY_NS)
    }

    /// For how long a member that has no fault has been thought much dearer than it is.
    pub(crate) fn dear_ns(&mut self, disks: &SimDisks, struck: Option<usize>, now_ns: u64) -> u64 {
        let mut most_ns = 0;
        self.dear_since_ns.resize(self.told.members.len(), now_ns);
        for (member, (told, since_ns)) in self.told.members.iter().zip(&mut self.dear_since_ns).enumerate() {
            let takes = self.measured.read_mib_ns * disks.drift_permille(member).max(1000) / 1000;
            if struck == Some(member) || told.price.read_mib_ns * 1000 <= takes * DEAR_PERMILLE {
                *since_ns = now_ns;
            }
            most_ns = most_ns.max(now_ns - *since_ns);
        }
        most_ns
    }
}

/// Whether two prices of reads differ by more than is worth telling.
fn differs(one: DiskPrice, other: DiskPrice) -> bool {
    let far = |one: u64, other: u64| one.abs_diff(other) * 100 > one.max(other) * PRICE_CHANGE_PERCENT;
    far(one.read_request_ns, other.read_request_ns) || far(one.read_mib_ns, other.read_mib_ns)
}
