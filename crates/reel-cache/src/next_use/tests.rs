use super::*;
use proptest::prelude::*;

const OBJECTS: u64 = 3;
const STRIPES: u64 = 12;

fn viewer(number: u64) -> TrackOfSession {
    TrackOfSession { session: format!("{number:032x}").parse().unwrap(), track: 0 }
}

fn unit(object: u64, stripe: u64) -> UnitKey {
    UnitKey { object, stripe, position: 0 }
}

fn front(object: u64, stripe: u64, asked_ns: u64) -> Front {
    Front { object, stripe, asked_ns, stripe_ns: 100, offset: stripe, until_stripe: stripe, is_whole: true }
}

/// The rule in its plainest form: for each unit all viewers are examined.
#[derive(Default)]
struct Plain {
    units: Vec<UnitKey>,
    fronts: HashMap<u64, Front>,
}

impl Plain {
    fn wanted_ns(&self, key: UnitKey) -> Option<u64> {
        let behind =
            self.fronts.values().filter(|front| front.object == key.object && front.stripe <= key.stripe);
        let nearest = behind.clone().map(|front| front.stripe).max()?;
        behind.filter(|front| front.stripe == nearest).map(|front| front.reaches_ns(key.stripe)).max()
    }

    fn remove(&mut self, key: UnitKey) -> bool {
        let before = self.units.len();
        self.units.retain(|unit| *unit != key);
        self.units.len() < before
    }
}

impl Plain {
    /// Takes a step together with the policy. `false` for the step that asks the policy for a
    /// victim.
    fn mirrors(&mut self, policy: &mut NextUse, step: &Step, now_ns: u64) -> bool {
        match *step {
            Step::Comes(object, stripe) => {
                self.remove(unit(object, stripe));
                self.units.push(unit(object, stripe));
                policy.insert(unit(object, stripe), 0..1);
            }
            Step::Goes(object, stripe) => {
                self.remove(unit(object, stripe));
                policy.remove(unit(object, stripe));
            }
            Step::Shows(name, object, stripe) => {
                let front = front(object, stripe, now_ns);
                self.fronts.insert(name, front);
                policy.set_front(viewer(name), front);
            }
            Step::Leaves(name) => {
                self.fronts.remove(&name);
                policy.leaves(viewer(name));
            }
            Step::LetGo => return false,
        }
        true
    }
}

#[derive(Clone, Debug)]
enum Step {
    Comes(u64, u64),
    Goes(u64, u64),
    Shows(u64, u64, u64),
    Leaves(u64),
    LetGo,
}

fn step() -> impl Strategy<Value = Step> {
    let (object, stripe, viewer) = (0..OBJECTS, 0..STRIPES, 0..6_u64);
    prop_oneof![
        4 => (object.clone(), stripe.clone()).prop_map(|(object, stripe)| Step::Comes(object, stripe)),
        1 => (object.clone(), stripe.clone()).prop_map(|(object, stripe)| Step::Goes(object, stripe)),
        4 => (viewer.clone(), object, stripe)
            .prop_map(|(viewer, object, stripe)| Step::Shows(viewer, object, stripe)),
        1 => viewer.prop_map(Step::Leaves),
        2 => Just(Step::LetGo),
    ]
}

proptest! {
    /// In any order of steps: units that no viewer needs are evicted before units that a viewer
    /// needs, and of those the unit that is needed last goes first.
    #[test]
    fn the_unit_that_is_needed_last_is_evicted_first(steps in prop::collection::vec(step(), 1..200)) {
        let (mut policy, mut plain) = (NextUse::default(), Plain::default());
        // No two viewers make a request at the same time, as no two locks are taken at the same
        // time.
        for (now_ns, step) in steps.into_iter().enumerate() {
            if plain.mirrors(&mut policy, &step, now_ns as u64) {
                continue;
            }
            let victim = policy.take_victim();
            prop_assert_eq!(victim.is_some(), !plain.units.is_empty());
            let Some(victim) = victim else { continue };
            prop_assert_eq!(plain.wanted_ns(victim.key), victim.wanted_ns);
            prop_assert!(plain.remove(victim.key));
            for &other in &plain.units {
                let other_ns = plain.wanted_ns(other);
                let is_right = match (victim.wanted_ns, other_ns) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(victim_ns), Some(other_ns)) => victim_ns >= other_ns,
                };
                prop_assert!(is_right, "{:?} goes before {:?}", victim, other);
            }
        }
        // Nothing is left over when all viewers and units are gone.
        (0..6).for_each(|name| policy.leaves(viewer(name)));
        while policy.take_victim().is_some() {}
        prop_assert!(policy.objects.is_empty() && policy.idle.is_empty() && policy.stretches.is_empty());
    }
}

#[test]
fn units_without_viewers_are_evicted_oldest_first() {
    let mut policy = NextUse::default();
    for (object, stripe) in [(0, 5), (1, 0), (2, 9), (0, 7), (1, 1)] {
        policy.insert(unit(object, stripe), 0..1);
    }
    policy.insert(unit(1, 0), 0..1);
    let mut order = std::iter::from_fn(|| policy.take_victim()).map(|victim| victim.key.object);
    assert_eq!(order.next(), Some(0), "the oldest unit");
    assert_eq!(order.next(), Some(2));
}

#[test]
fn a_long_interval_is_evicted_before_a_short_one_from_its_far_end() {
    let mut policy = NextUse::default();
    // 0 follows 1 at eight stripes. On another title 2 follows 3 at three.
    for (name, object, stripe) in [(0, 0, 2), (1, 0, 10), (2, 1, 2), (3, 1, 5)] {
        policy.set_front(viewer(name), front(object, stripe, 1_000));
    }
    for stripe in 0..10 {
        policy.insert(unit(0, stripe), 0..1);
    }
    (0..5).for_each(|stripe| policy.insert(unit(1, stripe), 0..1));
    let order: Vec<(u64, u64)> = std::iter::from_fn(|| policy.take_victim())
        .map(|victim| (victim.key.object, victim.key.stripe))
        .collect();
    assert_eq!(order[..4], [(0, 0), (0, 1), (1, 0), (1, 1)], "behind all viewers");
    assert_eq!(order[4..9], [(0, 9), (0, 8), (0, 7), (0, 6), (0, 5)]);
    assert_eq!(order.len(), 4 + 8 + 3);
}

#[test]
fn a_follower_still_needs_the_interval_when_its_leader_leaves() {
    let mut policy = NextUse::default();
    policy.set_front(viewer(0), front(0, 0, 0));
    policy.set_front(viewer(1), front(0, 6, 0));
    (0..6).for_each(|stripe| policy.insert(unit(0, stripe), 0..1));
    policy.insert(unit(1, 0), 0..1);
    policy.leaves(viewer(1));
    assert_eq!(policy.take_victim(), Some(Victim { key: unit(1, 0), wanted_ns: None, is_kept: false }));
    assert_eq!(policy.take_victim(), Some(Victim { key: unit(0, 5), wanted_ns: Some(500), is_kept: false }));
    policy.leaves(viewer(0));
    assert_eq!(policy.take_victim(), Some(Victim { key: unit(0, 0), wanted_ns: None, is_kept: false }));
}

/// A session, so that it can join a group.
fn session(number: u64) -> SessionKey {
    viewer(number).session
}

proptest! {
    /// However sessions move, join and leave: what lies between two sessions of a group, or was
    /// requested by its first, is evicted after everything else.
    #[test]
    fn units_kept_for_followers_are_evicted_last(steps in prop::collection::vec(step(), 1..200), odd in any::<bool>()) {
        let (mut policy, mut plain) = (NextUse::default(), Plain::default());
        // Either the viewers with odd numbers belong to a group, or those with even numbers. The
        // others belong to none.
        let is_in = |name: u64| (name % 2 == 1) == odd;
        (0..6).filter(|name| is_in(*name)).for_each(|name| policy.joins(session(name), Some(7)));
        (0..OBJECTS).for_each(|object| policy.keeps(object, 7, STRIPES));
        for (now_ns, step) in steps.into_iter().enumerate() {
            if let Step::Shows(_, object, _) = step {
                policy.keeps(object, 7, STRIPES);
            }
            if plain.mirrors(&mut policy, &step, now_ns as u64) {
                continue;
            }
            let Some(victim) = policy.take_victim() else { continue };
            let is_kept = |key: UnitKey| {
                let group = plain.fronts.iter().filter(|(name, front)| is_in(**name) && front.object == key.object);
                let stripes: Vec<u64> = group.map(|(_, front)| front.stripe).collect();
                let ends = stripes.iter().min().zip(stripes.iter().max());
                stripes.len() > 1 && ends.is_some_and(|(first, last)| (*first..=*last).contains(&key.stripe))
            };
            prop_assert_eq!(victim.is_kept, is_kept(victim.key), "{:?}", victim);
            let is_last = !victim.is_kept || plain.units.iter().all(|key| is_kept(*key));
            prop_assert!(is_last && plain.remove(victim.key));
        }
    }
}

#[test]
fn a_leader_far_ahead_keeps_no_more_than_is_charged() {
    let mut policy = NextUse::default();
    for (name, stripe) in [(0, 0), (1, 9)] {
        policy.joins(session(name), Some(3));
        policy.keeps(0, 3, 4);
        policy.set_front(viewer(name), Front { until_stripe: stripe, ..front(0, stripe, 0) });
    }
    (0..12).for_each(|stripe| policy.insert(unit(0, stripe), 0..1));
    let order: Vec<(u64, bool)> = std::iter::from_fn(|| policy.take_victim())
        .map(|victim| (victim.key.stripe, victim.is_kept))
        .collect();
    let kept = order.iter().filter(|(_, is_kept)| *is_kept).count();
    assert_eq!(kept, 6, "0 to 4, and what the leader has asked for: {order:?}");
    assert!(order.iter().position(|(_, is_kept)| *is_kept) >= Some(order.len() - kept), "{order:?}");
}

#[test]
fn a_front_that_has_lost_a_requested_unit_is_not_whole() {
    let mut policy = NextUse::default();
    policy.set_front(viewer(0), Front { until_stripe: 1, ..front(0, 0, 0) });
    (0..3).for_each(|stripe| policy.insert(unit(0, stripe), 0..1));
    let is_whole = |policy: &NextUse| policy.front(viewer(0)).unwrap().is_whole;
    assert_eq!(policy.take_victim().unwrap().key, unit(0, 2));
    assert!(is_whole(&policy), "the front has not requested that unit");
    assert_eq!(policy.take_victim().unwrap().key, unit(0, 1));
    assert!(!is_whole(&policy));
}

#[test]
fn a_unit_in_use_is_examined_again_later() {
    let mut policy = NextUse::default();
    policy.insert(unit(0, 0), 0..1);
    let victim = policy.take_victim().unwrap();
    policy.is_in_use(victim.key, 0..1);
    assert_eq!(policy.take_victim(), None);
    policy.reexamine(1);
    assert_eq!(policy.take_victim(), Some(victim));
    policy.reexamine(1);
    assert_eq!(policy.take_victim(), None);
}
