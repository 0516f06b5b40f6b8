use crate::agenda::{Agenda, Choice};
use crate::arbiter::ProcessorArbiter;
use crate::clock::now_ns;
use crate::limits::SECTION_NS_MAX;
use crate::task::{TaskId, TaskKind};
use crate::upcall::{Upcall, UpcallCounts, UpcallSpec};

/// What a task does after one of its sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It has more to do, at the same times. A task without deadlines goes to the end of its queue.
    /// This is a yield point.
    Yield,
    /// A message is done, and the next one has this critical time.
    Advance {
        /// On the core's clock.
        critical_ns: u64,
    },
    /// It has nothing to do before this time.
    Sleep {
        /// On the core's clock.
        until_ns: u64,
    },
    /// It has nothing to do until [`Tasks::ready`] is called. The work that follows is critical
    /// from this time on.
    Wait {
        /// On the core's clock; 0 for at once.
        critical_ns: u64,
    },
    /// It has ended. For an upcall: this call has ended, and the next period follows.
    Done,
}

/// Measures of the sections of a core's tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionCounts {
    /// Sections that were run.
    pub sections: u64,
    /// The longest in wall-clock time, which includes the time that other threads used this
    /// processor.
    pub longest_ns: u64,
    /// Sections longer than [`SECTION_NS_MAX`].
    pub too_long: u64,
}

/// The tasks of one core.
#[derive(Debug, Default)]
pub struct Tasks {
    agenda: Agenda,
    /// By the task's index.
    upcalls: Vec<Option<Upcall>>,
    arbiter: Option<Box<dyn ProcessorArbiter>>,
    sections: SectionCounts,
    last: Option<Choice>,
}

impl Tasks {
    /// Adds a task that sleeps until `critical_ns`. `None` if the agenda is full.
    pub fn add(&mut self, kind: TaskKind, critical_ns: u64) -> Option<TaskId> {
        let id = self.agenda.add(kind, critical_ns)?;
        self.forget_upcall(id);
        Some(id)
    }

    /// Adds a function that is called periodically from `first_ns` on, in order of its deadlines
    /// with all other tasks.
    pub fn add_upcall(&mut self, spec: UpcallSpec, first_ns: u64) -> Option<TaskId> {
        let id = self.agenda.add(TaskKind::Deadline { delay_ns: spec.delay_ns }, first_ns)?;
        self.forget_upcall(id);
        self.upcalls[id.index()] = Some(Upcall::new(spec, first_ns));
        Some(id)
    }

    /// The event that a task waits for has arrived. False if the task does not wait.
    pub fn ready(&mut self, id: TaskId) -> bool {
        self.agenda.ready(id)
    }

    /// Changes the kind of a task's work. Whether the task is runnable and its critical time stay
    /// as they are.
    pub fn set_kind(&mut self, id: TaskId, kind: TaskKind) {
        self.agenda.set_kind(id, kind);
    }

    /// Ends a task that is not running.
    pub fn remove(&mut self, id: TaskId) {
        self.agenda.remove(id);
    }

    /// What happened in the periods of an upcall.
    pub fn upcall_counts(&self, id: TaskId) -> Option<UpcallCounts> {
        self.upcalls.get(id.index())?.as_ref().map(Upcall::counts)
    }

    /// The beginning of the period for which an upcall is called.
    pub fn upcall_due_ns(&self, id: TaskId) -> Option<u64> {
        self.upcalls.get(id.index())?.as_ref().map(Upcall::due_ns)
    }

    /// Measures of the sections so far.
    pub fn section_counts(&self) -> SectionCounts {
        self.sections
    }

    /// From now on `arbiter` decides when these tasks have the processor. The core gives the
    /// processor up whenever it waits for its ring.
    pub fn share(&mut self, arbiter: impl ProcessorArbiter + 'static) {
        self.arbiter = Some(Box::new(arbiter));
    }

    /// Whether the running section should end at this yield point, because a better task is
    /// runnable here or in another thread of a shared processor. (The core's mailbox and ring are
    /// polled between sections.)
    pub fn should_yield(&self) -> bool {
        let Some(choice) = &self.last else { return false };
        match &self.arbiter {
            Some(arbiter) => arbiter.should_yield(choice),
            None => now_ns() >= choice.until_ns,
        }
    }

    /// Chooses the task to run now. With a shared processor, waits until it is this core's turn.
    pub(crate) fn choose(&mut self, now_ns: u64) -> Option<TaskId> {
        let mut choice = self.agenda.choose(now_ns);
        if let (Some(arbiter), Some(_)) = (&mut self.arbiter, choice.task) {
            choice = arbiter.choose(&mut self.agenda);
        }
        self.last = Some(choice);
        choice.task
    }

    /// Records the end of a section and what the task does next.
    pub(crate) fn ran(&mut self, id: TaskId, from_ns: u64, to_ns: u64, next: Next) {
        let took_ns = to_ns.saturating_sub(from_ns);
        self.sections.sections += 1;
        self.sections.longest_ns = self.sections.longest_ns.max(took_ns);
        self.sections.too_long += u64::from(took_ns > SECTION_NS_MAX);
        let agenda = &mut self.agenda;
        if self.last.is_some_and(|choice| choice.is_interactive) {
            agenda.spent_interactive(took_ns);
        }
        if let Some(upcall) = self.upcalls.get_mut(id.index()).and_then(Option::as_mut) {
            return match next {
                Next::Yield => {
                    upcall.yielded(from_ns, to_ns);
                    agenda.advance(id, upcall.due_ns());
                }
                _ => agenda.sleep(id, upcall.ended(from_ns, to_ns)),
            };
        }
        match next {
            Next::Yield => {
                let critical_ns = agenda.times_ns(id).map_or(0, |(critical_ns, _)| critical_ns);
                agenda.advance(id, critical_ns);
            }
            Next::Advance { critical_ns } => agenda.advance(id, critical_ns),
            Next::Sleep { until_ns } => agenda.sleep(id, until_ns),
            Next::Wait { critical_ns } => agenda.wait(id, critical_ns),
            Next::Done => agenda.remove(id),
        }
    }

    /// Until when the core may sleep: now if a task is runnable, else until time makes one
    /// runnable.
    pub(crate) fn idle_until_ns(&mut self, now_ns: u64) -> u64 {
        let choice = self.agenda.choose(now_ns);
        if choice.task.is_some() { now_ns } else { choice.until_ns }
    }

    /// The core goes to sleep in its ring, so other threads may have the processor.
    pub(crate) fn leave(&mut self) {
        if let Some(arbiter) = &mut self.arbiter {
            arbiter.leave();
        }
    }

    fn forget_upcall(&mut self, id: TaskId) {
        if self.upcalls.len() <= id.index() {
            self.upcalls.resize(id.index() + 1, None);
        }
        self.upcalls[id.index()] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const HOUR_NS: u64 = 3_600_000_000_000;

    /// The order of the first `count` sections of these tasks: name, kind, critical time, and the
    /// results of its sections, the last one first. A section takes no time.
    fn order(
        tasks: Vec<(&'static str, TaskKind, u64, Vec<Next>)>,
        now_ns: u64,
        count: usize,
    ) -> Vec<&'static str> {
        let mut all = Tasks::default();
        let add = |(name, kind, critical_ns, script)| {
            (all.add(kind, critical_ns).expect("room for a task"), (name, script))
        };
        let mut scripts: HashMap<TaskId, (&'static str, Vec<Next>)> = tasks.into_iter().map(add).collect();
        let section = |_| {
            let task = all.choose(now_ns).expect("a task that is runnable");
            let (name, script) = scripts.get_mut(&task).expect("it was added");
            all.ran(task, now_ns, now_ns, script.pop().unwrap_or(Next::Done));
            *name
        };
        (0..count).map(section).collect()
    }

    #[test]
    fn critical_before_interactive_before_workahead_before_background() {
        let now_ns = 5 * HOUR_NS;
        let deadline = |delay_ns| TaskKind::Deadline { delay_ns };
        let ahead = |critical_ns| vec![Next::Done, Next::Advance { critical_ns }];
        let tasks = vec![
            ("background", TaskKind::Background, 0, vec![Next::Done, Next::Yield]),
            ("early", deadline(2 * HOUR_NS), now_ns, ahead(now_ns + 5 * HOUR_NS)),
            ("late", deadline(HOUR_NS), now_ns, ahead(now_ns + 7 * HOUR_NS)),
            ("interactive", TaskKind::Interactive, 0, vec![]),
            ("second interactive", TaskKind::Interactive, 0, vec![]),
        ];
        let expected = [
            // Critical: late is due in one hour, early in two.
            "late",
            "early",
            "interactive",
            "second interactive",
            // Ahead of their time: early is due in 7 hours, late in 8.
            "early",
            "late",
            "background",
            "background",
        ];
        assert_eq!(order(tasks, now_ns, expected.len()), expected);
    }
}
