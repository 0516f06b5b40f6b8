//! What can be promised, as it changes while the server runs: prices of members, and the shares of
//! classes.

use crate::counters::PlayCounters;
use crate::limits::{CORE_MIB_NS, LEARNT_PRICE_PERMILLE, LINK_PAYLOAD_PERMILLE, PRICE_CHANGE_PERCENT};
use crate::processor::{Done, ProcessorPrice};
use crate::uplink::Uplink;
use reel_admit::Sessions;
use reel_disk::Disks;
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, ClassTable, MemberCapacity, UNLIMITED};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Keeps the ledger's capacities equal to what the disks and the processors can do.
pub struct Capacity {
    front_ends: Vec<FrontEndPrice>,
    /// Time of the disk threads when it was last divided.
    disks_ns: u64,
    reported: Capacities,
    classes: Arc<ClassTable>,
}

/// What sending costs a front end, and what that follows from.
#[derive(Debug)]
struct FrontEndPrice {
    price: ProcessorPrice,
    /// What it had sent when the time of the disk threads was last divided.
    sent_bytes: u64,
    /// Its part of that time.
    disks_ns: u64,
}

/// The resources of a server beside its disks.
#[derive(Debug)]
pub struct CapacityConfig {
    /// Nanoseconds that the threads of the first front end have in a round. All front ends share
    /// these processors.
    pub core_ns: u64,
    /// Bytes of memory that can be promised to readers.
    pub arena_bytes: u64,
    /// The rate of the network; `None` if it is not known.
    pub network_bps: Option<u64>,
    /// The cost of sending before it is learnt, for each of the front ends.
    pub processors: Vec<ProcessorPrice>,
    /// The places of those whose clients are on this machine.
    pub local_front_ends: Vec<usize>,
}

impl Capacity {
    /// What can be promised of these disks at their present prices, and of the rest of the machine.
    pub fn new(disks: &Disks, config: CapacityConfig) -> Self {
        let CapacityConfig { core_ns, arena_bytes, network_bps, processors, local_front_ends } = config;
        let reported = Capacities {
            members: (0..disks.members()).map(|member| member_capacity(disks, member)).collect(),
            network_bytes: network_bps.map_or(UNLIMITED, network_bytes),
            core_ns,
            core_mib_ns: Vec::new(),
            local_front_ends,
            arena_bytes,
        };
        let front_ends =
            processors.into_iter().map(|price| FrontEndPrice { price, sent_bytes: 0, disks_ns: 0 }).collect();
        let mut capacity = Self { front_ends, disks_ns: 0, reported, classes: disks.classes() };
        capacity.reported.core_mib_ns = capacity.core_mib_ns();
        capacity
    }

    /// What can be promised now.
    pub fn capacities(&self) -> Capacities {
        self.reported.clone()
    }

    /// The classes and their shares now.
    pub fn classes(&self) -> &ClassTable {
        &self.classes
    }

    /// Processor time that sending a MiB over the first front end costs, as learnt so far.
    pub fn mib_ns(&self) -> u64 {
        self.front_ends.first().map_or(CORE_MIB_NS, |first| first.price.mib_ns())
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
        for (member, reported) in self.reported.members.iter_mut().enumerate() {
            let found = member_capacity(disks, member);
            if differs(*reported, found) {
                let measured = disks.measured_price(member).price;
                tracing::info!(
                    "member {member}: a read is found to take {}, and was measured to take {}; admission counts with {} from \
                     now on",
                    disks.price(member).read_text(),
                    measured.read_text(),
                    found.price.read_text(),
                );
                *reported = found;
                changed = true;
            }
        }
        changed |= self.follow_uplink(uplink.view().round_bytes);
        self.learn_prices(counters, disks.cpu_ns(), now_ns);
        changed |= self.follow_processors(counters);
        if changed {
            sessions.admission().set_capacities(self.reported.clone());
        }
        changed || reclassed
    }

    /// Measures what each front end has done. The time that the disk threads have taken since the
    /// last call belongs to the front ends by what each has sent since then.
    fn learn_prices(&mut self, counters: &PlayCounters, disks_ns: u64, at_ns: u64) {
        let took_ns = disks_ns.saturating_sub(self.disks_ns);
        self.disks_ns = disks_ns;
        let sent: Vec<u64> = counters
            .front_ends
            .iter()
            .map(|front_end| front_end.sent_bytes.load(Ordering::Relaxed))
            .collect();
        let since = |own: &FrontEndPrice, sent_bytes: u64| sent_bytes.saturating_sub(own.sent_bytes);
        let all: u64 = self.front_ends.iter().zip(&sent).map(|(own, &sent)| since(own, sent)).sum();
        for ((own, front_end), sent_bytes) in self.front_ends.iter_mut().zip(&counters.front_ends).zip(sent) {
            let part = u128::from(took_ns) * u128::from(since(own, sent_bytes)) / u128::from(all.max(1));
            // Fits: a part of it.
            own.disks_ns += part as u64;
            own.sent_bytes = sent_bytes;
            let serve_ns = front_end.threads_ns.iter().map(|ns| ns.load(Ordering::Relaxed)).sum();
            own.price.update(Done { at_ns, serve_ns, disks_ns: own.disks_ns, sent_bytes });
            front_end.mib_ns.store(own.price.mib_ns(), Ordering::Relaxed);
        }
    }

    /// What a MiB costs each front end, in the time of the threads of the first.
    fn core_mib_ns(&self) -> Vec<u64> {
        let Some(first) = self.front_ends.first() else { return Vec::new() };
        self.front_ends.iter().map(|own| own.price.mib_ns_beside(&first.price)).collect()
    }

    /// Takes over what sending costs the front ends; whether that has changed for any.
    fn follow_processors(&mut self, counters: &PlayCounters) -> bool {
        let found = self.core_mib_ns();
        let mut changed = false;
        for (number, (reported, found)) in self.reported.core_mib_ns.iter_mut().zip(found).enumerate() {
            if !is_far(*reported, found) {
                continue;
            }
            (*reported, changed) = (found, true);
            let (name, us) =
                (counters.front_ends.get(number).map_or("", |front_end| front_end.name), found / 1000);
            tracing::info!(
                "sending a MiB by {name} takes {us} us of the processors; admission uses this price from now on"
            );
        }
        changed
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

/// What can be promised of a member at the price that it is found to have.
fn member_capacity(disks: &Disks, member: usize) -> MemberCapacity {
    let found = disks.price(member);
    MemberCapacity::found(disks.measured_price(member).promised(found, LEARNT_PRICE_PERMILLE), found)
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

    const MIB: u64 = 1 << 20;
    const MS_NS: u64 = 1_000_000;
    const GIVEN_NS: u64 = 500_000;

    /// HTTP and programs on one processor, and what their threads and those of the disks have done.
    struct Machine {
        capacity: Capacity,
        counters: PlayCounters,
        disks_ns: u64,
        seconds: u64,
    }

    impl Machine {
        fn new() -> Self {
            let capacities = Capacities {
                members: Vec::new(),
                network_bytes: UNLIMITED,
                core_ns: ROUND_NS,
                core_mib_ns: vec![GIVEN_NS; 2],
                local_front_ends: Vec::new(),
                arena_bytes: UNLIMITED,
            };
            let price = || ProcessorPrice::new(GIVEN_NS, 1, 1);
            let own = || FrontEndPrice { price: price(), sent_bytes: 0, disks_ns: 0 };
            let capacity = Capacity {
                front_ends: vec![own(), own()],
                disks_ns: 0,
                reported: capacities,
                classes: Arc::default(),
            };
            let counters = PlayCounters::new(&[("http", 1), ("programs", 1)]);
            Self { capacity, counters, disks_ns: 0, seconds: 0 }
        }

        /// So many seconds, in each of which each front end sends so many MiB for so much of its
        /// threads' time, and the disk threads take so much.
        fn play(&mut self, seconds: u64, sent: [(u64, u64); 2], disks_ns: u64) -> Vec<u64> {
            for _ in 0..=seconds {
                self.capacity.learn_prices(&self.counters, self.disks_ns, self.seconds * ROUND_NS);
                self.seconds += 1;
                self.disks_ns += disks_ns;
                for (front_end, (mib, each_ns)) in self.counters.front_ends.iter().zip(sent) {
                    front_end.sent_bytes.fetch_add(mib * MIB, Ordering::Relaxed);
                    front_end.threads_ns[0].fetch_add(mib * each_ns, Ordering::Relaxed);
                }
            }
            self.capacity.core_mib_ns()
        }
    }

    #[test]
    fn a_long_tap_pays_for_none_of_the_reads_of_http() {
        let mut machine = Machine::new();
        // For an hour, programs read what is in memory.
        machine.play(3600, [(0, 0), (2000, 150_000)], 0);
        // Then HTTP sends what comes from the disks: 0.4 ms of the disk threads for each MiB.
        let prices = machine.play(60, [(1000, 400_000), (0, 0)], 400 * MS_NS);
        assert!((780_000..=800_000).contains(&prices[0]), "{prices:?}");
        assert!((150_000..=160_000).contains(&prices[1]), "{prices:?}");
    }

    #[test]
    fn front_ends_that_send_the_same_pay_half_of_the_disks_each() {
        let prices = Machine::new().play(300, [(500, 600_000), (500, 200_000)], 400 * MS_NS);
        assert!((990_000..=1_000_000).contains(&prices[0]), "{prices:?}");
        assert!((595_000..=605_000).contains(&prices[1]), "{prices:?}");
    }

    #[test]
    fn a_front_end_that_stops_keeps_its_price_and_pays_nothing_more() {
        let mut machine = Machine::new();
        let before = machine.play(300, [(500, 600_000), (500, 200_000)], 400 * MS_NS);
        // What it does not send costs nothing, and the other one has all of the disks.
        let prices = machine.play(300, [(500, 600_000), (0, 0)], 400 * MS_NS);
        assert_eq!(prices[1], before[1]);
        assert!((1_390_000..=1_400_000).contains(&prices[0]), "{prices:?}");
    }

    #[test]
    fn what_programs_write_is_work_as_what_they_are_sent() {
        let mut machine = Machine::new();
        for _ in 0..300 {
            machine.play(0, [(0, 0), (1000, 300_000)], 0);
            machine.counters.taken(1, 1000 * MIB);
        }
        // The thread takes as long for twice the bytes.
        let prices = machine.play(0, [(0, 0); 2], 0);
        assert!((150_000..=160_000).contains(&prices[1]), "{prices:?}");
    }

    #[test]
    fn a_front_end_of_one_thread_is_promised_no_more_than_that_thread_can_do() {
        let http = ProcessorPrice::new(GIVEN_NS, 4, 4);
        assert_eq!(ProcessorPrice::new(GIVEN_NS, 1, 4).mib_ns_beside(&http), 4 * GIVEN_NS);
        assert_eq!(http.mib_ns_beside(&http), GIVEN_NS);
        assert_eq!(
            ProcessorPrice::new(GIVEN_NS, 1, 1).mib_ns_beside(&ProcessorPrice::new(GIVEN_NS, 1, 1)),
            GIVEN_NS
        );
    }

    #[test]
    fn less_is_promised_of_a_slow_processor() {
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
            local_front_ends: Vec::new(),
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
        let programs_mib_ns = |capacity: &Capacity| capacity.capacities().core_mib_ns[1];
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
        let least_ns = GIVEN_NS / crate::limits::CORE_PRICE_SPAN;
        assert!((least_ns..GIVEN_NS / 2).contains(&programs_mib_ns(&capacity)), "they pay their own price");
        disks.stop().expect("it ends");
    }
}
