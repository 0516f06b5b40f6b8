//! Which unit to let go of: the one that will be wanted last. Pure.
//!
//! ```text
//!   object   0 ......... a .............. b ............ c ........... end
//!                        ^ last viewer    ^              ^ first viewer
//!            |--- idle --|-- a's stretch -|- b's stretch-|-- c's stretch
//! ```
//! Every viewer has a front in each object that it plays: where its newest request begins. What lies between a front and the next
//! one ahead is wanted first by the viewer behind it, after the time that it takes to play there. What lies behind all
//! fronts is wanted by nobody, and goes first. After that goes the last unit of the stretch whose end is reached last.
//!
//! That is Belady's rule (IBM Systems Journal 5(2), 1966) with a future that is known: films are played forward. It keeps short
//! intervals between viewers before long ones, as interval caching does (Dan and Sitaram, 1995), and gives long ones up from
//! their far end, where what is given up is missed last.
//!
//! Every change is a few look-ups in ordered sets: fronts move once a segment, units come once a read.

use crate::prefetch::TrackOfSession;
use crate::units::UnitKey;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Where a viewer is in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) object: u64,
    /// The stripe in which its newest request begins.
    pub(crate) stripe: u64,
    /// When it asked.
    pub(crate) asked_ns: u64,
    /// How long a stripe of this object is shown, on average.
    pub(crate) stripe_ns: u64,
}

/// Units that may be let go, and who will want them.
#[derive(Debug, Default)]
pub(crate) struct NextUse {
    objects: HashMap<u64, Object>,
    viewers: HashMap<TrackOfSession, (Front, u64)>,
    /// Objects with units that nobody will want, by the age of the first of those.
    idle: BTreeSet<(u64, u64)>,
    /// Stretches with units: when the last one is wanted, object and front.
    stretches: BTreeSet<(u64, u64, Place)>,
    /// Units that were found in use, the first to be looked at again first.
    in_use: VecDeque<UnitKey>,
    next_age: u64,
    next_front: u64,
}

/// A front within its object: the stripe, and a number of its own.
type Place = (u64, u64);

/// What is known of one object.
#[derive(Debug, Default)]
struct Object {
    /// By stripe and position; when each came, counted in units.
    units: BTreeMap<(u64, usize), u64>,
    /// By place: the front, and when the last unit of its stretch is wanted if it has any.
    fronts: BTreeMap<Place, (Front, Option<u64>)>,
    /// The age under which it stands among the idle.
    idle: Option<u64>,
}

/// A unit to let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) key: UnitKey,
    /// When it will be wanted; `None` if by nobody.
    pub(crate) wanted_ns: Option<u64>,
}

impl NextUse {
    /// A unit is in memory, or was used and is to count as new.
    pub(crate) fn came(&mut self, key: UnitKey) {
        self.next_age += 1;
        let object = self.objects.entry(key.object).or_default();
        object.units.insert((key.stripe, key.position), self.next_age);
        self.look_at(key.object, key.stripe);
    }

    /// A unit is in memory no more.
    pub(crate) fn gone(&mut self, key: UnitKey) {
        let Some(object) = self.objects.get_mut(&key.object) else { return };
        if object.units.remove(&(key.stripe, key.position)).is_some() {
            self.look_at(key.object, key.stripe);
        }
    }

    /// A viewer asks for something, which tells where it is.
    pub(crate) fn shows(&mut self, viewer: TrackOfSession, front: Front) {
        self.leaves(viewer);
        let place = (front.stripe, self.next_front);
        self.next_front += 1;
        self.viewers.insert(viewer, (front, place.1));
        self.objects.entry(front.object).or_default().fronts.insert(place, (front, None));
        self.look_at_front(front.object, place);
        self.look_before(front.object, place);
    }

    /// A viewer is paused, or gone.
    pub(crate) fn leaves(&mut self, viewer: TrackOfSession) {
        let Some((front, number)) = self.viewers.remove(&viewer) else { return };
        let place = (front.stripe, number);
        let Some(object) = self.objects.get_mut(&front.object) else { return };
        if let Some((_, Some(wanted_ns))) = object.fronts.remove(&place) {
            self.stretches.remove(&(wanted_ns, front.object, place));
        }
        self.look_before(front.object, place);
    }

    /// How many play an object.
    pub(crate) fn viewers_of(&self, object: u64) -> usize {
        self.objects.get(&object).map_or(0, |object| object.fronts.len())
    }

    /// The unit that is wanted last; it is taken as gone.
    pub(crate) fn take_victim(&mut self) -> Option<Victim> {
        let victim = self.victim()?;
        self.gone(victim.key);
        Some(victim)
    }

    /// A unit that was taken to be let go is in use.
    pub(crate) fn is_in_use(&mut self, key: UnitKey) {
        self.in_use.push_back(key);
    }

    /// Looks again at so many units that were in use when they were looked at.
    pub(crate) fn look_again(&mut self, count: usize) {
        for _ in 0..count.min(self.in_use.len()) {
            if let Some(key) = self.in_use.pop_front() {
                self.came(key);
            }
        }
    }

    fn victim(&self) -> Option<Victim> {
        let first = |id: u64| {
            let (&(stripe, position), _) = self.objects.get(&id)?.units.first_key_value()?;
            Some(Victim { key: UnitKey { object: id, stripe, position }, wanted_ns: None })
        };
        if let Some(&(_, id)) = self.idle.first() {
            return first(id);
        }
        let &(wanted_ns, id, place) = self.stretches.last()?;
        let (stripe, position) = self.objects.get(&id)?.last_of(place)?;
        Some(Victim { key: UnitKey { object: id, stripe, position }, wanted_ns: Some(wanted_ns) })
    }

    /// Something changed at a stripe: lists anew what it belongs to.
    fn look_at(&mut self, id: u64, stripe: u64) {
        let place = self.objects.get(&id).and_then(|object| object.place_of(stripe));
        match place {
            Some(place) => self.look_at_front(id, place),
            None => self.look_at_idle(id),
        }
    }

    /// Something changed at a front: lists anew the stretch that ends there.
    fn look_before(&mut self, id: u64, place: Place) {
        let before = self.objects.get(&id).and_then(|object| object.fronts.range(..place).next_back());
        match before.map(|(before, _)| *before) {
            Some(before) => self.look_at_front(id, before),
            None => self.look_at_idle(id),
        }
    }

    fn look_at_front(&mut self, id: u64, place: Place) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        let last = object.last_of(place);
        let Some((front, listed)) = object.fronts.get_mut(&place) else { return };
        let wanted_ns = last.map(|(stripe, _)| front.reaches_ns(stripe));
        if *listed != wanted_ns {
            if let Some(before_ns) = std::mem::replace(listed, wanted_ns) {
                self.stretches.remove(&(before_ns, id, place));
            }
            if let Some(wanted_ns) = wanted_ns {
                self.stretches.insert((wanted_ns, id, place));
            }
        }
    }

    fn look_at_idle(&mut self, id: u64) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        let age = object.first_idle();
        if object.idle != age {
            if let Some(before) = std::mem::replace(&mut object.idle, age) {
                self.idle.remove(&(before, id));
            }
            if let Some(age) = age {
                self.idle.insert((age, id));
            }
        }
        if object.units.is_empty() && object.fronts.is_empty() {
            self.objects.remove(&id);
        }
    }
}

impl Front {
    /// When its viewer will ask for a stripe.
    fn reaches_ns(&self, stripe: u64) -> u64 {
        self.asked_ns.saturating_add(stripe.saturating_sub(self.stripe).saturating_mul(self.stripe_ns))
    }
}

impl Object {
    /// The front whose stretch a stripe lies in.
    fn place_of(&self, stripe: u64) -> Option<Place> {
        self.fronts.range(..=(stripe, u64::MAX)).next_back().map(|(place, _)| *place)
    }

    /// The last unit of the stretch that begins at a front.
    fn last_of(&self, place: Place) -> Option<(u64, usize)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let next = self.fronts.range((Excluded(place), Unbounded)).next();
        let from = (place.0, 0);
        let until = match next {
            // Two viewers at one place: what follows belongs to one of them.
            Some(((stripe, _), _)) if *stripe == place.0 => return None,
            Some(((stripe, _), _)) => Excluded((*stripe, 0)),
            None => Unbounded,
        };
        self.units.range((Included(from), until)).next_back().map(|(unit, _)| *unit)
    }

    /// The age of the first unit behind all fronts.
    fn first_idle(&self) -> Option<u64> {
        let (&(stripe, _), &age) = self.units.first_key_value()?;
        let is_behind = self.fronts.first_key_value().is_none_or(|((front, _), _)| stripe < *front);
        is_behind.then_some(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OBJECTS: u64 = 3;
    const STRIPES: u64 = 12;

    fn viewer(number: u64) -> TrackOfSession {
        (format!("{number:032x}").parse().unwrap(), 0)
    }

    fn unit(object: u64, stripe: u64) -> UnitKey {
        UnitKey { object, stripe, position: 0 }
    }

    fn front(object: u64, stripe: u64, asked_ns: u64) -> Front {
        Front { object, stripe, asked_ns, stripe_ns: 100 }
    }

    /// The rule, written down as it is said: for each unit all viewers are asked.
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
        /// Whatever happens: what nobody wants goes before what somebody wants, and of that, what is wanted last.
        #[test]
        fn what_is_wanted_last_goes_first(steps in prop::collection::vec(step(), 1..200)) {
            let (mut policy, mut plain) = (NextUse::default(), Plain::default());
            // No two viewers ask at the same time, as no two locks are taken at the same time.
            for (now_ns, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Comes(object, stripe) => {
                        plain.remove(unit(object, stripe));
                        plain.units.push(unit(object, stripe));
                        policy.came(unit(object, stripe));
                    }
                    Step::Goes(object, stripe) => {
                        plain.remove(unit(object, stripe));
                        policy.gone(unit(object, stripe));
                    }
                    Step::Shows(name, object, stripe) => {
                        let front = front(object, stripe, now_ns as u64);
                        plain.fronts.insert(name, front);
                        policy.shows(viewer(name), front);
                    }
                    Step::Leaves(name) => {
                        plain.fronts.remove(&name);
                        policy.leaves(viewer(name));
                    }
                    Step::LetGo => {
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
                }
            }
            // Nothing is left over when all have gone.
            (0..6).for_each(|name| policy.leaves(viewer(name)));
            while policy.take_victim().is_some() {}
            prop_assert!(policy.objects.is_empty() && policy.idle.is_empty() && policy.stretches.is_empty());
        }
    }

    #[test]
    fn what_nobody_wants_goes_oldest_first() {
        let mut policy = NextUse::default();
        for (object, stripe) in [(0, 5), (1, 0), (2, 9), (0, 7), (1, 1)] {
            policy.came(unit(object, stripe));
        }
        policy.came(unit(1, 0));
        let mut order = std::iter::from_fn(|| policy.take_victim()).map(|victim| victim.key.object);
        assert_eq!(order.next(), Some(0), "it is the oldest");
        assert_eq!(order.next(), Some(2));
    }

    #[test]
    fn a_long_interval_is_given_up_for_a_short_one_and_from_its_far_end() {
        let mut policy = NextUse::default();
        // 0 follows 1 at eight stripes, on another film 2 follows 3 at three.
        for (name, object, stripe) in [(0, 0, 2), (1, 0, 10), (2, 1, 2), (3, 1, 5)] {
            policy.shows(viewer(name), front(object, stripe, 1_000));
        }
        for stripe in 0..10 {
            policy.came(unit(0, stripe));
        }
        (0..5).for_each(|stripe| policy.came(unit(1, stripe)));
        let order: Vec<(u64, u64)> = std::iter::from_fn(|| policy.take_victim())
            .map(|victim| (victim.key.object, victim.key.stripe))
            .collect();
        assert_eq!(order[..4], [(0, 0), (0, 1), (1, 0), (1, 1)], "behind all viewers");
        assert_eq!(order[4..9], [(0, 9), (0, 8), (0, 7), (0, 6), (0, 5)]);
        assert_eq!(order.len(), 4 + 8 + 3);
    }

    #[test]
    fn when_the_leader_leaves_its_follower_still_wants_what_lies_between() {
        let mut policy = NextUse::default();
        policy.shows(viewer(0), front(0, 0, 0));
        policy.shows(viewer(1), front(0, 6, 0));
        (0..6).for_each(|stripe| policy.came(unit(0, stripe)));
        policy.came(unit(1, 0));
        policy.leaves(viewer(1));
        assert_eq!(policy.take_victim(), Some(Victim { key: unit(1, 0), wanted_ns: None }));
        assert_eq!(policy.take_victim(), Some(Victim { key: unit(0, 5), wanted_ns: Some(500) }));
        policy.leaves(viewer(0));
        assert_eq!(policy.take_victim(), Some(Victim { key: unit(0, 0), wanted_ns: None }));
    }

    #[test]
    fn what_is_in_use_is_looked_at_again_later() {
        let mut policy = NextUse::default();
        policy.came(unit(0, 0));
        let victim = policy.take_victim().unwrap();
        policy.is_in_use(victim.key);
        assert_eq!(policy.take_victim(), None);
        policy.look_again(1);
        assert_eq!(policy.take_victim(), Some(victim));
        policy.look_again(1);
        assert_eq!(policy.take_victim(), None);
    }
}
