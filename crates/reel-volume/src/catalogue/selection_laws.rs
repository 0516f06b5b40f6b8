//! A model of members that disappear and return, of crashes between any two writes, and of the rule
//! that decides which copy is in force. The law: what was acknowledged is never lost, whichever
//! members return.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::catalogue::header::{CommitHeader, Epoch, MemberSet};
use crate::catalogue::selection::{Area, Candidate, Selection, SelectionError, select, write_quorum};
use crate::ids::{MemberId, VolumeId};

/// The model's catalogue body is a number. The history of commits is a tree, and each commit knows
/// its parent.
#[derive(Clone)]
struct CommitModel {
    members: usize,
    disks: Vec<Disk>,
    /// The disks before each opening.
    past: Vec<Vec<Disk>>,
    /// `parent[body]` is the commit it was made from.
    parent: Vec<u32>,
    acknowledged: u32,
    next_id: u64,
    /// Whether more failed at once than the design covers, so that a refusal is right. A wrong
    /// answer never is.
    too_much: bool,
    /// Members that were put back, or come from a copy.
    odd: MemberSet,
    /// Whether there ever was one.
    was_odd: bool,
}

/// What is on a member.
#[derive(Clone)]
struct Disk {
    areas: [Area; 2],
    /// The commits whose titles it holds.
    data: BTreeSet<u32>,
}

/// Commits of a copy of the volume, which is written apart, have numbers from here on.
const FIRST_OF_COPY: u32 = 1000;

struct Session {
    current: MemberSet,
    epoch: Epoch,
    generation: u64,
    body: u32,
    keep: Vec<usize>,
    /// Nothing was written yet: the first commit begins an epoch.
    is_new: bool,
}

/// What happens in one step of a history.
#[derive(Clone, Debug)]
struct Step {
    /// Members that cannot be reached when the volume is opened.
    absent: u128,
    /// Members that fail while it is in use, each at one of the commits.
    failing: Option<(usize, usize)>,
    commits: usize,
    /// A member that is present and not in sync has been rebuilt, and joins at one of the commits.
    /// With `true`, a new disk in its place has been rebuilt and joins.
    joining: Option<(usize, usize, bool)>,
    /// The machine crashes after this number of area writes.
    crash_after: Option<usize>,
    /// One area, or both, of one member is found damaged.
    damage: Option<(usize, u8)>,
    /// One member is put back to the state it had this number of openings ago.
    put_back: Option<(usize, usize)>,
    /// All members are copied, and the copy is written in a session of its own with this number of
    /// commits. Then a member is the one of the copy.
    copied: Option<(usize, usize)>,
}

struct Crashed;

impl CommitModel {
    fn new(members: usize) -> CommitModel {
        let header = CommitHeader {
            volume: VolumeId([0; 16]),
            epoch: Epoch { number: 1, id: 0 },
            generation: 1,
            in_sync: MemberSet::first(members),
            members: ids(members),
            body_bytes: 0,
            body_sum: 0,
            sealed: true,
        };
        let area = Area { header: Some(header), is_copy: true };
        CommitModel {
            members,
            disks: vec![Disk { areas: [area.clone(), area], data: BTreeSet::from([0]) }; members],
            past: Vec::new(),
            parent: vec![0],
            acknowledged: 0,
            next_id: 1,
            too_much: false,
            odd: MemberSet::default(),
            was_odd: false,
        }
    }

    fn candidates(&self, absent: u128) -> Vec<Candidate> {
        (0..self.members)
            .filter(|index| absent >> index & 1 == 0)
            .map(|index| Candidate {
                index,
                id: ids(self.members)[index],
                areas: self.disks[index].areas.clone(),
            })
            .collect()
    }

    fn descends(&self, mut body: u32, ancestor: u32) -> bool {
        while body > ancestor {
            let Some(&parent) = self.parent.get(body as usize) else { return false };
            body = parent;
        }
        body == ancestor
    }

    /// A commit and all that it was made from.
    fn history(&self, body: u32) -> impl Iterator<Item = u32> {
        let parent = |body: &u32| (*body > 0).then(|| self.parent.get(*body as usize).copied().unwrap_or(0));
        std::iter::successors(Some(body), parent)
    }

    /// One opening with everything that follows until it is closed, crashes, or is refused.
    fn run(&mut self, step: &Step) -> Result<(), TestCaseError> {
        self.disturb(step);
        let is_damaged = |disk: &Disk| disk.areas.iter().any(|area| area.header.is_none());
        if self.odd.count() > 0 && self.disks.iter().any(is_damaged) {
            // Of such a member beside a damaged one nothing is promised.
            return Ok(());
        }
        let Some(selection) = self.select(step)? else { return Ok(()) };
        let found = selection.winner.body_sum;
        prop_assert!(
            self.descends(found, self.acknowledged),
            "commit {} was acknowledged, but {found} is in force",
            self.acknowledged
        );
        for member in selection.current.iter() {
            let missing = self.history(found).find(|commit| !self.disks[member].data.contains(commit));
            prop_assert!(
                missing.is_none(),
                "member {member} is in use without the data of {missing:?}, and {found} is in force"
            );
        }
        let mut keep = vec![0; self.members];
        for (index, area) in self.candidates(step.absent).iter().map(|one| one.index).zip(&selection.keep) {
            keep[index] = *area;
        }
        let mut session = Session {
            current: selection.current,
            epoch: selection.winner.epoch,
            generation: selection.winner.generation,
            body: found,
            keep,
            is_new: true,
        };
        let mut budget = step.crash_after;
        let mut highest = selection.highest_epoch;
        if !selection.settled && self.begin_epoch(&mut session, &mut highest, found, &mut budget).is_err() {
            return Ok(());
        }
        session.is_new = selection.settled;
        for number in 0..step.commits {
            let body = self.parent.len() as u32;
            self.parent.push(session.body);
            if self.commit(step, number, &mut session, &mut highest, body, &mut budget).is_err() {
                return Ok(());
            }
            session.body = body;
            self.acknowledged = body;
        }
        Ok(())
    }

    /// Damages areas, and puts a member back to an older state, as `step` says.
    fn disturb(&mut self, step: &Step) {
        if let Some((member, areas)) = step.damage {
            for area in 0..2 {
                if areas >> area & 1 == 1 {
                    // Beside a member that is not in sync again.
                    self.too_much |= self.was_odd;
                    self.disks[member % self.members].areas[area] = Area::default();
                }
            }
        }
        self.past.push(self.disks.clone());
        let odd = step.put_back.or(step.copied).map(|(member, _)| member % self.members);
        // Of two such members at once nothing is promised.
        if odd.is_some_and(|member| self.odd.without(member).count() > 0) {
            return;
        }
        self.odd = odd.map_or(self.odd, |member| self.odd.with(member));
        self.was_odd |= odd.is_some();
        if let Some((member, ago)) = step.put_back {
            let member = member % self.members;
            let then = self.past.len().saturating_sub(1 + ago % self.past.len());
            self.disks[member] = self.past[then][member].clone();
        }
        if let Some((member, commits)) = step.copied {
            let mut copy = self.clone();
            copy.parent.resize(FIRST_OF_COPY as usize, 0);
            copy.next_id += 1 << 32;
            let apart = Step { absent: 0, commits, ..QUIET };
            if copy.run(&apart).is_ok() {
                let member = member % self.members;
                self.disks[member] = copy.disks[member].clone();
            }
        }
    }

    /// The copy in force; `None` if the volume cannot be opened, or not for writing.
    fn select(&self, step: &Step) -> Result<Option<Selection>, TestCaseError> {
        let selection = match select(&self.candidates(step.absent), self.members, 1) {
            Ok(selection) => selection,
            Err(SelectionError::NoCopy) => return Ok(None),
            Err(SelectionError::Undecided) => {
                prop_assert!(
                    step.absent != 0 || self.too_much,
                    "all members are present, so a copy must be selected"
                );
                return Ok(None);
            }
        };
        let is_open = selection.current.count() + 1 >= self.members;
        Ok(Some(selection).filter(|found| is_open && write_quorum(found.current, self.members, 1)))
    }

    /// One commit, with the member that fails or joins at it. Too few members end the session like
    /// a crash.
    fn commit(
        &mut self,
        step: &Step,
        number: usize,
        session: &mut Session,
        highest: &mut u64,
        body: u32,
        budget: &mut Option<usize>,
    ) -> Result<(), Crashed> {
        let failing = step.failing.filter(|(_, at)| *at == number).map(|(member, _)| member % self.members);
        let joins = |member: &usize| step.absent >> member & 1 == 0 && !session.current.has(*member);
        let joining = step
            .joining
            .filter(|(_, at, _)| *at == number)
            .map(|(member, _, new)| (member % self.members, new))
            .filter(|(member, _)| joins(member));
        // What is written before a commit may take the place of what the catalogue does not name.
        let kept: BTreeSet<u32> = self.history(session.body).collect();
        for member in session.current.iter() {
            self.disks[member].data.retain(|commit| kept.contains(commit));
            self.disks[member].data.insert(body);
        }
        match (failing.filter(|member| session.current.has(*member)), joining) {
            (None, Some((member, new))) => {
                if new {
                    self.disks[member].areas = Default::default();
                    session.keep[member] = 0;
                }
                self.disks[member].data = kept.into_iter().chain([body]).collect();
                session.current = session.current.with(member);
                self.begin_epoch(session, highest, body, budget)?;
                self.odd = self.odd.without(member);
                Ok(())
            }
            (None, None) if session.is_new => self.begin_epoch(session, highest, body, budget),
            (None, None) => self.write_all(session, body, true, budget),
            (Some(member), _) => {
                session.current = session.current.without(member);
                if !write_quorum(session.current, self.members, 1) {
                    return Err(Crashed);
                }
                self.begin_epoch(session, highest, body, budget)
            }
        }
    }

    fn begin_epoch(
        &mut self,
        session: &mut Session,
        highest: &mut u64,
        body: u32,
        budget: &mut Option<usize>,
    ) -> Result<(), Crashed> {
        *highest += 1;
        session.epoch = Epoch { number: *highest, id: self.next_id };
        session.is_new = false;
        self.next_id += 1;
        self.write_all(session, body, false, budget)
    }

    fn write_all(
        &mut self,
        session: &mut Session,
        body: u32,
        sealed: bool,
        budget: &mut Option<usize>,
    ) -> Result<(), Crashed> {
        session.generation += 1;
        let header = CommitHeader {
            volume: VolumeId([0; 16]),
            epoch: session.epoch,
            generation: session.generation,
            in_sync: session.current,
            members: ids(self.members),
            body_bytes: 0,
            body_sum: body,
            sealed,
        };
        // First every body: the header in that area no longer matches.
        for member in session.current.iter() {
            spend(budget)?;
            self.disks[member].areas[1 - session.keep[member]].is_copy = false;
        }
        let rounds: &[&[bool]] = if sealed { &[&[false, true]] } else { &[&[false], &[true]] };
        for round in rounds {
            for member in session.current.iter() {
                // Header and seal of a commit within an epoch are written together and may arrive
                // one without the other.
                for &sealed in *round {
                    spend(budget)?;
                    let area = 1 - session.keep[member];
                    let header = Some(CommitHeader { sealed, ..header.clone() });
                    self.disks[member].areas[area] = Area { header, is_copy: true };
                }
            }
        }
        for member in session.current.iter() {
            session.keep[member] = 1 - session.keep[member];
        }
        Ok(())
    }
}

fn spend(budget: &mut Option<usize>) -> Result<(), Crashed> {
    match budget {
        Some(0) => Err(Crashed),
        Some(left) => {
            *left -= 1;
            Ok(())
        }
        None => Ok(()),
    }
}

fn ids(members: usize) -> Vec<MemberId> {
    (0..members).map(|index| MemberId([index as u8; 16])).collect()
}

fn any_step() -> impl Strategy<Value = Step> {
    let absent =
        prop_oneof![2 => Just(0u128), 5 => (0u32..6).prop_map(|member| 1 << member), 1 => any::<u128>()];
    let failing = proptest::option::weighted(0.3, (0usize..6, 0usize..3));
    let crash = proptest::option::weighted(0.7, 0usize..40);
    let joining = proptest::option::weighted(0.5, (0usize..6, 0usize..3, any::<bool>()));
    (absent, failing, joining, 0usize..3, crash).prop_map(
        |(absent, failing, joining, commits, crash_after)| Step {
            absent,
            failing,
            joining,
            commits,
            crash_after,
            damage: None,
            put_back: None,
            copied: None,
        },
    )
}

/// One member is damaged. This is found with all members present and lasts until the volume is next
/// opened.
fn with_one_damaged(step: Step) -> impl Strategy<Value = Step> {
    let damage = (0usize..6, 1u8..4).prop_map(|found| (Some(found), None, None));
    let put_back = (0usize..6, 0usize..14).prop_map(|found| (None, Some(found), None));
    let copied = (0usize..6, 0usize..3).prop_map(|found| (None, None, Some(found)));
    let disturbed = prop_oneof![6 => Just((None, None, None)), 2 => damage, 2 => put_back, 2 => copied];
    (disturbed, Just(step)).prop_map(|(disturbed, step)| match disturbed {
        (None, None, None) => step,
        (damage, put_back, copied) => {
            Step { absent: 0, failing: None, crash_after: None, damage, put_back, copied, ..step }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// However many members were put back: a copy by which enough are in sync is not refuted, and
    /// without one, no copy has more members than the one that is named.
    #[test]
    fn a_volume_that_is_not_opened_blames_the_fewest_members(
        members in 3usize..6, openings in proptest::collection::vec(1usize..3, 1..5),
        agos in proptest::collection::vec(0usize..6, 6),
    ) {
        let mut model = CommitModel::new(members);
        for commits in openings {
            model.run(&Step { commits, ..QUIET })?;
        }
        for member in 0..members {
            if let Some(then) = model.past.len().checked_sub(agos[member]).and_then(|at| model.past.get(at)) {
                model.disks[member] = then[member].clone();
            }
        }
        let candidates = model.candidates(0);
        let Ok(selection) = select(&candidates, members, 1) else { return Ok(()) };
        let newest = candidates.iter().flat_map(Candidate::copies).map(|copy| copy.generation).max();
        let of_newest = candidates.iter().filter(|one| {
            one.copies().map(|copy| copy.generation).max() == newest
        });
        if selection.current.count() + 1 < members {
            prop_assert!(selection.current.count() >= of_newest.count());
        }
    }

    #[test]
    fn acknowledged_commits_survive_any_history(members in 2usize..6, steps in proptest::collection::vec(any_step(), 1..14)) {
        let mut model = CommitModel::new(members);
        for step in &steps {
            model.run(step)?;
        }
        model.run(&Step { absent: 0, failing: None, joining: None, commits: 0, crash_after: None, damage: None, put_back: None, copied: None })?;
    }

    #[test]
    fn crashes_and_one_damaged_member_leave_the_volume_complete(
        members in 3usize..6, steps in proptest::collection::vec(any_step().prop_flat_map(with_one_damaged), 1..14),
    ) {
        let mut model = CommitModel::new(members);
        for step in &steps {
            model.run(&Step { absent: 0, failing: None, ..step.clone() })?;
        }
    }

    #[test]
    fn lost_members_and_one_with_damaged_copies_may_cause_refusal_but_never_loss(
        members in 3usize..6, damaged in 0usize..6, steps in proptest::collection::vec(any_step().prop_flat_map(with_one_damaged), 1..14),
    ) {
        let mut model = CommitModel::new(members);
        model.too_much = true;
        for step in &steps {
            let damage = step.damage.map(|(_, areas)| (damaged, areas));
            model.run(&Step { put_back: None, copied: None, damage, ..step.clone() })?;
        }
    }
}

const QUIET: Step = Step {
    absent: 0,
    failing: None,
    joining: None,
    commits: 0,
    crash_after: None,
    damage: None,
    put_back: None,
    copied: None,
};

fn run_all(members: usize, too_much: bool, steps: &[Step]) {
    let mut model = CommitModel::new(members);
    model.too_much = too_much;
    for step in steps {
        model.run(step).unwrap();
    }
}

#[test]
fn an_epoch_number_is_kept_while_a_body_is_overwritten() {
    run_all(
        3,
        false,
        &[
            // Member 1 fails; the epoch without it is sealed on member 0 only, then the machine
            // dies.
            Step { failing: Some((1, 0)), commits: 1, crash_after: Some(5), ..QUIET },
            // Member 0 is missing; the machine dies when the bodies of the next epoch are written.
            Step { absent: 1, crash_after: Some(2), ..QUIET },
            Step { absent: 1, commits: 1, ..QUIET },
            QUIET,
        ],
    );
}

#[test]
fn a_member_without_copies_may_have_had_a_newer_one() {
    run_all(
        3,
        true,
        &[
            // Acknowledged by members 0 and 1 without 2. Then 0 is missing and 1 has lost its
            // copies.
            Step { failing: Some((2, 0)), commits: 1, ..QUIET },
            Step { absent: 1, damage: Some((1, 3)), ..QUIET },
        ],
    );
}

#[test]
fn a_member_put_back_to_an_older_state_is_outvoted() {
    let put_back = Step { put_back: Some((0, 1)), ..QUIET };
    run_all(3, false, &[Step { commits: 2, ..QUIET }, Step { commits: 2, ..QUIET }, put_back.clone(), QUIET]);
    // Beside a member that is not in sync, this is one too many, and a refusal is right.
    let failing = Step { failing: Some((2, 0)), commits: 2, ..QUIET };
    run_all(3, true, &[Step { commits: 2, ..QUIET }, failing, put_back, QUIET]);
}

#[test]
fn a_member_of_a_copy_is_outvoted_however_far_the_copy_came() {
    for commits in 0..4 {
        let copied = |member| Step { copied: Some((member, commits)), ..QUIET };
        let mut model = CommitModel::new(5);
        for step in [Step { commits: 1, ..QUIET }, copied(2), Step { commits: 2, ..QUIET }, copied(2), QUIET]
        {
            model.run(&step).unwrap();
        }
        let selection = select(&model.candidates(0), 5, 1).unwrap();
        assert_eq!(
            (selection.winner.body_sum, selection.current.count()),
            (3, if commits > 0 { 4 } else { 5 })
        );
    }
}

/// More than P old members are too many to open the volume, and they are the ones at fault.
#[test]
fn of_two_old_members_among_five_the_old_ones_are_named() {
    for (agos, old) in [([1, 1], [0, 1]), ([1, 2], [1, 3]), ([3, 1], [4, 0]), ([2, 2], [2, 4])] {
        let mut model = CommitModel::new(5);
        for _ in 0..4 {
            model.run(&Step { commits: 2, ..QUIET }).unwrap();
        }
        for (ago, member) in agos.into_iter().zip(old) {
            model.disks[member] = model.past[model.past.len() - ago][member].clone();
        }
        let selection = select(&model.candidates(0), 5, 1).unwrap();
        let put_back = old.into_iter().fold(MemberSet::default(), MemberSet::with);
        assert_eq!((selection.odd, selection.apart), (put_back, MemberSet::default()), "{agos:?} {old:?}");
        assert_eq!((selection.current.count(), selection.winner.body_sum), (3, model.acknowledged));
    }
}

#[test]
fn a_volume_of_two_is_written_only_by_the_half_with_member_zero() {
    assert!(write_quorum(MemberSet::first(2), 2, 1));
    assert!(write_quorum(MemberSet::default().with(0), 2, 1));
    assert!(!write_quorum(MemberSet::default().with(1), 2, 1));
    assert!(write_quorum(MemberSet::first(3).without(0), 3, 1));
    assert!(!write_quorum(MemberSet::first(3).without(0).without(1), 3, 1));
}
