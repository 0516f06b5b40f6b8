//! The capacity for reservations as it changes, and the reservations that a change makes
//! impossible. A reservation stays, even when a device has become too slow for it or its class has
//! a smaller share.

use crate::disks::SimDisks;
use crate::limits::{DEAR_PERMILLE, RECOVERY_NS};
use crate::scale::OBJECT_SCALE;
use crate::scenario::Scenario;
use crate::sessions::ClientSessions;
use reel_disk::Disks;
use reel_play::{CapacityConfig, PlayCounters, ProcessorPrice, Uplink, UplinkPort, UplinkRate};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, Class, ClassTable, DiskPrice, Resource, UNLIMITED};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The front end of programs on this machine; all viewers are of the first one.
pub(crate) const PROGRAMS: usize = 1;

/// Keeps the ledger's capacities equal to those of the disks.
pub(crate) struct Capacity {
    /// The server's own.
    served: reel_play::Capacity,
    /// What all clients are sent through.
    uplink: Arc<Uplink>,
    /// As measured before the server started.
    measured: DiskPrice,
    /// The most that was reserved of a resource in a round, when the resource became less than
    /// that.
    over: BTreeMap<usize, u64>,
    /// The last time at which more was reserved of a member than it can do.
    strained_ns: Option<u64>,
    /// Since when the price of each member has been much too high, or the last time that it was
    /// not.
    dear_since_ns: Vec<u64>,
}

impl Capacity {
    /// What can be promised of members that were measured so, with so much memory for readers, and
    /// of the scenario's uplink. Processors run out for programs that write only, as
    /// [`PourSpec::written_bytes_per_s`](crate::PourSpec::written_bytes_per_s) says.
    pub(crate) fn new(measured: DiskPrice, disks: &Disks, arena_bytes: u64, scenario: &Scenario) -> Capacity {
        let (uplink_bps, written_bytes_per_s) = (scenario.uplink_bps, scenario.pours.written_bytes_per_s);
        let rate = uplink_bps.map_or(UplinkRate::Learnt, UplinkRate::Known);
        let share = ClassTable::default().spec(Class::PERIODIC).share_permille;
        let reserved_ns = u128::from(ROUND_NS) * u128::from(share) / 1000;
        // Fits: rates are at least some bytes per second.
        let price = |bytes_per_s: u64| ((reserved_ns << 20) / u128::from(bytes_per_s.max(1 << 10))) as u64;
        let config = CapacityConfig {
            core_ns: if written_bytes_per_s.is_some() { ROUND_NS } else { UNLIMITED },
            arena_bytes,
            network_bps: uplink_bps,
            processors: vec![
                ProcessorPrice::new(0, 1, 1),
                ProcessorPrice::new(written_bytes_per_s.map_or(0, price), 1, 1),
            ],
            local_front_ends: vec![PROGRAMS],
        };
        Capacity {
            served: reel_play::Capacity::new(disks, config),
            uplink: Uplink::scaled(rate, OBJECT_SCALE),
            measured,
            over: BTreeMap::new(),
            strained_ns: None,
            dear_since_ns: Vec::new(),
        }
    }

    /// What can be promised now.
    pub(crate) fn capacities(&self) -> Capacities {
        self.served.capacities()
    }

    /// What clients are sent through, if it can run out.
    pub(crate) fn uplink(&self) -> Option<UplinkPort> {
        self.uplink.view().bytes_per_s.map(|_| self.uplink.port())
    }

    /// Tells the ledger what has changed; to be called every round.
    pub(crate) fn refresh(
        &mut self,
        disks: &Disks,
        sessions: &ClientSessions,
        counters: &PlayCounters,
        now_ns: u64,
    ) {
        if self.served.refresh(disks, &self.uplink, sessions.for_engine(), counters, now_ns) {
            let usage = sessions.usage(now_ns);
            let over = usage.iter().enumerate().filter(|(_, used)| used.peak_used > used.capacity);
            self.over = over.map(|(place, used)| (place, used.peak_used)).collect();
        }
    }

    /// Checks the reservations, and returns the highest of any member in thousandths. The error is
    /// a broken invariant.
    pub(crate) fn check(
        &mut self,
        disks: &SimDisks,
        sessions: &ClientSessions,
        now_ns: u64,
    ) -> Result<u64, String> {
        let (mut most_permille, reported) = (0, self.served.capacities());
        for (place, used) in sessions.usage(now_ns).into_iter().enumerate() {
            if used.peak_used <= used.capacity {
                self.over.remove(&place);
            } else if self.over.get(&place).is_none_or(|over| used.peak_used > *over) {
                let (resource, round) = (used.resource, used.peak_round);
                return Err(format!("more is promised of {resource} in round {round} than there is"));
            }
            if let Resource::Member(member) = used.resource {
                // What was counted at the price that was reported takes the device another time.
                let reported = reported.members[member].price.read_mib_ns.max(1);
                let takes = u128::from(used.used) * u128::from(self.measured.read_mib_ns)
                    / u128::from(reported)
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

    /// Whether more was reserved of a member recently than it can do, so that late bytes break no
    /// reservation that can be kept.
    pub(crate) fn is_strained(&self, now_ns: u64) -> bool {
        self.strained_ns.is_some_and(|strained_ns| now_ns <= strained_ns + RECOVERY_NS)
    }

    /// What is counted with, in thousandths of what members cost: the least and the most of any.
    pub(crate) fn priced_permille(&self, disks: &SimDisks) -> (u64, u64) {
        let members = self.served.capacities().members;
        let permilles = members.iter().enumerate().map(|(member, reported)| {
            let takes = self.measured.read_mib_ns * disks.drift_permille(member) / 1000;
            let takes = u128::from(takes) * u128::from(reported.round_ns) / u128::from(ROUND_NS);
            (u128::from(reported.price.read_mib_ns) * 1000 / takes.max(1)) as u64
        });
        permilles.fold((u64::MAX, 0), |(least, most), permille| (least.min(permille), most.max(permille)))
    }

    /// How long the price of a member without a fault has been much too high.
    pub(crate) fn dear_ns(&mut self, disks: &SimDisks, struck: Option<usize>, now_ns: u64) -> u64 {
        let (mut most_ns, reported_now) = (0, self.served.capacities());
        self.dear_since_ns.resize(reported_now.members.len(), now_ns);
        for (member, (reported, since_ns)) in
            reported_now.members.iter().zip(&mut self.dear_since_ns).enumerate()
        {
            let takes = self.measured.read_mib_ns * disks.drift_permille(member).max(1000) / 1000;
            if struck == Some(member) || reported.price.read_mib_ns * 1000 <= takes * DEAR_PERMILLE {
                *since_ns = now_ns;
            }
            most_ns = most_ns.max(now_ns - *since_ns);
        }
        most_ns
    }
}
