//! Reads an object in order, blocking its caller.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use reel_disk::DiskError;
use reel_qos::{Class, DiskPrice};

use crate::access::{Access, ReadContext, Span};
use crate::answers::{Answers, Awaited};
use crate::error::VolumeError;
use crate::health::Health;
use crate::limits::{READ_HEDGE_NS, READ_STALL_NS, STRIPES_IN_FLIGHT};
use crate::object::ObjectMap;
use crate::unit_read::{UnitFetch, UnitRead, UnitRows, UnitStep};
use crate::volume::Inner;

/// Reads a range of an object's bytes. They are verified, rebuilt where a member does not answer or
/// returns wrong data, and read a few stripes ahead of the caller.
pub struct ObjectReader {
    inner: Arc<Inner>,
    window: Window,
}

/// The stripes being read and the rest of the range.
struct Window {
    map: Arc<ObjectMap>,
    range: Range<u64>,
    units: UnitReads,
    /// The next stripe to request.
    next_stripe: u64,
    stripes: VecDeque<Stripe>,
    /// Maximum number of stripes requested at once.
    stripes_max: usize,
    /// More stripes are requested when at most this number is left.
    stripes_left: usize,
    /// The first failure; every later read fails with it.
    failure: Option<String>,
}

/// One stripe of the range.
struct Stripe {
    number: u64,
    /// The unit at each data position; `None` if none of its rows is in the range.
    units: Vec<Option<UnitState>>,
}

enum UnitState {
    Reading(u64),
    Here(UnitRows),
    /// Copied to the heap because media memory is scarce, from this row of the unit on.
    Copied(usize, Vec<u8>),
}

/// Unit reads under way.
struct UnitReads {
    class: Class,
    health: Health,
    answers: Answers,
    reads: HashMap<u64, Underway>,
    /// Fetches for which no buffer was free, oldest first.
    delayed: VecDeque<(u64, UnitFetch)>,
    next: u64,
}

/// A unit read under way.
struct Underway {
    read: UnitRead,
    since_ns: u64,
    /// What its member had answered to anyone when it was begun.
    answers_before: u64,
}

/// A token holds a unit read's number and, in these low bits, the index of one of its fetches.
const FETCH_BITS: u32 = 16;

impl ObjectReader {
    pub(crate) fn new(
        inner: Arc<Inner>,
        map: Arc<ObjectMap>,
        range: Range<u64>,
        class: Class,
    ) -> ObjectReader {
        let window = Window::new(&inner, map, range, ReadContext::of(class));
        ObjectReader { inner, window }
    }

    /// For a transfer of much data without deadlines. It reads in runs that are as long as the
    /// measured seek cost of the members justifies and memory allows. A rotational disk then seeks
    /// less between objects that are read side by side.
    #[must_use]
    pub fn in_runs(mut self) -> ObjectReader {
        self.window.in_runs(&self.inner.access);
        self
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> u64 {
        self.window.range.end - self.window.range.start
    }

    /// The next bytes: at least one, unless the range has ended or the target is empty.
    ///
    /// # Errors
    /// If the bytes can neither be read nor computed, or no media memory becomes free in time.
    /// Every later call fails with [`VolumeError::FailedBefore`].
    pub fn next_bytes(&mut self, target: &mut [u8]) -> Result<usize, VolumeError> {
        self.window.fill(&self.inner.access, target)
    }

    /// A complete object, which is small. `each` is called whenever a part of it has arrived.
    pub(crate) fn read_all(
        inner: &Inner,
        map: Arc<ObjectMap>,
        context: ReadContext,
        each: &mut dyn FnMut(),
    ) -> Result<Vec<u8>, VolumeError> {
        let bytes = map.bytes();
        let mut window = Window::new(inner, map, 0..bytes, context);
        let mut all = vec![0; bytes as usize];
        let mut done = 0;
        while done < all.len() {
            done += window.fill(&inner.access, &mut all[done..])?;
            each();
        }
        Ok(all)
    }
}

impl Read for ObjectReader {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.next_bytes(target).map_err(io::Error::other)
    }
}

impl Window {
    fn new(inner: &Inner, map: Arc<ObjectMap>, range: Range<u64>, context: ReadContext) -> Window {
        let end = range.end.min(map.bytes());
        let range = range.start.min(end)..end;
        let next_stripe = map.geometry().locate(range.start).stripe;
        let units = UnitReads {
            class: context.class,
            health: inner.health.clone(),
            answers: Answers::to(context.requester),
            reads: HashMap::new(),
            delayed: VecDeque::new(),
            next: 0,
        };
        let (stripes, stripes_max) = (VecDeque::new(), STRIPES_IN_FLIGHT);
        let stripes_left = stripes_max - 1;
        Window { map, range, units, next_stripe, stripes, stripes_max, stripes_left, failure: None }
    }

    /// Switches to runs. The next run is requested when a quarter of the last one is left.
    fn in_runs(&mut self, access: &Access) {
        let disks = &access.disks;
        let price = (0..disks.members()).map(|member| disks.price(member)).reduce(DiskPrice::slower);
        let geometry = self.map.geometry();
        let run = price.map_or(0, |price| price.run_bytes()).div_ceil(geometry.unit_bytes() as u64);
        // Readers ahead may use half of the memory. The cast fits: no memory holds that many
        // stripes.
        let affordable = access.arena.usage().bytes_total / 2 / geometry.stripe_bytes();
        let stripes_max = (run as usize * 5 / 4).min(affordable);
        if stripes_max > STRIPES_IN_FLIGHT {
            (self.stripes_max, self.stripes_left) = (stripes_max, stripes_max / 5);
        }
    }

    /// Copies the next bytes of the range to the target, as many as there are in one row.
    fn fill(&mut self, access: &Access, target: &mut [u8]) -> Result<usize, VolumeError> {
        if let Some(failure) = &self.failure {
            return Err(VolumeError::FailedBefore { reason: failure.clone() });
        }
        if self.range.is_empty() || target.is_empty() {
            return Ok(0);
        }
        match self.fill_now(access, target) {
            Err(error) => {
                self.failure = Some(error.to_string());
                Err(error)
            }
            done => done,
        }
    }

    fn fill_now(&mut self, access: &Access, target: &mut [u8]) -> Result<usize, VolumeError> {
        let geometry = *self.map.geometry();
        let at = geometry.locate(self.range.start);
        while self.stripes.front().is_some_and(|stripe| stripe.number < at.stripe) {
            self.stripes.pop_front();
        }
        self.request_ahead(access)?;
        loop {
            let state = self.stripes.front().and_then(|stripe| stripe.units[at.position].as_ref());
            let row = match state {
                Some(UnitState::Here(rows)) => rows.row_bytes(at.matrix),
                Some(UnitState::Copied(first, bytes)) => &bytes[(at.matrix - first) * geometry.row_bytes()..],
                _ => {
                    let (number, rows) = self.units.next(access)?;
                    self.put(number, rows, is_scarce(access));
                    continue;
                }
            };
            let row = &row[at.byte..geometry.row_bytes()];
            let count = row.len().min(target.len()).min((self.range.end - self.range.start) as usize);
            target[..count].copy_from_slice(&row[..count]);
            self.range.start += count as u64;
            return Ok(count);
        }
    }

    /// Stores the rows of a completed read. Where media memory is scarce they are copied, so that
    /// an idle reader holds none of it and any number of readers may share a thread.
    fn put(&mut self, number: u64, rows: UnitRows, scarce: bool) {
        let units = self.stripes.iter_mut().flat_map(|stripe| stripe.units.iter_mut().flatten());
        for unit in units {
            if matches!(unit, UnitState::Reading(reading) if *reading == number) {
                *unit = if scarce {
                    let bytes = rows.rows().map(|row| rows.row_bytes(row)).collect::<Vec<_>>().concat();
                    UnitState::Copied(rows.rows().start, bytes)
                } else {
                    UnitState::Here(rows)
                };
                return;
            }
        }
    }

    /// Requests stripes ahead: the first is needed, the others only if there is memory.
    fn request_ahead(&mut self, access: &Access) -> Result<(), VolumeError> {
        if self.stripes.len() > self.stripes_left {
            return Ok(());
        }
        let last = self.map.geometry().locate(self.range.end - 1).stripe;
        while self.next_stripe <= last && self.stripes.len() < self.stripes_max {
            if !self.stripes.is_empty() && is_scarce(access) {
                break;
            }
            let stripe = self.request(access, self.next_stripe)?;
            self.stripes.push_back(stripe);
            self.next_stripe += 1;
        }
        Ok(())
    }

    /// Requests the rows of one stripe that are in the range.
    fn request(&mut self, access: &Access, number: u64) -> Result<Stripe, VolumeError> {
        let geometry = *self.map.geometry();
        let stripe_start = number * geometry.stripe_bytes() as u64;
        let row_bytes = geometry.row_bytes() as u64;
        let first = (self.range.start.max(stripe_start) - stripe_start) / row_bytes;
        let end = (self.range.end - stripe_start).min(geometry.stripe_bytes() as u64).div_ceil(row_bytes);
        let mut units = Vec::with_capacity(geometry.data_rows());
        for position in 0..geometry.data_rows() {
            let before =
                |rows: u64| (rows as usize + geometry.data_rows() - 1 - position) / geometry.data_rows();
            let rows = before(first)..before(end);
            units.push(if rows.is_empty() {
                None
            } else {
                let read = UnitRead::new(Arc::clone(&self.map), &self.units.health, number, position, rows);
                Some(UnitState::Reading(self.units.start(access, read)?))
            });
        }
        Ok(Stripe { number, units })
    }
}

impl UnitReads {
    /// Begins a read and returns its number.
    fn start(&mut self, access: &Access, mut read: UnitRead) -> Result<u64, VolumeError> {
        let number = self.next;
        self.next += 1;
        let fetches = read.reads();
        let (since_ns, answers_before) = (access.waits.now_ns(), self.health.answers(read.member()));
        self.reads.insert(number, Underway { read, since_ns, answers_before });
        self.submit(access, number, fetches)?;
        Ok(number)
    }

    /// Waits for the next read to end.
    fn next(&mut self, access: &Access) -> Result<(u64, UnitRows), VolumeError> {
        self.submit_delayed(access)?;
        loop {
            let done = match self.answers.next_or_silence(access.waits.now_ns() + READ_STALL_NS) {
                Awaited::Answer(done) => done,
                Awaited::Silence => {
                    self.hedge(access)?;
                    continue;
                }
                Awaited::Ended => break,
            };
            let (number, index) = (done.token >> FETCH_BITS, (done.token & ((1 << FETCH_BITS) - 1)) as usize);
            let Some(Underway { read, .. }) = self.reads.get_mut(&number) else { continue };
            let result = match (done.result, done.buffer) {
                (Ok(()), Some(buffer)) => Ok(buffer),
                (Ok(()), None) => Err(DiskError::Stopped),
                (Err(error), _) => Err(error),
            };
            match read.fetched(index, result) {
                UnitStep::Wait => {}
                UnitStep::Fetch(fetches) => {
                    self.delayed.extend(fetches.into_iter().map(|fetch| (number, fetch)))
                }
                UnitStep::Ready(rows) => {
                    self.reads.remove(&number);
                    return Ok((number, rows));
                }
                UnitStep::Failed(error) => {
                    self.reads.remove(&number);
                    return Err(error);
                }
            }
            self.submit_delayed(access)?;
        }
        Err(VolumeError::Disk { doing: "cannot read an object".to_owned(), source: DiskError::Stopped })
    }

    /// Reads around members that do not answer, as for viewers (docs/design/hedged-reads.md).
    fn hedge(&mut self, access: &Access) -> Result<(), VolumeError> {
        let now_ns = access.waits.now_ns();
        for (number, Underway { read, since_ns, answers_before }) in &mut self.reads {
            let waited_ns = now_ns.saturating_sub(*since_ns);
            let has_stalled =
                waited_ns >= READ_STALL_NS && self.health.answers(read.member()) == *answers_before;
            if has_stalled || (self.class == Class::INTERACTIVE && waited_ns >= READ_HEDGE_NS) {
                let fetches = read.hedged_reads();
                self.delayed.extend(fetches.into_iter().map(|fetch| (*number, fetch)));
            }
        }
        self.submit_delayed(access)
    }

    fn submit(&mut self, access: &Access, number: u64, fetches: Vec<UnitFetch>) -> Result<(), VolumeError> {
        self.delayed.extend(fetches.into_iter().map(|fetch| (number, fetch)));
        self.submit_delayed(access)
    }

    /// Submits the oldest fetches for which there are buffers. Waits for a buffer only when no
    /// request is outstanding whose completion could free one.
    fn submit_delayed(&mut self, access: &Access) -> Result<(), VolumeError> {
        while let Some((number, fetch)) = self.delayed.front() {
            let buffer = match access.arena.take(fetch.bytes) {
                Some(buffer) => buffer,
                None if self.answers.waiting() > 0 => return Ok(()),
                None => access.buffer(fetch.bytes)?,
            };
            let token = number << FETCH_BITS | fetch.index as u64;
            let span = Span { member: fetch.member, offset: fetch.offset, bytes: fetch.bytes };
            self.delayed.pop_front();
            access.read(&mut self.answers, self.class, token, span, buffer);
        }
        Ok(())
    }
}

/// Whether more than half of the media memory is taken.
fn is_scarce(access: &Access) -> bool {
    let usage = access.arena.usage();
    usage.bytes_taken > usage.bytes_total / 2
}
