//! Laws that every policy keeps, whatever requests come, in whatever order, and whatever the clock
//! does.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

use proptest::prelude::*;
use reel_disk::limits::EXPECTED_CREDIT_NS;
use reel_disk::{DepthBound, Policy, Queued, Requester, Scheduler};
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
        |(read_request_ns, read_mib_ns, write_request_ns, write_mib_ns, independent_limits)| DiskPrice {
            read_request_ns,
            read_mib_ns,
            write_request_ns,
            write_mib_ns,
            independent_limits,
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

/// The built-in classes and `more` others of all kinds.
fn table(more: usize) -> ClassTable {
    let mut specs: Vec<ClassSpec> = ClassTable::default().iter().map(|(_, spec)| spec.clone()).collect();
    for number in 0..more.min(28) {
        let kind = [Kind::Periodic, Kind::Interactive, Kind::Aperiodic][number % 3];
        specs.push(ClassSpec::new(format!("more-{number}"), kind, 1 + number as u32));
        specs[0].share_permille -= 1 + number as u32;
        specs[0].network_permille -= 1 + number as u32;
    }
    ClassTable::new(specs).unwrap()
}

/// A scheduler, and what it should know of each request.
struct Checked {
    policy: Policy,
    bound: DepthBound,
    scheduler: Box<dyn Scheduler>,
    now_ns: u64,
    next_id: u64,
    waiting: BTreeMap<u64, Queued>,
    in_device: BTreeMap<u64, usize>,
    maintenance: Requester,
    was_rotational: bool,
}

impl Checked {
    fn new(policy: Policy, more: usize, price: DiskPrice, bound: DepthBound) -> Self {
        Self {
            policy,
            bound,
            scheduler: policy.scheduler(&table(more), price, bound),
            now_ns: 5 * ROUND_NS,
            next_id: 0,
            waiting: BTreeMap::new(),
            in_device: BTreeMap::new(),
            maintenance: Requester::maintenance(),
            was_rotational: price.is_rotational(),
        }
    }

    fn apply(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Push { class, deadline_ns, offset, bytes, write } => {
                let (id, class) = (self.next_id, Class::new(class).unwrap());
                let requesters = [Requester::default(), self.maintenance, Requester::default().of(id)];
                let requester = requesters[id as usize % 3];
                let request = Queued { id, class, requester, deadline_ns, offset, bytes, write };
                self.waiting.insert(id, request);
                self.next_id += 1;
                self.scheduler.push(request, self.now_ns);
            }
            Step::Done => {
                if let Some((id, _)) = self.in_device.pop_first() {
                    self.scheduler.done(id, self.now_ns);
                }
            }
            Step::Promote { nth, class, deadline_ns } => {
                // Also ids that are in the device or gone.
                let id = nth as u64 % self.next_id.max(1);
                self.scheduler.promote(id, Class::new(class).unwrap(), deadline_ns);
            }
            Step::Withdraw { nth } => {
                let id = nth as u64 % self.next_id.max(1);
                prop_assert_eq!(self.scheduler.withdraw(id), self.waiting.remove(&id).is_some());
            }
            Step::Wait { ns } => self.now_ns = self.now_ns.saturating_add(ns),
            Step::ClockTo { ns } => self.now_ns = ns,
            Step::Price(price) => {
                self.was_rotational |= price.is_rotational();
                self.scheduler.set_price(price);
            }
            Step::Found(price) => self.scheduler.correct_price(price),
            Step::Classes(more) => self.scheduler.set_classes(&table(more)),
        }
        Ok(())
    }

    /// Fills the device: each request comes once, as it was pushed, within the bound.
    fn fill(&mut self) -> Result<(), TestCaseError> {
        while let Some(next) = self.scheduler.pop(self.now_ns) {
            let pushed = self.waiting.remove(&next.id).expect("given twice, or never pushed");
            prop_assert_eq!(
                (next.offset, next.bytes, next.write),
                (pushed.offset, pushed.bytes, pushed.write)
            );
            prop_assert!(next.deadline_ns <= pushed.deadline_ns, "promotion only brings deadlines nearer");
            self.in_device.insert(next.id, next.bytes);
            let total = self.in_device.values().fold(0_usize, |sum, bytes| sum.saturating_add(*bytes));
            prop_assert!(self.in_device.len() <= self.bound.requests);
            prop_assert!(self.in_device.len() == 1 || total <= self.bound.bytes);
        }
        Ok(())
    }

    /// The device has as much as it may have, and the view says what waits.
    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.scheduler.len(), self.waiting.len());
        let kept_ns = self.scheduler.kept_until_ns().map(|until_ns| until_ns.saturating_sub(self.now_ns));
        let is_kept = kept_ns.is_some_and(|ns| (1..=EXPECTED_CREDIT_NS).contains(&ns));
        prop_assert!(
            self.waiting.is_empty() || !self.in_device.is_empty() || is_kept,
            "the device idles while a request waits, and is not kept for another"
        );
        let DepthBound { requests, bytes, device_ns } = self.bound;
        if !is_kept && bytes == usize::MAX && device_ns == u64::MAX && !self.waiting.is_empty() {
            // `rounds` leaves the second place of a rotational disk to later requests.
            let least = if self.policy == Policy::Rounds && self.was_rotational { 1 } else { requests };
            prop_assert!(self.in_device.len() >= least, "the device could have had one more");
        }
        let view = self.scheduler.view(self.now_ns);
        prop_assert_eq!(view.policy, self.policy.name());
        let queued: u64 = view.classes.iter().map(|class| class.queued).sum();
        prop_assert_eq!(queued, self.waiting.len() as u64);
        Ok(())
    }

    /// Nothing is lost: the rest comes out.
    fn drain(mut self) -> Result<(), TestCaseError> {
        let mut left = self.waiting.keys().copied().collect::<BTreeSet<u64>>();
        loop {
            for id in std::mem::take(&mut self.in_device).into_keys() {
                self.scheduler.done(id, self.now_ns);
            }
            self.now_ns = self.now_ns.saturating_add(1_000_000);
            let Some(next) = self.scheduler.pop(self.now_ns) else {
                if self.scheduler.kept_until_ns().is_some() {
                    continue;
                }
                break;
            };
            prop_assert!(left.remove(&next.id));
            self.in_device.insert(next.id, next.bytes);
        }
        prop_assert!(left.is_empty() && self.scheduler.is_empty());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn each_request_once_within_the_bound_and_the_device_never_idles_while_one_waits(
        policy in proptest::sample::select(Policy::ALL.to_vec()),
        steps in proptest::collection::vec(step(), 1..250),
        first_price in price(),
        requests in 1_usize..6,
        bytes in prop_oneof![1_usize..3_000_000, Just(usize::MAX)],
        device_ns in prop_oneof![1_u64..200_000_000, Just(u64::MAX)],
        more in 0_usize..29,
    ) {
        let mut checked = Checked::new(policy, more, first_price, DepthBound { requests, bytes, device_ns });
        for step in steps {
            checked.apply(step)?;
            checked.fill()?;
            checked.check()?;
        }
        checked.drain()?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn rounds_starves_no_class_however_wrong_the_price_is(
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
            independent_limits: false,
        };
        let mut scheduler = Policy::Rounds.scheduler(&classes, price, bound);
        let (mut now_ns, mut id) = (0, 0);
        let mut push = |scheduler: &mut Box<dyn Scheduler>, class: Class, now_ns: u64| {
            // Everything periodic is due at once: overload without admission.
            let request = Queued { id, class, requester: Requester::default(), deadline_ns: now_ns, offset: id * 7919 % 1009, bytes: 1, write: false };
            id += 1;
            scheduler.push(request, now_ns);
        };
        let busy: Vec<Class> = classes.iter().map(|(class, _)| class).filter(|class| backlogs[class.index()] > 0).collect();
        for &class in &busy {
            (0..40 * backlogs[class.index()]).for_each(|_| push(&mut scheduler, class, now_ns));
        }
        // A class whose share of a round is less than a request has to save for it. Then it gets
        // its turn within two rounds.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Requests that lie behind one another, of different classes and of one: each goes to the
    /// device by itself, in the most urgent class that was asked for it while it waited, with the
    /// nearest deadline (Prism, section 4: no merging of requests of different classes).
    #[test]
    fn requests_never_merge_and_each_is_served_in_the_most_urgent_class_that_waits_for_it(
        policy in proptest::sample::select(Policy::ALL.to_vec()),
        asked in proptest::collection::vec((0_usize..31, deadline(), 0_u64..8), 1..60),
        promoted in proptest::collection::vec((any::<usize>(), 0_usize..31, deadline()), 0..60),
        first in 0_usize..40,
        more in 0_usize..29,
        price in price(),
        requests in 1_usize..6,
    ) {
        const BYTES: usize = 64 << 10;
        let classes = table(more);
        let bound = DepthBound { requests, ..DepthBound::default() };
        let mut scheduler = policy.scheduler(&classes, price, bound);
        let (mut now_ns, mut asked_of, mut in_device) = (5 * ROUND_NS, BTreeMap::new(), Vec::new());
        for (id, &(class, deadline_ns, place)) in asked.iter().enumerate() {
            let (id, class, offset) = (id as u64, Class::new(class).unwrap(), place * BYTES as u64);
            let requester = Requester::default();
            let request = Queued { id, class, requester, deadline_ns, offset, bytes: BYTES, write: false };
            asked_of.insert(id, (request, vec![class]));
            scheduler.push(request, now_ns);
        }
        let take = |scheduler: &mut Box<dyn Scheduler>,
                        asked_of: &mut BTreeMap<u64, (Queued, Vec<Class>)>,
                        now_ns: u64,
                        in_device: &mut Vec<u64>|
         -> Result<bool, TestCaseError> {
            let Some(next) = scheduler.pop(now_ns) else { return Ok(false) };
            let (wanted, before) = asked_of.remove(&next.id).expect("given twice, or never pushed");
            // Of what DRR has chosen for a sweep already, the class stays.
            let class = if policy == Policy::Drr && before.contains(&next.class) { next.class } else { wanted.class };
            prop_assert_eq!(next, Queued { class, ..wanted });
            in_device.push(next.id);
            Ok(true)
        };
        for _ in 0..first {
            if !take(&mut scheduler, &mut asked_of, now_ns, &mut in_device)? {
                in_device.drain(..).for_each(|id| scheduler.done(id, now_ns));
            }
            now_ns += 1_000_000;
        }
        for (nth, class, deadline_ns) in promoted {
            let (id, class) = (nth as u64 % asked.len() as u64, Class::new(class).unwrap());
            scheduler.promote(id, class, deadline_ns);
            if let Some((request, before)) = asked_of.get_mut(&id) {
                if classes.kind(class) < classes.kind(request.class) {
                    request.class = class;
                    before.push(class);
                }
                request.deadline_ns = request.deadline_ns.min(deadline_ns);
            }
        }
        while !asked_of.is_empty() {
            if !take(&mut scheduler, &mut asked_of, now_ns, &mut in_device)? {
                in_device.drain(..).for_each(|id| scheduler.done(id, now_ns));
                now_ns += 1_000_000;
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
