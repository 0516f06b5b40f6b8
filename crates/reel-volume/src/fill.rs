//! Restores units of one member: each unit is read, and where it is not what was written, it is
//! computed from the others of its stripe and rewritten.

use std::collections::BTreeMap;
use std::sync::Arc;

use reel_arena::Buffer;
use reel_code::crc32c;
use reel_disk::DiskError;

use crate::access::{ReadContext, Span};
use crate::answers::Answers;
use crate::catalogue::{ObjectRecord, Sums};
use crate::commit::{settle_unwanted, write_failed};
use crate::error::VolumeError;
use crate::limits::{BLOCK_BYTES, MAINTENANCE_STRIPES, READ_FAILURES_MAX};
use crate::object::ObjectMap;
use crate::unit_read::RowSpan;
use crate::volume::Inner;
use crate::waits::Waits;

/// Fills one member, unit by unit.
pub(crate) struct Filler<'a> {
    inner: &'a Inner,
    pub(crate) member: usize,
    context: ReadContext,
    answers: Answers,
    pub(crate) filled: Filled,
    /// For each other member: the number of reads that failed in a row, and the last error.
    failures: BTreeMap<usize, (u32, DiskError)>,
}

/// The result of filling a member's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Bytes of units that were already as written.
    pub(crate) good_bytes: u64,
    /// Bytes of units written.
    pub(crate) written_bytes: u64,
    /// Rows that are still missing. They could not be computed because others of their matrices are
    /// not available. Or they share a unit with such a row that the member did not return either,
    /// and may return later.
    pub(crate) lost_rows: u64,
}

/// Limits work to a rate.
pub(crate) struct Pace {
    bytes_per_s: Option<u64>,
    waits: Waits,
    begun_ns: u64,
    bytes: u64,
}

/// A unit that is being verified.
struct Unit {
    stripe: u64,
    position: usize,
    /// By position in the stripe. The entry at its own position is the unit that is filled.
    buffers: Vec<Option<Buffer>>,
    /// Rows that are to be computed.
    wrong: Vec<usize>,
    /// Those of them that could not be read, so that their content is unknown.
    unread: Vec<usize>,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(inner: &'a Inner, member: usize) -> Filler<'a> {
        let context = ReadContext::maintenance();
        Filler {
            inner,
            member,
            answers: Answers::to(context.requester),
            context,
            filled: Filled::default(),
            failures: BTreeMap::new(),
        }
    }

    /// Fills the member's units of an object and of its checksums. `each` is called with the bytes
    /// that were verified. If it returns `false`, filling stops and so does this, with `false`.
    pub(crate) fn object(
        &mut self,
        object: &ObjectRecord,
        name: &str,
        each: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, VolumeError> {
        let mut part = object;
        let mut name = name.to_owned();
        loop {
            let mut progress = || {
                each(0);
            };
            let map =
                Arc::new(self.inner.map_held(object, part, name.clone(), (self.context, &mut progress))?);
            if !self.map(&map, each)? {
                return Ok(false);
            }
            let Sums::Object(sums) = &part.sums else { return Ok(true) };
            part = sums;
            name = format!("the checksums of {name}");
        }
    }

    fn map(&mut self, map: &Arc<ObjectMap>, each: &mut dyn FnMut(u64) -> bool) -> Result<bool, VolumeError> {
        let geometry = self.inner.geometry;
        let place = |stripe: u64| {
            let position = (0..geometry.width()).find(|&p| map.unit_at(stripe, p).0 == self.member)?;
            Some((stripe, position))
        };
        let units: Vec<(u64, usize)> = (0..map.stripes()).filter_map(place).collect();
        let mut rest = &units[..];
        while !rest.is_empty() {
            // Several at a time if there is memory. One unit always fits.
            let wanted = rest.len().min(MAINTENANCE_STRIPES);
            let many: Vec<Buffer> = (0..wanted * geometry.width())
                .map_while(|_| self.inner.access.arena.take(geometry.unit_bytes()))
                .collect();
            let (count, buffers) = if many.len() == wanted * geometry.width() {
                (wanted, many)
            } else {
                drop(many);
                (1, self.inner.access.buffers(geometry.width(), geometry.unit_bytes())?)
            };
            let (now, later) = rest.split_at(count);
            self.units(map, now, buffers)?;
            rest = later;
            if !each((count * geometry.unit_bytes()) as u64) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Verifies some units, and writes those that are not as written.
    fn units(
        &mut self,
        map: &ObjectMap,
        places: &[(u64, usize)],
        mut buffers: Vec<Buffer>,
    ) -> Result<(), VolumeError> {
        let geometry = self.inner.geometry;
        let mut units: Vec<Unit> = places
            .iter()
            .map(|&(stripe, position)| {
                let wrong = (0..geometry.unit_rows()).collect();
                let buffers = (0..geometry.width()).map(|_| None).collect();
                Unit { stripe, position, buffers, wrong, unread: Vec::new() }
            })
            .collect();
        for (number, unit) in units.iter().enumerate() {
            self.read(map, number, unit.stripe, unit.position, &mut buffers);
        }
        let spare = self.take_answers(&mut units)?;
        buffers.extend(spare);
        for unit in &mut units {
            if unit.buffers[unit.position].is_none() {
                self.read_rows(map, unit, &mut buffers);
            }
            if let Some(own) = &unit.buffers[unit.position] {
                // A row that could not be read is all zeros here, which may be what was written.
                let good = |row: &usize| {
                    !unit.unread.contains(row) && holds(map, unit.stripe, unit.position, *row, own)
                };
                unit.wrong.retain(|row| !good(row));
            }
        }
        for (number, unit) in units.iter().enumerate().filter(|(_, unit)| !unit.wrong.is_empty()) {
            for other in (0..geometry.width()).filter(|&other| other != unit.position) {
                if self.inner.health.readable(map.unit_at(unit.stripe, other).0) {
                    self.read(map, number, unit.stripe, other, &mut buffers);
                }
            }
        }
        let spare = self.take_answers(&mut units)?;
        buffers.extend(spare);
        for mut unit in units {
            if unit.wrong.is_empty() {
                self.filled.good_bytes += geometry.unit_bytes() as u64;
                continue;
            }
            let own = unit.buffers[unit.position].take().or_else(|| buffers.pop());
            let Some(own) = own else { continue };
            self.compute_and_write(map, &unit, own);
        }
        self.take_written()
    }

    /// Waits for what was written.
    fn take_written(&mut self) -> Result<(), VolumeError> {
        while let Some(done) = self.answers.next() {
            if let Err(error) = &done.result {
                if !error.is_no_space() {
                    write_failed(&self.inner.health, &self.inner.counters, &done, error);
                }
                return Err(VolumeError::Disk {
                    doing: format!("cannot fill member {}", self.member),
                    source: error.clone(),
                });
            }
        }
        self.check_not_failed()
    }

    /// An error if the member failed meanwhile, whichever task detected it: writing more to it
    /// would be useless.
    fn check_not_failed(&self) -> Result<(), VolumeError> {
        if self.inner.health.writable(self.member) {
            return Ok(());
        }
        let reason = self.inner.health.reason(self.member).unwrap_or_default();
        Err(VolumeError::options(
            format!("member {} failed before it was in use: {reason}", self.member),
            None,
        ))
    }

    fn read(
        &mut self,
        map: &ObjectMap,
        number: usize,
        stripe: u64,
        position: usize,
        buffers: &mut Vec<Buffer>,
    ) {
        let Some(buffer) = buffers.pop() else { return };
        let (member, offset) = map.unit_at(stripe, position);
        let token = (number * self.inner.geometry.width() + position) as u64;
        let span = Span { member, offset, bytes: self.inner.geometry.unit_bytes() };
        self.inner.access.read(&mut self.answers, self.context.class, token, span, buffer);
    }

    /// Reads row by row a unit that could not be read as a whole. A bad sector fails only the rows
    /// that are on it, and a good row of another matrix may be the last copy there is.
    fn read_rows(&mut self, map: &ObjectMap, unit: &mut Unit, buffers: &mut Vec<Buffer>) {
        let geometry = self.inner.geometry;
        let (member, offset) = map.unit_at(unit.stripe, unit.position);
        let Some(mut own) = buffers.pop() else { return };
        // The buffer's previous content is not a row of this unit.
        own[..geometry.unit_bytes()].fill(0);
        for row in 0..geometry.unit_rows() {
            let span = RowSpan::new(geometry.row_bytes(), row..row + 1);
            // Buffers that are left are for the other units, which are read later.
            let Some(buffer) = buffers.pop() else { break };
            let place = Span { member, offset: offset + span.offset as u64, bytes: span.bytes };
            self.inner.access.read(&mut self.answers, self.context.class, 0, place, buffer);
            let Some(done) = self.answers.next() else { break };
            let target = &mut own[row * geometry.row_bytes()..(row + 1) * geometry.row_bytes()];
            match (&done.result, &done.buffer) {
                (Ok(()), Some(read)) => target.copy_from_slice(&read[span.row(row)]),
                _ => {
                    self.inner.counters.read_errors.add(1);
                    unit.unread.push(row);
                }
            }
            buffers.extend(done.buffer);
        }
        unit.buffers[unit.position] = Some(own);
    }

    /// Assigns all answers to their units; returns the buffers of reads that failed.
    ///
    /// One place that cannot be read is tolerable. When all reads of another member fail, nothing
    /// can be computed, and continuing would leave a member that only seems to be filled.
    fn take_answers(&mut self, units: &mut [Unit]) -> Result<Vec<Buffer>, VolumeError> {
        let width = self.inner.geometry.width();
        let mut spare = Vec::new();
        while let Some(done) = self.answers.next() {
            let (number, position) = (done.token as usize / width, done.token as usize % width);
            match done.result {
                Ok(()) => {
                    self.failures.remove(&done.member);
                    units[number].buffers[position] = done.buffer;
                }
                Err(error) => {
                    self.inner.counters.read_errors.add(1);
                    spare.extend(done.buffer);
                    if done.member != self.member {
                        let before = self.failures.get(&done.member).map_or(0, |(failures, _)| *failures);
                        self.failures.insert(done.member, (before + 1, error));
                    }
                }
            }
        }
        self.others_answer(READ_FAILURES_MAX)?;
        Ok(spare)
    }

    /// An error if the last read of another member has failed and its superblock cannot be read
    /// either. Without the second test, one unreadable place would fail every attempt at the same
    /// point.
    pub(crate) fn others_still_answer(&mut self) -> Result<(), VolumeError> {
        let failing: Vec<usize> = self.failures.keys().copied().collect();
        for member in failing {
            let buffer = self.inner.access.buffer(BLOCK_BYTES)?;
            let span = Span { member, offset: 0, bytes: BLOCK_BYTES };
            self.inner.access.read(&mut self.answers, self.context.class, 0, span, buffer);
            if self.answers.next().is_some_and(|done| done.result.is_ok()) {
                self.failures.remove(&member);
            }
        }
        self.others_answer(1)
    }

    /// An error if the last `failures_max` reads of another member have failed.
    fn others_answer(&self, failures_max: u32) -> Result<(), VolumeError> {
        match self.failures.values().find(|(failures, _)| *failures >= failures_max) {
            Some((_, source)) => {
                let doing = format!("cannot compute what member {} should hold", self.member);
                Err(VolumeError::Disk { doing, source: source.clone() })
            }
            None => Ok(()),
        }
    }

    /// Computes what is wrong in `own` from the other units of the stripe, and writes it.
    fn compute_and_write(&mut self, map: &ObjectMap, unit: &Unit, mut own: Buffer) {
        let geometry = self.inner.geometry;
        let row_bytes = geometry.row_bytes();
        let (mut computed, mut unknown) = (0, false);
        for &row in &unit.wrong {
            let range = row * row_bytes..(row + 1) * row_bytes;
            let others: Vec<&[u8]> = unit
                .buffers
                .iter()
                .enumerate()
                .filter_map(|(position, buffer)| Some((position, buffer.as_ref()?)))
                .filter(|(position, buffer)| {
                    *position != unit.position && holds(map, unit.stripe, *position, row, buffer)
                })
                .map(|(_, buffer)| &buffer[range.clone()])
                .collect();
            let target = &mut own[range];
            if others.len() + 1 == geometry.width() {
                self.inner.superblock.code.rebuild(&others, target);
                if crc32c(target) == map.sum(unit.stripe, unit.position, row) {
                    computed += 1;
                    continue;
                }
            }
            unknown |= unit.unread.contains(&row);
        }
        // A row that is neither known nor computed may be readable later, unless it is overwritten
        // now.
        if computed == 0 || unknown {
            self.filled.lost_rows += unit.wrong.len() as u64;
            return;
        }
        self.filled.lost_rows += unit.wrong.len() as u64 - computed;
        self.inner.counters.rows_decoded.add(computed);
        own[geometry.unit_rows() * row_bytes..geometry.unit_bytes()].fill(0);
        let (member, offset) = map.unit_at(unit.stripe, unit.position);
        let lease = own.freeze().slice(0..geometry.unit_bytes());
        self.inner.access.write(&mut self.answers, self.context.class, (member, offset), lease);
        self.filled.written_bytes += geometry.unit_bytes() as u64;
        self.inner.counters.units_repaired.add(1);
    }
}

impl Drop for Filler<'_> {
    fn drop(&mut self) {
        settle_unwanted(&self.inner.health, &self.inner.counters, &mut self.answers);
    }
}

impl Pace {
    pub(crate) fn new(bytes_per_s: Option<u64>, waits: &Waits) -> Pace {
        let bytes_per_s = bytes_per_s.filter(|&rate| rate > 0);
        Pace { bytes_per_s, waits: waits.clone(), begun_ns: waits.now_ns(), bytes: 0 }
    }

    /// Accounts `bytes` of work: waits until the rate is kept.
    pub(crate) fn done(&mut self, bytes: u64) {
        self.bytes += bytes;
        let Some(rate) = self.bytes_per_s else { return };
        let due_ns = self.begun_ns + (self.bytes as f64 / rate as f64 * 1e9) as u64;
        if let Some(early_ns) = due_ns.checked_sub(self.waits.now_ns()) {
            self.waits.sleep_ns(early_ns);
        }
    }
}

/// Whether a row of a unit is what was written.
pub(crate) fn holds(map: &ObjectMap, stripe: u64, position: usize, row: usize, unit: &[u8]) -> bool {
    let row_bytes = map.geometry().row_bytes();
    crc32c(&unit[row * row_bytes..(row + 1) * row_bytes]) == map.sum(stripe, position, row)
}
