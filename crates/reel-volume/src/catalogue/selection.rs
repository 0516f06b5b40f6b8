//! Which of the catalogue copies on the members is in force: pure. `docs/volume-format.md` argues it.

use crate::catalogue::header::{CommitHeader, MemberSet};
use crate::ids::MemberId;

/// A member that is present, and the headers it holds whose bodies match their checksums.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) index: usize,
    pub(crate) id: MemberId,
    pub(crate) areas: [Option<CommitHeader>; 2],
    /// The highest epoch number in any header it holds, also in one whose body does not match: a body is overwritten
    /// before its header, and the number must not be forgotten in between.
    pub(crate) epoch_seen: u64,
}

/// The outcome of comparing all copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The header in force.
    pub(crate) winner: CommitHeader,
    /// The candidate (by place in the slice) and the area it was taken from.
    pub(crate) found_at: (usize, usize),
    /// The members that are present and in sync.
    pub(crate) current: MemberSet,
    /// The highest epoch number on any member, in force or not.
    pub(crate) highest_epoch: u64,
    /// Whether every member in sync is present and holds the winner, and nobody holds anything higher, so that
    /// nothing needs to be written before the volume is used.
    pub(crate) settled: bool,
    /// For each candidate the area that holds the best copy it has, which is not overwritten first.
    pub(crate) keep: Vec<usize>,
}

/// Why no copy is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectionError {
    /// No member has a copy that can be read.
    NoCopy,
    /// More is missing than parity makes up for, so that the newest copy that can be read may not be the newest
    /// there was.
    Undecided,
}

/// Finds the copy in force: of the sealed copies that with the highest epoch and, within it, the highest generation.
///
/// A copy is sealed only once every member in sync holds its epoch, and nothing is acknowledged before it is sealed on
/// all of them. So whoever sees one of those members sees at least what was acknowledged last.
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
    let twin =
        |header: &CommitHeader| header.epoch.number == winner.epoch.number && header.epoch != winner.epoch;
    if sealed().any(|(_, _, header)| twin(header)) || !certain(candidates, members, parity_rows) {
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

/// Whether so many members in sync may go on writing: no two sets that may can be without a common member.
///
/// They must be N - P, so that nothing published is lost with them, and more than half; of exactly half, the half
/// with member 0 may. (With one parity row that only matters to a volume of two members.)
pub(crate) fn write_quorum(current: MemberSet, members: usize, parity_rows: usize) -> bool {
    let count = current.count();
    count + parity_rows >= members && (2 * count > members || (2 * count == members && current.has(0)))
}

/// Whether nothing newer can have been acknowledged. What is acknowledged is on all but P members at least, so it would
/// show on one of more than P that have copies. With fewer of these, no other present may have lost its own. A volume
/// of two members cannot ask that much.
fn certain(candidates: &[Candidate], members: usize, parity_rows: usize) -> bool {
    let speaking = candidates.iter().filter(|one| one.areas.iter().flatten().any(|own| own.sealed)).count();
    members <= 2 * parity_rows || speaking > parity_rows || speaking == candidates.len()
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
