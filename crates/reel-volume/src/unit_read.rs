//! One read of some rows of one unit: pure. Its caller submits the requests to the disks and
//! returns the answers.

use std::ops::Range;
use std::sync::Arc;

use reel_arena::{Buffer, Lease};
use reel_code::crc32c;
use reel_disk::DiskError;

use crate::error::VolumeError;
use crate::health::Health;
use crate::limits::BLOCK_BYTES;
use crate::object::ObjectMap;

/// Reads rows of one unit and checks each against its checksum. Where the member is missing, fails,
/// returns wrong data or is slow, it computes the rows from the other rows of their matrices.
///
/// Call [`UnitRead::reads`] once and execute the fetches it returns. Return every answer until
/// there is [`UnitStep::Ready`] or [`UnitStep::Failed`]. Later answers may be dropped. A fetch of
/// another unit of the stripe ([`UnitFetch::own`] is `false`) may be executed as a read of that
/// member ([`UnitRead::fetched`]) or served from a verified read of another caller
/// ([`UnitRead::shared`]).
#[derive(Debug)]
pub struct UnitRead {
    map: Arc<ObjectMap>,
    health: Health,
    stripe: u64,
    position: usize,
    rows: Range<usize>,
    fetches: Vec<Fetch>,
    own: OwnUnit,
    /// The rows that were wrong.
    lost_rows: Vec<usize>,
    /// Whether the other units of the stripe have been requested.
    others_requested: bool,
    /// Why one of the other units is not available.
    others_error: Option<String>,
    /// A buffer to decode into.
    target: Option<Buffer>,
    /// Why the rows are not available from their own member.
    cause: String,
    /// Whether its caller has chosen to compute it.
    is_chosen: bool,
    over: bool,
}

/// A read that the caller is to execute: `bytes` from `offset` of `member`, into a buffer of at
/// least `bytes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFetch {
    /// Identifies the fetch within its unit read.
    pub index: usize,
    /// Whether it is of the unit itself, not of another unit of its stripe.
    pub own: bool,
    /// Position in the stripe.
    pub position: usize,
    /// The rows it covers.
    pub rows: Range<usize>,
    /// The member.
    pub member: usize,
    /// The offset on the member, a multiple of 4096.
    pub offset: u64,
    /// The length, a multiple of 4096.
    pub bytes: usize,
}

/// What the caller does next.
#[derive(Debug)]
pub enum UnitStep {
    /// Wait: more answers are outstanding.
    Wait,
    /// Execute these reads too.
    Fetch(Vec<UnitFetch>),
    /// The rows.
    Ready(UnitRows),
    /// The rows are not available.
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

/// The state of the unit on its own member.
#[derive(Debug)]
enum OwnUnit {
    NotRequested,
    Requested,
    /// Read, and some rows are wrong.
    Partial(Buffer),
    Lost,
}

#[derive(Debug)]
struct Fetch {
    position: usize,
    span: RowSpan,
    state: FetchState,
}

#[derive(Debug)]
enum FetchState {
    Requested,
    Nothing,
    /// As the member returned it, not verified yet.
    Read(Buffer),
    Shared(UnitRows),
}

/// Some rows of a unit and the whole blocks that contain them.
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
            own: OwnUnit::NotRequested,
            lost_rows: Vec::new(),
            others_requested: false,
            others_error: None,
            target: None,
            cause: String::new(),
            is_chosen: false,
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

    /// The first reads: of the unit itself, or of the others of its stripe if its member is known
    /// to be missing.
    pub fn reads(&mut self) -> Vec<UnitFetch> {
        let member = self.member();
        if self.health.readable(member) {
            return vec![self.fetch_own()];
        }
        self.cause = format!("member {member} is missing");
        self.own = OwnUnit::Lost;
        self.fetch_others(self.rows.clone())
    }

    /// Instead of [`UnitRead::reads`], or while these are outstanding: hedged reads of the other
    /// units of the stripe, because the unit's own member does not answer. The first complete
    /// result is used. If the others fail, the member itself is read or waited for. Empty if the
    /// others have been requested already.
    pub fn hedged_reads(&mut self) -> Vec<UnitFetch> {
        if self.others_requested || self.over {
            return Vec::new();
        }
        self.cause = format!("member {} does not answer", self.member());
        self.fetch_others(self.rows.clone())
    }

    /// Instead of [`UnitRead::reads`]: the other units of the stripe, because they are in memory
    /// and this one is not. If they fail, the member itself is read.
    pub fn computed_reads(&mut self) -> Vec<UnitFetch> {
        self.is_chosen = true;
        self.cause = "it is computed".to_owned();
        self.fetch_others(self.rows.clone())
    }

    /// The size of the buffer for [`UnitRead::give_target`], which is needed before rows of other
    /// units are shared; 0 if none is needed.
    pub fn target_bytes(&self) -> usize {
        match (&self.own, &self.target) {
            (OwnUnit::Partial(_), _) | (_, Some(_)) => 0,
            _ => RowSpan::new(self.map.geometry().row_bytes(), self.rows.clone()).bytes,
        }
    }

    /// A buffer of at least [`UnitRead::target_bytes`] to compute lost rows in.
    pub fn give_target(&mut self, buffer: Buffer) {
        self.target = Some(buffer);
    }

    /// Takes the answer to a fetch. The buffer holds the bytes read, from its front.
    ///
    /// # Panics
    /// If rows were shared and no buffer was given, see [`UnitRead::target_bytes`].
    pub fn fetched(&mut self, index: usize, result: Result<Buffer, DiskError>) -> UnitStep {
        let Some(fetch) = self.outstanding(index) else { return UnitStep::Wait };
        let (position, span) = (fetch.position, fetch.span.clone());
        fetch.state = FetchState::Nothing;
        let own = position == self.position;
        match result {
            Ok(buffer) if own => self.check_own(span, buffer),
            Ok(buffer) => {
                self.fetches[index].state = FetchState::Read(buffer);
                self.settle()
            }
            Err(error) => {
                let (member, _) = self.map.unit_at(self.stripe, position);
                self.map.counters().read_errors.add(1);
                if self.health.record_read_failure(member, &error) {
                    self.map.counters().members_taken_out.add(1);
                }
                if own {
                    self.own_unavailable(error.to_string())
                } else {
                    self.others_unavailable(error.to_string())
                }
            }
        }
    }

    /// Takes verified rows of another unit of the stripe, which must cover those of the fetch.
    ///
    /// # Panics
    /// If no buffer was given, see [`UnitRead::target_bytes`].
    pub fn shared(&mut self, index: usize, rows: UnitRows) -> UnitStep {
        let Some(fetch) = self.outstanding(index) else { return UnitStep::Wait };
        debug_assert!(rows.rows.start <= fetch.span.rows.start && fetch.span.rows.end <= rows.rows.end);
        fetch.state = FetchState::Shared(rows);
        self.settle()
    }

    fn outstanding(&mut self, index: usize) -> Option<&mut Fetch> {
        let over = self.over;
        self.fetches.get_mut(index).filter(|fetch| !over && matches!(fetch.state, FetchState::Requested))
    }

    fn fetch_own(&mut self) -> UnitFetch {
        self.own = OwnUnit::Requested;
        self.fetch(self.position, self.rows.clone())
    }

    fn fetch(&mut self, position: usize, rows: Range<usize>) -> UnitFetch {
        let span = RowSpan::new(self.map.geometry().row_bytes(), rows.clone());
        let (member, unit_offset) = self.map.unit_at(self.stripe, position);
        let index = self.fetches.len();
        let (offset, bytes) = (unit_offset + span.offset as u64, span.bytes);
        self.fetches.push(Fetch { position, span, state: FetchState::Requested });
        UnitFetch { index, own: position == self.position, position, rows, member, offset, bytes }
    }

    /// Requests the rows from every other position.
    fn fetch_others(&mut self, rows: Range<usize>) -> Vec<UnitFetch> {
        self.others_requested = true;
        let others = (0..self.map.geometry().width()).filter(|position| *position != self.position);
        let others: Vec<usize> = others.collect();
        others.into_iter().map(|position| self.fetch(position, rows.clone())).collect()
    }

    fn check_own(&mut self, span: RowSpan, buffer: Buffer) -> UnitStep {
        let wrong =
            |row: &usize| !row_holds(&self.map, self.stripe, self.position, *row, &buffer[span.row(*row)]);
        self.lost_rows = self.rows.clone().filter(wrong).collect();
        self.record_rows(self.position, self.rows.len(), self.lost_rows.len());
        if self.lost_rows.is_empty() {
            return self.ready(buffer, span, false);
        }
        self.cause = format!("member {} holds other bytes than were written", self.member());
        let lost = self.lost_rows[0]..self.lost_rows[self.lost_rows.len() - 1] + 1;
        self.own = OwnUnit::Partial(buffer);
        if self.others_error.take().is_some() {
            // The others failed to give all rows; they may still give the wrong ones.
            self.others_requested = false;
            self.fetches.iter_mut().for_each(|fetch| fetch.state = FetchState::Nothing);
        }
        self.request_others(lost)
    }

    fn own_unavailable(&mut self, cause: String) -> UnitStep {
        self.cause = cause;
        self.own = OwnUnit::Lost;
        self.request_others(self.rows.clone())
    }

    /// The unit itself is not fully available: requests the others, unless that has been done.
    fn request_others(&mut self, rows: Range<usize>) -> UnitStep {
        if self.others_requested { self.settle() } else { UnitStep::Fetch(self.fetch_others(rows)) }
    }

    /// The others are not available: what is left is the unit itself, unless that failed already.
    fn others_unavailable(&mut self, cause: String) -> UnitStep {
        self.others_error = Some(cause);
        self.settle()
    }

    /// The step that follows from the answers so far.
    fn settle(&mut self) -> UnitStep {
        if let Some(cause) = &self.others_error {
            return match self.own {
                OwnUnit::Requested => UnitStep::Wait,
                OwnUnit::NotRequested => UnitStep::Fetch(vec![self.fetch_own()]),
                OwnUnit::Partial(_) | OwnUnit::Lost => {
                    let row = self.lost_rows.first().copied().unwrap_or(self.rows.start);
                    let cause = cause.clone();
                    self.fail(row, cause)
                }
            };
        }
        let position = self.position;
        let waits =
            |fetch: &Fetch| fetch.position != position && matches!(fetch.state, FetchState::Requested);
        if !self.others_requested || self.fetches.iter().any(waits) { UnitStep::Wait } else { self.decode() }
    }

    /// All units have arrived: computes each lost row from the others and checks it.
    fn decode(&mut self) -> UnitStep {
        let mut others: Vec<(usize, RowSpan, FetchState)> = Vec::with_capacity(self.fetches.len());
        for fetch in self.fetches.iter_mut().filter(|fetch| fetch.position != self.position) {
            let got = std::mem::replace(&mut fetch.state, FetchState::Nothing);
            others.push((fetch.position, fetch.span.clone(), got));
        }
        let lost_rows = match self.own {
            OwnUnit::Partial(_) => self.lost_rows.clone(),
            _ => self.rows.clone().collect(),
        };
        for (position, span, got) in &others {
            let FetchState::Read(buffer) = got else { continue };
            let holds =
                |row: &usize| row_holds(&self.map, self.stripe, *position, *row, &buffer[span.row(*row)]);
            let wrong: Vec<usize> = lost_rows.iter().copied().filter(|row| !holds(row)).collect();
            self.record_rows(*position, lost_rows.len(), wrong.len());
            if let Some(&row) = wrong.first() {
                let (member, _) = self.map.unit_at(self.stripe, *position);
                self.lost_rows = vec![row];
                return self
                    .others_unavailable(format!("member {member} holds other bytes than were written"));
            }
        }
        let own_span = RowSpan::new(self.map.geometry().row_bytes(), self.rows.clone());
        let own_may_answer = matches!(self.own, OwnUnit::Requested | OwnUnit::NotRequested);
        let own = match std::mem::replace(&mut self.own, OwnUnit::Lost) {
            OwnUnit::Partial(buffer) => Some(buffer),
            _ => self.target.take(),
        };
        // Without a buffer of its own the result replaces the first of the others, row by row.
        let borrowed = own.is_none();
        let (span, mut target) = match own {
            Some(buffer) => (own_span, buffer),
            None => {
                let first = others.iter().position(|(_, _, got)| matches!(got, FetchState::Read(_)));
                let first = first.expect("a caller that shares rows has given a buffer to decode into");
                let (_, span, got) = others.remove(first);
                let FetchState::Read(buffer) = got else {
                    unreachable!("its position was found by this pattern")
                };
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
                if own_may_answer {
                    // The unit's own member may still return it as it was written.
                    let in_flight = self.fetches.iter().any(|fetch| fetch.position == self.position);
                    self.own = if in_flight { OwnUnit::Requested } else { OwnUnit::NotRequested };
                    return self.others_unavailable(cause);
                }
                return self.fail(row, cause);
            }
        }
        let counters = self.map.counters();
        let counter = if self.is_chosen { &counters.rows_computed } else { &counters.rows_decoded };
        counter.add(lost_rows.len() as u64);
        self.ready(target, span, true)
    }

    /// Reports rows that a member returned to the health record.
    fn record_rows(&self, position: usize, rows: usize, wrong: usize) {
        let (member, _) = self.map.unit_at(self.stripe, position);
        if self.health.record_rows(member, rows, wrong) {
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

    /// Nothing more is needed: returns the buffers.
    fn end(&mut self) {
        self.over = true;
        self.target = None;
        self.own = OwnUnit::Lost;
        self.fetches.iter_mut().for_each(|fetch| fetch.state = FetchState::Nothing);
    }
}

impl FetchState {
    /// One row of the unit, of what was fetched in `span`.
    fn row(&self, span: &RowSpan, row: usize) -> Option<&[u8]> {
        match self {
            FetchState::Read(buffer) => Some(&buffer[span.row(row)]),
            FetchState::Shared(rows) => Some(rows.row_bytes(row)),
            FetchState::Requested | FetchState::Nothing => None,
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

    /// One row: exactly `row_bytes` bytes, sharing the buffer of all rows.
    ///
    /// # Panics
    /// If the row is not among [`UnitRows::rows`].
    pub fn row(&self, row: usize) -> Lease {
        self.lease.slice(self.range(row))
    }

    /// Returns the buffer to the arena if no lease on a part of it exists.
    ///
    /// # Errors
    /// The rows themselves, unchanged, if a lease exists.
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

/// Whether a row is what was written. Counted.
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
