//! What a stream will need of every member, computed from its index before it starts. Pure.

use crate::limits::{ROUNDS_MAX, SEND_LEAD_NS, START_BOUND_NS};
use reel_cache::{Depth, RowKind, Window};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Demand, DiskDemand};
use reel_volume::{Geometry, ObjectMap};
use std::ops::Range;

/// Bytes of an object that are requested together: a segment.
#[derive(Clone, Debug)]
pub struct Stretch<'a> {
    /// The object.
    pub map: &'a ObjectMap,
    /// Its bytes.
    pub range: Range<u64>,
    /// Media time from which they may be read.
    pub from_ns: u64,
    /// Media time at which its first bytes must be in memory. The bytes that a reader can hold at
    /// once are due together.
    pub due_ns: u64,
    /// How long it is shown. What is beyond a reader's window is due as the stretch is shown. 0 if
    /// the stretch is sent together with what follows, as one body.
    pub duration_ns: u64,
    /// Whether the parity rows of all matrices that it touches are read and sent, too. Their bytes
    /// on the network are the caller's to count ([`Demand::sending`]).
    ///
    /// The stretch then begins and ends where matrices do. A reader of half a matrix reads only
    /// some of its rows, and the rest would be read once more to compute parity that is lost.
    pub with_parity: bool,
}

/// What a demand is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Any one member may be lost. This is the demand that can be promised.
    AnyOne,
    /// All members are there. This is what is read in normal operation.
    NoMember {
        /// Members are rotational: the head passes over the units of parity that lie inside a run.
        arms: bool,
    },
}

/// The demand of stretches on a volume of `members` members.
///
/// A stripe that a stretch touches costs one read on each of its members, of the rows touched.
/// While all members are there, the parity units are not read. With one member lost, each other
/// member is read once to decode it, and a unit that is wanted anyway is not read twice. So no loss
/// needs more than this demand. The stripes of a reader's first window are requested at once and
/// lie behind one another, so they cost one seek. The same is true for the stripes that a reader
/// requests when it plans again. `depth` says how many stripes that are, and how much memory they
/// hold.
///
/// Where parity is sent, too ([`Stretch::with_parity`]), one more unit of each stripe is wanted. So
/// while all members are there, each of the D + P members is read once for a stripe. With one
/// member lost, each of the others is read once, as without parity. Under [`Loss::AnyOne`] the
/// reads are therefore the same with parity and without. The condition is that parity is requested
/// while the data of its stripe is in memory or on its way, and on rotational members together
/// with it. The memory of the reader of parity is counted in addition, with that of the data units
/// that lost parity is computed from.
///
/// `None` if it is longer than [`ROUNDS_MAX`], since no reservation reaches so far ahead.
pub fn demand<'a>(
    members: usize,
    depth: Depth,
    stretches: impl IntoIterator<Item = Stretch<'a>>,
    loss: Loss,
) -> Option<Demand> {
    of_stretches(Sum::new(members, depth, loss), stretches)
}

/// The demand of a session that reads for several that share. It reads units to their ends, so that
/// the other sessions find whole units. In place of the bytes to send, it counts the memory that
/// holds them. It is meant for [`Demand::with_shared`]; any member may be lost.
pub fn shared_demand<'a>(
    members: usize,
    depth: Depth,
    stretches: impl IntoIterator<Item = Stretch<'a>>,
) -> Option<Demand> {
    of_stretches(Sum { for_others: true, ..Sum::new(members, depth, Loss::AnyOne) }, stretches)
}

fn of_stretches<'a>(mut sum: Sum, stretches: impl IntoIterator<Item = Stretch<'a>>) -> Option<Demand> {
    let mut segment_rounds = 0;
    for stretch in stretches.into_iter().filter(|stretch| stretch.range.start < stretch.range.end) {
        let Stretch { map, range, from_ns, due_ns, duration_ns, with_parity } = stretch;
        if due_ns.saturating_add(duration_ns) / ROUND_NS >= ROUNDS_MAX {
            return None;
        }
        let sent_ns = sending_ns(from_ns, due_ns);
        // Fits: below ROUNDS_MAX.
        segment_rounds = segment_rounds.max(duration_ns.div_ceil(ROUND_NS));
        let stretch = Shown { range, from_ns, due_ns, duration_ns, sent_ns, with_parity };
        sum.add(map.geometry(), &stretch, |stripe, position| map.unit_at(stripe, position).0);
    }
    Some(sum.demand().in_segments(segment_rounds as usize))
}

/// A stretch of some object.
pub(crate) struct Shown {
    pub(crate) range: Range<u64>,
    pub(crate) from_ns: u64,
    pub(crate) due_ns: u64,
    pub(crate) duration_ns: u64,
    /// When its bytes are sent.
    pub(crate) sent_ns: Range<u64>,
    pub(crate) with_parity: bool,
}

impl Shown {
    /// Bytes of the object.
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Bytes of the parity rows that are sent with them.
    fn parity_bytes(&self, geometry: &Geometry) -> u64 {
        if !self.with_parity {
            return 0;
        }
        let matrix_bytes = RowKind::Data.matrix_bytes(geometry);
        let matrices = self.range.end.div_ceil(matrix_bytes) - self.range.start / matrix_bytes;
        matrices * RowKind::Parity.matrix_bytes(geometry)
    }
}

/// A demand while it is added up.
pub(crate) struct Sum {
    disks: Vec<Vec<DiskDemand>>,
    sent_bytes: Vec<u64>,
    held_bytes: u64,
    depth: Depth,
    loss: Loss,
    /// Whether the session reads for others.
    for_others: bool,
}

impl Sum {
    pub(crate) fn new(members: usize, depth: Depth, loss: Loss) -> Self {
        Self {
            disks: vec![Vec::new(); members],
            sent_bytes: Vec::new(),
            held_bytes: 0,
            depth,
            loss,
            for_others: false,
        }
    }

    /// Adds a stretch of an object. The stretch is not empty, and `member` returns the member of
    /// each of the object's units.
    pub(crate) fn add(&mut self, geometry: &Geometry, stretch: &Shown, member: impl Fn(u64, usize) -> usize) {
        let stripe_bytes = geometry.stripe_bytes() as u64;
        let stripes = stretch.range.start / stripe_bytes..(stretch.range.end - 1) / stripe_bytes + 1;
        let count = stripes.end - stripes.start;
        let (data_bytes, parity_bytes) = (stretch.bytes(), stretch.parity_bytes(geometry));
        let wanted_units = geometry.data_rows() + usize::from(stretch.with_parity);
        let window = self.depth.window(geometry, RowKind::Data, data_bytes, stretch.duration_ns);
        for stripe in stripes.clone() {
            let number = stripe - stripes.start;
            let round = if self.depth.is_rotational() && number < window.stripes() {
                round_of_run(stretch, window, number, count)
            } else {
                round_of(stretch, window, number, count)
            };
            let (begins, ends) = (window.is_way(number), number + 1 == count || window.is_way(number + 1));
            let bytes = unit_bytes_touched(geometry, &stretch.range, stripe, self.for_others);
            for position in 0..geometry.width() {
                let Some(rounds) = self.disks.get_mut(member(stripe, position)) else { continue };
                let at = slot(rounds, round);
                let is_read = position < wanted_units || self.loss == Loss::AnyOne;
                if is_read {
                    at.reads += 1;
                    at.bytes += bytes;
                } else if self.loss == (Loss::NoMember { arms: true }) && !begins && !ends {
                    // The whole unit passes under the head.
                    at.bytes += geometry.unit_bytes() as u64;
                }
                // In a run of more than one stripe, each member has a unit that is read.
                at.seeks += u32::from(begins && (is_read || !ends));
            }
        }
        if self.for_others {
            let rounds = rounds(stretch.from_ns, stretch.due_ns);
            let held_bytes = memory_bytes(geometry, data_bytes + parity_bytes);
            self.spread(held_bytes, rounds.start * ROUND_NS..rounds.end * ROUND_NS);
        } else {
            self.spread(stretch.bytes(), stretch.sent_ns.clone());
        }
        let promised = |kind, bytes| self.depth.promised_bytes(geometry, kind, bytes, stretch.duration_ns);
        let of_parity = if stretch.with_parity { promised(RowKind::Parity, parity_bytes) } else { 0 };
        let held_bytes = promised(RowKind::Data, data_bytes).saturating_add(of_parity);
        self.held_bytes = self.held_bytes.max(held_bytes);
    }

    /// Counts bytes as sent evenly in a time.
    fn spread(&mut self, bytes: u64, time_ns: Range<u64>) {
        let length_ns = (time_ns.end - time_ns.start).max(1);
        let mut given = 0;
        for round in time_ns.start / ROUND_NS..time_ns.end.div_ceil(ROUND_NS) {
            let passed_ns = ((round + 1) * ROUND_NS).min(time_ns.end) - time_ns.start;
            let until = part_until(bytes, passed_ns, length_ns);
            // Fits: below ROUNDS_MAX.
            *slot(&mut self.sent_bytes, round as usize) += until - given;
            given = until;
        }
    }

    pub(crate) fn demand(self) -> Demand {
        Demand::new(self.disks, self.sent_bytes, self.held_bytes)
    }

    /// The same for a stream without end: what is read after `rounds` rounds is counted at the
    /// beginning, as a read of the period before.
    pub(crate) fn demand_of_rounds(mut self, rounds: usize) -> Demand {
        for disk in &mut self.disks {
            disk.resize(disk.len().max(rounds), DiskDemand::default());
            for (number, late) in disk.split_off(rounds).into_iter().enumerate() {
                let at = &mut disk[number % rounds];
                at.reads += late.reads;
                at.seeks += late.seeks;
                at.bytes += late.bytes;
            }
        }
        self.sent_bytes.resize(self.sent_bytes.len().max(rounds), 0);
        for (number, late) in self.sent_bytes.split_off(rounds).into_iter().enumerate() {
            self.sent_bytes[number % rounds] += late;
        }
        self.demand()
    }
}

/// The round that stripe `number` of the `count` of a stretch is counted in.
///
/// The stripes of a reader's first window are spread over the last rounds in which they may be
/// read. Each further stripe can be read when a stripe before it has been sent. Sending follows the
/// pace at which the stretch is shown, and the further stripe is due later by the same time. So a
/// segment requests one stripe after another, and the next segment continues from there. Viewers
/// that began together then have the same demand in each round, instead of all of it in a few
/// rounds.
fn round_of(stretch: &Shown, window: Window, number: u64, count: u64) -> usize {
    let window = count.min(window.stripes());
    let round = match number.checked_sub(window) {
        None => {
            let rounds = rounds(stretch.from_ns, stretch.due_ns);
            let last = (rounds.end - rounds.start).min(window);
            rounds.end - last + part_until(last, number, window)
        }
        Some(beyond) => {
            let from_ns = stretch.due_ns + part_until(stretch.duration_ns, beyond, count);
            rounds(from_ns, stretch.due_ns + part_until(stretch.duration_ns, beyond + 1, count)).start
        }
    };
    // Fits: below ROUNDS_MAX.
    round as usize
}

/// The same for a stripe of the first window on rotational members.
///
/// The window is read as one run, with one seek for all of it. It may be read from when the stretch
/// before it is due. It is spread over as many of the last rounds as its bytes are shown for. If it
/// is spread over all of them, the seek is in another one for each stretch. Otherwise viewers who
/// start at the same time of a segment would all seek in the same rounds, and the rounds between
/// could not be promised.
fn round_of_run(stretch: &Shown, window: Window, number: u64, count: u64) -> usize {
    let window = count.min(window.stripes());
    let rounds = rounds(stretch.from_ns.saturating_sub(SEND_LEAD_NS), stretch.due_ns);
    let shown_ns = part_until(stretch.duration_ns, window, count);
    let length = rounds.end - rounds.start;
    let last = shown_ns.div_ceil(ROUND_NS).clamp(1, length);
    let turn = if last == length { stretch.due_ns / stretch.duration_ns.max(1) } else { 0 };
    // Fits: below ROUNDS_MAX.
    (rounds.end - last + (part_until(last, number, window) + turn) % last) as usize
}

/// The rounds in which something may be read so that it is in memory when due. They begin after it
/// may be requested and end before it is due. There is at least one.
fn rounds(from_ns: u64, due_ns: u64) -> Range<u64> {
    let end = due_ns / ROUND_NS;
    let start = from_ns.div_ceil(ROUND_NS).min(end.saturating_sub(1));
    start..end.max(start + 1)
}

/// When a stretch is sent: after it may be requested, and before it is shown. The first one is sent
/// within the bound of a start. If there is as much time after that, what is requested during the
/// start is sent later.
fn sending_ns(from_ns: u64, due_ns: u64) -> Range<u64> {
    let until_ns = (due_ns + SEND_LEAD_NS).max(START_BOUND_NS);
    let has_time = until_ns >= 2 * START_BOUND_NS;
    let from_ns = if has_time { from_ns.max(START_BOUND_NS) } else { from_ns };
    from_ns.min(until_ns - 1)..until_ns
}

/// Bytes that a read of one unit of a stripe moves when `range` of the object is wanted and any
/// unit may be lost. These are all rows between the first and the last that are touched, or with
/// `reads_on` all rows to the end of the unit.
fn unit_bytes_touched(geometry: &Geometry, range: &Range<u64>, stripe: u64, reads_on: bool) -> u64 {
    let (stripe_bytes, row_bytes) = (geometry.stripe_bytes() as u64, geometry.row_bytes() as u64);
    let start = stripe * stripe_bytes;
    let within = range.start.max(start) - start..range.end.min(start + stripe_bytes) - start;
    let matrix_bytes = row_bytes * geometry.data_rows() as u64;
    let end = if reads_on { geometry.unit_rows() as u64 } else { (within.end - 1) / matrix_bytes + 1 };
    let rows = within.start / matrix_bytes..end;
    // Reads are of whole blocks around the rows.
    let block = reel_volume::limits::BLOCK_BYTES as u64;
    (rows.end * row_bytes).next_multiple_of(block) - rows.start * row_bytes / block * block
}

/// Memory that holds this many bytes of an object. Buffers hold whole units, and the end of a unit
/// belongs to no row.
fn memory_bytes(geometry: &Geometry, bytes: u64) -> u64 {
    let rows_bytes = (geometry.unit_rows() * geometry.row_bytes()) as u64;
    // Fits: a unit is not much larger than its rows, and objects are far below 2^60 bytes.
    (u128::from(bytes) * geometry.unit_bytes() as u128).div_ceil(u128::from(rows_bytes.max(1))) as u64
}

fn part_until(bytes: u64, part: u64, of: u64) -> u64 {
    (u128::from(bytes) * u128::from(part) / u128::from(of)) as u64
}

fn slot<T: Clone + Default>(rounds: &mut Vec<T>, round: usize) -> &mut T {
    if rounds.len() <= round {
        rounds.resize(round + 1, T::default());
    }
    &mut rounds[round]
}
