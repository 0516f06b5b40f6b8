//! Fills a member with everything that belongs on it, while the volume is in use.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::catalogue::{ObjectRecord, TitleRecord};
use crate::check::CheckProgress;
use crate::error::VolumeError;
use crate::fill::{Filler, Pace};
use crate::health::MemberUse;
use crate::limits::{LOCK_POLL_NS, OLD_WRITES_WAIT_NS};
use crate::presence::lost;
use crate::volume::{Inner, entry_name};

/// How fast a scrub or a rebuild runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Bytes to verify per second, at most. If `None`, it uses all disk time that nothing else
    /// needs.
    pub bytes_per_s: Option<u64>,
}

/// What a rebuild believes without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Every unit is read.
    Nothing,
    /// A member that was missing holds what its own last catalogue names; see [`crate::late`].
    OwnCatalogue,
}

/// The result of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildReport {
    /// The member.
    pub member: usize,
    /// Whether it holds everything and is in use again. If not, the rebuild was stopped.
    pub complete: bool,
    /// Bytes of units that the member held when it was last in sync, by its own catalogue. They
    /// were not read.
    pub unchanged_bytes: u64,
    /// Bytes of units that were already as written.
    pub good_bytes: u64,
    /// Bytes of units written.
    pub written_bytes: u64,
    /// Rows that are still missing. They could not be computed because others of their matrices are
    /// not available either, or they share a unit with such a row that could not be read.
    pub lost_rows: u64,
    /// When it ended, in seconds since 1970-01-01 UTC.
    pub ended_unix_s: u64,
}

/// Fills `member`. Units that are already there, from before or from an interrupted rebuild, are
/// recognised by their checksums and kept.
pub(crate) fn rebuild(
    inner: &Inner,
    member: usize,
    (options, trust): (RepairOptions, Trust),
    progress: &mut dyn FnMut(CheckProgress) -> bool,
) -> Result<RebuildReport, VolumeError> {
    let _job = inner.begin_job("rebuild")?;
    prepare(inner, member)?;
    let mut filler = Filler::new(inner, member);
    let mut pace = Pace::new(options.bytes_per_s, &inner.access.waits);
    // By address, which a weak reference keeps from being used again. A strong reference would keep
    // the slots of removed titles.
    let mut done: HashSet<*const TitleRecord> = HashSet::new();
    let mut kept: Vec<Weak<TitleRecord>> = Vec::new();
    let late = inner.late(member).filter(|late| trust == Trust::OwnCatalogue && late.was_missing);
    let is_held = |title: &TitleRecord, object: &ObjectRecord| {
        late.as_ref().is_some_and(|late| late.holds(title, object))
    };
    let (mut bytes_done, mut unchanged_bytes) = (0, 0);
    let complete = loop {
        let titles = unfilled(inner, &done);
        if titles.is_empty() {
            // One unreadable place of another member does not stop the rebuild; a member that is
            // gone does.
            filler.others_still_answer()?;
        }
        if titles.is_empty() && join(inner, &filler, &done)? {
            break true;
        }
        let mut wanted = true;
        let lacking = titles.iter().flat_map(|title| {
            let objects = title.objects.iter().map(|entry| &entry.object);
            objects.filter(|object| !is_held(title, object))
        });
        let bytes_total = bytes_done + lacking.map(|object| bytes_of(inner, object)).sum::<u64>();
        // Only weak references: a rebuild takes hours, and a title that is removed before its turn
        // must free its slots.
        let titles: Vec<Weak<TitleRecord>> = titles.into_iter().map(|title| Arc::downgrade(&title)).collect();
        for title in titles {
            let Some(title) = title.upgrade() else { continue };
            for entry in &title.objects {
                if is_held(&title, &entry.object) {
                    unchanged_bytes += bytes_of(inner, &entry.object);
                    continue;
                }
                let each = &mut |bytes: u64| {
                    bytes_done += bytes;
                    pace.done(bytes);
                    progress(CheckProgress { bytes_done, bytes_total: bytes_total.max(bytes_done) })
                };
                wanted = filler.object(&entry.object, &entry_name(&title, entry), each)?;
                check_only_copies(inner, &filler)?;
                if !wanted {
                    break;
                }
            }
            if !wanted {
                break;
            }
            done.insert(Arc::as_ptr(&title));
            kept.push(Arc::downgrade(&title));
        }
        if !wanted {
            break false;
        }
    };
    let filled = filler.filled;
    Ok(RebuildReport {
        member,
        complete,
        unchanged_bytes,
        good_bytes: filled.good_bytes,
        written_bytes: filled.written_bytes,
        lost_rows: filled.lost_rows,
        ended_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    })
}

/// Checks that the member can be filled, and makes it receive new writes from now on.
fn prepare(inner: &Inner, member: usize) -> Result<(), VolumeError> {
    let refuse = |problem: String, help: &'static str| Err(VolumeError::options(problem, help));
    inner.check_member_number(member)?;
    if let Some(reason) = inner.refusal() {
        return Err(VolumeError::ReadOnly { reason });
    }
    let state = inner.health.member(member);
    if state == MemberUse::InUse {
        return refuse(
            format!("member {member} is in use and holds everything that belongs on it"),
            "`reel volume scrub` verifies and repairs it",
        );
    }
    if !inner.belongs(member) {
        let is = inner.members_now().swap_remove(member).state;
        return refuse(
            format!("member {member} is {is}, so no disk can be filled"),
            "bring the right disk back, or replace it with `reel volume replace`; a disk that is back is found when the \
             volume is opened again",
        );
    }
    if let Some(reason) = lost(inner, member) {
        return refuse(
            format!("member {member} cannot be filled: {reason}"),
            "replace it with `reel volume replace`; its old path may be used again",
        );
    }
    let others = inner.health.lost() - 1;
    if others >= inner.geometry.parity_rows() {
        return refuse(
            format!(
                "member {member} cannot be rebuilt while {others} other of {} members cannot be read",
                inner.geometry.members()
            ),
            "bring one back first",
        );
    }
    if state == MemberUse::Out {
        begin_after_old_writes(inner, member)?;
    }
    tracing::info!(member, "a member is being rebuilt");
    Ok(())
}

/// Makes a member that is out receive new writes, once none of before is outstanding.
fn begin_after_old_writes(inner: &Inner, member: usize) -> Result<(), VolumeError> {
    let waits = &inner.access.waits;
    let until_ns = waits.now_ns().saturating_add(OLD_WRITES_WAIT_NS);
    let reason = "data that was written while it was missing is not on it";
    while let Err(writes) = inner.health.begin_to_rebuild_unless_written(member, reason) {
        if waits.now_ns() >= until_ns || !waits.sleep_ns(LOCK_POLL_NS) {
            return Err(VolumeError::options(
                format!(
                    "member {member} cannot be rebuilt: it has not answered {writes} writes of before it failed, \
                     which could still overwrite what is filled"
                ),
                "see why its writes hang (a frozen file system is thawed with `fsfreeze --unfreeze`) and try again, or \
                 replace it with `reel volume replace`",
            ));
        }
    }
    Ok(())
}

/// Titles that are not filled yet.
fn unfilled(inner: &Inner, done: &HashSet<*const TitleRecord>) -> Vec<Arc<TitleRecord>> {
    inner.titles().iter().filter(|title| !done.contains(&Arc::as_ptr(title))).cloned().collect()
}

/// An error if rows could not be computed that another member holds, which is out. If this member
/// came in sync without them, the catalogue would leave the other one behind, which has the only
/// copy.
fn check_only_copies(inner: &Inner, filler: &Filler<'_>) -> Result<(), VolumeError> {
    let out = |other: &usize| *other != filler.member && !inner.health.readable(*other);
    let Some(other) = (0..inner.geometry.members()).find(out) else { return Ok(()) };
    if filler.filled.lost_rows == 0 {
        return Ok(());
    }
    let why = inner.health.reason(other).unwrap_or_else(|| "it is not in use".to_owned());
    Err(VolumeError::options(
        format!(
            "member {} cannot be rebuilt without member {other}, which has the only copy of some rows: {why}",
            filler.member
        ),
        "open the volume again when that member is back",
    ))
}

/// Puts the member in use, unless titles were published meanwhile; `false` then.
fn join(inner: &Inner, filler: &Filler<'_>, done: &HashSet<*const TitleRecord>) -> Result<bool, VolumeError> {
    // Writers take members out without this lock, but a commit that happens while one is out holds
    // it.
    let _change = inner.begin_change();
    if !unfilled(inner, done).is_empty() {
        return Ok(false);
    }
    check_only_copies(inner, filler)?;
    let member = filler.member;
    inner.join(member)?;
    tracing::info!(member, "a member is rebuilt and in use");
    Ok(true)
}

/// Bytes of an object's units on one member.
fn bytes_of(inner: &Inner, object: &ObjectRecord) -> u64 {
    let geometry = &inner.geometry;
    let slots: u64 = object.all_extents().iter().map(|extent| extent.slots).sum();
    slots * geometry.width() as u64 / geometry.members() as u64 * geometry.unit_bytes() as u64
}
