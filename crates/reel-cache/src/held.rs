//! Bytes that are read ahead, and the memory they occupy until their client has them.

use crate::body::Body;
use crate::budget::Reservation;
use crate::fetcher::Fetcher;
use crate::limits::{AHEAD_STRIPES_NOT_ROTATIONAL, PREFETCH_HELD_NS, READ_TIME_MIN_NS};
use crate::reader::Ramp;
use crate::unit::{Fetched, PositionRows, UnitKey, UnitWant};
use crate::window::Depth;
use reel_qos::Class;
use reel_volume::UnitRows;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// What to read ahead.
pub struct Plan {
    /// The segment.
    pub body: Body,
    /// The class of its reads.
    pub class: Class,
    /// When reading starts.
    pub start_ns: u64,
    /// When its bytes are due in memory.
    pub due_ns: u64,
    /// How long it is shown.
    pub duration_ns: u64,
}

/// What was read ahead for a client by one plan.
pub(crate) struct Held {
    pub(crate) token: u64,
    /// When it is dropped if the client does not request it.
    pub(crate) release_ns: u64,
    /// Bytes of the plan that it covers, from the plan's start.
    pub(crate) bytes: u64,
    stripes: VecDeque<Stripe>,
    /// Units that are held, or on their way.
    rows: HashMap<UnitKey, Option<UnitRows>>,
}

/// A stripe that the plan touches. A stripe that two parts of the plan share is read once.
struct Stripe {
    /// Where in the plan's bytes it is touched first, and where for the last time.
    begins: u64,
    ends: u64,
    keys: Vec<UnitKey>,
    reservation: Option<Arc<Reservation>>,
}

impl Held {
    /// Requests all of a plan, or as much of its beginning as there is plenty of memory for. `None`
    /// if that is nothing.
    ///
    /// The promises to sessions cover their readers only. Reading ahead must not take memory from
    /// those.
    pub(crate) fn start(plan: &Plan, token: u64, fetcher: &mut Fetcher, now_ns: u64) -> Option<Held> {
        let depth = fetcher.units().depth();
        let mut wanted = needed_units(plan, depth);
        // Long runs of neighbouring units are worth their memory only on rotational members.
        if !depth.is_rotational() {
            wanted.truncate(AHEAD_STRIPES_NOT_ROTATIONAL);
        }
        let reservation = loop {
            let units = wanted.iter().map(|(_, units)| units.len()).sum();
            let budget = fetcher.units().budget();
            if units > 0
                && budget.is_plentiful(units)
                && let Some(reservation) = budget.lend(units)
            {
                break reservation;
            }
            if wanted.len() <= 1 {
                return None;
            }
            // A quarter less each time: half as long a window costs a rotational disk a fifth more
            // for each byte.
            wanted.truncate(wanted.len() * 3 / 4);
        };
        let mut held = Held {
            token,
            release_ns: plan.due_ns.saturating_add(plan.duration_ns).saturating_add(PREFETCH_HELD_NS),
            bytes: wanted.last().map_or(0, |(stripe, _)| stripe.ends),
            stripes: VecDeque::with_capacity(wanted.len()),
            rows: HashMap::new(),
        };
        // A plan may start at the moment at which its first bytes are due.
        let soonest_ns = now_ns.saturating_add(READ_TIME_MIN_NS);
        for (mut stripe, mut units) in wanted {
            units.iter_mut().for_each(|unit| unit.deadline_ns = unit.deadline_ns.max(soonest_ns));
            let part = Arc::new(reservation.split(units.len()));
            let got = fetcher.request_stripe(&units, token, Some(&part), now_ns);
            stripe.reservation = Some(part);
            held.rows.extend(stripe.keys.iter().copied().zip(got));
            held.stripes.push_back(stripe);
        }
        Some(held)
    }

    /// Takes a unit that came. A unit that cannot be read is left to the client's own request,
    /// which reports the error.
    pub(crate) fn keep(&mut self, fetched: &Fetched) {
        if let (Some(rows), Ok(arrived)) = (self.rows.get_mut(&fetched.key), &fetched.result) {
            *rows = Some(arrived.clone());
        }
    }

    /// Whether all of it has come.
    pub(crate) fn is_complete(&self) -> bool {
        self.rows.values().all(Option::is_some)
    }

    /// The client has the first `bytes` of the plan. Gives back the memory that held only those.
    pub(crate) fn passed(&mut self, bytes: u64) {
        while let Some(stripe) = self.stripes.pop_front_if(|stripe| stripe.ends <= bytes) {
            self.release_stripe(&stripe);
        }
    }

    /// Buffers of reads under way stay occupied until they are answered.
    fn release_stripe(&mut self, stripe: &Stripe) {
        let owed = stripe.keys.iter().filter(|key| self.rows.remove(key).flatten().is_none()).count();
        if let Some(reservation) = &stripe.reservation {
            reservation.lend_until_answered(owed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        while let Some(stripe) = self.stripes.pop_front() {
            self.release_stripe(&stripe);
        }
    }
}

/// Every unit that the planned bytes touch, from the first byte needed to the unit's end, stripe by
/// stripe in the order of showing. What follows is needed next.
fn needed_units(plan: &Plan, depth: Depth) -> Vec<(Stripe, Vec<UnitWant>)> {
    let ramp = Ramp { due_ns: plan.due_ns, duration_ns: plan.duration_ns, bytes: plan.body.bytes() };
    let mut stripes: BTreeMap<(u64, u64), (Stripe, BTreeMap<usize, UnitWant>)> = BTreeMap::new();
    let mut at = 0;
    while let Some(part) = plan.body.part_at(at) {
        let part_at = at;
        at += part.bytes();
        // Parity is not read ahead: its reader requests it with the data that it protects.
        let Some((map, kind, range)) = part.data_rows() else { continue };
        let stripe_bytes = kind.stripe_bytes(map.geometry());
        for stripe in range.start / stripe_bytes..range.end.div_ceil(stripe_bytes) {
            let start = stripe * stripe_bytes;
            let (from, to) = (range.start.max(start), range.end.min(start + stripe_bytes));
            let (begins, ends) = (part_at + from - range.start, part_at + to - range.start);
            let (touched, units) = stripes.entry((map.id(), stripe)).or_insert_with(|| {
                (Stripe { begins, ends, keys: Vec::new(), reservation: None }, BTreeMap::new())
            });
            touched.ends = ends;
            let window = depth.window(map.geometry(), kind, ramp.bytes, ramp.duration_ns);
            let deadline_ns = ramp.due_ns(touched.begins, window.bytes());
            let touched = kind.rows_by_position(map.geometry(), &(from - start..to - start));
            for PositionRows { position, rows } in touched {
                let (map, class) = (Arc::clone(map), plan.class);
                let rows = rows.start..map.geometry().unit_rows();
                let want = UnitWant { map, stripe, position, rows, class, deadline_ns, requester: None };
                // Where parts meet in a unit, the first one has the others' rows, too.
                units.entry(position).or_insert(want);
            }
        }
    }
    let listed = stripes.into_values().map(|(mut stripe, units)| {
        let wanted: Vec<UnitWant> = units.into_values().collect();
        stripe.keys = wanted.iter().map(UnitWant::key).collect();
        (stripe, wanted)
    });
    let mut listed: Vec<(Stripe, Vec<UnitWant>)> = listed.collect();
    listed.sort_by_key(|(stripe, _)| stripe.ends);
    listed
}
