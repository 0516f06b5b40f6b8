//! Repairs what is not as it was written.

use reel_arena::Buffer;
use reel_disk::DiskError;

use crate::access::Span;
use crate::answers::Answers;
use crate::check::{Check, CheckProgress, CheckReport, RowState, Stripe, check_all};
use crate::commit::write_failed;
use crate::error::VolumeError;
use crate::fill::{Pace, holds};
use crate::rebuild::RepairOptions;
use crate::volume::Inner;

/// Like a check, and repairs what it finds.
pub(crate) fn scrub(
    inner: &Inner,
    options: RepairOptions,
    progress: &mut dyn FnMut(CheckProgress) -> bool,
) -> Result<CheckReport, VolumeError> {
    let _job = inner.begin_job("scrub")?;
    if let Some(reason) = inner.refusal() {
        return Err(VolumeError::ReadOnly { reason });
    }
    Ok(check_all(inner, Some(Pace::new(options.bytes_per_s, &inner.access.waits)), progress))
}

impl Check<'_> {
    /// Rewrites the units of a stripe that hold wrong rows, where all of these can be computed.
    pub(crate) fn repair(&mut self, mut stripe: Stripe) {
        let geometry = self.inner.geometry;
        for position in 0..geometry.width() {
            let unit = &stripe.rows[position];
            let rows: Vec<usize> =
                (0..geometry.unit_rows()).filter(|&row| unit[row] != RowState::Good).collect();
            let (member, _) = stripe.map.unit_at(stripe.number, position);
            let is_only_wrong_row = |row: &usize| {
                (0..geometry.width())
                    .all(|other| other == position || stripe.rows[other][*row] == RowState::Good)
            };
            if rows.is_empty() || !self.inner.health.readable(member) || !rows.iter().all(is_only_wrong_row) {
                continue;
            }
            let Some(unit) = self.computed(&stripe, position, &rows) else { continue };
            match self.write_and_read_back(&stripe, position, unit) {
                Ok(Some(unit)) => {
                    self.members[member].repaired_rows += rows.len() as u64;
                    self.inner.counters.rows_decoded.add(rows.len() as u64);
                    self.inner.counters.units_repaired.add(1);
                    stripe.rows[position].fill(RowState::Good);
                    stripe.units[position] = Some(unit);
                }
                Ok(None) => {
                    tracing::warn!(member, "a unit that was rewritten does not read back as written")
                }
                Err(error) => tracing::warn!(member, %error, "a unit could not be rewritten"),
            }
        }
    }

    /// The unit as it was written: its good rows, and the others computed.
    fn computed(&self, stripe: &Stripe, position: usize, rows: &[usize]) -> Option<Buffer> {
        let geometry = self.inner.geometry;
        let row_bytes = geometry.row_bytes();
        let mut unit = self.inner.access.buffer(geometry.unit_bytes()).ok()?;
        match &stripe.units[position] {
            Some(own) => unit[..geometry.unit_bytes()].copy_from_slice(&own[..geometry.unit_bytes()]),
            None => unit[..geometry.unit_bytes()].fill(0),
        }
        unit[geometry.unit_rows() * row_bytes..geometry.unit_bytes()].fill(0);
        for &row in rows {
            let range = row * row_bytes..(row + 1) * row_bytes;
            let others: Vec<&[u8]> = stripe
                .units
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != position)
                .filter_map(|(_, unit)| Some(&unit.as_ref()?[range.clone()]))
                .collect();
            self.inner.superblock.code.rebuild(&others, &mut unit[range]);
            if !holds(&stripe.map, stripe.number, position, row, &unit) {
                return None;
            }
        }
        Some(unit)
    }

    /// Writes the unit and reads it back; `None` if that is not what was written.
    fn write_and_read_back(
        &mut self,
        stripe: &Stripe,
        position: usize,
        unit: Buffer,
    ) -> Result<Option<Buffer>, VolumeError> {
        let geometry = self.inner.geometry;
        let (member, offset) = stripe.map.unit_at(stripe.number, position);
        let mut answers = Answers::to(self.context.requester);
        let lease = unit.freeze().slice(0..geometry.unit_bytes());
        self.inner.access.write(&mut answers, self.context.class, (member, offset), lease);
        let doing = || VolumeError::disk(format!("cannot repair a unit of {}", stripe.map.name()));
        let Some(written) = answers.next() else { return Err(doing()(DiskError::Stopped)) };
        if let Err(error) = &written.result
            && !error.is_no_space()
        {
            write_failed(&self.inner.health, &self.inner.counters, &written, error);
        }
        written.result.map_err(doing())?;
        self.written.insert(member);
        let buffer = self.inner.access.buffer(geometry.unit_bytes())?;
        let span = Span { member, offset, bytes: geometry.unit_bytes() };
        self.inner.access.read(&mut answers, self.context.class, 0, span, buffer);
        let Some(done) = answers.next() else { return Ok(None) };
        done.result.map_err(doing())?;
        let good = |unit: &Buffer| {
            (0..geometry.unit_rows()).all(|row| holds(&stripe.map, stripe.number, position, row, unit))
        };
        Ok(done.buffer.filter(good))
    }

    /// Makes the repairs durable. A member that fails to sync is taken out. More than the repairs
    /// may be lost on it, and no later sync would report it, since the kernel reports a failed
    /// write-back of a file once.
    pub(crate) fn sync(&mut self) {
        let mut answers = Answers::to(self.context.requester);
        for &member in &self.written {
            self.inner.access.sync(&mut answers, self.context.class, member);
        }
        while let Some(done) = answers.next() {
            if let Err(error) = &done.result {
                tracing::warn!(member = done.member, %error, "repairs may not be durable");
                write_failed(&self.inner.health, &self.inner.counters, &done, error);
                self.members[done.member].repaired_rows = 0;
            }
        }
    }
}
