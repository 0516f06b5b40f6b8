//! What a stream will ask of every member, computed from its index before it starts: pure.

use crate::limits::{ROUNDS_MAX, STEADY_ROUNDS, STEADY_SEGMENT_S};
use crate::window::{Depth, Window};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Demand, DiskDemand};
use reel_volume::{Geometry, ObjectMap};
use std::ops::Range;

/// Bytes of an object that are asked for together: a segment.
#[derive(Clone, Debug)]
pub struct Stretch<'a> {
    /// The object.
    pub map: &'a ObjectMap,
    /// Its bytes.
    pub range: Range<u64>,
    /// Media time from which they may be read.
    pub from_ns: u64,
    /// Media time at which its first bytes must be in memory; those that a reader can hold at once are due together.
    pub due_ns: u64,
    /// How long it is shown: what is beyond a reader's window is due as the stretch is shown. 0 if it is sent with what follows as one
    /// body.
    pub duration_ns: u64,
}

/// The demand of stretches on a volume of `members` members, for any one of them lost.
///
/// A stripe that a stretch touches costs one read on each of its members, of the rows touched: while all members are there, those
/// of parity are not read; with one lost, the others are read once each to decode it, and a unit that is wanted anyway is not read
/// again. So no loss makes more of it. The stripes of a reader's first window are asked for at once and lie behind one another: one
/// way of an arm. So are those that it asks for when it plans again. How many that are, and how much memory they hold, is for `depth` to say.
///
/// `None` if it is longer than [`ROUNDS_MAX`]: nobody can promise so far ahead.
pub fn demand<'a>(
    members: usize,
    depth: Depth,
    stretches: impl IntoIterator<Item = Stretch<'a>>,
) -> Option<Demand> {
    let mut disks: Vec<Vec<DiskDemand>> = vec![Vec::new(); members];
    let mut sent_bytes: Vec<u64> = Vec::new();
    let mut held_bytes = 0;
    for stretch in stretches.into_iter().filter(|stretch| stretch.range.start < stretch.range.end) {
        if stretch.due_ns.saturating_add(stretch.duration_ns) / ROUND_NS >= ROUNDS_MAX {
            return None;
        }
        let geometry = stretch.map.geometry();
        let stripe_bytes = geometry.stripe_bytes() as u64;
        let stripes = stretch.range.start / stripe_bytes..(stretch.range.end - 1) / stripe_bytes + 1;
        let count = stripes.end - stripes.start;
        let stretch_bytes = stretch.range.end - stretch.range.start;
        let window = depth.window(geometry, stretch_bytes, stretch.duration_ns);
        for stripe in stripes.clone() {
            let round = round_of(&stretch, window, stripe - stripes.start, count);
            let bytes = unit_bytes_touched(geometry, &stretch.range, stripe);
            for position in 0..geometry.width() {
                let (member, _) = stretch.map.unit_at(stripe, position);
                let Some(rounds) = disks.get_mut(member) else { continue };
                let at = slot(rounds, round);
                at.reads += 1;
                at.ways += u32::from(window.is_way(stripe - stripes.start));
                at.bytes += bytes;
            }
        }
        let rounds = rounds(stretch.from_ns, stretch.due_ns);
        let mut given = 0;
        for round in rounds.clone() {
            let until = part_until(stretch_bytes, round + 1 - rounds.start, rounds.end - rounds.start);
            *slot(&mut sent_bytes, round as usize) += until - given;
            given = until;
        }
        held_bytes = held_bytes.max(depth.promised_bytes(geometry, stretch_bytes, stretch.duration_ns));
    }
    Some(Demand::new(disks, sent_bytes, held_bytes))
}

/// The demand of two hours of a steady rate in segments of a steady length, out of an object in consecutive slots: what `capacity` is asked
/// of. A stripe costs a read of a unit on each of its members, with the parity (for any one of them lost) or without.
pub fn steady_demand(geometry: &Geometry, depth: Depth, rate_bps: u64, is_degraded: bool) -> Demand {
    let (data_rows, members) = (geometry.data_rows(), geometry.members());
    let (unit_bytes, stripe_bytes) = (geometry.unit_bytes() as u64, geometry.stripe_bytes() as u64);
    let positions = if is_degraded { geometry.width() } else { data_rows };
    let upto = |round: usize| (u128::from(rate_bps) * round as u128 / 8) as u64;
    let mut disks = vec![vec![DiskDemand::default(); STEADY_ROUNDS]; members];
    for round in 0..STEADY_ROUNDS {
        // A stripe is read in the round in which its first byte is shown.
        let stripes = upto(round).div_ceil(stripe_bytes)..upto(round + 1).div_ceil(stripe_bytes);
        let whole_turns = (stripes.end - stripes.start) / members as u64;
        // Every turn of all members meets each of them in every position once.
        let reads_of_turns = whole_turns.saturating_mul(positions as u64);
        for disk in &mut disks {
            add(&mut disk[round], reads_of_turns, unit_bytes);
        }
        for stripe in stripes.start + whole_turns * members as u64..stripes.end {
            for position in 0..positions as u64 {
                let member = (stripe % members as u64 + position) % members as u64;
                add(&mut disks[member as usize][round], 1, unit_bytes);
            }
        }
    }
    let segment_bytes = rate_bps / 8 * STEADY_SEGMENT_S;
    let segment_ns = STEADY_SEGMENT_S * ROUND_NS;
    let window = depth.window(geometry, segment_bytes, segment_ns);
    // What a segment touches beside its own length: half a stripe at either end, on average.
    let stripes_of_segment = segment_bytes / stripe_bytes + 1;
    let ways_of_segment = window.ways(stripes_of_segment);
    disks.iter_mut().for_each(|rounds| spread_ways(rounds, ways_of_segment));
    let sent = (0..STEADY_ROUNDS).map(|round| upto(round + 1) - upto(round)).collect();
    Demand::new(disks, sent, depth.promised_bytes(geometry, segment_bytes, segment_ns))
}

/// So many ways of an arm for each segment, evenly over its rounds, but never more than reads.
fn spread_ways(rounds: &mut [DiskDemand], ways_of_segment: u64) {
    let upto = |round: usize| ways_of_segment.saturating_mul(round as u64).div_ceil(STEADY_SEGMENT_S);
    let mut made = 0;
    for (number, round) in rounds.iter_mut().enumerate() {
        let ways = upto(number + 1).saturating_sub(made).min(round.reads.into());
        made += ways;
        // Fits: not above the reads.
        round.ways = ways as u32;
    }
}

/// The round that stripe `number` of the `count` of a stretch is counted in.
///
/// Those of a reader's first window take turns in the last rounds in which they may be read. Each further one can be read when one before it
/// has been sent, which is as it is shown, and is due as much later. So a segment asks for one after another, and the next one goes on from
/// there: viewers who began together ask the same in each round, not all of it in some.
fn round_of(stretch: &Stretch<'_>, window: Window, number: u64, count: u64) -> usize {
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

/// The rounds in which something may be read so that it is in memory when due: those that begin after it may be asked for and end before
/// it is due; one at least.
fn rounds(from_ns: u64, due_ns: u64) -> Range<u64> {
    let end = due_ns / ROUND_NS;
    let start = from_ns.div_ceil(ROUND_NS).min(end.saturating_sub(1));
    start..end.max(start + 1)
}

/// Bytes that a read of one unit of a stripe moves when `range` of the object is wanted and any unit may be lost: all rows between the first
/// and the last that are touched.
fn unit_bytes_touched(geometry: &Geometry, range: &Range<u64>, stripe: u64) -> u64 {
    let (stripe_bytes, row_bytes) = (geometry.stripe_bytes() as u64, geometry.row_bytes() as u64);
    let start = stripe * stripe_bytes;
    let within = range.start.max(start) - start..range.end.min(start + stripe_bytes) - start;
    let matrix_bytes = row_bytes * geometry.data_rows() as u64;
    let rows = within.start / matrix_bytes..(within.end - 1) / matrix_bytes + 1;
    // Reads are of whole blocks around the rows.
    let block = reel_volume::limits::BLOCK_BYTES as u64;
    (rows.end * row_bytes).next_multiple_of(block) - rows.start * row_bytes / block * block
}

fn add(demand: &mut DiskDemand, reads: u64, unit_bytes: u64) {
    demand.reads = demand.reads.saturating_add(u32::try_from(reads).unwrap_or(u32::MAX));
    demand.bytes = demand.bytes.saturating_add(reads.saturating_mul(unit_bytes));
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
