//! A model of members that disappear and return, of crashes between any two writes, and of the rule
//! that decides which copy is in force. The law: what was acknowledged is never lost, whichever
//! members return.

use proptest::prelude::*;

use crate::catalogue::header::{CommitHeader, Epoch, MemberSet};
use crate::catalogue::selection::{Candidate, Selection, SelectionError, select, write_quorum};
use crate::ids::{MemberId, VolumeId};

/// The model's catalogue body is a number. The history of commits is a tree, and each commit knows
/// its parent.
struct CommitModel {
    members: usize,
    areas: Vec<[Option<CommitHeader>; 2]>,
    /// The epoch number in the header of each area, which stays when the body no longer matches.
    numbers: Vec<[u64; 2]>,
    /// The areas before each opening.
    past: Vec<Past>,
    /// `parent[body]` is the commit it was made from.
    parent: Vec<u32>,
    acknowledged: u32,
    next_id: u64,
    /// Whether more failed at once than the design covers, so that a refusal is right. A wrong
    /// answer never is.
    too_much: bool,
}

/// Areas and numbers as they were before an opening.
type Past = (Vec<[Option<CommitHeader>; 2]>, Vec<[u64; 2]>);

struct Session {
    current: MemberSet,
    epoch: Epoch,
    generation: u64,
    body: u32,
    keep: Vec<usize>,
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
        CommitModel {
            members,
            areas: vec![[Some(header.clone()), Some(header)]; members],
            numbers: vec![[1; 2]; members],
            past: Vec::new(),
            parent: vec![0],
            acknowledged: 0,
            next_id: 1,
            too_much: false,
        }
    }

    fn candidates(&self, absent: u128) -> Vec<Candidate> {
        (0..self.members)
            .filter(|index| absent >> index & 1 == 0)
            .map(|index| Candidate {
                index,
                id: ids(self.members)[index],
                areas: self.areas[index].clone(),
                epoch_seen: self.numbers[index][0].max(self.numbers[index][1]),
            })
            .collect()
    }

    fn descends(&self, mut body: u32, ancestor: u32) -> bool {
        while body > ancestor {
            body = self.parent[body as usize];
        }
        body == ancestor
    }

    /// One opening with everything that follows until it is closed, crashes, or is refused.
    fn run(&mut self, step: &Step) -> Result<(), TestCaseError> {
        self.disturb(step);
        let Some(selection) = self.select(step)? else { return Ok(()) };
        let found = selection.winner.body_sum;
        prop_assert!(
            self.descends(found, self.acknowledged),
            "commit {} was acknowledged, but {found} is in force",
            self.acknowledged
        );
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
        };
        let mut budget = step.crash_after;
        let mut highest = selection.highest_epoch;
        if !selection.settled && self.begin_epoch(&mut session, &mut highest, found, &mut budget).is_err() {
            return Ok(());
        }
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
                    self.areas[member % self.members][area] = None;
                    self.numbers[member % self.members][area] = 0;
                }
            }
        }
        self.past.push((self.areas.clone(), self.numbers.clone()));
        if let Some((member, ago)) = step.put_back {
            let member = member % self.members;
            let then = self.past.len().saturating_sub(1 + ago % self.past.len());
            self.areas[member] = self.past[then].0[member].clone();
            self.numbers[member] = self.past[then].1[member];
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
        match (failing.filter(|member| session.current.has(*member)), joining) {
            (None, Some((member, new))) => {
                if new {
                    (self.areas[member], self.numbers[member]) = ([None, None], [0; 2]);
                    session.keep[member] = 0;
                }
                session.current = session.current.with(member);
                self.begin_epoch(session, highest, body, budget)
            }
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
            self.areas[member][1 - session.keep[member]] = None;
        }
        let rounds: &[&[bool]] = if sealed { &[&[false, true]] } else { &[&[false], &[true]] };
        for round in rounds {
            for member in session.current.iter() {
                // Header and seal of a commit within an epoch are written together and may arrive
                // one without the other.
                for &sealed in *round {
                    spend(budget)?;
                    let area = 1 - session.keep[member];
                    self.areas[member][area] = Some(CommitHeader { sealed, ..header.clone() });
                    self.numbers[member][area] = header.epoch.number;
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
        },
    )
}

/// One member is damaged. This is found with all members present and lasts until the volume is next
/// opened.
fn with_one_damaged(step: Step) -> impl Strategy<Value = Step> {
    let damage = (0usize..6, 1u8..4).prop_map(|found| (Some(found), None));
    let put_back = (0usize..6, 0usize..14).prop_map(|found| (None, Some(found)));
    (prop_oneof![6 => Just((None, None)), 2 => damage, 2 => put_back], Just(step)).prop_map(
        |(damaged, step)| match damaged {
            (None, None) => step,
            (damage, put_back) => {
                Step { absent: 0, failing: None, crash_after: None, damage, put_back, ..step }
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn acknowledged_commits_survive_any_history(members in 2usize..6, steps in proptest::collection::vec(any_step(), 1..14)) {
        let mut model = CommitModel::new(members);
        for step in &steps {
            model.run(step)?;
        }
        model.run(&Step { absent: 0, failing: None, joining: None, commits: 0, crash_after: None, damage: None, put_back: None })?;
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
            model.run(&Step { put_back: None, damage, ..step.clone() })?;
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
    run_all(
        3,
        false,
        &[
            Step { commits: 2, ..QUIET },
            Step { failing: Some((2, 0)), commits: 2, ..QUIET },
            Step { commits: 2, ..QUIET },
            Step { put_back: Some((0, 2)), ..QUIET },
            QUIET,
        ],
    );
}

#[test]
fn a_volume_of_two_is_written_only_by_the_half_with_member_zero() {
    assert!(write_quorum(MemberSet::first(2), 2, 1));
    assert!(write_quorum(MemberSet::default().with(0), 2, 1));
    assert!(!write_quorum(MemberSet::default().with(1), 2, 1));
    assert!(write_quorum(MemberSet::first(3).without(0), 3, 1));
    assert!(!write_quorum(MemberSet::first(3).without(0).without(1), 3, 1));
}
