//! Which unit to evict: the one that will be needed last. Pure.
//!
//! ```text
//!   object   0 ......... a .............. b ............ c ........... end
//!                        ^ last viewer    ^              ^ first viewer
//!            |--- idle --|-- a's stretch -|- b's stretch-|-- c's stretch
//! ```
//! Every viewer has a front in each object that it plays: where its newest request begins. What
//! lies between a front and the next one ahead is needed first by the viewer behind it, after the
//! time that playing up to there takes. What lies behind all fronts is needed by no viewer, and is
//! evicted first. After that comes the last unit of the stretch whose end is reached last.
//!
//! That is Belady's rule (IBM Systems Journal 5(2), 1966) with a known future: titles are played
//! forward. It keeps short intervals between viewers before long ones, as interval caching does
//! (Dan and Sitaram, 1995). Long intervals are evicted from their far end, where the loss is felt
//! last.
//!
//! **Shared reservations.** A session that follows another one closely has no disk reservation of
//! its own. Instead it is promised that what lies between the two stays (docs/design/one-copy.md).
//! So what lies between the sessions of a shared reservation is evicted after everything else. That
//! holds up to where the first session has requested, and for each session no farther than is
//! charged for.
//!
//! Every change is a few look-ups in ordered sets: fronts move once a segment, and units come once
//! a read.

use crate::key::{SessionKey, TrackOfSession};
use crate::row_kind::RowKind;
use crate::unit::{PositionRows, UnitKey};
use reel_volume::ObjectMap;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;

/// Where a viewer is in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) object: u64,
    /// The stripe in which its newest request begins.
    pub(crate) stripe: u64,
    /// When that request was made.
    pub(crate) asked_ns: u64,
    /// How long a stripe of this object is shown, on average.
    pub(crate) stripe_ns: u64,
    /// The byte at which its newest request begins.
    pub(crate) offset: u64,
    /// The last stripe of that request.
    pub(crate) until_stripe: u64,
    /// The units of the request are read to their ends, and none of them has been evicted. A
    /// session that follows finds them.
    pub(crate) is_whole: bool,
}

/// Units that may be evicted, and when viewers will need them.
#[derive(Debug, Default)]
pub(crate) struct NextUse {
    objects: HashMap<u64, Object>,
    viewers: HashMap<TrackOfSession, (Front, u64)>,
    /// The shared reservation of each session that has one.
    group_of: HashMap<SessionKey, u64>,
    /// Objects with units that no viewer will need, by the age of the first of those units.
    idle: BTreeSet<(u64, u64)>,
    /// Stretches with units: by the turn of their eviction, object and front.
    stretches: BTreeSet<(Turn, u64, FrontKey)>,
    /// Units that were found in use, with their rows. The first is examined again first.
    in_use: VecDeque<(UnitKey, Range<usize>)>,
    next_age: u64,
    next_front: u64,
}

/// A front within its object: the stripe, and a number of its own.
type FrontKey = (u64, u64);

/// When the last unit of a stretch is evicted; the last turn goes first. It says whether the unit
/// is free of any promise that it stays, and when it is needed.
type Turn = (bool, u64);

/// What is known of one object.
#[derive(Debug, Default)]
struct Object {
    /// By stripe and position: a number that counts the units in the order they came, and the rows.
    units: BTreeMap<(u64, usize), (u64, Range<usize>)>,
    /// By place: the front, and the turn of the last unit of its stretch, if the stretch has any.
    fronts: BTreeMap<FrontKey, (Front, Option<Turn>)>,
    groups: HashMap<u64, Group>,
    /// The groups with more than one front.
    shared: BTreeSet<u64>,
    /// The age under which the object is listed as idle.
    idle: Option<u64>,
}

/// The fronts of one shared reservation in one object.
#[derive(Debug, Default)]
struct Group {
    fronts: BTreeSet<FrontKey>,
    /// How many stripes before each front are charged for.
    stripes: u64,
}

/// Most fronts that are listed again when a group becomes longer or shorter: those of other
/// sessions within it, which are few. Fronts beyond that stay listed as they were until they move.
const FRONTS_WITHIN_MAX: usize = 64;

/// A unit to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) key: UnitKey,
    /// When it will be needed; `None` if no viewer will need it.
    pub(crate) wanted_ns: Option<u64>,
    /// Whether a session was promised that it stays.
    pub(crate) is_kept: bool,
}

impl NextUse {
    /// These rows of a unit have come into memory, or were used and count as new.
    pub(crate) fn insert(&mut self, key: UnitKey, rows: Range<usize>) {
        self.next_age += 1;
        let object = self.objects.entry(key.object).or_default();
        object.units.insert((key.stripe, key.position), (self.next_age, rows));
        self.relist_at(key.object, key.stripe);
    }

    /// A unit is no longer in memory.
    pub(crate) fn remove(&mut self, key: UnitKey) {
        let Some(object) = self.objects.get_mut(&key.object) else { return };
        if object.units.remove(&(key.stripe, key.position)).is_some() {
            self.relist_at(key.object, key.stripe);
        }
    }

    /// A viewer makes a request, which shows where it is.
    pub(crate) fn set_front(&mut self, viewer: TrackOfSession, front: Front) {
        self.leaves(viewer);
        let front_key = (front.stripe, self.next_front);
        self.next_front += 1;
        self.viewers.insert(viewer, (front, front_key.1));
        let object = self.objects.entry(front.object).or_default();
        object.fronts.insert(front_key, (front, None));
        let group = self.group_of.get(&viewer.session).copied();
        if let Some(group) = group {
            object.lengthen(group, front_key);
        }
        self.relist_front(front.object, front_key);
        self.relist_before(front.object, front_key);
        if let Some(group) = group {
            self.relist_group(front.object, group, front_key);
        }
    }

    /// A viewer is paused, or gone.
    pub(crate) fn leaves(&mut self, viewer: TrackOfSession) {
        let Some((front, number)) = self.viewers.remove(&viewer) else { return };
        let front_key = (front.stripe, number);
        let Some(object) = self.objects.get_mut(&front.object) else { return };
        if let Some((_, Some(turn))) = object.fronts.remove(&front_key) {
            self.stretches.remove(&(turn, front.object, front_key));
        }
        let group = self.group_of.get(&viewer.session).copied();
        if let Some(group) = group {
            object.shorten(group, front_key);
            self.relist_group(front.object, group, front_key);
        }
        self.relist_before(front.object, front_key);
    }

    /// A session belongs to a group from now on, or to none. To be called while it has no fronts.
    pub(crate) fn joins(&mut self, session: SessionKey, group: Option<u64>) {
        match group {
            Some(group) => self.group_of.insert(session, group),
            None => self.group_of.remove(&session),
        };
    }

    /// The group of a session.
    pub(crate) fn group_of(&self, session: SessionKey) -> Option<u64> {
        self.group_of.get(&session).copied()
    }

    /// So many stripes of an object are charged for before each viewer of a group. A viewer of the
    /// group has to call `set_front` after that.
    pub(crate) fn keeps(&mut self, object: u64, group: u64, stripes: u64) {
        self.objects.entry(object).or_default().groups.entry(group).or_default().stripes = stripes;
    }

    /// Where a viewer is on one of its tracks.
    pub(crate) fn front(&self, viewer: TrackOfSession) -> Option<Front> {
        let (front, number) = self.viewers.get(&viewer)?;
        // Later changes to the front are recorded among the fronts of its object.
        Some(self.objects.get(&front.object)?.fronts.get(&(front.stripe, *number))?.0)
    }

    /// The units of a viewer's newest request are read to their ends.
    pub(crate) fn reads_on(&mut self, viewer: TrackOfSession) {
        let Some((front, number)) = self.viewers.get(&viewer) else { return };
        let object = self.objects.get_mut(&front.object);
        if let Some((front, _)) = object.and_then(|object| object.fronts.get_mut(&(front.stripe, *number))) {
            front.is_whole = true;
        }
    }

    /// Whether every unit that these bytes of an object touch is in memory, from the first row that
    /// they touch to the unit's end. `with_parity` asks for the parity units of these stripes, too.
    pub(crate) fn holds(&self, map: &ObjectMap, range: Range<u64>, with_parity: bool) -> bool {
        if range.is_empty() {
            return true;
        }
        let Some(object) = self.objects.get(&map.id()) else { return false };
        let (stripe_bytes, end) = (map.geometry().stripe_bytes() as u64, map.geometry().unit_rows());
        (range.start / stripe_bytes..range.end.div_ceil(stripe_bytes)).all(|stripe| {
            let start = stripe * stripe_bytes;
            let within = range.start.max(start) - start..range.end.min(start + stripe_bytes) - start;
            let mut wanted = RowKind::Data.rows_by_position(map.geometry(), &within);
            let first = wanted.iter().map(|unit| unit.rows.start).min().unwrap_or(0);
            let parity = map.geometry().data_rows()..map.geometry().width();
            let parity = parity.filter(|_| with_parity);
            wanted.extend(parity.map(|position| PositionRows { position, rows: first..end }));
            wanted.into_iter().all(|PositionRows { position, rows }| {
                let listed = object.units.get(&(stripe, position));
                listed.is_some_and(|(_, have)| have.start <= rows.start && have.end >= end)
            })
        })
    }

    /// How many viewers play an object.
    pub(crate) fn viewers_of(&self, object: u64) -> usize {
        self.objects.get(&object).map_or(0, |object| object.fronts.len())
    }

    /// The unit that is needed last. It is recorded as gone.
    pub(crate) fn take_victim(&mut self) -> Option<Victim> {
        let victim = self.victim()?;
        let UnitKey { object, stripe, .. } = victim.key;
        if let Some(object) = self.objects.get_mut(&object)
            && let Some(front_key) = object.front_at(stripe)
            && let Some((front, _)) = object.fronts.get_mut(&front_key)
            && stripe <= front.until_stripe
        {
            front.is_whole = false;
        }
        self.remove(victim.key);
        Some(victim)
    }

    /// A unit that was chosen for eviction is in use.
    pub(crate) fn is_in_use(&mut self, key: UnitKey, rows: Range<usize>) {
        self.in_use.push_back((key, rows));
    }

    /// Examines again so many units that were found in use.
    pub(crate) fn reexamine(&mut self, count: usize) {
        for _ in 0..count.min(self.in_use.len()) {
            if let Some((key, rows)) = self.in_use.pop_front() {
                self.insert(key, rows);
            }
        }
    }

    fn victim(&self) -> Option<Victim> {
        let first = |id: u64| {
            let (&(stripe, position), _) = self.objects.get(&id)?.units.first_key_value()?;
            let key = UnitKey { object: id, stripe, position };
            Some(Victim { key, wanted_ns: None, is_kept: false })
        };
        if let Some(&(_, id)) = self.idle.first() {
            return first(id);
        }
        let &((is_free, wanted_ns), id, front_key) = self.stretches.last()?;
        let (stripe, position) = self.objects.get(&id)?.last_of(front_key)?;
        let key = UnitKey { object: id, stripe, position };
        Some(Victim { key, wanted_ns: Some(wanted_ns), is_kept: !is_free })
    }

    /// A front of a group was added or removed at a place. Lists again what lies between its
    /// neighbours there.
    fn relist_group(&mut self, id: u64, group: u64, front_key: FrontKey) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let Some(object) = self.objects.get(&id) else { return };
        let Some(group) = object.groups.get(&group) else { return };
        let behind = group
            .fronts
            .range(..front_key)
            .next_back()
            .map_or(Included(front_key), |front_key| Included(*front_key));
        // Other sessions may be where the first of a group has requested. What that keeps changes
        // when the first is alone.
        let asked =
            |front_key: &FrontKey| object.fronts.get(front_key).map_or(0, |(front, _)| front.until_stripe);
        let ahead = group.fronts.range((Excluded(front_key), Unbounded)).next();
        let ahead =
            ahead.map_or(Unbounded, |front_key| Included((front_key.0.max(asked(front_key)), u64::MAX)));
        let within: Vec<FrontKey> = object
            .fronts
            .range((behind, ahead))
            .map(|(front_key, _)| *front_key)
            .take(FRONTS_WITHIN_MAX)
            .collect();
        within.into_iter().for_each(|front_key| self.relist_front(id, front_key));
    }

    /// Something changed at a stripe. Lists again the stretch that it belongs to.
    fn relist_at(&mut self, id: u64, stripe: u64) {
        let front_key = self.objects.get(&id).and_then(|object| object.front_at(stripe));
        match front_key {
            Some(front_key) => self.relist_front(id, front_key),
            None => self.relist_idle(id),
        }
    }

    /// Something changed at a front. Lists again the stretch that ends there.
    fn relist_before(&mut self, id: u64, front_key: FrontKey) {
        let before = self.objects.get(&id).and_then(|object| object.fronts.range(..front_key).next_back());
        match before.map(|(before, _)| *before) {
            Some(before) => self.relist_front(id, before),
            None => self.relist_idle(id),
        }
    }

    fn relist_front(&mut self, id: u64, front_key: FrontKey) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        let last = object.last_of(front_key).map(|(stripe, _)| (stripe, !object.is_kept(front_key, stripe)));
        let Some((front, listed)) = object.fronts.get_mut(&front_key) else { return };
        let turn = last.map(|(stripe, is_free)| (is_free, front.reaches_ns(stripe)));
        if *listed != turn {
            if let Some(before) = std::mem::replace(listed, turn) {
                self.stretches.remove(&(before, id, front_key));
            }
            if let Some(turn) = turn {
                self.stretches.insert((turn, id, front_key));
            }
        }
    }

    fn relist_idle(&mut self, id: u64) {
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
    /// When its viewer will request a stripe.
    fn reaches_ns(&self, stripe: u64) -> u64 {
        self.asked_ns.saturating_add(stripe.saturating_sub(self.stripe).saturating_mul(self.stripe_ns))
    }
}

impl Object {
    /// Adds a front of a group.
    fn lengthen(&mut self, id: u64, front_key: FrontKey) {
        let group = self.groups.entry(id).or_default();
        group.fronts.insert(front_key);
        if group.fronts.len() > 1 {
            self.shared.insert(id);
        }
    }

    /// Removes a front of a group.
    fn shorten(&mut self, id: u64, front_key: FrontKey) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.fronts.remove(&front_key);
        if group.fronts.len() < 2 {
            self.shared.remove(&id);
        }
        if group.fronts.is_empty() {
            self.groups.remove(&id);
        }
    }

    /// The front whose stretch a stripe lies in.
    fn front_at(&self, stripe: u64) -> Option<FrontKey> {
        self.fronts.range(..=(stripe, u64::MAX)).next_back().map(|(front_key, _)| *front_key)
    }

    /// Whether a session was promised that a stripe of the stretch behind this front stays. That is
    /// so if it lies between two sessions of a group, or if the first of them has requested it.
    fn is_kept(&self, front_key: FrontKey, stripe: u64) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        self.shared.iter().filter_map(|group| self.groups.get(group)).any(|group| {
            let Some(behind) = group.fronts.range(..=front_key).next_back() else { return false };
            let is_charged = stripe <= behind.0.saturating_add(group.stripes);
            let is_between = group.fronts.range((Excluded(*behind), Unbounded)).next().is_some();
            let asked = self.fronts.get(behind).map_or(0, |(front, _)| front.until_stripe);
            is_charged && (is_between || stripe <= asked)
        })
    }

    /// The last unit of the stretch that begins at a front.
    fn last_of(&self, front_key: FrontKey) -> Option<(u64, usize)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let next = self.fronts.range((Excluded(front_key), Unbounded)).next();
        let from = (front_key.0, 0);
        let until = match next {
            // Two viewers are at one place: the stretch belongs to one of them.
            Some(((stripe, _), _)) if *stripe == front_key.0 => return None,
            Some(((stripe, _), _)) => Excluded((*stripe, 0)),
            None => Unbounded,
        };
        self.units.range((Included(from), until)).next_back().map(|(unit, _)| *unit)
    }

    /// The age of the first unit behind all fronts.
    fn first_idle(&self) -> Option<u64> {
        let (&(stripe, _), &(age, _)) = self.units.first_key_value()?;
        let is_behind = self.fronts.first_key_value().is_none_or(|((front, _), _)| stripe < *front);
        is_behind.then_some(age)
    }
}

#[cfg(test)]
mod tests;
