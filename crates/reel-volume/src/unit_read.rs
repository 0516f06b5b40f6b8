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

/// Reads rows of one unit, checks each against its checksum and, where the member is missing, fails, lies or keeps its
/// caller waiting, computes them from the other rows of their matrices.
///
/// Call [`UnitRead::reads`] once and carry out what it asks for; hand every answer back until there is
/// [`UnitStep::Ready`] or [`UnitStep::Failed`]. Answers that come later may be dropped. What is asked of another unit of
/// the stripe ([`UnitFetch::own`] is `false`) may be carried out as a read of that member ([`UnitRead::fetched`]) or
/// given from a verified read that somebody else makes ([`UnitRead::shared`]).
#[derive(Debug)]
pub struct UnitRead {
    map: Arc<ObjectMap>,
    health: Health,
    stripe: u64,
    position: usize,
    rows: Range<usize>,
    fetches: Vec<Fetch>,
    own: Own,
    /// Which of the rows were wrong.
    lost_rows: Vec<usize>,
    /// Whether the other units of the stripe have been asked for.
    around: bool,
    /// Why one of them cannot be had.
    around_failed: Option<String>,
    /// A buffer to decode into.
    target: Option<Buffer>,
    /// Why the rows could not be had from their own member.
    cause: String,
    over: bool,
}

/// A read that the caller is to carry out: `bytes` from `offset` of `member`, into a buffer of at least `bytes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFetch {
    /// Names the fetch within its unit read.
    pub index: usize,
    /// Whether it is of the unit itself, not of another one of its stripe.
    pub own: bool,
    /// Position in the stripe.
    pub position: usize,
    /// The rows it covers.
    pub rows: Range<usize>,
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

/// What is known of the unit on its own member.
#[derive(Debug)]
enum Own {
    NotAsked,
    Asked,
    /// Read, and some rows are wrong.
    Partial(Buffer),
    Lost,
}

#[derive(Debug)]
struct Fetch {
    position: usize,
    span: RowSpan,
    got: Got,
}

#[derive(Debug)]
enum Got {
    Asked,
    Nothing,
    /// As the member gave it, not looked at yet.
    Read(Buffer),
    Shared(UnitRows),
}

/// Some rows of a unit and the whole blocks around them.
#[derive(Clone, Debug)]
pub(crate) struct RowSpan {
    rows: Range<usize>,
    row_bytes: usize,
    /// From the start of the unit to the first block.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
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
            own: Own::NotAsked,
            lost_rows: Vec::new(),
            around: false,
            around_failed: None,
            target: None,
            cause: String::new(),
            over: false,
        }
    }

    /// The member that holds the unit.
    pub fn member(&self) -> usize {
        self.map.unit_at(self.stripe, self.position).0
    }

    /// The map of its object.
    pub fn map(&self) -> &Arc<ObjectMap> {
        &self.map
    }

    /// The first reads: of the unit itself, or of the others of its stripe if its member is known to be away.
    pub fn reads(&mut self) -> Vec<UnitFetch> {
        let member = self.member();
        if self.health.readable(member) {
            return vec![self.fetch_own()];
        }
        self.cause = format!("member {member} is away");
        self.own = Own::Lost;
        self.fetch_others(self.rows.clone())
    }

    /// Instead of [`UnitRead::reads`], or while they are under way: reads of the other units of the stripe, because the
    /// unit's own member does not answer. Whoever is first decides; if the others fail, the member itself is asked or
    /// waited for. Empty if the others have been asked for already.
    pub fn read_around(&mut self) -> Vec<UnitFetch> {
        if self.around || self.over {
            return Vec::new();
        }
        self.cause = format!("member {} does not answer", self.member());
        self.fetch_others(self.rows.clone())
    }

    /// Bytes of the buffer that [`UnitRead::give_target`] must be given before rows of other units are shared; 0 if none
    /// is needed.
    pub fn target_bytes(&self) -> usize {
        match (&self.own, &self.target) {
            (Own::Partial(_), _) | (_, Some(_)) => 0,
            _ => RowSpan::new(self.map.geometry().row_bytes(), self.rows.clone()).bytes,
        }
    }

    /// A buffer of at least [`UnitRead::target_bytes`] to compute lost rows in.
    pub fn give_target(&mut self, buffer: Buffer) {
        self.target = Some(buffer);
    }

    /// Takes the answer to a fetch. The buffer holds what was read from its front.
    pub fn fetched(&mut self, index: usize, result: Result<Buffer, DiskError>) -> UnitStep {
        let Some(fetch) = self.asked(index) else { return UnitStep::Wait };
        let (position, span) = (fetch.position, fetch.span.clone());
        fetch.got = Got::Nothing;
        let own = position == self.position;
        match result {
            Ok(buffer) if own => self.check_own(span, buffer),
            Ok(buffer) => {
                self.fetches[index].got = Got::Read(buffer);
                self.settle()
            }
            Err(error) => {
                let (member, _) = self.map.unit_at(self.stripe, position);
                self.map.counters().read_errors.add(1);
                if self.health.failed_to_read(member, &error) {
                    self.map.counters().members_taken_out.add(1);
                }
                if own { self.lose_own(error.to_string()) } else { self.fail_around(error.to_string()) }
            }
        }
    }

    /// Takes verified rows of another unit of the stripe, which must cover those of the fetch.
    pub fn shared(&mut self, index: usize, rows: UnitRows) -> UnitStep {
        let Some(fetch) = self.asked(index) else { return UnitStep::Wait };
        debug_assert!(rows.rows.start <= fetch.span.rows.start && fetch.span.rows.end <= rows.rows.end);
        fetch.got = Got::Shared(rows);
        self.settle()
    }

    fn asked(&mut self, index: usize) -> Option<&mut Fetch> {
        let over = self.over;
        self.fetches.get_mut(index).filter(|fetch| !over && matches!(fetch.got, Got::Asked))
    }

    fn fetch_own(&mut self) -> UnitFetch {
        self.own = Own::Asked;
        self.fetch(self.position, self.rows.clone())
    }

    fn fetch(&mut self, position: usize, rows: Range<usize>) -> UnitFetch {
        let span = RowSpan::new(self.map.geometry().row_bytes(), rows.clone());
        let (member, unit_offset) = self.map.unit_at(self.stripe, position);
        let index = self.fetches.len();
        let (offset, bytes) = (unit_offset + span.offset as u64, span.bytes);
        self.fetches.push(Fetch { position, span, got: Got::Asked });
        UnitFetch { index, own: position == self.position, position, rows, member, offset, bytes }
    }

    /// The rows from every other position.
    fn fetch_others(&mut self, rows: Range<usize>) -> Vec<UnitFetch> {
        self.around = true;
        let others = (0..self.map.geometry().width()).filter(|position| *position != self.position);
        let others: Vec<usize> = others.collect();
        others.into_iter().map(|position| self.fetch(position, rows.clone())).collect()
    }

    fn check_own(&mut self, span: RowSpan, buffer: Buffer) -> UnitStep {
        let wrong =
            |row: &usize| !row_holds(&self.map, self.stripe, self.position, *row, &buffer[span.row(*row)]);
        self.lost_rows = self.rows.clone().filter(wrong).collect();
        self.looked_at(self.position, self.rows.len(), self.lost_rows.len());
        if self.lost_rows.is_empty() {
            return self.ready(buffer, span, false);
        }
        self.cause = format!("member {} holds other bytes than were written", self.member());
        let lost = self.lost_rows[0]..self.lost_rows[self.lost_rows.len() - 1] + 1;
        self.own = Own::Partial(buffer);
        if self.around_failed.take().is_some() {
            // All rows could not be computed; those that are lost may.
            self.around = false;
            self.fetches.iter_mut().for_each(|fetch| fetch.got = Got::Nothing);
        }
        self.go_around(lost)
    }

    fn lose_own(&mut self, cause: String) -> UnitStep {
        self.cause = cause;
        self.own = Own::Lost;
        self.go_around(self.rows.clone())
    }

    /// The unit itself is not to be had whole: the others are asked for, unless they have been.
    fn go_around(&mut self, rows: Range<usize>) -> UnitStep {
        if self.around { self.settle() } else { UnitStep::Fetch(self.fetch_others(rows)) }
    }

    /// The rows cannot be computed: what is left is the unit itself, if that was not asked for in vain.
    fn fail_around(&mut self, cause: String) -> UnitStep {
        self.around_failed = Some(cause);
        self.settle()
    }

    /// What the answers so far come to.
    fn settle(&mut self) -> UnitStep {
        if let Some(cause) = &self.around_failed {
            return match self.own {
                Own::Asked => UnitStep::Wait,
                Own::NotAsked => UnitStep::Fetch(vec![self.fetch_own()]),
                Own::Partial(_) | Own::Lost => {
                    let row = self.lost_rows.first().copied().unwrap_or(self.rows.start);
                    let cause = cause.clone();
                    self.fail(row, cause)
                }
            };
        }
        let position = self.position;
        let waits = |fetch: &Fetch| fetch.position != position && matches!(fetch.got, Got::Asked);
        if !self.around || self.fetches.iter().any(waits) { UnitStep::Wait } else { self.decode() }
    }

    /// Everything is here: rebuilds each lost row from the others and checks it.
    fn decode(&mut self) -> UnitStep {
        let mut others: Vec<(usize, RowSpan, Got)> = Vec::with_capacity(self.fetches.len());
        for fetch in self.fetches.iter_mut().filter(|fetch| fetch.position != self.position) {
            let got = std::mem::replace(&mut fetch.got, Got::Nothing);
            others.push((fetch.position, fetch.span.clone(), got));
        }
        let lost_rows = match self.own {
            Own::Partial(_) => self.lost_rows.clone(),
            _ => self.rows.clone().collect(),
        };
        for (position, span, got) in &others {
            let Got::Read(buffer) = got else { continue };
            let holds =
                |row: &usize| row_holds(&self.map, self.stripe, *position, *row, &buffer[span.row(*row)]);
            let wrong: Vec<usize> = lost_rows.iter().copied().filter(|row| !holds(row)).collect();
            self.looked_at(*position, lost_rows.len(), wrong.len());
            if let Some(&row) = wrong.first() {
                let (member, _) = self.map.unit_at(self.stripe, *position);
                self.lost_rows = vec![row];
                return self.fail_around(format!("member {member} holds other bytes than were written"));
            }
        }
        let own_span = RowSpan::new(self.map.geometry().row_bytes(), self.rows.clone());
        let asked = matches!(self.own, Own::Asked | Own::NotAsked);
        let own = match std::mem::replace(&mut self.own, Own::Lost) {
            Own::Partial(buffer) => Some(buffer),
            _ => self.target.take(),
        };
        // Without a buffer of its own the result takes the place of the first of the others, row by row.
        let borrowed = own.is_none();
        let (span, mut target) = match own {
            Some(buffer) => (own_span, buffer),
            None => {
                let first = others.iter().position(|(_, _, got)| matches!(got, Got::Read(_)));
                let first = first.expect("whoever shares rows gives a buffer to decode into");
                let (_, span, got) = others.remove(first);
                let Got::Read(buffer) = got else { unreachable!("it was looked for") };
                (span, buffer)
            }
        };
        for &row in &lost_rows {
            let taken = if borrowed { Some(target[span.row(row)].to_vec()) } else { None };
            let sources: Vec<&[u8]> = others
                .iter()
                .filter_map(|(_, span, got)| got.row(span, row))
                .chain(taken.as_deref())
                .collect();
            let rebuilt = &mut target[span.row(row)];
            self.map.code().rebuild(&sources, rebuilt);
            if crc32c(rebuilt) != self.map.sum(self.stripe, self.position, row) {
                let cause = "the row rebuilt from the others is not what was written".to_owned();
                if asked {
                    // Its member may still give it as it was written.
                    let in_flight = self.fetches.iter().any(|fetch| fetch.position == self.position);
                    self.own = if in_flight { Own::Asked } else { Own::NotAsked };
                    return self.fail_around(cause);
                }
                return self.fail(row, cause);
            }
        }
        self.map.counters().rows_decoded.add(lost_rows.len() as u64);
        self.ready(target, span, true)
    }

    /// Tells of rows that a member gave.
    fn looked_at(&self, position: usize, rows: usize, wrong: usize) {
        let (member, _) = self.map.unit_at(self.stripe, position);
        if self.health.looked_at(member, rows, wrong) {
            self.map.counters().members_taken_out.add(1);
        }
    }

    fn ready(&mut self, buffer: Buffer, span: RowSpan, decoded: bool) -> UnitStep {
        self.end();
        UnitStep::Ready(UnitRows {
            lease: buffer.freeze(),
            rows: span.rows.clone(),
            row_bytes: span.row_bytes,
            head_bytes: span.row(span.rows.start).start,
            decoded,
        })
    }

    fn fail(&mut self, row: usize, other_cause: String) -> UnitStep {
        self.end();
        self.map.counters().rows_lost.add(1);
        UnitStep::Failed(VolumeError::Lost {
            object: self.map.name().to_owned(),
            stripe: self.stripe,
            row,
            tolerated: self.map.geometry().parity_rows(),
            causes: format!("{}; {other_cause}", self.cause),
        })
    }

    /// Nothing more is needed: gives back what others may want.
    fn end(&mut self) {
        self.over = true;
        self.target = None;
        self.own = Own::Lost;
        self.fetches.iter_mut().for_each(|fetch| fetch.got = Got::Nothing);
    }
}

impl Got {
    /// One row of the unit, of what was fetched in `span`.
    fn row(&self, span: &RowSpan, row: usize) -> Option<&[u8]> {
        match self {
            Got::Read(buffer) => Some(&buffer[span.row(row)]),
            Got::Shared(rows) => Some(rows.row_bytes(row)),
            Got::Asked | Got::Nothing => None,
        }
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
    pub(crate) fn new(row_bytes: usize, rows: Range<usize>) -> RowSpan {
        let offset = rows.start * row_bytes / BLOCK_BYTES * BLOCK_BYTES;
        let end = (rows.end * row_bytes).next_multiple_of(BLOCK_BYTES);
        RowSpan { rows, row_bytes, offset, bytes: end - offset }
    }

    /// The bytes of one row of the unit within what was read.
    pub(crate) fn row(&self, row: usize) -> Range<usize> {
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
