//! Selects the catalogue copy in force among the copies on the members: pure.
//! `docs/volume-format.md` argues why the selection is right.

use crate::catalogue::header::{CommitHeader, MemberSet};
use crate::ids::MemberId;

/// A member that is present, and the headers on it whose bodies match their checksums.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) index: usize,
    pub(crate) id: MemberId,
    pub(crate) areas: [Option<CommitHeader>; 2],
    /// The highest epoch number in any header on it, also in one whose body does not match: a body
    /// is overwritten before its header, and the number must not be forgotten in between.
    pub(crate) epoch_seen: u64,
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
    /// More members are missing than parity makes up for, so a newer copy may exist on one of them.
    Undecided,
}

/// Selects the copy in force: of the sealed copies the one with the highest epoch and, within it,
/// the highest generation.
///
/// A copy is sealed only once every member in sync holds its epoch, and nothing is acknowledged
/// before it is sealed on all of them. So any one of those members shows at least what was
/// acknowledged last.
pub(crate) fn select(
    candidates: &[Candidate],
    members: usize,
    parity_rows: usize,
) -> Result<Selection, SelectionError> {
    let copies: Vec<(usize, usize, &CommitHeader)> = candidates
        .iter()
        .enumerate()
        .flat_map(|(at, candidate)| {
            candidate
                .areas
                .iter()
                .enumerate()
                .filter_map(move |(area, header)| Some((at, area, header.as_ref()?)))
        })
        .filter(|(_, _, header)| header.members.len() == members)
        .collect();
    let highest_epoch = candidates.iter().map(|candidate| candidate.epoch_seen).max().unwrap_or_default();
    let sealed = || copies.iter().filter(|(_, _, header)| header.sealed);
    let Some(&(at, area, winner)) = sealed().max_by_key(|(_, _, header)| header.rank()) else {
        return Err(SelectionError::NoCopy);
    };
    let is_rival =
        |header: &CommitHeader| header.epoch.number == winner.epoch.number && header.epoch != winner.epoch;
    if sealed().any(|(_, _, header)| is_rival(header)) || !is_certain(candidates, members, parity_rows) {
        return Err(SelectionError::Undecided);
    }

    let current = of_its_set(winner, candidates).fold(MemberSet::default(), |set, one| set.with(one.index));
    let keep: Vec<usize> = candidates.iter().map(area_to_keep).collect();
    let settled = highest_epoch == winner.epoch.number
        && current.count() == winner.in_sync.count()
        && candidates.iter().zip(&keep).filter(|(candidate, _)| current.has(candidate.index)).all(
            |(candidate, &keep)| {
                candidate.areas[keep].as_ref() == Some(winner) && candidate.areas[1 - keep].is_some()
            },
        );
    Ok(Selection { winner: winner.clone(), found_at: (at, area), current, highest_epoch, settled, keep })
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
    let with_copies =
        candidates.iter().filter(|one| one.areas.iter().flatten().any(|own| own.sealed)).count();
    members <= 2 * parity_rows || with_copies > parity_rows || with_copies == candidates.len()
}

/// The members present that a header counts as in sync.
fn of_its_set<'a>(
    header: &'a CommitHeader,
    candidates: &'a [Candidate],
) -> impl Iterator<Item = &'a Candidate> {
    candidates
        .iter()
        .filter(|one| header.in_sync.has(one.index) && header.members.get(one.index) == Some(&one.id))
}

fn area_to_keep(candidate: &Candidate) -> usize {
    let rank = |area: usize| candidate.areas[area].as_ref().map(|own| (own.sealed, own.rank()));
    usize::from(rank(1) > rank(0))
}

impl CommitHeader {
    fn rank(&self) -> (u64, u64) {
        (self.epoch.number, self.generation)
    }
}
