//! Reads and verifies everything that a volume holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use reel_arena::Buffer;
use reel_code::crc32c;

use crate::access::{ReadContext, Span};
use crate::answers::Answers;
use crate::catalogue::{ObjectRecord, Sums, TitleRecord};
use crate::error::VolumeError;
use crate::fill::Pace;
use crate::finding::Finding;
use crate::object::ObjectMap;
use crate::volume::{Inner, entry_name};

/// How far a check has come, in bytes of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// Bytes of units that were verified, parity included.
    pub bytes_done: u64,
    /// Bytes of units in all.
    pub bytes_total: u64,
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// Each member: its state and what is wrong with the data on it.
    pub members: Vec<MemberReport>,
    /// Titles with a damaged or missing row, in the order of the catalogue.
    pub titles: Vec<TitleReport>,
    /// Bytes of units that were read and verified.
    pub bytes_read: u64,
    /// Whether everything was looked at.
    pub complete: bool,
}

/// One member in a [`CheckReport`].
#[derive(Clone, Debug)]
pub struct MemberReport {
    /// What is known about the member itself.
    pub finding: Finding,
    /// Rows on it that differ from what was written.
    pub bad_rows: u64,
    /// Rows that could not be read from it.
    pub unreadable_rows: u64,
    /// Rows that belong on it while it is not in use.
    pub missing_rows: u64,
    /// Bad and unreadable rows that were computed from others, rewritten, read back and synced.
    pub repaired_rows: u64,
    /// The first places where something is wrong, as byte offsets on the member.
    pub first_bad_offsets: Vec<u64>,
}

/// One title in a [`CheckReport`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TitleReport {
    /// The title.
    pub id: String,
    /// Rows that are damaged or missing and can be computed from others.
    pub recoverable_rows: u64,
    /// Rows that are lost.
    pub lost_rows: u64,
    /// Matrices whose rows all match their checksums, but whose parity does not follow from the
    /// data.
    pub parity_mismatches: u64,
    /// Objects whose checksums cannot be read, so that the state of their rows is unknown.
    pub unknown_objects: Vec<String>,
}

/// Damaged offsets reported for each member.
const OFFSETS_REPORTED: usize = 16;

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.complete
            && self.titles.is_empty()
            && self.members.iter().all(|member| member.finding.state.in_use() && member.wrong_rows() == 0)
    }

    /// Whether everything that was wrong on a member in use has been repaired.
    pub fn is_repaired(&self) -> bool {
        self.complete
            && self.nothing_lost()
            && self.titles.iter().all(|title| title.parity_mismatches == 0)
            && self
                .members
                .iter()
                .all(|member| member.bad_rows + member.unreadable_rows == member.repaired_rows)
    }

    /// Whether every byte of every title can still be read.
    pub fn nothing_lost(&self) -> bool {
        self.titles.iter().all(|title| title.lost_rows == 0 && title.unknown_objects.is_empty())
    }
}

impl MemberReport {
    /// Rows that cannot be read from it as they were written.
    pub fn wrong_rows(&self) -> u64 {
        self.bad_rows + self.unreadable_rows + self.missing_rows
    }
}

impl TitleReport {
    fn is_clean(&self) -> bool {
        self.recoverable_rows + self.lost_rows + self.parity_mismatches == 0
            && self.unknown_objects.is_empty()
    }
}

pub(crate) struct Check<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) members: Vec<MemberReport>,
    progress: CheckProgress,
    bytes_read: u64,
    pub(crate) context: ReadContext,
    answers: Answers,
    /// Set while damage is repaired: the rate at which this is done.
    repair: Option<Pace>,
    /// Members that were written and must be synced.
    pub(crate) written: BTreeSet<usize>,
}

/// How each row of a stripe was found, by position and matrix.
pub(crate) struct Stripe {
    pub(crate) map: Arc<ObjectMap>,
    pub(crate) number: u64,
    pub(crate) rows: Vec<Vec<RowState>>,
    /// The units that were read.
    pub(crate) units: Vec<Option<Buffer>>,
    waiting: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowState {
    Missing,
    Unreadable,
    Bad,
    Good,
}

pub(crate) fn check(inner: &Inner, progress: &mut dyn FnMut(CheckProgress) -> bool) -> CheckReport {
    check_all(inner, None, progress)
}

/// Verifies everything, and repairs what is wrong if `repair` is given.
pub(crate) fn check_all(
    inner: &Inner,
    repair: Option<Pace>,
    progress: &mut dyn FnMut(CheckProgress) -> bool,
) -> CheckReport {
    let titles = inner.titles();
    let geometry = &inner.geometry;
    let slots: u64 =
        titles.iter().flat_map(|title| title.extents().collect::<Vec<_>>()).map(|extent| extent.slots).sum();
    let bytes_total = slots * (geometry.width() * geometry.unit_bytes()) as u64;
    let members = inner.members_now().into_iter().map(|finding| MemberReport {
        finding,
        bad_rows: 0,
        unreadable_rows: 0,
        missing_rows: 0,
        repaired_rows: 0,
        first_bad_offsets: Vec::new(),
    });
    let context = ReadContext::maintenance();
    let mut check = Check {
        inner,
        members: members.collect(),
        progress: CheckProgress { bytes_done: 0, bytes_total },
        bytes_read: 0,
        answers: Answers::to(context.requester),
        context,
        repair,
        written: BTreeSet::new(),
    };
    let mut reports = Vec::new();
    let mut complete = true;
    // Only weak references: a run takes hours, and a title that is removed before its turn must
    // free its slots.
    let all: Vec<Weak<TitleRecord>> = titles.iter().map(Arc::downgrade).collect();
    drop(titles);
    'titles: for title in all {
        let Some(title) = title.upgrade() else { continue };
        let mut report = TitleReport {
            id: title.id.clone(),
            recoverable_rows: 0,
            lost_rows: 0,
            parity_mismatches: 0,
            unknown_objects: Vec::new(),
        };
        for entry in &title.objects {
            if !check.object(&entry.object, &entry_name(&title, entry), &mut report, progress) {
                complete = false;
                break;
            }
        }
        if !report.is_clean() {
            reports.push(report);
        }
        if !complete {
            break 'titles;
        }
    }
    check.sync();
    // A member that failed meanwhile is not called healthy.
    for (member, now) in check.members.iter_mut().zip(inner.members_now()) {
        member.finding = now;
    }
    CheckReport { members: check.members, titles: reports, bytes_read: check.bytes_read, complete }
}

impl Check<'_> {
    /// Verifies an object and the objects of its checksums. `false` if `progress` asked to stop.
    fn object(
        &mut self,
        object: &ObjectRecord,
        name: &str,
        report: &mut TitleReport,
        progress: &mut dyn FnMut(CheckProgress) -> bool,
    ) -> bool {
        let mut part = object;
        let mut name = name.to_owned();
        loop {
            let slots: u64 = part.extents.iter().map(|extent| extent.slots).sum();
            // Reading checksums counts as progress too. Whether to stop is asked with the next
            // stripe.
            let at = self.progress;
            let mut each = || {
                progress(at);
            };
            match self.inner.map_held(object, part, name.clone(), (self.context, &mut each)) {
                Ok(map) => {
                    if !self.stripes(&Arc::new(map), report, progress) {
                        return false;
                    }
                }
                Err(error) => {
                    report.unknown_objects.push(format!("{name}: {error}"));
                    self.progress.bytes_done += slots * self.stripe_bytes();
                }
            }
            let Sums::Object(sums) = &part.sums else { return true };
            part = sums;
            name = format!("the checksums of {name}");
        }
    }

    fn stripe_bytes(&self) -> u64 {
        (self.inner.geometry.width() * self.inner.geometry.unit_bytes()) as u64
    }

    /// Works on two stripes at a time: one is being read while the other is verified.
    fn stripes(
        &mut self,
        map: &Arc<ObjectMap>,
        report: &mut TitleReport,
        progress: &mut dyn FnMut(CheckProgress) -> bool,
    ) -> bool {
        let mut open: BTreeMap<u64, Stripe> = BTreeMap::new();
        let mut next = 0;
        let mut wanted = true;
        loop {
            while wanted && next < map.stripes() && open.len() < 2 {
                match self.begin(map, next) {
                    Ok(stripe) => {
                        open.insert(next, stripe);
                    }
                    Err(error) => {
                        report.unknown_objects.push(format!("{}: {error}", map.name()));
                        return false;
                    }
                }
                next += 1;
            }
            let Some((&number, _)) = open.first_key_value() else { return wanted };
            while open.get(&number).is_some_and(|stripe| stripe.waiting > 0) {
                let Some(done) = self.answers.next() else { break };
                let width = self.inner.geometry.width() as u64;
                let (at, position) = (done.token / width, (done.token % width) as usize);
                if let Some(stripe) = open.get_mut(&at) {
                    stripe.waiting -= 1;
                    self.verify_unit(stripe, position, done.result.is_ok(), done.buffer);
                }
            }
            if let Some(stripe) = open.remove(&number) {
                self.report_rows(&stripe, report);
                if self.repair.is_some() {
                    self.repair(stripe);
                }
                self.progress.bytes_done += self.stripe_bytes();
                let bytes = self.stripe_bytes();
                if let Some(pace) = &mut self.repair {
                    pace.done(bytes);
                }
                wanted &= progress(self.progress);
            }
        }
    }
}

impl Check<'_> {
    fn begin(&mut self, map: &Arc<ObjectMap>, number: u64) -> Result<Stripe, VolumeError> {
        let geometry = &self.inner.geometry;
        let mut stripe = Stripe {
            map: Arc::clone(map),
            number,
            rows: vec![vec![RowState::Missing; geometry.unit_rows()]; geometry.width()],
            units: (0..geometry.width()).map(|_| None).collect(),
            waiting: 0,
        };
        let mut buffers = self.inner.access.buffers(geometry.width(), geometry.unit_bytes())?;
        for position in 0..geometry.width() {
            let (member, offset) = map.unit_at(number, position);
            if self.inner.health.readable(member)
                && let Some(buffer) = buffers.pop()
            {
                let token = number * geometry.width() as u64 + position as u64;
                let span = Span { member, offset, bytes: geometry.unit_bytes() };
                self.inner.access.read(&mut self.answers, self.context.class, token, span, buffer);
                stripe.waiting += 1;
            }
        }
        Ok(stripe)
    }

    /// Verifies the rows of one unit.
    fn verify_unit(&mut self, stripe: &mut Stripe, position: usize, read: bool, buffer: Option<Buffer>) {
        let row_bytes = self.inner.geometry.row_bytes();
        let counters = &self.inner.counters;
        let Some(buffer) = buffer.filter(|_| read) else {
            counters.read_errors.add(1);
            stripe.rows[position].fill(RowState::Unreadable);
            return;
        };
        self.bytes_read += self.inner.geometry.unit_bytes() as u64;
        for (row, state) in stripe.rows[position].iter_mut().enumerate() {
            let holds = crc32c(&buffer[row * row_bytes..(row + 1) * row_bytes])
                == stripe.map.sum(stripe.number, position, row);
            *state = if holds { RowState::Good } else { RowState::Bad };
            if holds { counters.rows_verified.add(1) } else { counters.checksum_failures.add(1) }
        }
        stripe.units[position] = Some(buffer);
    }

    /// Adds the states of a stripe's rows to the report of its title.
    fn report_rows(&mut self, stripe: &Stripe, report: &mut TitleReport) {
        let geometry = self.inner.geometry;
        for row in 0..geometry.unit_rows() {
            let wrong = stripe.rows.iter().filter(|unit| unit[row] != RowState::Good).count();
            if wrong > geometry.parity_rows() {
                report.lost_rows += wrong as u64;
                self.inner.counters.rows_lost.add(wrong as u64);
            } else if wrong > 0 {
                report.recoverable_rows += wrong as u64;
            } else if !parity_holds(self.inner, stripe, row) {
                report.parity_mismatches += 1;
            }
        }
        for (position, unit) in stripe.rows.iter().enumerate() {
            let (member, offset) = stripe.map.unit_at(stripe.number, position);
            let member = &mut self.members[member];
            for (row, state) in unit.iter().enumerate() {
                match state {
                    RowState::Good => continue,
                    RowState::Missing => member.missing_rows += 1,
                    RowState::Unreadable => member.unreadable_rows += 1,
                    RowState::Bad => member.bad_rows += 1,
                }
                if *state != RowState::Missing && member.first_bad_offsets.len() < OFFSETS_REPORTED {
                    member.first_bad_offsets.push(offset + (row * geometry.row_bytes()) as u64);
                }
            }
        }
    }
}

/// Whether the parity rows of one matrix follow from its data rows.
fn parity_holds(inner: &Inner, stripe: &Stripe, row: usize) -> bool {
    let geometry = &inner.geometry;
    let range = row * geometry.row_bytes()..(row + 1) * geometry.row_bytes();
    let rows: Vec<&[u8]> = stripe.units.iter().flatten().map(|unit| &unit[range.clone()]).collect();
    let (data, parity) = rows.split_at(geometry.data_rows());
    let mut computed = vec![vec![0; geometry.row_bytes()]; geometry.parity_rows()];
    let mut targets: Vec<&mut [u8]> = computed.iter_mut().map(Vec::as_mut_slice).collect();
    inner.superblock.code.encode(data, &mut targets);
    computed.iter().zip(parity).all(|(computed, stored)| computed == stored)
}
