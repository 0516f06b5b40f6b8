//! Which of the catalogue copies on the members is in force: pure. `docs/volume-format.md` argues it.

use crate::catalogue::header::{CommitHeader, Epoch, MemberSet};
use crate::ids::MemberId;

/// A member that is present, and the headers it holds whose bodies match their checksums.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) index: usize,
    pub(crate) id: MemberId,
    pub(crate) areas: [Option<CommitHeader>; 2],
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
    /// Whether every member is present and every area that is read first holds the winner, so that nothing
    /// needs to be written before the volume is used.
    pub(crate) settled: bool,
    /// For each candidate the area that must not be overwritten first.
    pub(crate) keep: Vec<usize>,
}

/// Why no copy is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectionError {
    /// No member has a copy that can be read.
    NoCopy,
    /// Two histories exist and the members present do not show which one went on.
    Undecided,
}

/// Finds the copy in force.
///
/// An epoch is *established* once every member of its in-sync set holds it; only then is anything that it
/// promises acknowledged. A present member of that set which holds a copy of an epoch no higher, but none of that
/// epoch, proves that it was never established: it is *refuted*. The winner is the last commit of the highest
/// epoch that is not refuted.
pub(crate) fn select(candidates: &[Candidate], members: usize) -> Result<Selection, SelectionError> {
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
    if copies.is_empty() {
        return Err(SelectionError::NoCopy);
    }
    let highest_epoch = copies.iter().map(|(_, _, header)| header.epoch.number).max().unwrap_or_default();
    let standing: Vec<_> = copies.iter().filter(|(_, _, header)| !refuted(header, candidates)).collect();
    let Some(number) = standing.iter().map(|(_, _, header)| header.epoch.number).max() else {
        return Err(SelectionError::Undecided);
    };
    let in_force: Vec<_> =
        standing.into_iter().filter(|(_, _, header)| header.epoch.number == number).collect();
    if in_force.windows(2).any(|pair| pair[0].2.epoch != pair[1].2.epoch) {
        return Err(SelectionError::Undecided);
    }
    let Some(&&(at, area, winner)) = in_force.iter().max_by_key(|(_, _, header)| header.generation) else {
        return Err(SelectionError::NoCopy);
    };

    let current = candidates
        .iter()
        .filter(|candidate| in_sync_by(winner, candidate))
        .fold(MemberSet::default(), |set, candidate| set.with(candidate.index));
    let keep: Vec<usize> = candidates.iter().map(|candidate| area_to_keep(candidate, winner.epoch)).collect();
    let settled = highest_epoch == number
        && current.count() == winner.in_sync.count()
        && candidates.iter().zip(&keep).filter(|(candidate, _)| current.has(candidate.index)).all(
            |(candidate, &keep)| {
                let other = candidate.areas[1 - keep].as_ref();
                candidate.areas[keep].as_ref() == Some(winner)
                    && other.is_some_and(|header| header.epoch == winner.epoch)
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

fn refuted(header: &CommitHeader, candidates: &[Candidate]) -> bool {
    candidates.iter().any(|candidate| {
        let copies = || candidate.areas.iter().flatten();
        in_sync_by(header, candidate)
            && copies().all(|own| own.epoch != header.epoch)
            && copies().any(|own| own.epoch.number <= header.epoch.number)
    })
}

fn in_sync_by(header: &CommitHeader, candidate: &Candidate) -> bool {
    header.in_sync.has(candidate.index) && header.members.get(candidate.index) == Some(&candidate.id)
}

fn area_to_keep(candidate: &Candidate, epoch: Epoch) -> usize {
    let rank = |area: usize| {
        candidate.areas[area]
            .as_ref()
            .map(|header| (header.epoch == epoch, header.epoch.number, header.generation))
    };
    usize::from(rank(1) > rank(0))
}
