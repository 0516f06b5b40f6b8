//! Laws of the ledger, each compared with a model that computes every sum again.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use crate::model;
use crate::model::{GOLD, Held, Model, Part, ROUNDS};
use proptest::prelude::*;
use reel_qos::{
    AdmitError, Answer, Capacities, Class, ClassTable, ClientShare, Demand, DemandStart, DiskDemand, Ledger,
    MeanCosts, MemberCapacity, Refusal, Sender, ShareClaim, Starts,
};
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    Admit { gold: bool, demand: Arc<Demand>, from_round: usize, ahead: u64 },
    Change { which: usize, demand: Arc<Demand>, from_round: usize, ahead: u64 },
    Release { which: usize },
    Advance { rounds: u64 },
    ClockBack { rounds: u64 },
    Capacities(Capacities),
    Classes(ClassTable),
}

fn step() -> impl Strategy<Value = Step> {
    let admit = (any::<bool>(), model::demand(), 0_usize..4, 0_u64..12)
        .prop_map(|(gold, demand, from_round, ahead)| Step::Admit { gold, demand, from_round, ahead });
    let change = (any::<usize>(), model::demand(), 0_usize..4, 0_u64..12)
        .prop_map(|(which, demand, from_round, ahead)| Step::Change { which, demand, from_round, ahead });
    prop_oneof![
        12 => admit,
        4 => change,
        3 => any::<usize>().prop_map(|which| Step::Release { which }),
        4 => (0_u64..4).prop_map(|rounds| Step::Advance { rounds }),
        1 => (20_u64..80).prop_map(|rounds| Step::Advance { rounds }),
        1 => (0_u64..30).prop_map(|rounds| Step::ClockBack { rounds }),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => step(),
        1 => model::capacities().prop_map(Step::Capacities),
        1 => model::classes().prop_map(Step::Classes),
    ]
}

struct Both {
    ledger: Ledger,
    model: Model,
}

impl Both {
    fn new(capacities: Capacities, classes: ClassTable) -> Both {
        let mut ledger = Ledger::new(capacities.clone(), ROUNDS);
        ledger.set_classes(classes.clone());
        Both { ledger, model: Model { capacities, classes, now_round: 0, held: Vec::new() } }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Admit { gold, demand, from_round, ahead } => self.admit(gold, demand, from_round, ahead),
            Step::Change { which, demand, from_round, ahead } => {
                self.change(which, demand, from_round, ahead);
            }
            Step::Release { which } => {
                if !self.model.held.is_empty() {
                    let held = self.model.held.remove(which % self.model.held.len());
                    assert!(self.ledger.release(held.id));
                    assert!(!self.ledger.release(held.id));
                }
            }
            Step::Advance { rounds } => {
                self.model.advance(self.model.now_round + rounds);
                self.ledger.advance(self.model.now_round);
            }
            Step::ClockBack { rounds } => {
                let back = self.model.now_round.saturating_sub(rounds);
                if self.model.held.is_empty() {
                    self.model.now_round = back;
                }
                self.ledger.advance(back);
            }
            Step::Capacities(capacities) => {
                self.model.capacities = capacities.clone();
                self.ledger.set_capacities(capacities);
            }
            Step::Classes(classes) => {
                self.model.classes = classes.clone();
                self.ledger.set_classes(classes);
            }
        }
        self.compare();
    }

    fn admit(&mut self, gold: bool, demand: Arc<Demand>, from_round: usize, ahead: u64) {
        let class = if gold { Class::new(GOLD).unwrap() } else { Class::PERIODIC };
        let start_round = self.model.now_round + ahead;
        let part = Part { demand, class, from_round, start_round };
        let sender = Sender { class, front_end: model::front_end_of(class) };
        let checked = self.ledger.check(sender, &part.demand, from_round, start_round);
        let answer = self.ledger.admit(sender, &part.demand, from_round, start_round, "a viewer");
        assert_eq!(checked.err(), answer.as_ref().err().cloned());
        match answer {
            Ok(id) => {
                assert_eq!(self.model.short(&part, 0, None), []);
                if part.from_round < part.demand.rounds() {
                    self.model.held.push(Held { id, part });
                } else {
                    assert!(self.ledger.release(id));
                }
            }
            Err(AdmitError::Refused(refusal)) => self.is_right(&refusal, &part, None),
            Err(AdmitError::TooLong { .. }) => {
                assert!(part.end_round() > self.model.now_round + ROUNDS as u64);
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn change(&mut self, which: usize, demand: Arc<Demand>, from_round: usize, ahead: u64) {
        if self.model.held.is_empty() {
            return;
        }
        let which = which % self.model.held.len();
        let (id, old) = (self.model.held[which].id, self.model.held[which].part.clone());
        let part = Part { demand, from_round, start_round: self.model.now_round + ahead, ..old.clone() };
        match self.ledger.change(id, &part.demand, from_round, part.start_round) {
            Ok(()) => {
                let asks_more = |&(resource, round, asked, _): &(_, u64, u64, u64)| {
                    asked > old.cost(&self.model.capacities, resource, round)
                };
                // Fits, or takes nothing that it did not have.
                let short = self.model.short(&part, 0, Some(id));
                assert!(!short.iter().any(asks_more), "{short:?}");
                self.model.held[which].part = part;
                if from_round >= self.model.held[which].part.demand.rounds() {
                    self.model.held.remove(which);
                    assert!(self.ledger.release(id));
                }
            }
            Err(AdmitError::Refused(refusal)) => self.is_right(&refusal, &part, Some(id)),
            Err(AdmitError::TooLong { .. }) => {
                assert!(part.end_round() > self.model.now_round + ROUNDS as u64);
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Everything a refusal says, found again by trying.
    fn is_right(&self, refusal: &Refusal, part: &Part, but: Option<reel_qos::ReservationId>) {
        let short = self.model.short(part, 0, but);
        let reported = (refusal.resource, refusal.round, refusal.asked, refusal.available);
        assert!(short.contains(&reported), "{reported:?} is not among {short:?}");
        let tighter = |&(_, _, asked, available): &(_, _, u64, u64)| {
            available * refusal.asked < refusal.available * asked
        };
        assert!(!short.iter().any(tighter), "{reported:?} is not the tightest of {short:?}");
        let rate_bps = part.demand.average_bps();
        let grantable = short.iter().map(|&(resource, round, asked, available)| {
            let fixed = part.without_bytes().cost(&self.model.capacities, resource, round);
            rate_bps * available.saturating_sub(fixed) / (asked - fixed).max(1)
        });
        assert_eq!(Some(refusal.grantable_bps), grantable.min());
        assert_eq!(refusal.retry_after_s, self.model.wait(part, but));
    }

    /// Every sum in every round, before and after the window too.
    fn compare(&self) {
        let now_round = self.model.now_round;
        let classes = [Class::PERIODIC, Class::new(GOLD).unwrap()];
        for resource in self.model.resources() {
            for round in now_round.saturating_sub(3)..now_round + ROUNDS as u64 + 3 {
                let in_past = round < now_round;
                for class in classes {
                    let used = self.model.used(class, resource, round, None);
                    let expected = if in_past { 0 } else { used };
                    assert_eq!(
                        self.ledger.used(Some(class), resource, round),
                        expected,
                        "{resource} {round}"
                    );
                }
            }
        }
        assert!(self.ledger.adds_up());
        assert_eq!(self.ledger.reservations().count(), self.model.held.len());
        let over = self.ledger.over_committed();
        for resource in self.model.resources() {
            for class in classes {
                let capacity = self.model.capacity(class, resource);
                let rounds = now_round..now_round + ROUNDS as u64;
                let is_over =
                    rounds.clone().any(|round| self.model.used(class, resource, round, None) > capacity);
                let reported = over.iter().any(|over| {
                    over.resource == resource && over.class.is_none_or(|reported| reported == class)
                });
                assert_eq!(reported, is_over, "{resource}");
            }
        }
        for usage in self.ledger.usage(now_round) {
            let used = |round| self.ledger.used(None, usage.resource, round);
            let peak = (now_round..now_round + ROUNDS as u64).map(used).max().unwrap();
            assert_eq!((usage.used, usage.peak_used), (used(now_round), peak));
            assert_eq!(used(usage.peak_round), peak);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Timelines are the sum of the live reservations, decisions and refusals are the model's,
    /// changes are all or nothing, and overcommitment is reported: whatever happens in whatever
    /// order.
    #[test]
    fn the_ledger_is_its_model(
        capacities in model::capacities(), classes in model::classes(),
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        let mut both = Both::new(capacities, classes);
        steps.into_iter().for_each(|step| both.take(step));
    }

    /// While capacities do not shrink, no round of any resource is overcommitted.
    #[test]
    fn what_is_admitted_never_exceeds_a_share(
        capacities in model::capacities(), classes in model::classes(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut both = Both::new(capacities, classes);
        for step in steps {
            both.take(step);
            prop_assert_eq!(both.ledger.over_committed(), []);
        }
    }

    /// A demand whose bytes are scaled to the grantable rate is admitted.
    #[test]
    fn the_grantable_rate_is_granted(
        capacities in model::capacities(), before in prop::collection::vec(model::demand(), 0..6), asked in model::demand(),
        large in prop_oneof![Just(1_u64), Just(100_000)],
    ) {
        let mut ledger = Ledger::new(larger(capacities, large), ROUNDS);
        for demand in &before {
            let _ = ledger.admit(Class::PERIODIC, &Arc::new(scaled(demand, large, 1)), 0, 0, "");
        }
        let asked = scaled(&asked, large, 1);
        if let Err(AdmitError::Refused(refusal)) = ledger.check(Class::PERIODIC, &asked, 0, 0) {
            prop_assert!(refusal.grantable_bps <= asked.average_bps());
            if refusal.grantable_bps > 0 {
                let lower = of_rate(&asked, refusal.grantable_bps);
                prop_assert_eq!(ledger.check(Class::PERIODIC, &lower, 0, 0), Ok(()));
            }
        }
    }

    /// The same where the share of the client is short.
    #[test]
    fn the_rate_that_a_share_allows_is_granted(
        capacities in model::capacities(), before in prop::collection::vec((any::<bool>(), model::demand()), 0..6),
        asked in model::demand(), permille in 1_u32..1000,
    ) {
        const LARGE: u64 = 100_000;
        let mut ledger = Ledger::new(larger(capacities, LARGE), ROUNDS);
        let mut held = MeanCosts::default();
        for (is_own, demand) in &before {
            let demand = Arc::new(scaled(demand, LARGE, 1));
            let is_admitted = ledger.admit(Class::PERIODIC, &demand, 0, 0, "").is_ok();
            if is_admitted && *is_own {
                held.add(&ledger.mean_costs(&demand, 0));
            }
        }
        let check = |demand: &Demand| {
            let start = DemandStart::new(0, 0);
            let sender = Class::PERIODIC.into();
            let claim = ShareClaim { sender, demand, start, had: None, changes_class: false, held: &held };
            ledger.check_share(ClientShare::permille(permille), &claim)
        };
        let asked = scaled(&asked, LARGE, 1);
        if let Err(AdmitError::Share(refused)) = check(&asked) {
            let grantable_bps = refused.refusal.grantable_bps;
            if grantable_bps > 0 {
                let lower = of_rate(&asked, grantable_bps);
                prop_assert_eq!(check(&lower), Ok(()));
                prop_assert_eq!(ledger.check(Class::PERIODIC, &lower, 0, 0), Ok(()));
            }
        }
    }

    /// This many can be admitted, one after the other, and the next is refused because of the named
    /// resource.
    #[test]
    fn how_many_is_how_many(
        capacities in model::capacities(), before in prop::collection::vec(model::demand(), 0..6), demand in model::demand(),
    ) {
        let mut ledger = Ledger::new(capacities, ROUNDS);
        for demand in before {
            let _ = ledger.admit(Class::PERIODIC, &demand, 0, 0, "");
        }
        let Answer { viewers, stopped_by } = ledger.how_many(Class::PERIODIC, &demand, Starts::Together).unwrap();
        match stopped_by {
            Some(_) => {
                for _ in 0..viewers {
                    prop_assert!(ledger.admit(Class::PERIODIC, &demand, 0, 0, "").is_ok());
                }
                let next = ledger.admit(Class::PERIODIC, &demand, 0, 0, "");
                let Err(AdmitError::Refused(refusal)) = next else { panic!("{next:?}") };
                // Another may be short too, and tighter.
                prop_assert!(refusal.available < refusal.asked);
            }
            None => prop_assert!(viewers > 1000),
        }
    }

    /// Sums and peaks of demands, round by round.
    #[test]
    fn demands_are_merged_round_by_round(all in prop::collection::vec(model::demand(), 0..4)) {
        let all: Vec<&Demand> = all.iter().map(|demand| &**demand).collect();
        let (sum, peak) = (Demand::sum_of(&all), Demand::peak_of(&all));
        prop_assert_eq!(sum.rounds(), all.iter().map(|demand| demand.rounds()).max().unwrap_or(0));
        prop_assert_eq!(peak.rounds(), sum.rounds());
        for round in 0..sum.rounds() {
            let sent = |demand: &&Demand| demand.sent_bytes().get(round).copied().unwrap_or(0);
            prop_assert_eq!(sum.sent_bytes()[round], all.iter().map(sent).sum::<u64>());
            prop_assert_eq!(peak.sent_bytes()[round], all.iter().map(sent).max().unwrap());
            for member in 0..sum.members() {
                let read = |demand: &&Demand| demand.reads(member).get(round).copied().unwrap_or_default();
                prop_assert_eq!(sum.reads(member)[round].bytes, all.iter().map(|d| read(d).bytes).sum::<u64>());
                prop_assert_eq!(sum.reads(member)[round].reads, all.iter().map(|d| read(d).reads).sum::<u32>());
                prop_assert_eq!(peak.reads(member)[round].bytes, all.iter().map(|d| read(d).bytes).max().unwrap());
            }
        }
    }

    /// No number of a title, an operator or a clock makes the ledger panic or its sums wrong.
    #[test]
    fn hostile_numbers_neither_panic_nor_overflow(
        numbers in prop::collection::vec(hostile(), 12), steps in prop::collection::vec((0_u8..6, hostile()), 1..20),
    ) {
        let read = DiskDemand::scattered(numbers[0] as u32, numbers[1]);
        let demand = Arc::new(Demand::new(vec![vec![read; 5]; 2], vec![numbers[2]; 5], numbers[3]));
        let mut capacities = Capacities {
            members: vec![MemberCapacity {
                price: reel_qos::DiskPrice {
                    read_request_ns: numbers[4], read_mib_ns: numbers[5], write_request_ns: 0, write_mib_ns: 0,
                    independent_limits: numbers[11] % 2 == 1,
                },
                round_ns: numbers[6],
            }; 2],
            network_bytes: numbers[7],
            core_ns: numbers[8],
            core_mib_ns: vec![numbers[9]],
            local_front_ends: Vec::new(),
            arena_bytes: numbers[10],
        };
        let mut ledger = Ledger::new(capacities.clone(), 50);
        let mut last = None;
        for (what, number) in steps {
            match what {
                0 => last = ledger.admit(Class::PERIODIC, &demand, 0, number, "\u{1f3ac}".repeat(99).as_str()).ok().or(last),
                1 => last = ledger.admit(Class::PERIODIC, &demand, number as usize, ledger.now_round(), "").ok().or(last),
                2 => if let Some(id) = last {
                    let _ = ledger.change(id, &demand, 1, number);
                },
                3 => ledger.advance(number),
                4 => {
                    capacities.members[0].price.read_request_ns = number;
                    capacities.core_mib_ns = vec![number];
                    ledger.set_capacities(capacities.clone());
                }
                _ => {
                    let _ = ledger.how_many(Class::PERIODIC, &demand, Starts::Spread);
                    let _ = ledger.how_many(Class::PERIODIC, &demand, Starts::Together);
                    ledger.usage(number);
                }
            }
            prop_assert!(ledger.adds_up());
        }
    }
}

fn hostile() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1 << 46),
        Just((1 << 46) - 1),
        0_u64..100,
        any::<u64>()
    ]
}

/// Every amount times `by / of`, rounded down.
/// Capacities so large that a whole read or byte is little of them.
fn larger(capacities: Capacities, by: u64) -> Capacities {
    let larger = |member: &MemberCapacity| MemberCapacity { round_ns: member.round_ns * by, ..*member };
    Capacities {
        members: capacities.members.iter().map(larger).collect(),
        network_bytes: capacities.network_bytes * by,
        core_ns: capacities.core_ns * by,
        arena_bytes: capacities.arena_bytes * by,
        ..capacities
    }
}

/// The same stream at a lower rate: fewer bytes, as many requests, and as much memory.
fn of_rate(demand: &Demand, rate_bps: u64) -> Demand {
    let scale =
        |bytes: u64| (u128::from(bytes) * u128::from(rate_bps) / u128::from(demand.average_bps())) as u64;
    let fewer = |read: &DiskDemand| DiskDemand { bytes: scale(read.bytes), ..*read };
    let members = (0..demand.members()).map(|member| demand.reads(member).iter().map(fewer).collect());
    let sent = demand.sent_bytes().iter().map(|&bytes| scale(bytes)).collect();
    Demand::new(members.collect(), sent, demand.held_bytes())
}

fn scaled(demand: &Demand, by: u64, of: u64) -> Demand {
    let scale = |amount: u64| (u128::from(amount) * u128::from(by) / u128::from(of)) as u64;
    let members = (0..demand.members()).map(|member| {
        let reads = demand.reads(member).iter();
        reads.map(|read| DiskDemand::scattered(scale(read.reads.into()) as u32, scale(read.bytes))).collect()
    });
    let sent = demand.sent_bytes().iter().map(|&bytes| scale(bytes)).collect();
    Demand::new(members.collect(), sent, scale(demand.held_bytes()))
}
