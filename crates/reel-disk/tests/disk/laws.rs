//! Laws that every policy keeps, whatever comes, in whatever order, and whatever the clock does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use proptest::prelude::*;
use reel_disk::limits::EXPECTED_CREDIT_NS;
use reel_disk::{Asker, DepthBound, Policy, Queued, Scheduler};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassSpec, ClassTable, DEADLINE_NONE_NS, DiskPrice, Kind};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    Push { class: usize, deadline_ns: u64, offset: u64, bytes: usize, write: bool },
    Done,
    Promote { nth: usize, class: usize, deadline_ns: u64 },
    Withdraw { nth: usize },
    Wait { ns: u64 },
    ClockTo { ns: u64 },
    Price(DiskPrice),
    Found(DiskPrice),
    Classes(usize),
}

fn deadline() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..40 * ROUND_NS,
        1 => Just(DEADLINE_NONE_NS),
        1 => any::<u64>(),
        1 => Just(0_u64),
    ]
}

fn price() -> impl Strategy<Value = DiskPrice> {
    let cost = || prop_oneof![Just(0_u64), 1..50_000_000_u64, Just(u64::MAX)];
    (cost(), cost(), cost(), cost(), any::<bool>()).prop_map(
        |(read_request_ns, read_mib_ns, write_request_ns, write_mib_ns, apart)| DiskPrice {
            read_request_ns,
            read_mib_ns,
            write_request_ns,
            write_mib_ns,
            apart,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0_usize..31, deadline(), prop_oneof![0_u64..1000, any::<u64>()], 0_usize..2_000_000, any::<bool>())
            .prop_map(|(class, deadline_ns, offset, bytes, write)| Step::Push { class, deadline_ns, offset, bytes, write }),
        6 => Just(Step::Done),
        3 => (any::<usize>(), 0_usize..31, deadline())
            .prop_map(|(nth, class, deadline_ns)| Step::Promote { nth, class, deadline_ns }),
        2 => any::<usize>().prop_map(|nth| Step::Withdraw { nth }),
        4 => (0_u64..2 * ROUND_NS).prop_map(|ns| Step::Wait { ns }),
        1 => prop_oneof![0..100 * ROUND_NS, any::<u64>()].prop_map(|ns| Step::ClockTo { ns }),
        1 => price().prop_map(Step::Price),
        1 => price().prop_map(Step::Found),
        1 => (0_usize..29).prop_map(Step::Classes),
    ]
}

/// The built-in classes and so many more of all kinds.
fn table(more: usize) -> ClassTable {
    let mut specs: Vec<ClassSpec> = ClassTable::default().iter().map(|(_, spec)| spec.clone()).collect();
    for number in 0..more.min(28) {
        let kind = [Kind::Periodic, Kind::Interactive, Kind::Aperiodic][number % 3];
        specs.push(ClassSpec { name: format!("more-{number}"), kind, share_permille: 1 + number as u32 });
        specs[0].share_permille -= 1 + number as u32;
    }
    ClassTable::new(specs).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn each_request_once_within_the_bound_and_the_device_never_idles_while_anybody_waits(
        policy in proptest::sample::select(Policy::ALL.to_vec()),
        steps in proptest::collection::vec(step(), 1..250),
        first_price in price(),
        requests in 1_usize..6,
        bytes in prop_oneof![1_usize..3_000_000, Just(usize::MAX)],
        device_ns in prop_oneof![1_u64..200_000_000, Just(u64::MAX)],
        more in 0_usize..29,
    ) {
        let bound = DepthBound { requests, bytes, device_ns };
        let mut scheduler: Box<dyn Scheduler> = policy.scheduler(&table(more), first_price, bound);
        let (mut now_ns, mut next_id) = (5 * ROUND_NS, 0_u64);
        let mut waiting: BTreeMap<u64, Queued> = BTreeMap::new();
        let mut in_device: BTreeMap<u64, usize> = BTreeMap::new();
        let upkeep = Asker::upkeep();
        let mut had_arm = first_price.has_arm();
        for step in steps {
            match step {
                Step::Push { class, deadline_ns, offset, bytes, write } => {
                    let class = Class::new(class).unwrap();
                    let asker = [Asker::default(), upkeep, Asker::default().of(next_id)][next_id as usize % 3];
                    let request = Queued { id: next_id, class, asker, deadline_ns, offset, bytes, write };
                    waiting.insert(next_id, request);
                    next_id += 1;
                    scheduler.push(request, now_ns);
                }
                Step::Done => {
                    if let Some((id, _)) = in_device.pop_first() {
                        scheduler.done(id, now_ns);
                    }
                }
                Step::Promote { nth, class, deadline_ns } => {
                    // Also ids that are in the device or gone.
                    let id = nth as u64 % next_id.max(1);
                    scheduler.promote(id, Class::new(class).unwrap(), deadline_ns);
                }
                Step::Withdraw { nth } => {
                    let id = nth as u64 % next_id.max(1);
                    prop_assert_eq!(scheduler.withdraw(id), waiting.remove(&id).is_some());
                }
                Step::Wait { ns } => now_ns = now_ns.saturating_add(ns),
                Step::ClockTo { ns } => now_ns = ns,
                Step::Price(price) => {
                    had_arm |= price.has_arm();
                    scheduler.set_price(price);
                }
                Step::Found(price) => scheduler.correct_price(price),
                Step::Classes(more) => scheduler.set_classes(&table(more)),
            }
            while let Some(next) = scheduler.pop(now_ns) {
                let pushed = waiting.remove(&next.id).expect("given twice, or never pushed");
                prop_assert_eq!((next.offset, next.bytes, next.write), (pushed.offset, pushed.bytes, pushed.write));
                prop_assert!(next.deadline_ns <= pushed.deadline_ns, "promotion only brings deadlines nearer");
                in_device.insert(next.id, next.bytes);
                let total = in_device.values().fold(0_usize, |sum, bytes| sum.saturating_add(*bytes));
                prop_assert!(in_device.len() <= requests);
                prop_assert!(in_device.len() == 1 || total <= bytes);
            }
            prop_assert_eq!(scheduler.len(), waiting.len());
            let kept_ns = scheduler.kept_until_ns().map(|until_ns| until_ns.saturating_sub(now_ns));
            let is_kept = kept_ns.is_some_and(|ns| (1..=EXPECTED_CREDIT_NS).contains(&ns));
            prop_assert!(
                waiting.is_empty() || !in_device.is_empty() || is_kept,
                "the device idles while somebody waits, and is kept for nobody"
            );
            if !is_kept && bytes == usize::MAX && device_ns == u64::MAX && !waiting.is_empty() {
                // Rounds leave the second place of an arm to who comes.
                let least = if policy == Policy::Rounds && had_arm { 1 } else { requests };
                prop_assert!(in_device.len() >= least, "the device could have had one more");
            }
            let view = scheduler.view(now_ns);
            prop_assert_eq!(view.policy, policy.name());
            prop_assert_eq!(view.classes.iter().map(|class| class.queued).sum::<u64>(), waiting.len() as u64);
        }
        // Nothing is lost: the rest comes out.
        let mut left = waiting.keys().copied().collect::<BTreeSet<u64>>();
        loop {
            for id in std::mem::take(&mut in_device).into_keys() {
                scheduler.done(id, now_ns);
            }
            now_ns = now_ns.saturating_add(1_000_000);
            let Some(next) = scheduler.pop(now_ns) else {
                if scheduler.kept_until_ns().is_some() {
                    continue;
                }
                break;
            };
            prop_assert!(left.remove(&next.id));
            in_device.insert(next.id, next.bytes);
        }
        prop_assert!(left.is_empty() && scheduler.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn rounds_starve_nobody_however_wrong_the_price_is(
        more in 0_usize..29,
        backlogs in proptest::collection::vec(0_usize..4, 31),
        price_ns in 100_000_u64..40_000_000,
        service_ns in 50_000_u64..40_000_000,
        depth in 1_usize..8,
    ) {
        let classes = table(more);
        let bound = DepthBound { requests: depth, ..DepthBound::default() };
        let price = DiskPrice {
            read_request_ns: price_ns,
            read_mib_ns: 0,
            write_request_ns: price_ns,
            write_mib_ns: 0,
            apart: false,
        };
        let mut scheduler = Policy::Rounds.scheduler(&classes, price, bound);
        let (mut now_ns, mut id) = (0, 0);
        let mut push = |scheduler: &mut Box<dyn Scheduler>, class: Class, now_ns: u64| {
            // Everything periodic is due at once: a flood without admission.
            let request = Queued { id, class, asker: Asker::default(), deadline_ns: now_ns, offset: id * 7919 % 1009, bytes: 1, write: false };
            id += 1;
            scheduler.push(request, now_ns);
        };
        let busy: Vec<Class> = classes.iter().map(|(class, _)| class).filter(|class| backlogs[class.index()] > 0).collect();
        for &class in &busy {
            (0..40 * backlogs[class.index()]).for_each(|_| push(&mut scheduler, class, now_ns));
        }
        // A class whose share of a round is less than a request has to save for it; then it gets its turn within two rounds.
        let patience_ns = |class| {
            let quantum_ns = u64::from(classes.spec(class).share_permille) * ROUND_NS / 1000;
            let rounds = 4 + 2 * price_ns.max(service_ns).div_ceil(quantum_ns);
            rounds * ROUND_NS + (bound.requests + busy.len()) as u64 * service_ns
        };
        let mut served: BTreeMap<Class, u64> = busy.iter().map(|&class| (class, now_ns)).collect();
        let mut in_device = std::collections::VecDeque::new();
        while now_ns < 40 * ROUND_NS {
            while let Some(next) = scheduler.pop(now_ns) {
                served.insert(next.class, now_ns);
                in_device.push_back(next.id);
                push(&mut scheduler, next.class, now_ns);
            }
            now_ns += service_ns;
            if let Some(done) = in_device.pop_front() {
                scheduler.done(done, now_ns);
            }
            for (class, at_ns) in &served {
                let since_ns = now_ns - at_ns;
                prop_assert!(since_ns <= patience_ns(*class), "{class:?} got nothing for {since_ns} ns");
            }
        }
    }
}

#[test]
fn policies_have_names() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
    }
    assert_eq!(Policy::default(), Policy::Rounds);
    let error = "elevator".parse::<Policy>().unwrap_err().to_string();
    assert!(error.contains("`elevator`; choose one of rounds, fifo, cscan, drr, edf"), "{error}");
}
