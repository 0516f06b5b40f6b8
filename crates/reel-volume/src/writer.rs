//! Writes one object.

use std::sync::Arc;

use reel_arena::Buffer;
use reel_code::crc32c;
use reel_disk::DiskError;
use reel_qos::Class;

use crate::answers::Answers;
use crate::catalogue::{Extent, ObjectRecord, Sums};
use crate::commit::{settle_unwanted, write_failed};
use crate::error::VolumeError;
use crate::hold::{Hold, Space};
use crate::limits::{
    EXTENTS_MAX, INLINE_SUMS_MAX, OBJECT_BYTES_MAX, RESERVE_SLOTS_MAX, WRITER_STRIPES_IN_FLIGHT,
};
use crate::volume::Inner;

/// Takes the bytes of one object, in order, and writes them to the members stripe by stripe, with
/// parity and checksums. If it is dropped without [`ObjectWriter::finish`], nothing is kept.
pub struct ObjectWriter {
    inner: Arc<Inner>,
    class: Class,
    /// Bytes of a stripe that is not full yet. On the heap, so that many open writers hold no media
    /// memory.
    staged: Vec<u8>,
    bytes: u64,
    sums: Vec<u32>,
    answers: Answers,
    reserved: Reserved,
    /// The lives of the members when the object was begun, see [`crate::Health::lives`].
    lives: Vec<u32>,
}

/// Slots taken for an object. They are freed on drop unless the object is finished.
struct Reserved {
    space: Space,
    extents: Vec<Extent>,
    /// Slots in all extents, and how many of them are in use.
    held: u64,
    used: u64,
}

impl ObjectWriter {
    pub(crate) fn new(inner: Arc<Inner>, class: Class) -> ObjectWriter {
        let reserved = Reserved { space: inner.space.clone(), extents: Vec::new(), held: 0, used: 0 };
        ObjectWriter {
            lives: inner.health.lives(),
            inner,
            class,
            staged: Vec::new(),
            bytes: 0,
            sums: Vec::new(),
            answers: Answers::new(),
            reserved,
        }
    }

    /// Bytes taken so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the next bytes, any number of them. Waits while too many stripes are outstanding.
    ///
    /// # Errors
    /// If the volume or the object is full, too many members fail, or no media memory becomes free
    /// in time. The writer cannot be used any more after that.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), VolumeError> {
        if self.bytes.saturating_add(bytes.len() as u64) > OBJECT_BYTES_MAX {
            return Err(VolumeError::ObjectLimit { rule: "it is longer than 16 TiB" });
        }
        self.bytes += bytes.len() as u64;
        let stripe_bytes = self.inner.geometry.stripe_bytes();
        while self.staged.len() + bytes.len() >= stripe_bytes {
            if self.staged.is_empty() {
                let (stripe, rest) = bytes.split_at(stripe_bytes);
                self.put(stripe)?;
                bytes = rest;
            } else {
                let (head, rest) = bytes.split_at(stripe_bytes - self.staged.len());
                self.staged.extend_from_slice(head);
                bytes = rest;
                self.put_staged()?;
            }
        }
        if self.staged.capacity() == 0 && !bytes.is_empty() {
            self.staged.reserve_exact(stripe_bytes);
        }
        self.staged.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the rest and waits until every member has it. The object becomes durable when it is
    /// published.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub fn finish(self) -> Result<ObjectRecord, VolumeError> {
        let (space, lives) = (self.inner.space.clone(), self.lives.clone());
        let (mut object, mut reserved) = self.finish_parts()?;
        // From now on the hold frees the slots.
        reserved.iter_mut().for_each(Reserved::forget);
        object.hold = Hold::written(&space, object.all_extents(), lives);
        Ok(object)
    }

    /// The record and the slots of the object and of its checksums.
    fn finish_parts(mut self) -> Result<(ObjectRecord, Vec<Reserved>), VolumeError> {
        if !self.staged.is_empty() {
            self.put_staged()?;
        }
        self.wait_while(|answers| answers.waiting() > 0)?;
        self.reserved.trim();
        let sums = std::mem::take(&mut self.sums);
        let empty = Reserved { space: self.inner.space.clone(), extents: Vec::new(), held: 0, used: 0 };
        let reserved = std::mem::replace(&mut self.reserved, empty);
        let extents = reserved.extents.clone();
        let mut all = vec![reserved];
        let sums = if sums.len() <= INLINE_SUMS_MAX.max(self.inner.geometry.stripe_rows()) {
            Sums::Inline(sums)
        } else {
            let mut writer = ObjectWriter::new(Arc::clone(&self.inner), self.class);
            for chunk in sums.chunks(4096) {
                let bytes: Vec<u8> = chunk.iter().flat_map(|sum| sum.to_le_bytes()).collect();
                writer.write(&bytes)?;
            }
            let (object, more) = writer.finish_parts()?;
            all.extend(more);
            Sums::Object(Box::new(object))
        };
        Ok((ObjectRecord { bytes: self.bytes, extents, sums, hold: Hold::default() }, all))
    }

    fn put_staged(&mut self) -> Result<(), VolumeError> {
        let staged = std::mem::take(&mut self.staged);
        let done = self.put(&staged);
        self.staged = staged;
        self.staged.clear();
        done
    }

    /// Encodes one stripe and submits it to the members. Missing bytes at its end are zeros.
    fn put(&mut self, data: &[u8]) -> Result<(), VolumeError> {
        let geometry = self.inner.geometry;
        let (row_bytes, width) = (geometry.row_bytes(), geometry.width());
        let before = WRITER_STRIPES_IN_FLIGHT - 1;
        self.wait_while(|answers| answers.waiting() > before * width || answers.waiting_at_one() > before)?;
        let slot = self.reserved.next(data.len() as u64, &self.inner)?;
        let mut units = self.inner.access.buffers(width, geometry.unit_bytes())?;
        for (position, unit) in units.iter_mut().take(geometry.data_rows()).enumerate() {
            for matrix in 0..geometry.unit_rows() {
                let from = (matrix * geometry.data_rows() + position) * row_bytes;
                let bytes = data.get(from..).unwrap_or_default();
                let bytes = &bytes[..bytes.len().min(row_bytes)];
                let row = &mut unit[matrix * row_bytes..(matrix + 1) * row_bytes];
                row[..bytes.len()].copy_from_slice(bytes);
                row[bytes.len()..].fill(0);
            }
        }
        self.put_parity(&mut units);
        let spare = geometry.unit_rows() * row_bytes..geometry.unit_bytes();
        for (position, mut unit) in units.into_iter().enumerate() {
            unit[spare.clone()].fill(0);
            self.sums.extend(unit[..spare.start].chunks_exact(row_bytes).map(crc32c));
            let place = geometry.place(slot, position);
            // The unit of an absent member is computed from the others when it is needed.
            if self.inner.health.writable(place.member) {
                let offset = self.inner.superblock.data_offset + place.unit * geometry.unit_bytes() as u64;
                let lease = unit.freeze().slice(0..geometry.unit_bytes());
                self.inner.access.write(&mut self.answers, self.class, (place.member, offset), lease);
            }
        }
        self.inner.counters.rows_written.add(geometry.stripe_rows() as u64);
        Ok(())
    }

    /// Computes the parity units, which follow the data units.
    fn put_parity(&self, units: &mut [Buffer]) {
        let geometry = &self.inner.geometry;
        let row_bytes = geometry.row_bytes();
        let (data, parity) = units.split_at_mut(geometry.data_rows());
        for matrix in 0..geometry.unit_rows() {
            let row = matrix * row_bytes..(matrix + 1) * row_bytes;
            let data: Vec<&[u8]> = data.iter().map(|unit| &unit[row.clone()]).collect();
            let mut rows: Vec<&mut [u8]> = parity.iter_mut().map(|unit| &mut unit[row.clone()]).collect();
            self.inner.superblock.code.encode(&data, &mut rows);
        }
    }

    /// Takes answers while `too_much` says that too many requests are outstanding.
    fn wait_while(&mut self, too_much: impl Fn(&Answers) -> bool) -> Result<(), VolumeError> {
        while too_much(&self.answers) {
            let Some(done) = self.answers.next() else { break };
            if let Err(error) = &done.result {
                if error.is_no_space() {
                    // The object is given up, so its slots need not be equal on all members.
                    return Err(VolumeError::disk("cannot store an object")(error.clone()));
                }
                write_failed(&self.inner.health, &self.inner.counters, &done, error);
                if matches!(error, DiskError::Withheld) {
                    let reason = self.inner.refusal().unwrap_or_else(|| error.to_string());
                    return Err(VolumeError::ReadOnly { reason });
                }
            }
        }
        if let Some(reason) = self.inner.health.stuck() {
            return Err(VolumeError::ReadOnly { reason });
        }
        let (failed, tolerated) = (self.inner.health.lost(), self.inner.geometry.parity_rows());
        if failed > tolerated {
            let members = self.inner.geometry.members();
            return Err(VolumeError::MembersFailed {
                failed,
                members,
                tolerated,
                last: self.inner.health.reasons(),
            });
        }
        Ok(())
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        settle_unwanted(&self.inner.health, &self.inner.counters, &mut self.answers);
    }
}

impl Reserved {
    /// The slot of the next stripe. `bytes` of the object are known so far.
    fn next(&mut self, bytes: u64, inner: &Inner) -> Result<u64, VolumeError> {
        if self.used == self.held {
            self.reserve(bytes, inner)?;
        }
        // The extents before the last one are fully in use.
        let left = self.held - self.used;
        let Some(last) = self.extents.last() else { return Err(full(bytes, inner)) };
        self.used += 1;
        Ok(last.first_slot + last.slots - left)
    }

    /// Takes more slots. The longer the object, the more: writers side by side still get long runs,
    /// but never a large part of the free space.
    fn reserve(&mut self, bytes: u64, inner: &Inner) -> Result<(), VolumeError> {
        let mut space = self.space.lock();
        let wanted = self.held.clamp(1, RESERVE_SLOTS_MAX).min((space.free() / 16).max(1));
        let after = self.extents.last().map(|extent| extent.first_slot + extent.slots);
        let Some(extent) = space.take(wanted, after) else {
            drop(space);
            return Err(full(bytes, inner));
        };
        let count = self.extents.len();
        match self.extents.last_mut() {
            Some(last) if after == Some(extent.first_slot) => last.slots += extent.slots,
            _ if count == EXTENTS_MAX => {
                space.give_back(extent);
                let rule = "the free space is so scattered that it would have more than 65,536 pieces; remove titles";
                return Err(VolumeError::ObjectLimit { rule });
            }
            _ => self.extents.push(extent),
        }
        self.held += extent.slots;
        Ok(())
    }

    /// Frees the slots that are not in use.
    fn trim(&mut self) {
        let left = self.held - self.used;
        if let Some(last) = self.extents.last_mut()
            && left > 0
        {
            last.slots -= left;
            let first_slot = last.first_slot + last.slots;
            if last.slots == 0 {
                self.extents.pop();
            }
            self.space.lock().give_back(Extent { first_slot, slots: left });
            self.held = self.used;
        }
    }

    fn forget(&mut self) {
        self.extents.clear();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut space = self.space.lock();
        self.extents.drain(..).for_each(|extent| space.give_back(extent));
    }
}

fn full(needed_bytes: u64, inner: &Inner) -> VolumeError {
    let free_bytes = inner.space.lock().free() * inner.geometry.stripe_bytes() as u64;
    VolumeError::Full { needed_bytes, free_bytes }
}
