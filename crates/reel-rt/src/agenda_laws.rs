//! The agenda beside a list that is looked through anew at every instant.

use super::*;
use crate::limits::LINE_WAIT_NS;
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
    /// Time goes on by so much.
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
    /// Where it stands at this instant, by the words of the definition.
    fn standing(&self, now_ns: u64) -> Standing {
        let due = self.critical_ns <= now_ns;
        match (self.kind, self.state) {
            (_, State::Waiting) => Standing::IDLE,
            (TaskKind::Deadline { delay_ns }, _) if due => Standing::critical(self.critical_ns + delay_ns),
            (TaskKind::Deadline { .. }, State::Runnable) => Standing::WORKAHEAD,
            (_, State::Asleep) if !due => Standing::IDLE,
            (TaskKind::Interactive, _) => Standing::INTERACTIVE,
            (TaskKind::Background, _) => Standing::BACKGROUND,
            (TaskKind::Deadline { .. }, State::Asleep) => Standing::IDLE,
        }
    }
}

fn best(list: &[Plain], now_ns: u64) -> Standing {
    list.iter().map(|task| task.standing(now_ns)).min().unwrap_or(Standing::IDLE)
}

#[test]
fn only_what_works_ahead_by_itself_is_ahead() {
    let far_ns = 2 * LINE_WAIT_NS;
    for (policy, ahead) in [(Workahead::Within, true), (Workahead::Global, false)] {
        let mut agenda = Agenda::new(policy);
        let task = agenda.add(TaskKind::Deadline { delay_ns: 5 }, far_ns).unwrap();
        agenda.advance(task, far_ns);
        agenda.add(TaskKind::Background, 0).unwrap();
        assert_eq!((agenda.choose(1).task, agenda.choose(1).ahead), (Some(task), ahead));
        // What is lent is one section, whoever lends it.
        let lent = agenda.choose(1 + LINE_WAIT_NS);
        assert!(lent.task != Some(task) && !lent.ahead);
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
                    // A name that is no longer anybody's moves nobody.
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

    /// Invariant I3: whoever is chosen stands as well as anybody does at that instant.
    #[test]
    fn the_choice_is_the_best(moves in moves()) {
        let mut pair = Pair::default();
        for one in moves {
            pair.apply(one);
            let choice = pair.agenda.choose(pair.now_ns);
            prop_assert_eq!(choice.standing, best(&pair.list, pair.now_ns));
            let chosen = pair.list.iter().find(|task| Some(task.id) == choice.task);
            prop_assert_eq!(chosen.map_or(Standing::IDLE, |task| task.standing(pair.now_ns)), choice.standing);
        }
    }

    /// Claim 4.1 (invariant I4): before `until_ns` time alone puts nobody before the one who runs; and at `until_ns`
    /// somebody's time comes who stands better than the chosen one stood: no timer without a reason.
    #[test]
    fn no_timer_is_needed_before_t_critical(moves in moves()) {
        let mut pair = Pair::default();
        for one in moves {
            pair.apply(one);
            let choice = pair.agenda.choose(pair.now_ns);
            for now_ns in pair.now_ns..choice.until_ns.min(pair.now_ns + 60) {
                let running = pair.list.iter().find(|task| Some(task.id) == choice.task);
                let standing = running.map_or(Standing::IDLE, |task| task.standing(now_ns));
                let others = pair.list.iter().filter(|task| Some(task.id) != choice.task);
                for other in others {
                    let (before, after) = (other.standing(pair.now_ns), other.standing(now_ns));
                    prop_assert!(after >= standing || after == before, "{:?} overtakes at {}", other, now_ns);
                }
            }
            if choice.until_ns != u64::MAX {
                let reason = pair.list.iter().any(|task| {
                    task.critical_ns == choice.until_ns && task.standing(choice.until_ns) < choice.standing
                });
                prop_assert!(reason && choice.until_ns > pair.now_ns, "an idle timer at {}", choice.until_ns);
            }
        }
    }

    /// What others are told holds at every later instant (invariant I5); with too few places for the steps, somebody
    /// is announced too early, never too late.
    #[test]
    fn steps_tell_how_an_agenda_will_stand(moves in moves(), places in 1_usize..6) {
        let mut pair = Pair::default();
        for one in moves {
            pair.apply(one);
            let choice = pair.agenda.choose(pair.now_ns);
            let mut steps = vec![Step { at_ns: 0, standing: Standing::IDLE }; places];
            let count = pair.agenda.steps(choice.standing, &mut steps);
            for now_ns in pair.now_ns..pair.now_ns + 60 {
                let due = steps[..count].iter().filter(|step| step.at_ns <= now_ns);
                let told = due.map(|step| step.standing).min().unwrap_or(choice.standing).min(choice.standing);
                let truth = best(&pair.list, now_ns);
                let all = count < places || steps[count - 1].at_ns > now_ns;
                if all {
                    prop_assert_eq!(told, truth, "at {}", now_ns);
                } else {
                    prop_assert!(told <= truth, "told {:?}, is {:?}", told, truth);
                }
            }
        }
    }
}

/// Of the timers that one for every sleeper would need, most are never armed (figure 4.3 at length).
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

/// Figure 4.3: P3 critical, P1 and P2 ahead of their time; only P2, due before P3, is worth a timer.
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
    assert_eq!(agenda.choose(31).task, Some(p1), "picked up without a timer of its own");
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
fn there_is_an_end_to_tasks_and_names_are_not_used_again() {
    let mut agenda = Agenda::default();
    let all: Vec<TaskId> = (0..TASKS_MAX).map(|_| agenda.add(TaskKind::Background, 0).unwrap()).collect();
    assert_eq!(agenda.add(TaskKind::Background, 0), None);
    agenda.remove(all[7]);
    let again = agenda.add(TaskKind::Background, 0).unwrap();
    assert_eq!(again.index(), all[7].index());
    assert_ne!(again, all[7]);
}

/// However many better sections there are to run, the first of each line has one in `LINE_WAIT_NS`, and those of a line take turns.
#[test]
fn nobody_in_line_starves_behind_better_work() {
    const SECTION_NS: u64 = 300_000;
    let mut agenda = Agenda::default();
    // They are always critical, so that nothing else would ever be run.
    let viewers: Vec<TaskId> =
        (0..3).map(|_| agenda.add(TaskKind::Deadline { delay_ns: 1_000_000_000 }, 0).unwrap()).collect();
    let page = agenda.add(TaskKind::Interactive, 0).unwrap();
    let downloads: Vec<TaskId> = (0..5).map(|_| agenda.add(TaskKind::Background, 0).unwrap()).collect();
    let (mut now_ns, mut ran) = (SECTION_NS, Vec::new());
    for _ in 0..1_000 {
        let choice = agenda.choose(now_ns);
        assert!(choice.standing < Standing::INTERACTIVE, "the best still stands as it stood: {choice:?}");
        let id = choice.task.unwrap();
        ran.push((now_ns, id));
        agenda.advance(id, 0);
        now_ns += SECTION_NS;
    }
    let waits = |of: &dyn Fn(TaskId) -> bool| -> Vec<u64> {
        let times: Vec<u64> = ran.iter().filter(|(_, id)| of(*id)).map(|(at_ns, _)| *at_ns).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    let bound_ns = LINE_WAIT_NS + 2 * SECTION_NS;
    for wait_ns in waits(&|id| id == page).into_iter().chain(waits(&|id| downloads.contains(&id))) {
        assert!((LINE_WAIT_NS..=bound_ns + SECTION_NS).contains(&wait_ns), "{wait_ns}");
    }
    for wait_ns in waits(&|id| id == downloads[2]) {
        assert!(wait_ns <= downloads.len() as u64 * (bound_ns + SECTION_NS), "{wait_ns}");
    }
    let lent = ran.iter().filter(|(_, id)| !viewers.contains(id)).count();
    assert!(lent * 12 < ran.len(), "{lent} sections of {} were lent", ran.len());
}
