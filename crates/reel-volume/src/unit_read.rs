//! One read of some rows of one unit: pure. Its caller carries the requests to the disks and the answers back.

use std::ops::Range;
use std::sync::Arc;

use reel_arena::{Buffer, Lease};
use reel_code::crc32c;
use reel_disk::DiskError;

use crate::error::VolumeError;
use crate::health::Health;
use crate::limits::BLOCK_BYTES;
use crate::object::ObjectMap;

/// Reads rows of one unit, checks each against its checksum and, where the member is missing, fails or lies,
/// computes them from the other rows of their matrices.
///
/// Call [`UnitRead::reads`] once and carry out what it asks for; hand every answer to [`UnitRead::fetched`]
/// until it says [`UnitStep::Ready`] or [`UnitStep::Failed`]. Answers that come later may be dropped.
#[derive(Debug)]
pub struct UnitRead {
    map: Arc<ObjectMap>,
    health: Health,
    stripe: u64,
    position: usize,
    rows: Range<usize>,
    fetches: Vec<Fetch>,
    /// The rows that came from their own member, if any, and which of them were wrong.
    own: Option<Buffer>,
    lost_rows: Vec<usize>,
    /// Why the rows could not be had from their own member.
    cause: String,
    over: bool,
}

/// A read that the caller is to carry out: `bytes` from `offset` of `member`, into a buffer of at least `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitFetch {
    /// Names the fetch within its unit read.
    pub index: usize,
    /// The member.
    pub member: usize,
    /// Where on the member, a multiple of 4096.
    pub offset: u64,
    /// How much, a multiple of 4096.
    pub bytes: usize,
}

/// What comes next.
#[derive(Debug)]
pub enum UnitStep {
    /// More answers are under way.
    Wait,
    /// These reads are needed too.
    Fetch(Vec<UnitFetch>),
    /// The rows.
    Ready(UnitRows),
    /// They cannot be had.
    Failed(VolumeError),
}

/// Rows of a unit, all verified.
#[derive(Clone, Debug)]
pub struct UnitRows {
    lease: Lease,
    rows: Range<usize>,
    row_bytes: usize,
    head_bytes: usize,
    decoded: bool,
}

#[derive(Debug)]
struct Fetch {
    position: usize,
    span: RowSpan,
    buffer: Option<Buffer>,
    answered: bool,
}

/// Some rows of a unit and the whole blocks around them.
#[derive(Clone, Debug)]
struct RowSpan {
    rows: Range<usize>,
    row_bytes: usize,
    /// From the start of the unit to the first block.
    offset: usize,
    bytes: usize,
}

impl UnitRead {
    /// A read of `rows` of the unit at `position` of `stripe`.
    ///
    /// # Panics
    /// If the object has no such stripe, position or rows, or `rows` is empty.
    pub fn new(
        map: Arc<ObjectMap>,
        health: &Health,
        stripe: u64,
        position: usize,
        rows: Range<usize>,
    ) -> UnitRead {
        let geometry = map.geometry();
        assert!(
            stripe < map.stripes() && position < geometry.width(),
            "there is no unit {position} of stripe {stripe}"
        );
        assert!(
            rows.start < rows.end && rows.end <= geometry.unit_rows(),
            "there are no rows {rows:?} in a unit"
        );
        UnitRead {
            map,
            health: health.clone(),
            stripe,
            position,
            rows,
            fetches: Vec::new(),
            own: None,
            lost_rows: Vec::new(),
            cause: String::new(),
            over: false,
        }
    }

    /// The first reads: of the unit itself, or of the others of its stripe if its member is known to be away.
    pub fn reads(&mut self) -> Vec<UnitFetch> {
        let (member, _) = self.map.unit_at(self.stripe, self.position);
        if self.health.readable(member) {
            return vec![self.fetch(self.position, self.rows.clone())];
        }
        self.cause = format!("member {member} is away");
        self.lost_rows = self.rows.clone().collect();
        self.fetch_others()
    }

    /// Takes the answer to a fetch. The buffer holds what was read from its front.
    pub fn fetched(&mut self, index: usize, result: Result<Buffer, DiskError>) -> UnitStep {
        if self.over {
            return UnitStep::Wait;
        }
        let Some(fetch) = self.fetches.get_mut(index).filter(|fetch| !fetch.answered) else {
            return UnitStep::Wait;
        };
        fetch.answered = true;
        let own = fetch.position == self.position;
        let buffer = result.inspect_err(|_| self.map.counters().read_errors.add(1));
        match buffer {
            Ok(buffer) if own => self.check_own(index, buffer),
            Err(error) if own => {
                self.cause = error.to_string();
                self.lost_rows = self.rows.clone().collect();
                UnitStep::Fetch(self.fetch_others())
            }
            Ok(buffer) => {
                fetch.buffer = Some(buffer);
                if self.fetches.iter().all(|fetch| fetch.answered) { self.decode() } else { UnitStep::Wait }
            }
            Err(error) => {
                let row = self.lost_rows[0];
                self.fail(row, error.to_string())
            }
        }
    }

    fn fetch(&mut self, position: usize, rows: Range<usize>) -> UnitFetch {
        let span = RowSpan::new(self.map.geometry().row_bytes(), rows);
        let (member, unit_offset) = self.map.unit_at(self.stripe, position);
        let index = self.fetches.len();
        let (offset, bytes) = (unit_offset + span.offset as u64, span.bytes);
        self.fetches.push(Fetch { position, span, buffer: None, answered: false });
        UnitFetch { index, member, offset, bytes }
    }

    /// The rows between the first and the last lost one, from every other position.
    fn fetch_others(&mut self) -> Vec<UnitFetch> {
        let (first, last) = (self.lost_rows[0], self.lost_rows[self.lost_rows.len() - 1]);
        let others = (0..self.map.geometry().width()).filter(|position| *position != self.position);
        let others: Vec<usize> = others.collect();
        others.into_iter().map(|position| self.fetch(position, first..last + 1)).collect()
    }

    fn check_own(&mut self, index: usize, buffer: Buffer) -> UnitStep {
        let span = self.fetches[index].span.clone();
        self.lost_rows = self
            .rows
            .clone()
            .filter(|&row| !row_holds(&self.map, self.stripe, self.position, row, &buffer[span.row(row)]))
            .collect();
        if self.lost_rows.is_empty() {
            return self.ready(buffer, span, false);
        }
        let (member, _) = self.map.unit_at(self.stripe, self.position);
        self.cause = format!("member {member} holds other bytes than were written");
        self.own = Some(buffer);
        UnitStep::Fetch(self.fetch_others())
    }

    /// Everything is here: rebuilds each lost row from the others and checks it.
    fn decode(&mut self) -> UnitStep {
        let mut others: Vec<(usize, RowSpan, Buffer)> = Vec::with_capacity(self.fetches.len());
        for fetch in &mut self.fetches {
            if let Some(buffer) = fetch.buffer.take() {
                others.push((fetch.position, fetch.span.clone(), buffer));
            }
        }
        for &row in &self.lost_rows {
            for (position, span, buffer) in &others {
                if !row_holds(&self.map, self.stripe, *position, row, &buffer[span.row(row)]) {
                    let (member, _) = self.map.unit_at(self.stripe, *position);
                    return self.fail(row, format!("member {member} holds other bytes than were written"));
                }
            }
        }
        // Without a buffer of its own the result takes the place of the first of the others, row by row.
        let own = self
            .own
            .take()
            .map(|buffer| (RowSpan::new(self.map.geometry().row_bytes(), self.rows.clone()), buffer));
        let borrowed = own.is_none();
        let (span, mut target) = match own {
            Some(own) => own,
            None => {
                let (_, span, buffer) = others.remove(0);
                (span, buffer)
            }
        };
        for &row in &self.lost_rows {
            let taken = if borrowed { Some(target[span.row(row)].to_vec()) } else { None };
            let sources: Vec<&[u8]> = others
                .iter()
                .map(|(_, span, buffer)| &buffer[span.row(row)])
                .chain(taken.as_deref())
                .collect();
            let rebuilt = &mut target[span.row(row)];
            self.map.code().rebuild(&sources, rebuilt);
            if crc32c(rebuilt) != self.map.sum(self.stripe, self.position, row) {
                return self.fail(row, "the row rebuilt from the others is not what was written".to_owned());
            }
        }
        self.map.counters().rows_decoded.add(self.lost_rows.len() as u64);
        self.ready(target, span, true)
    }

    fn ready(&mut self, buffer: Buffer, span: RowSpan, decoded: bool) -> UnitStep {
        self.over = true;
        UnitStep::Ready(UnitRows {
            lease: buffer.freeze(),
            rows: span.rows.clone(),
            row_bytes: span.row_bytes,
            head_bytes: span.row(span.rows.start).start,
            decoded,
        })
    }

    fn fail(&mut self, row: usize, other_cause: String) -> UnitStep {
        self.over = true;
        self.map.counters().rows_lost.add(1);
        UnitStep::Failed(VolumeError::Lost {
            object: self.map.name().to_owned(),
            stripe: self.stripe,
            row,
            tolerated: self.map.geometry().parity_rows(),
            causes: format!("{}; {other_cause}", self.cause),
        })
    }
}

impl UnitRows {
    /// The rows of the unit that are here.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Whether any of them was computed from others.
    pub fn decoded(&self) -> bool {
        self.decoded
    }

    /// One row: exactly `row_bytes` bytes, sharing the buffer of all.
    ///
    /// # Panics
    /// If the row is not among [`UnitRows::rows`].
    pub fn row(&self, row: usize) -> Lease {
        self.lease.slice(self.range(row))
    }

    /// Gives the buffer back if nobody else holds a part of it; otherwise everything stays as it is.
    pub fn give_back(self) -> Result<(), UnitRows> {
        match self.lease.try_into_buffer() {
            Ok(_buffer) => Ok(()),
            Err(lease) => Err(UnitRows { lease, ..self }),
        }
    }

    /// The bytes of one row.
    ///
    /// # Panics
    /// If the row is not among [`UnitRows::rows`].
    pub fn row_bytes(&self, row: usize) -> &[u8] {
        &self.lease[self.range(row)]
    }

    fn range(&self, row: usize) -> Range<usize> {
        assert!(self.rows.contains(&row), "row {row} was not read, but {:?}", self.rows);
        let from = self.head_bytes + (row - self.rows.start) * self.row_bytes;
        from..from + self.row_bytes
    }
}

impl RowSpan {
    fn new(row_bytes: usize, rows: Range<usize>) -> RowSpan {
        let offset = rows.start * row_bytes / BLOCK_BYTES * BLOCK_BYTES;
        let end = (rows.end * row_bytes).next_multiple_of(BLOCK_BYTES);
        RowSpan { rows, row_bytes, offset, bytes: end - offset }
    }

    /// The bytes of one row of the unit within what was read.
    fn row(&self, row: usize) -> Range<usize> {
        let from = row * self.row_bytes - self.offset;
        from..from + self.row_bytes
    }
}

/// Whether a row is what was written, counted.
fn row_holds(map: &ObjectMap, stripe: u64, position: usize, row: usize, bytes: &[u8]) -> bool {
    let holds = crc32c(bytes) == map.sum(stripe, position, row);
    let counters = map.counters();
    if holds {
        counters.rows_verified.add(1)
    } else {
        counters.checksum_failures.add(1)
    }
    holds
}
