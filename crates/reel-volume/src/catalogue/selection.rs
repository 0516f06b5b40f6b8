//! Selects the catalogue copy in force among the copies on the members: pure.
//! `docs/volume-format.md` argues why the selection is right.

use crate::catalogue::header::{CommitHeader, MemberSet};
use crate::ids::MemberId;

/// A member that is present, and its catalogue areas.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) index: usize,
    pub(crate) id: MemberId,
    pub(crate) areas: [Area; 2],
}

/// What is in a catalogue area.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Area {
    /// Its header, if it is whole.
    pub(crate) header: Option<CommitHeader>,
    /// Whether its body is the one that the header names. A body is written before its header.
    pub(crate) is_copy: bool,
}

/// The outcome of comparing all copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The header in force.
    pub(crate) winner: CommitHeader,
    /// The candidate (by index in the slice) and the area that the header was taken from.
    pub(crate) found_at: (usize, usize),
    /// The members that are present and in sync.
    pub(crate) current: MemberSet,
    /// Members that should be in sync and hold an older state: they were put back.
    pub(crate) odd: MemberSet,
    /// Members with a later state than the one in force, which the others contradict: they belong
    /// to a copy of the volume that was written apart.
    pub(crate) apart: MemberSet,
    /// The highest epoch number on any member, in force or not.
    pub(crate) highest_epoch: u64,
    /// Whether every member in sync is present and holds the winner, and no member holds a higher
    /// epoch, so that nothing needs to be written before the volume is used.
    pub(crate) settled: bool,
    /// For each candidate the area with its best copy, which is not overwritten first.
    pub(crate) keep: Vec<usize>,
}

/// Why no copy is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectionError {
    /// No member has a copy that can be read.
    NoCopy,
    /// A newer copy may exist on a member that is missing, or the members contradict each other.
    Undecided,
}

/// Selects the copy in force: of the sealed copies that the members do not contradict, the one with
/// the highest epoch and, within it, the highest generation.
///
/// A copy is sealed only once every member in sync holds its epoch, and nothing is acknowledged
/// before it is sealed on all of them. So any one of those members shows at least what was
/// acknowledged last.
///
/// Every member in sync has seen the epoch of a sealed copy, and all of its commits but perhaps the
/// last one. A member that has not was put back to an older state, or belongs to a copy of the
/// volume that was written apart; see [`Verdict`].
pub(crate) fn select(
    candidates: &[Candidate],
    members: usize,
    parity_rows: usize,
) -> Result<Selection, SelectionError> {
    let mut sealed: Vec<(usize, usize, &CommitHeader)> = candidates
        .iter()
        .enumerate()
        .flat_map(|(at, candidate)| {
            (0..2).filter_map(move |area| Some((at, area, candidate.areas[area].copy()?)))
        })
        .filter(|(_, _, header)| header.sealed && header.members.len() == members)
        .collect();
    if sealed.is_empty() {
        return Err(SelectionError::NoCopy);
    }
    sealed.sort_by_key(|(_, _, header)| std::cmp::Reverse(header.rank()));
    let verdict = |header: &CommitHeader| Verdict::of(header, candidates, parity_rows);
    let first = sealed.iter().find(|(_, _, header)| verdict(header) != Verdict::Refuted);
    let (Some(&(at, area, winner)), true) = (first, is_certain(candidates, members, parity_rows)) else {
        return Err(SelectionError::Undecided);
    };
    // Two histories of which neither is refuted.
    let is_rival = |header: &CommitHeader| {
        header.epoch.number == winner.epoch.number
            && header.epoch != winner.epoch
            && verdict(header) != Verdict::Refuted
    };
    if verdict(winner) != Verdict::Stands || sealed.iter().any(|(_, _, header)| is_rival(header)) {
        return Err(SelectionError::Undecided);
    }
    let selection = selected(candidates, winner, (at, area));
    if selection.current.count() + parity_rows >= members {
        return Ok(selection);
    }
    // The volume is not opened, and what is in force only says which members are at fault.
    Ok(with_most(candidates, &sealed, selection))
}

/// The selection by which most members are in sync, of several the newest. It is `first`, or one
/// that is refuted, by which too few members are in sync as well: at most N less those that
/// contradict it.
fn with_most(
    candidates: &[Candidate],
    sealed: &[(usize, usize, &CommitHeader)],
    first: Selection,
) -> Selection {
    sealed.iter().rev().fold(first, |best, &(at, area, header)| {
        let other = selected(candidates, header, (at, area));
        if other.current.count() > best.current.count()
            || other.current.count() == best.current.count() && header.rank() > best.winner.rank()
        {
            other
        } else {
            best
        }
    })
}

/// What is known of a sealed copy from the members that it counts as in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// None contradicts it, or at most P do, and more have seen its epoch.
    Stands,
    /// More than P contradict it: it belongs to a copy of the volume, since it is not assumed that
    /// more than P members were put back.
    Refuted,
    /// Either these members were put back, or the others belong to a copy.
    Open,
}

impl Verdict {
    fn of(header: &CommitHeader, candidates: &[Candidate], parity_rows: usize) -> Verdict {
        let count = |which: &dyn Fn(&Candidate) -> bool| {
            of_its_set(header, candidates).filter(|one| which(one)).count()
        };
        let odd = count(&|one| one.contradicts(header));
        let agreeing = count(&|one| !one.contradicts(header) && one.has_seen(header));
        match odd {
            0 => Verdict::Stands,
            odd if odd > parity_rows => Verdict::Refuted,
            odd if odd < agreeing => Verdict::Stands,
            _ => Verdict::Open,
        }
    }
}

fn selected(candidates: &[Candidate], winner: &CommitHeader, found_at: (usize, usize)) -> Selection {
    let set = |which: &dyn Fn(&Candidate) -> bool| {
        let chosen = candidates.iter().filter(|one| which(one));
        chosen.fold(MemberSet::default(), |set, one| set.with(one.index))
    };
    let apart = set(&|one| one.is_beyond(winner));
    let odd = set(&|one| winner.has_in_sync(one) && one.contradicts(winner));
    let current = set(&|one| winner.has_in_sync(one) && !apart.has(one.index) && !odd.has(one.index));
    let highest_epoch = candidates.iter().map(Candidate::epoch_seen).max().unwrap_or_default();
    let keep: Vec<usize> = candidates.iter().map(area_to_keep).collect();
    let settled = highest_epoch == winner.epoch.number
        && current.count() == winner.in_sync.count()
        && candidates.iter().zip(&keep).filter(|(candidate, _)| current.has(candidate.index)).all(
            |(candidate, &keep)| {
                candidate.areas[keep].copy() == Some(winner) && candidate.areas[1 - keep].copy().is_some()
            },
        );
    Selection { winner: winner.clone(), found_at, current, odd, apart, highest_epoch, settled, keep }
}

/// Whether this set of members in sync may continue to write. Any two sets that may write have a
/// member in common.
///
/// The set must have N - P members, so that nothing published is lost with the others, and more
/// than half of all. Of exactly half, only the half with member 0 may write. (With one parity row
/// that only matters to a volume of two members.)
pub(crate) fn write_quorum(current: MemberSet, members: usize, parity_rows: usize) -> bool {
    let count = current.count();
    count + parity_rows >= members && (2 * count > members || (2 * count == members && current.has(0)))
}

/// Whether nothing newer can have been acknowledged. An acknowledged commit is on all but at most P
/// members, so it would show on one of more than P members that have copies. With fewer of these,
/// every member that is present must have a copy. A volume of two members cannot meet the first
/// condition, so it is exempt.
fn is_certain(candidates: &[Candidate], members: usize, parity_rows: usize) -> bool {
    let with_copies = candidates.iter().filter(|one| one.copies().any(|own| own.sealed)).count();
    members <= 2 * parity_rows || with_copies > parity_rows || with_copies == candidates.len()
}

/// The members present that a header counts as in sync.
fn of_its_set<'a>(
    header: &'a CommitHeader,
    candidates: &'a [Candidate],
) -> impl Iterator<Item = &'a Candidate> {
    candidates.iter().filter(|one| header.has_in_sync(one))
}

fn area_to_keep(candidate: &Candidate) -> usize {
    let rank = |area: usize| candidate.areas[area].copy().map(|own| (own.sealed, own.rank()));
    usize::from(rank(1) > rank(0))
}

impl Area {
    /// The copy of a catalogue in it, whose body matches its header.
    pub(crate) fn copy(&self) -> Option<&CommitHeader> {
        self.header.as_ref().filter(|_| self.is_copy)
    }
}

impl Candidate {
    /// Its copies of catalogues.
    pub(crate) fn copies(&self) -> impl Iterator<Item = &CommitHeader> {
        self.areas.iter().filter_map(Area::copy)
    }

    /// The highest epoch number in any header on it, also in one whose body does not match: a body
    /// is overwritten before its header, and the number must not be forgotten in between.
    fn epoch_seen(&self) -> u64 {
        self.headers().map(|header| header.epoch.number).max().unwrap_or_default()
    }

    fn headers(&self) -> impl Iterator<Item = &CommitHeader> {
        self.areas.iter().filter_map(|area| area.header.as_ref())
    }

    /// Whether it has a header of this epoch or a later one.
    fn has_seen(&self, header: &CommitHeader) -> bool {
        self.headers().any(|own| own.epoch == header.epoch || own.epoch.number > header.epoch.number)
    }

    /// Whether it cannot have been in sync when this commit was sealed. By then it had a header of
    /// the epoch, and of the commit before this one if that was of the same epoch. Only headers of
    /// later epochs take their place. Of a damaged header that is not known.
    fn contradicts(&self, header: &CommitHeader) -> bool {
        let is_before = |own: &CommitHeader| match own.epoch == header.epoch {
            true => own.generation + 1 < header.generation,
            false => own.epoch.number <= header.epoch.number,
        };
        self.headers().count() == self.areas.len() && self.headers().all(is_before)
    }

    /// Whether it has a sealed copy that would come before this one.
    fn is_beyond(&self, winner: &CommitHeader) -> bool {
        self.copies().any(|own| own.sealed && !own.is_same(winner) && own.rank() >= winner.rank())
    }
}

impl CommitHeader {
    /// Whether a member is in sync by this header.
    fn has_in_sync(&self, one: &Candidate) -> bool {
        self.in_sync.has(one.index) && self.members.get(one.index) == Some(&one.id)
    }

    /// Whether this is the same commit. It may be sealed in one place and not in another.
    fn is_same(&self, other: &CommitHeader) -> bool {
        (self.epoch, self.generation) == (other.epoch, other.generation)
    }

    fn rank(&self) -> (u64, u64) {
        (self.epoch.number, self.generation)
    }
}
