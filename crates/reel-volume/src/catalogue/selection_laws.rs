//! A model of members that come and go, of crashes between any two writes, and of the rule that decides which
//! copy is in force. The law: what was acknowledged is never lost, however the members come back.

use proptest::prelude::*;

use crate::catalogue::header::{CommitHeader, Epoch, MemberSet};
use crate::catalogue::selection::{Candidate, SelectionError, select, write_quorum};
use crate::ids::{MemberId, VolumeId};

/// The model's catalogue body is a number: the history of commits is a tree, and each commit knows its parent.
struct World {
    members: usize,
    areas: Vec<[Option<CommitHeader>; 2]>,
    /// parent[body] is the commit it was made from.
    parent: Vec<u32>,
    acknowledged: u32,
    next_id: u64,
    /// Whether more went wrong at once than is promised, so that a refusal is right; a wrong answer never is.
    too_much: bool,
}

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
    /// The machine dies after so many writes of an area.
    crash_after: Option<usize>,
    /// One area, or both, of one member is found damaged.
    damage: Option<(usize, u8)>,
}

struct Crashed;

impl World {
    fn new(members: usize) -> World {
        let header = CommitHeader {
            volume: VolumeId([0; 16]),
            epoch: Epoch { number: 1, id: 0 },
            generation: 1,
            in_sync: MemberSet::first(members),
            members: ids(members),
            body_bytes: 0,
            body_sum: 0,
        };
        World {
            members,
            areas: vec![[Some(header.clone()), Some(header)]; members],
            parent: vec![0],
            acknowledged: 0,
            next_id: 1,
            too_much: false,
        }
    }

    fn candidates(&self, absent: u128) -> Vec<Candidate> {
        (0..self.members)
            .filter(|index| absent >> index & 1 == 0)
            .map(|index| Candidate { index, id: ids(self.members)[index], areas: self.areas[index].clone() })
            .collect()
    }

    fn descends(&self, mut body: u32, ancestor: u32) -> bool {
        while body > ancestor {
            body = self.parent[body as usize];
        }
        body == ancestor
    }

    /// One opening with everything that follows until it is closed, dies, or is refused.
    fn run(&mut self, step: &Step) -> Result<(), TestCaseError> {
        if let Some((member, areas)) = step.damage {
            for area in 0..2 {
                if areas >> area & 1 == 1 {
                    self.areas[member % self.members][area] = None;
                }
            }
        }
        let candidates = self.candidates(step.absent);
        let selection = match select(&candidates, self.members) {
            Ok(selection) => selection,
            Err(SelectionError::NoCopy) => return Ok(()),
            Err(SelectionError::Undecided) => {
                prop_assert!(
                    step.absent != 0 || self.too_much,
                    "all members are here, so it must be decided"
                );
                return Ok(());
            }
        };
        if selection.current.count() + 1 < self.members {
            return Ok(());
        }
        let found = selection.winner.body_sum;
        if !write_quorum(selection.current, self.members, 1) {
            return Ok(());
        }
        prop_assert!(
            self.descends(found, self.acknowledged),
            "commit {} was acknowledged, but {found} is in force",
            self.acknowledged
        );
        let mut keep = vec![0; self.members];
        for (candidate, area) in candidates.iter().zip(&selection.keep) {
            keep[candidate.index] = *area;
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
        for commit in 0..step.commits {
            let body = self.parent.len() as u32;
            self.parent.push(session.body);
            let failing =
                step.failing.filter(|(_, at)| *at == commit).map(|(member, _)| member % self.members);
            let done = match failing.filter(|member| session.current.has(*member)) {
                None => self.commit(&mut session, body, &mut budget),
                Some(member) => {
                    session.current = session.current.without(member);
                    if !write_quorum(session.current, self.members, 1) {
                        return Ok(());
                    }
                    self.begin_epoch(&mut session, &mut highest, body, &mut budget)
                }
            };
            if done.is_err() {
                return Ok(());
            }
            session.body = body;
            self.acknowledged = body;
        }
        Ok(())
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
        self.commit(session, body, budget)?;
        self.write_all(session, body, budget)
    }

    fn commit(
        &mut self,
        session: &mut Session,
        body: u32,
        budget: &mut Option<usize>,
    ) -> Result<(), Crashed> {
        session.generation += 1;
        self.write_all(session, body, budget)
    }

    fn write_all(
        &mut self,
        session: &mut Session,
        body: u32,
        budget: &mut Option<usize>,
    ) -> Result<(), Crashed> {
        let header = CommitHeader {
            volume: VolumeId([0; 16]),
            epoch: session.epoch,
            generation: session.generation,
            in_sync: session.current,
            members: ids(self.members),
            body_bytes: 0,
            body_sum: body,
        };
        // First every body: the header in that area no longer matches.
        for member in session.current.iter() {
            spend(budget)?;
            self.areas[member][1 - session.keep[member]] = None;
        }
        for member in session.current.iter() {
            spend(budget)?;
            self.areas[member][1 - session.keep[member]] = Some(header.clone());
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
    (absent, failing, 0usize..3, crash).prop_map(|(absent, failing, commits, crash_after)| Step {
        absent,
        failing,
        commits,
        crash_after,
        damage: None,
    })
}

/// Damage is found with all members present and lasts until the volume is next opened.
fn with_damage(step: Step) -> impl Strategy<Value = Step> {
    (proptest::option::weighted(0.3, (0usize..6, 1u8..4)), Just(step)).prop_map(|(damage, step)| match damage
    {
        None => step,
        Some(_) => Step { absent: 0, failing: None, crash_after: None, damage, ..step },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn acknowledged_commits_survive_any_history(members in 2usize..6, steps in proptest::collection::vec(any_step(), 1..14)) {
        let mut world = World::new(members);
        for step in &steps {
            world.run(step)?;
        }
        world.run(&Step { absent: 0, failing: None, commits: 0, crash_after: None, damage: None })?;
    }

    #[test]
    fn crashes_and_damaged_copies_of_one_member_keep_it_open(
        members in 3usize..6, steps in proptest::collection::vec(any_step().prop_flat_map(with_damage), 1..14),
    ) {
        let mut world = World::new(members);
        for step in &steps {
            world.run(&Step { absent: 0, failing: None, ..step.clone() })?;
        }
    }

    #[test]
    fn more_faults_than_promised_may_refuse_but_never_forget(
        members in 3usize..6, steps in proptest::collection::vec(any_step().prop_flat_map(with_damage), 1..14),
    ) {
        let mut world = World::new(members);
        world.too_much = true;
        for step in &steps {
            world.run(step)?;
        }
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
