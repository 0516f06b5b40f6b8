//! Putting a catalogue in force. `docs/volume-format.md` argues the order of the writes.

use reel_rt::lock;
use std::sync::Mutex;

use reel_arena::Lease;
use reel_code::crc32c;
use reel_disk::{DiskDone, DiskError};
use reel_qos::Class;

use crate::access::Access;
use crate::answers::Answers;
use crate::catalogue::{
    BODY_AT, CommitHeader, Epoch, MemberSet, Selection, TitleRecord, encode_body, write_quorum,
};
use crate::counters::VolumeCounters;
use crate::error::VolumeError;
use crate::health::Health;
use crate::ids::{MemberId, VolumeId, random_u64};
use crate::limits::{BLOCK_BYTES, COMMIT_STEP_NS, TITLES_MAX};
use crate::superblock::Superblock;
use crate::waits::Waits;

/// Writes catalogues, one commit at a time.
pub(crate) struct Committer {
    volume: VolumeId,
    parity_rows: usize,
    area_offsets: [u64; 2],
    area_bytes: u64,
    /// Held during a whole commit, which waits for disks.
    state: Mutex<State>,
    /// What is known of `state` without waiting for a commit. Held for single steps.
    shown: Mutex<Shown>,
    waits: Waits,
}

/// What was in force when the last commit ended.
struct Shown {
    status: CommitStatus,
    members: Vec<MemberId>,
    in_sync: MemberSet,
    highest_epoch: u64,
    refusal: Option<String>,
}

/// What is in force.
struct State {
    members: Vec<MemberId>,
    epoch: Epoch,
    generation: u64,
    in_sync: MemberSet,
    /// Whether `epoch` is sealed on every member in sync.
    sealed: bool,
    highest_epoch: u64,
    /// For each member the area that holds the catalogue in force.
    keep: Vec<usize>,
    /// Why nothing may be written any more.
    refusal: Option<String>,
}

/// The parts of a volume that a commit works with.
pub(crate) struct CommitContext<'a> {
    pub(crate) access: &'a Access,
    pub(crate) health: &'a Health,
    pub(crate) counters: &'a VolumeCounters,
}

/// What a commit changes besides the titles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing else, unless a member failed.
    Titles,
    /// A new epoch begins even if no member failed.
    Epoch,
    /// Another disk, with this id, takes the place of a member. It is not in sync.
    Replace(usize, MemberId),
    /// A member that holds everything becomes in sync.
    Join(usize),
}

/// The catalogue in force, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitStatus {
    /// Changes of the set of members in sync so far.
    pub epoch: u64,
    /// Commits so far.
    pub generation: u64,
}

impl Committer {
    pub(crate) fn new(
        selection: &Selection,
        keep: Vec<usize>,
        superblock: &Superblock,
        refusal: Option<String>,
        waits: Waits,
    ) -> Committer {
        let winner = &selection.winner;
        let state = State {
            members: winner.members.clone(),
            epoch: winner.epoch,
            generation: winner.generation,
            in_sync: selection.current,
            // Every session that writes begins an epoch, so that two copies of a volume that are
            // written apart differ.
            sealed: false,
            highest_epoch: selection.highest_epoch,
            keep,
            refusal,
        };
        Committer {
            volume: superblock.volume,
            parity_rows: superblock.geometry.parity_rows(),
            area_offsets: [superblock.area_offset(0), superblock.area_offset(1)],
            area_bytes: superblock.catalogue_bytes,
            shown: Mutex::new(state.shown()),
            state: Mutex::new(state),
            waits,
        }
    }

    /// Does not wait for a commit, and shows none that is under way.
    pub(crate) fn status(&self) -> CommitStatus {
        lock(&self.shown).status
    }

    /// Why nothing may be written; `None` if writing is allowed. Does not wait for a commit.
    pub(crate) fn refusal(&self) -> Option<String> {
        lock(&self.shown).refusal.clone()
    }

    /// The id of the disk that the catalogue expects as this member.
    pub(crate) fn member_id(&self, member: usize) -> Option<MemberId> {
        lock(&self.shown).members.get(member).copied()
    }

    /// The lowest number that the next epoch can have.
    pub(crate) fn next_epoch(&self) -> u64 {
        lock(&self.shown).highest_epoch + 1
    }

    /// Whether the catalogue in force counts a member as in sync.
    pub(crate) fn in_sync(&self, member: usize) -> bool {
        lock(&self.shown).in_sync.has(member)
    }

    /// Puts these titles in force: when it returns, every member in sync has them.
    ///
    /// After most errors the old catalogue is in force. Some errors leave it open which one is in
    /// force. In that case [`Committer::refusal`] says so, and nothing more is written until the
    /// volume is opened again.
    pub(crate) fn commit<'a>(
        &self,
        context: &CommitContext<'_>,
        titles: impl ExactSizeIterator<Item = &'a TitleRecord>,
        change: Change,
    ) -> Result<(), VolumeError> {
        // A commit that panicked left its area half written. That is handled like any crash: the
        // state in force changes only after the writes are durable.
        let mut state = self.waits.lock(&self.state);
        let done = self.commit_to(&mut state, context, titles, change);
        *lock(&self.shown) = state.shown();
        done
    }

    fn commit_to<'a>(
        &self,
        state: &mut State,
        context: &CommitContext<'_>,
        titles: impl ExactSizeIterator<Item = &'a TitleRecord>,
        change: Change,
    ) -> Result<(), VolumeError> {
        if let Some(reason) = &state.refusal {
            return Err(VolumeError::ReadOnly { reason: reason.clone() });
        }
        if titles.len() > TITLES_MAX {
            return Err(VolumeError::CatalogueFull {
                needed_bytes: self.area_bytes + 1,
                area_bytes: self.area_bytes,
            });
        }
        let body = encode_body(titles);
        let area_bytes = self.area_bytes - BODY_AT;
        if (body.len() as u64).next_multiple_of(BLOCK_BYTES as u64) > area_bytes {
            return Err(VolumeError::CatalogueFull { needed_bytes: body.len() as u64, area_bytes });
        }
        let (members, keep) = (state.members.clone(), state.keep.clone());
        if let Change::Replace(member, id) = change {
            state.members[member] = id;
            // Its areas belong to another disk.
            state.keep[member] = 0;
        }
        let mut header_written = false;
        let done = self.put_in_force(state, context, &body, change, &mut header_written);
        if done.is_err() && !header_written {
            // No member got a header that names the other disk, so the next commit must not either.
            (state.members, state.keep) = (members, keep);
        } else if let Err(error) = &done
            && state.refusal.is_none()
        {
            // A round before the one that failed may be in force, or come into force, on the
            // members that have its seal.
            state.refusal = Some(format!(
                "a commit was restarted without a member that failed, and then failed too: {error}; \
                 open the volume again to see which catalogue is in force"
            ));
        }
        done
    }

    /// Writes a catalogue until all members that are in sync by then have it. `header_written` is
    /// set once any member may have a header of it.
    fn put_in_force(
        &self,
        state: &mut State,
        context: &CommitContext<'_>,
        body: &[u8],
        change: Change,
        header_written: &mut bool,
    ) -> Result<(), VolumeError> {
        let mut begin = change != Change::Titles || !state.sealed;
        loop {
            if let Some(reason) = context.access.await_refusal() {
                return Err(VolumeError::ReadOnly { reason });
            }
            let good = (0..state.members.len()).filter(|&m| match change {
                Change::Join(joining) if joining == m => context.health.writable(m),
                Change::Replace(replaced, _) if replaced == m => false,
                _ => state.in_sync.has(m) && context.health.readable(m),
            });
            let good = good.fold(MemberSet::default(), MemberSet::with);
            begin |= good != state.in_sync;
            if !write_quorum(good, state.members.len(), self.parity_rows) {
                return Err(self.stop_writing(state, context, good));
            }
            if begin {
                self.begin_epoch(state, good)?;
            }
            let done = self.write_all(state, context, body, header_written)?;
            if done {
                context.counters.commits.add(1);
                return Ok(());
            }
            // A member failed and is dropped by now, so an epoch without it begins.
            begin = true;
        }
    }

    fn stop_writing(&self, state: &mut State, context: &CommitContext<'_>, good: MemberSet) -> VolumeError {
        let (members, tolerated) = (state.members.len(), self.parity_rows);
        let failed = members - good.count();
        state.refusal = Some(format!(
            "{failed} of its {members} members have failed; make them available and open the volume again"
        ));
        VolumeError::MembersFailed { failed, members, tolerated, last: context.health.reasons() }
    }

    fn begin_epoch(&self, state: &mut State, good: MemberSet) -> Result<(), VolumeError> {
        state.highest_epoch += 1;
        state.epoch = Epoch { number: state.highest_epoch, id: random_u64()? };
        state.in_sync = good;
        state.sealed = false;
        tracing::info!(epoch = state.epoch.number, members = ?good, "a new set of members is in sync");
        Ok(())
    }

    /// Writes one copy to every member in sync. `false` if a member failed; it is dropped then. An
    /// error is returned only before any header is written; `header_written` is set before the
    /// first is.
    fn write_all(
        &self,
        state: &mut State,
        context: &CommitContext<'_>,
        body: &[u8],
        header_written: &mut bool,
    ) -> Result<bool, VolumeError> {
        let generation = state.generation + 1;
        let header = CommitHeader {
            volume: self.volume,
            epoch: state.epoch,
            generation,
            in_sync: state.in_sync,
            members: state.members.clone(),
            body_bytes: body.len() as u64,
            body_sum: crc32c(body),
            sealed: true,
        };
        let targets: Vec<(usize, u64)> =
            state.in_sync.iter().map(|member| (member, self.area_offsets[1 - state.keep[member]])).collect();
        // Taken before anything is written, so that a lack of memory leaves the old catalogue in
        // force.
        let block = filled(context.access, &header.encode())?;
        let seal = filled(context.access, &header.encode_seal())?;
        let mut answers = Answers::new().due_after(COMMIT_STEP_NS);
        let chunk_bytes = context.access.arena.buffer_bytes();
        let mut good = true;
        for (number, chunk) in body.chunks(chunk_bytes).enumerate() {
            let chunk = filled(context.access, chunk)?;
            let at = BODY_AT + (number * chunk_bytes) as u64;
            good &= write_body(context, &mut answers, &targets, at, chunk)?;
        }
        // This sync also covers every unit of the objects that this catalogue is the first to name.
        if !(sync_all(context, &mut answers, &targets) && good) {
            return Ok(false);
        }
        // Only now, so that the generations of an epoch have no gap: a member whose generation is
        // two below the others' was put back.
        state.generation = generation;
        *header_written = true;
        // In a new epoch the seal waits until every member has the header: an epoch that is sealed
        // on any member is held by all.
        good = write_to(context, &mut answers, &targets, 0, block);
        if !state.sealed {
            good &= sync_all(context, &mut answers, &targets);
        }
        if !good {
            return Ok(false);
        }
        if !write_to(context, &mut answers, &targets, BLOCK_BYTES as u64, seal) {
            return Ok(false);
        }
        if !sync_all(context, &mut answers, &targets) {
            return Ok(false);
        }
        state.sealed = true;
        for (member, _) in targets {
            state.keep[member] = 1 - state.keep[member];
        }
        Ok(true)
    }
}

impl State {
    fn shown(&self) -> Shown {
        Shown {
            status: CommitStatus { epoch: self.epoch.number, generation: self.generation },
            members: self.members.clone(),
            in_sync: self.in_sync,
            highest_epoch: self.highest_epoch,
            refusal: self.refusal.clone(),
        }
    }
}

/// A lease of whole blocks that starts with these bytes; zeros follow.
fn filled(access: &Access, bytes: &[u8]) -> Result<Lease, VolumeError> {
    let padded = bytes.len().next_multiple_of(BLOCK_BYTES);
    let mut buffer = access.buffer(padded)?;
    buffer[..bytes.len()].copy_from_slice(bytes);
    buffer[bytes.len()..padded].fill(0);
    Ok(buffer.freeze().slice(0..padded))
}

/// Writes the same bytes to every target. `false` if a member failed; it is dropped then.
fn write_to(
    context: &CommitContext<'_>,
    answers: &mut Answers,
    targets: &[(usize, u64)],
    at: u64,
    lease: Lease,
) -> bool {
    submit_to(context, answers, targets, at, lease);
    settle_answers(context, answers)
}

fn submit_to(
    context: &CommitContext<'_>,
    answers: &mut Answers,
    targets: &[(usize, u64)],
    at: u64,
    lease: Lease,
) {
    for &(member, offset) in targets {
        context.access.write(answers, Class::INTERACTIVE, (member, offset + at), lease.clone());
    }
}

/// Like [`write_to`] for a part of an area that is not in force. Where there is no space for it,
/// the old catalogue stays in force: an error, and no member is dropped.
fn write_body(
    context: &CommitContext<'_>,
    answers: &mut Answers,
    targets: &[(usize, u64)],
    at: u64,
    lease: Lease,
) -> Result<bool, VolumeError> {
    submit_to(context, answers, targets, at, lease);
    let (mut good, mut no_space) = (true, None);
    while let Some(done) = answers.next() {
        match done.result {
            Err(error) if error.is_no_space() => no_space = Some(error),
            Err(ref error) => {
                good = false;
                write_failed(context.health, context.counters, &done, error);
            }
            Ok(()) => {}
        }
    }
    no_space.map_or(Ok(good), |error| Err(VolumeError::disk("cannot write the catalogue")(error)))
}

/// Makes what was written to every target durable. `false` if a member failed; it is dropped then.
fn sync_all(context: &CommitContext<'_>, answers: &mut Answers, targets: &[(usize, u64)]) -> bool {
    for &(member, _) in targets {
        context.access.sync(answers, Class::INTERACTIVE, member);
    }
    settle_answers(context, answers)
}

/// Waits for all outstanding requests. A member whose request failed is dropped.
fn settle_answers(context: &CommitContext<'_>, answers: &mut Answers) -> bool {
    let mut good = true;
    while let Some(done) = answers.next() {
        if let Err(error) = &done.result {
            good = false;
            write_failed(context.health, context.counters, &done, error);
        }
    }
    good
}

/// A write or sync of a member has failed.
pub(crate) fn write_failed(health: &Health, counters: &VolumeCounters, done: &DiskDone, error: &DiskError) {
    if matches!(error, DiskError::Withheld) {
        return;
    }
    // The token of a write is the member's life in which it was requested.
    let life = (done.member, done.token as u32);
    let text = format!("{error}{}", cure(error));
    if !matches!(error, DiskError::Unanswered { .. }) {
        return drop_member(health, counters, life, &text);
    }
    counters.write_errors.add(1);
    if health.drop_silent(life.0, life.1, &text) {
        dropped(counters, life.0, &text);
    }
}

/// Waits for requests whose outcome does not matter any more. They must not land in slots that have
/// got another owner, so a member that does not answer them is dropped.
pub(crate) fn settle_unwanted(health: &Health, counters: &VolumeCounters, answers: &mut Answers) {
    while let Some(done) = answers.next() {
        if let Err(error @ DiskError::Unanswered { .. }) = &done.result {
            write_failed(health, counters, &done, error);
        }
    }
}

/// What to do about a failed write that is no fault of the disk.
fn cure(error: &DiskError) -> &'static str {
    if matches!(error, DiskError::Unanswered { .. }) {
        return ": its disk hangs or its file system is frozen";
    }
    let (DiskError::Failed { source, .. } | DiskError::File { source, .. }) = error else { return "" };
    match source.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            ": free space on its file system, then rebuild it"
        }
        std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
            ": make it writable, and open the volume again"
        }
        _ => "",
    }
}

/// Takes a member out of use because a write to it failed in this life of it. What is missing on it
/// is computed from the others.
pub(crate) fn drop_member(
    health: &Health,
    counters: &VolumeCounters,
    (member, life): (usize, u32),
    error: &str,
) {
    counters.write_errors.add(1);
    if health.drop_member(member, life, error) {
        dropped(counters, member, error);
    }
}

fn dropped(counters: &VolumeCounters, member: usize, error: &str) {
    counters.members_dropped.add(1);
    tracing::error!(
        member,
        error,
        "a member failed to write and is not used any more; its bytes are computed from the others. \
         See to the cause and rebuild it, or replace it"
    );
}
