//! Compares the agenda with a list that is searched from the start at every instant.

use super::*;
use crate::limits::QUEUE_WAIT_NS;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Move {
    Add(TaskKind, u64),
    Remove(usize),
    Advance(usize, u64),
    Sleep(usize, u64),
    Wait(usize, u64),
    Ready(usize),
    Kind(usize, TaskKind),
    /// Time advances by this much.
    Later(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Runnable,
    Asleep,
    Waiting,
}

#[derive(Clone, Copy, Debug)]
struct Plain {
    id: TaskId,
    kind: TaskKind,
    state: State,
    critical_ns: u64,
}

impl Plain {
    /// The rank at this instant, by the words of the definition.
    fn rank(&self, now_ns: u64) -> Rank {
        let due = self.critical_ns <= now_ns;
        match (self.kind, self.state) {
            (_, State::Waiting) => Rank::IDLE,
            (TaskKind::Deadline { delay_ns }, _) if due => Rank::critical(self.critical_ns + delay_ns),
            (TaskKind::Deadline { .. }, State::Runnable) => Rank::WORKAHEAD,
            (_, State::Asleep) if !due => Rank::IDLE,
            (TaskKind::Interactive, _) => Rank::INTERACTIVE,
            (TaskKind::Background, _) => Rank::BACKGROUND,
            (TaskKind::Deadline { .. }, State::Asleep) => Rank::IDLE,
        }
    }
}

fn best(list: &[Plain], now_ns: u64) -> Rank {
    list.iter().map(|task| task.rank(now_ns)).min().unwrap_or(Rank::IDLE)
}

#[test]
fn only_work_ahead_of_its_time_is_marked_ahead() {
    let far_ns = 2 * QUEUE_WAIT_NS;
    for (policy, ahead) in [(Workahead::Within, true), (Workahead::Global, false)] {
        let mut agenda = Agenda::new(policy);
        let task = agenda.add(TaskKind::Deadline { delay_ns: 5 }, far_ns).unwrap();
        agenda.advance(task, far_ns);
        agenda.add(TaskKind::Background, 0).unwrap();
        assert_eq!((agenda.choose(1).task, agenda.choose(1).ahead), (Some(task), ahead));
        // A section that was given away is not work ahead, whichever task gave it.
        let given = agenda.choose(1 + QUEUE_WAIT_NS);
        assert!(given.task != Some(task) && !given.ahead);
    }
    let mut agenda = Agenda::default();
    let task = agenda.add(TaskKind::Deadline { delay_ns: 5 }, 10).unwrap();
    assert_eq!((agenda.choose(10).task, agenda.choose(10).ahead), (Some(task), false));
}

fn kinds() -> impl Strategy<Value = TaskKind> {
    prop_oneof![
        6 => (0_u64..12).prop_map(|delay_ns| TaskKind::Deadline { delay_ns }),
        1 => Just(TaskKind::Interactive),
        1 => Just(TaskKind::Background),
    ]
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => (kinds(), 0_u64..20).prop_map(|(kind, after)| Move::Add(kind, after)),
        1 => any::<usize>().prop_map(Move::Remove),
        4 => (any::<usize>(), 0_u64..20).prop_map(|(task, after)| Move::Advance(task, after)),
        4 => (any::<usize>(), 0_u64..20).prop_map(|(task, after)| Move::Sleep(task, after)),
        2 => (any::<usize>(), 0_u64..20).prop_map(|(task, after)| Move::Wait(task, after)),
        2 => any::<usize>().prop_map(Move::Ready),
        2 => (any::<usize>(), kinds()).prop_map(|(task, kind)| Move::Kind(task, kind)),
        4 => (0_u64..6).prop_map(Move::Later),
    ];
    prop::collection::vec(one, 1..60)
}

/// Both, after the same moves.
#[derive(Default)]
struct Pair {
    agenda: Agenda,
    list: Vec<Plain>,
    now_ns: u64,
}

impl Pair {
    fn apply(&mut self, one: Move) {
        let now_ns = self.now_ns;
        let agenda = &mut self.agenda;
        let known = self.list.len();
        let pick = |task: usize| task.checked_rem(known);
        match one {
            Move::Add(kind, after) => {
                let id = agenda.add(kind, now_ns + after).unwrap();
                self.list.push(Plain { id, kind, state: State::Asleep, critical_ns: now_ns + after });
            }
            Move::Remove(task) => {
                if let Some(task) = pick(task) {
                    let id = self.list.remove(task).id;
                    agenda.remove(id);
                    // The id of a removed task changes nothing.
                    agenda.advance(id, now_ns);
                    agenda.sleep(id, now_ns);
                    assert!(!agenda.ready(id));
                }
            }
            Move::Advance(task, after) => {
                let Some(task) = pick(task).map(|task| &mut self.list[task]) else { return };
                (task.state, task.critical_ns) = (State::Runnable, now_ns + after);
                agenda.advance(task.id, task.critical_ns);
            }
            Move::Sleep(task, after) => {
                let Some(task) = pick(task).map(|task| &mut self.list[task]) else { return };
                (task.state, task.critical_ns) = (State::Asleep, now_ns + after);
                agenda.sleep(task.id, task.critical_ns);
            }
            Move::Wait(task, after) => {
                let Some(task) = pick(task).map(|task| &mut self.list[task]) else { return };
                (task.state, task.critical_ns) = (State::Waiting, now_ns + after);
                agenda.wait(task.id, task.critical_ns);
            }
            Move::Ready(task) => {
                let Some(task) = pick(task).map(|task| &mut self.list[task]) else { return };
                assert_eq!(agenda.ready(task.id), task.state == State::Waiting);
                if task.state == State::Waiting {
                    task.state = State::Runnable;
                }
            }
            Move::Kind(task, kind) => {
                let Some(task) = pick(task).map(|task| &mut self.list[task]) else { return };
                task.kind = kind;
                agenda.set_kind(task.id, kind);
            }
            Move::Later(by) => self.now_ns += by,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Invariant I3: the chosen task has the best rank at that instant.
    #[test]
    fn the_choice_has_the_best_rank(moves in moves()) {
        let mut pair = Pair::default();
        for one in moves {
            pair.apply(one);
            let choice = pair.agenda.choose(pair.now_ns);
            prop_assert_eq!(choice.rank, best(&pair.list, pair.now_ns));
            let chosen = pair.list.iter().find(|task| Some(task.id) == choice.task);
            prop_assert_eq!(chosen.map_or(Rank::IDLE, |task| task.rank(pair.now_ns)), choice.rank);
        }
    }

    /// Claim 4.1 (invariant I4). Before `until_ns`, time alone puts no task before the running one.
    /// At `until_ns` the time of a task comes whose rank is better than that of the chosen one, so
    /// no timer is set without a reason.
    #[test]
    fn no_timer_is_needed_before_t_critical(moves in moves()) {
        let mut pair = Pair::default();
        for one in moves {
            pair.apply(one);
            let choice = pair.agenda.choose(pair.now_ns);
            for now_ns in pair.now_ns..choice.until_ns.min(pair.now_ns + 60) {
                let running = pair.list.iter().find(|task| Some(task.id) == choice.task);
                let rank = running.map_or(Rank::IDLE, |task| task.rank(now_ns));
                let others = pair.list.iter().filter(|task| Some(task.id) != choice.task);
                for other in others {
                    let (before, after) = (other.rank(pair.now_ns), other.rank(now_ns));
                    prop_assert!(after >= rank || after == before, "{:?} overtakes at {}", other, now_ns);
                }
            }
            if choice.until_ns != u64::MAX {
                let reason = pair.list.iter().any(|task| {
                    task.critical_ns == choice.until_ns && task.rank(choice.until_ns) < choice.rank
                });
                prop_assert!(reason && choice.until_ns > pair.now_ns, "a timer without a reason at {}", choice.until_ns);
            }
        }
    }

    /// The published steps are right at every later instant (invariant I5). With too little room
    /// for the steps, a task is announced too early, never too late.
    #[test]
    fn steps_predict_the_rank_of_an_agenda(moves in moves(), room in 1_usize..6) {
        let mut pair = Pair::default();
        for one in moves {
            pair.apply(one);
            let choice = pair.agenda.choose(pair.now_ns);
            let mut steps = vec![Step { at_ns: 0, rank: Rank::IDLE }; room];
            let count = pair.agenda.steps(choice.rank, &mut steps);
            for now_ns in pair.now_ns..pair.now_ns + 60 {
                let due = steps[..count].iter().filter(|step| step.at_ns <= now_ns);
                let predicted = due.map(|step| step.rank).min().unwrap_or(choice.rank).min(choice.rank);
                let truth = best(&pair.list, now_ns);
                let all = count < room || steps[count - 1].at_ns > now_ns;
                if all {
                    prop_assert_eq!(predicted, truth, "at {}", now_ns);
                } else {
                    prop_assert!(predicted <= truth, "predicted {:?}, is {:?}", predicted, truth);
                }
            }
        }
    }
}

/// One timer for each sleeping task would set many; most of them are never armed (figure 4.3 at
/// length).
#[test]
fn most_timers_are_saved() {
    let mut agenda = Agenda::default();
    let (mut naive, mut armed) = (0, 0);
    let streams: Vec<TaskId> = (0..18_u64)
        .map(|number| {
            let delay_ns = if number % 6 == 0 { 5 } else { 250 };
            agenda.add(TaskKind::Deadline { delay_ns }, number % 20).unwrap()
        })
        .collect();
    let mut next: Vec<u64> = (0..18).map(|number| number % 20).collect();
    let mut now_ns = 0;
    let mut last_until = u64::MAX;
    for _ in 0..10_000 {
        let choice = agenda.choose(now_ns);
        if let Some(id) = choice.task {
            let number = streams.iter().position(|stream| *stream == id).unwrap();
            next[number] += 20;
            agenda.sleep(id, next[number]);
            naive += 1;
            if choice.until_ns != last_until && choice.until_ns != u64::MAX {
                armed += 1;
            }
            last_until = choice.until_ns;
            now_ns += 1;
        } else {
            now_ns = choice.until_ns;
        }
    }
    assert!(armed * 2 < naive, "{armed} timers of {naive}");
}

/// Figure 4.3: P3 is critical, P1 and P2 are ahead of their time. Only P2, due before P3, is worth
/// a timer.
#[test]
fn the_example_of_figure_4_3() {
    let mut agenda = Agenda::default();
    let mut add = |delay_ns, critical_ns| agenda.add(TaskKind::Deadline { delay_ns }, critical_ns).unwrap();
    let (p1, p2, p3) = (add(100, 20), add(10, 30), add(50, 0));
    agenda.advance(p1, 20);
    agenda.advance(p2, 30);
    let choice = agenda.choose(10);
    assert_eq!((choice.task, choice.until_ns, agenda.next_ns()), (Some(p3), 30, Some(20)));
    assert_eq!(agenda.choose(30).task, Some(p2));
    agenda.remove(p2);
    agenda.remove(p3);
    assert_eq!(agenda.choose(31).task, Some(p1), "found without a timer of its own");
}

#[test]
fn equals_take_turns() {
    for kind in [TaskKind::Interactive, TaskKind::Background] {
        let mut agenda = Agenda::default();
        let ids = [agenda.add(kind, 0).unwrap(), agenda.add(kind, 0).unwrap(), agenda.add(kind, 0).unwrap()];
        for turn in 0..9 {
            let choice = agenda.choose(turn);
            assert_eq!(choice.task, Some(ids[turn as usize % 3]));
            agenda.advance(ids[turn as usize % 3], 0);
        }
    }
}

#[test]
fn the_number_of_tasks_is_limited_and_ids_are_not_reused() {
    let mut agenda = Agenda::default();
    let all: Vec<TaskId> = (0..TASKS_MAX).map(|_| agenda.add(TaskKind::Background, 0).unwrap()).collect();
    assert_eq!(agenda.add(TaskKind::Background, 0), None);
    agenda.remove(all[7]);
    let again = agenda.add(TaskKind::Background, 0).unwrap();
    assert_eq!(again.index(), all[7].index());
    assert_ne!(again, all[7]);
}

/// However much better work is runnable, the first task of each queue gets a section in every
/// `QUEUE_WAIT_NS`, and the tasks of a queue take turns.
#[test]
fn no_queued_task_starves_behind_better_work() {
    const SECTION_NS: u64 = 300_000;
    let mut agenda = Agenda::default();
    // Always critical, so that only the bound lets any other task run.
    let streams: Vec<TaskId> =
        (0..3).map(|_| agenda.add(TaskKind::Deadline { delay_ns: 1_000_000_000 }, 0).unwrap()).collect();
    let page = agenda.add(TaskKind::Interactive, 0).unwrap();
    let downloads: Vec<TaskId> = (0..5).map(|_| agenda.add(TaskKind::Background, 0).unwrap()).collect();
    let (mut now_ns, mut ran) = (SECTION_NS, Vec::new());
    for _ in 0..1_000 {
        let choice = agenda.choose(now_ns);
        assert!(choice.rank < Rank::INTERACTIVE, "the best rank is unchanged: {choice:?}");
        let id = choice.task.unwrap();
        ran.push((now_ns, id));
        agenda.advance(id, 0);
        now_ns += SECTION_NS;
    }
    let waits = |of: &dyn Fn(TaskId) -> bool| -> Vec<u64> {
        let times: Vec<u64> = ran.iter().filter(|(_, id)| of(*id)).map(|(at_ns, _)| *at_ns).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    let bound_ns = QUEUE_WAIT_NS + 2 * SECTION_NS;
    for wait_ns in waits(&|id| id == page).into_iter().chain(waits(&|id| downloads.contains(&id))) {
        assert!((QUEUE_WAIT_NS..=bound_ns + SECTION_NS).contains(&wait_ns), "{wait_ns}");
    }
    for wait_ns in waits(&|id| id == downloads[2]) {
        assert!(wait_ns <= downloads.len() as u64 * (bound_ns + SECTION_NS), "{wait_ns}");
    }
    let given = ran.iter().filter(|(_, id)| !streams.contains(id)).count();
    assert!(given * 12 < ran.len(), "{given} sections of {} were given away", ran.len());
}

/// Runs sections of this length for a second; returns how much time interactive tasks got.
fn interactive_time_ns(agenda: &mut Agenda, from_ns: u64, section_ns: u64) -> u64 {
    let (mut now_ns, mut got_ns) = (from_ns, 0);
    while now_ns < from_ns + 1_000_000_000 {
        let choice = agenda.choose(now_ns);
        let Some(id) = choice.task else { break };
        if choice.is_interactive {
            agenda.spent_interactive(section_ns);
            got_ns += section_ns;
        }
        agenda.advance(id, u64::MAX);
        now_ns += section_ns;
    }
    got_ns
}

/// A flood of requests takes its share from downloads and from work ahead of its time, and no more.
#[test]
fn interactive_tasks_pass_a_leaky_bucket() {
    const SECOND_NS: u64 = 1_000_000_000;
    for other in [TaskKind::Background, TaskKind::Deadline { delay_ns: 1 }] {
        let mut agenda = Agenda::default();
        let page = agenda.add(TaskKind::Interactive, 0).unwrap();
        let worker = agenda.add(other, u64::MAX - 1).unwrap();
        agenda.advance(page, u64::MAX);
        agenda.advance(worker, u64::MAX);
        interactive_time_ns(&mut agenda, SECOND_NS, 1_000_000);
        let got_ns = interactive_time_ns(&mut agenda, 2 * SECOND_NS, 1_000_000);
        // A section in 10 ms is its due as that of any queue that is passed over.
        let share_ns = SECOND_NS * INTERACTIVE_PERMILLE as u64 / 1000;
        assert!((share_ns..=share_ns + SECOND_NS / 10).contains(&got_ns), "{other:?}: {got_ns}");
        agenda.remove(worker);
        let alone_ns = interactive_time_ns(&mut agenda, 3 * SECOND_NS, 1_000_000);
        assert_eq!(alone_ns, SECOND_NS, "alone, it gets all");
    }
}

#[test]
fn an_interactive_task_after_a_quiet_time_goes_first() {
    let mut agenda = Agenda::default();
    let download = agenda.add(TaskKind::Background, 0).unwrap();
    agenda.advance(download, 0);
    agenda.spent_interactive(10_000_000_000);
    assert_eq!(agenda.choose(1).task, Some(download));
    let page = agenda.add(TaskKind::Interactive, 0).unwrap();
    agenda.advance(page, 0);
    assert_eq!(agenda.choose(2).task, Some(download), "it has taken its share");
    agenda.advance(page, 0);
    agenda.advance(download, 0);
    // 150 thousandths of a second are more than what was owed.
    assert_eq!(agenda.choose(2 + QUEUE_WAIT_NS - 1).task, Some(download));
    agenda.advance(download, 0);
    let after_quiet = agenda.choose(1_000_000_000);
    assert_eq!(after_quiet.rank, Rank::INTERACTIVE);
}
