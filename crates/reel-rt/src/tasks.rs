use crate::agenda::{Agenda, Choice};
use crate::arbiter::ProcessorArbiter;
use crate::clock::now_ns;
use crate::limits::SECTION_NS_MAX;
use crate::task::{TaskId, TaskKind};
use crate::upcall::{Upcall, UpcallCounts, UpcallSpec};

/// What becomes of a task after one of its sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It has more to do, at the same times; tasks without deadlines go behind their equals. A yield point.
    Yield,
    /// A message is done, and there is a next one with this critical time.
    Advance {
        /// On the core's clock.
        critical_ns: u64,
    },
    /// It has nothing to do before this time.
    Sleep {
        /// On the core's clock.
        until_ns: u64,
    },
    /// It has nothing to do until [`Tasks::ready`] is called; what it will then have to do is critical from here on.
    Wait {
        /// On the core's clock; 0 for at once.
        critical_ns: u64,
    },
    /// It is over. Of an upcall: this call is over, and the next period's comes.
    Done,
}

/// What the sections of a core's tasks were like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionCounts {
    /// Sections that were run.
    pub sections: u64,
    /// The longest, by the clock on the wall: what others did on this processor meanwhile counts, too.
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
    /// A new task, asleep until `critical_ns`; `None` if there are as many as can be.
    pub fn add(&mut self, kind: TaskKind, critical_ns: u64) -> Option<TaskId> {
        let id = self.agenda.add(kind, critical_ns)?;
        self.forget_upcall(id);
        Some(id)
    }

    /// A function to be called periodically from `first_ns` on, in order of its deadlines with all other tasks.
    pub fn add_upcall(&mut self, spec: UpcallSpec, first_ns: u64) -> Option<TaskId> {
        let id = self.agenda.add(TaskKind::Deadline { delay_ns: spec.delay_ns }, first_ns)?;
        self.forget_upcall(id);
        self.upcalls[id.index()] = Some(Upcall::new(spec, first_ns));
        Some(id)
    }

    /// What a task waited for has come. False if it did not wait.
    pub fn ready(&mut self, id: TaskId) -> bool {
        self.agenda.ready(id)
    }

    /// A task does work of another kind from now on. Whether it has any to do, and from when on that is critical, stays as it is.
    pub fn set_kind(&mut self, id: TaskId, kind: TaskKind) {
        self.agenda.set_kind(id, kind);
    }

    /// Ends a task that does not run just now.
    pub fn remove(&mut self, id: TaskId) {
        self.agenda.remove(id);
    }

    /// What has become of an upcall's periods.
    pub fn upcall_counts(&self, id: TaskId) -> Option<UpcallCounts> {
        self.upcalls.get(id.index())?.as_ref().map(Upcall::counts)
    }

    /// When the period began that an upcall is called for.
    pub fn upcall_due_ns(&self, id: TaskId) -> Option<u64> {
        self.upcalls.get(id.index())?.as_ref().map(Upcall::due_ns)
    }

    /// What its sections were like.
    pub fn section_counts(&self) -> SectionCounts {
        self.sections
    }

    /// From now on these tasks share the processor with those of other members, in one order of deadlines. The core
    /// gives the processor up whenever it waits for its ring.
    pub fn share(&mut self, arbiter: impl ProcessorArbiter + 'static) {
        self.arbiter = Some(Box::new(arbiter));
    }

    /// Whether the running section should end at this yield point: a better task has come by time, or another member's
    /// has. (What lies in the core's mailbox and ring is seen between sections.)
    pub fn should_yield(&self) -> bool {
        let Some(choice) = &self.last else { return false };
        match &self.arbiter {
            Some(arbiter) => arbiter.should_yield(choice),
            None => now_ns() >= choice.until_ns,
        }
    }

    /// Who runs now; with a shared processor, waits until it is this core's turn.
    pub(crate) fn choose(&mut self, now_ns: u64) -> Option<TaskId> {
        let mut choice = self.agenda.choose(now_ns);
        if let (Some(arbiter), Some(_)) = (&mut self.arbiter, choice.task) {
            choice = arbiter.choose(&mut self.agenda);
        }
        self.last = Some(choice);
        choice.task
    }

    /// A section has ended, and the task said what it will do next.
    pub(crate) fn ran(&mut self, id: TaskId, from_ns: u64, to_ns: u64, next: Next) {
        let took_ns = to_ns.saturating_sub(from_ns);
        self.sections.sections += 1;
        self.sections.longest_ns = self.sections.longest_ns.max(took_ns);
        self.sections.too_long += u64::from(took_ns > SECTION_NS_MAX);
        let agenda = &mut self.agenda;
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

    /// Until when the core may sleep: now if a task is to be run, else until time makes one runnable.
    pub(crate) fn idle_until_ns(&mut self, now_ns: u64) -> u64 {
        let choice = self.agenda.choose(now_ns);
        if choice.task.is_some() { now_ns } else { choice.until_ns }
    }

    /// The core goes to sleep in its ring: others may have the processor.
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
