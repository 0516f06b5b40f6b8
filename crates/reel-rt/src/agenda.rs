use crate::heap::Heap;
use crate::limits::{INTERACTIVE_BURST_NS, INTERACTIVE_PERMILLE, TASKS_MAX};
use crate::queue::WaitQueue;
use crate::task::{Rank, Step, TaskId, TaskKind, Workahead};

/// Chooses which task runs next on one thread: deadline/workahead scheduling (Govindan, chapter 4),
/// as a pure state machine.
///
/// Order: critical tasks by deadline, then interactive tasks in order of arrival, then work ahead
/// of its time by deadline, then background tasks in order of arrival. Equal tasks run in order of
/// arrival.
///
/// No task starves. A task that has been first in one of the two queues without deadlines for
/// [`QUEUE_WAIT_NS`](crate::limits::QUEUE_WAIT_NS) gets one section from a task of a better rank.
/// (Work ahead of its time cannot starve, because its critical time comes.)
///
/// Interactive tasks pass a leaky bucket (Prism, section 4.3, for its disks). Beyond their share of
/// the processor they come after work ahead and background tasks, while there are such. So a flood
/// of requests, or of handshakes, takes no more than that from work of other kinds.
///
/// The agenda reads no clock and runs nothing. The caller asks [`choose`](Agenda::choose), runs
/// that task for one section, and reports the result by [`advance`](Agenda::advance),
/// [`sleep`](Agenda::sleep), [`wait`](Agenda::wait) or [`remove`](Agenda::remove). Each call is
/// O(log n) in the number of tasks.
#[derive(Debug)]
pub struct Agenda {
    tasks: Vec<Task>,
    vacant: Vec<u32>,
    /// Critical, by deadline.
    critical: Heap,
    interactive: WaitQueue,
    background: WaitQueue,
    /// Runnable before their critical time, by deadline.
    workahead: Heap,
    /// Every task whose rank time alone will change, by critical time: sleeping tasks and work
    /// ahead of its time.
    by_critical_time: Heap,
    workahead_policy: Workahead,
    arrivals: u64,
    /// The time of the last choice.
    chosen_ns: u64,
    /// Processor time that interactive tasks may still take before others. Negative after a long
    /// section.
    interactive_left_ns: i64,
    /// The shortest delay from critical time to deadline that any task ever had.
    delay_min_ns: u64,
}

/// Which task to run now, and how long the choice is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The task to run; none if no task is runnable.
    pub task: Option<TaskId>,
    /// The best rank: that of the task to run, or of the task that gives up this section.
    pub rank: Rank,
    /// The task works ahead of its time, and the order among such tasks does not matter. It may
    /// take several messages in one section.
    pub ahead: bool,
    /// The task is interactive.
    pub is_interactive: bool,
    /// Time alone does not change the choice before this (Govindan's T_critical, claim 4.1). It is
    /// the only time that is worth a timer. `u64::MAX` if time never changes it.
    pub until_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    kind: TaskKind,
    generation: u32,
    used: bool,
    waiting: bool,
    critical_ns: u64,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda::new(Workahead::default())
    }
}

impl Agenda {
    /// An empty agenda with this way of comparing work ahead of its time with other processes.
    pub fn new(workahead_policy: Workahead) -> Agenda {
        Agenda {
            tasks: Vec::new(),
            vacant: Vec::new(),
            critical: Heap::default(),
            interactive: WaitQueue::default(),
            background: WaitQueue::default(),
            workahead: Heap::default(),
            by_critical_time: Heap::default(),
            workahead_policy,
            arrivals: 0,
            chosen_ns: 0,
            interactive_left_ns: INTERACTIVE_BURST_NS,
            delay_min_ns: u64::MAX,
        }
    }

    /// Adds a task that sleeps until `critical_ns`. `None` if the agenda is full.
    pub fn add(&mut self, kind: TaskKind, critical_ns: u64) -> Option<TaskId> {
        let slot = match self.vacant.pop() {
            Some(slot) => slot,
            None if self.tasks.len() < TASKS_MAX => {
                self.tasks.push(Task { kind, generation: 0, used: false, waiting: false, critical_ns: 0 });
                (self.tasks.len() - 1) as u32
            }
            None => return None,
        };
        self.keep_delay(kind);
        let task = &mut self.tasks[slot as usize];
        (task.kind, task.used) = (kind, true);
        let id = TaskId { slot, generation: task.generation };
        self.sleep(id, critical_ns);
        Some(id)
    }

    /// Ends a task.
    pub fn remove(&mut self, id: TaskId) {
        if self.known(id) {
            self.take_out(id.slot);
            let task = &mut self.tasks[id.slot as usize];
            (task.used, task.waiting) = (false, false);
            task.generation = task.generation.wrapping_add(1);
            self.vacant.push(id.slot);
        }
    }

    /// The task has more to do, and its next message's critical time is `critical_ns`
    /// (`time_advance`). A task without deadlines goes to the end of its queue.
    pub fn advance(&mut self, id: TaskId, critical_ns: u64) {
        if !self.known(id) {
            return;
        }
        self.take_out(id.slot);
        let order = self.next_order();
        let task = &mut self.tasks[id.slot as usize];
        (task.waiting, task.critical_ns) = (false, critical_ns);
        match task.kind {
            // The next choice would wake it.
            TaskKind::Deadline { .. } if critical_ns <= self.chosen_ns => {
                self.critical.push(task.deadline_ns(), order, id.slot);
            }
            TaskKind::Deadline { .. } => {
                let deadline_ns = task.deadline_ns();
                self.workahead.push(deadline_ns, order, id.slot);
                self.by_critical_time.push(critical_ns, order, id.slot);
            }
            TaskKind::Interactive => self.interactive.push(order, id.slot),
            TaskKind::Background => self.background.push(order, id.slot),
        }
    }

    /// Changes the kind of the task's work. Whether the task is runnable and its critical time stay
    /// as they are.
    pub fn set_kind(&mut self, id: TaskId, kind: TaskKind) {
        if !self.known(id) || self.tasks[id.slot as usize].kind == kind {
            return;
        }
        let Task { waiting, critical_ns, .. } = self.tasks[id.slot as usize];
        let sleeps = !waiting && self.is_asleep(id.slot);
        self.take_out(id.slot);
        self.tasks[id.slot as usize].kind = kind;
        self.keep_delay(kind);
        match (waiting, sleeps) {
            (true, _) => {}
            (false, true) => self.sleep(id, critical_ns),
            (false, false) => self.advance(id, critical_ns),
        }
    }

    /// The task has nothing to do before `critical_ns` (`timed_sleep`).
    pub fn sleep(&mut self, id: TaskId, critical_ns: u64) {
        if self.known(id) {
            self.take_out(id.slot);
            let order = self.next_order();
            let task = &mut self.tasks[id.slot as usize];
            (task.waiting, task.critical_ns) = (false, critical_ns);
            self.by_critical_time.push(critical_ns, order, id.slot);
        }
    }

    /// The task waits for an event. The work that the event brings is critical from `critical_ns`
    /// on (`IO_wait`).
    pub fn wait(&mut self, id: TaskId, critical_ns: u64) {
        if self.known(id) {
            self.take_out(id.slot);
            let task = &mut self.tasks[id.slot as usize];
            (task.waiting, task.critical_ns) = (true, critical_ns);
        }
    }

    /// The event that the task waits for has arrived. Returns false and changes nothing if the task
    /// does not wait.
    pub fn ready(&mut self, id: TaskId) -> bool {
        let waited = self.known(id) && self.tasks[id.slot as usize].waiting;
        if waited {
            self.advance(id, self.tasks[id.slot as usize].critical_ns);
        }
        waited
    }

    /// The critical time and the deadline of what the task waits for or has to do next.
    pub fn times_ns(&self, id: TaskId) -> Option<(u64, u64)> {
        self.known(id).then(|| {
            let task = &self.tasks[id.slot as usize];
            (task.critical_ns, task.deadline_ns())
        })
    }

    /// Chooses the task to run now.
    pub fn choose(&mut self, now_ns: u64) -> Choice {
        self.wake_until(now_ns);
        self.fill_bucket(now_ns);
        self.chosen_ns = now_ns;
        let (slot, rank) = self.best();
        // A section is given away when another one ends, so no timer is needed for it.
        let overdue = self.first_overdue(rank, now_ns);
        let (slot, ahead) = (overdue.or(slot), overdue.is_none() && rank == Rank::WORKAHEAD);
        let until_ns = self.next_better(rank, slot).map_or(u64::MAX, |step| step.at_ns);
        let task = slot.map(|slot| TaskId { slot, generation: self.tasks[slot as usize].generation });
        let is_interactive = slot.is_some_and(|slot| self.tasks[slot as usize].kind == TaskKind::Interactive);
        Choice { task, rank, ahead, is_interactive, until_ns }
    }

    /// A section of an interactive task took so long.
    pub(crate) fn spent_interactive(&mut self, took_ns: u64) {
        let took_ns = i64::try_from(took_ns).unwrap_or(i64::MAX);
        let left_ns = self.interactive_left_ns.saturating_sub(took_ns);
        self.interactive_left_ns = left_ns.max(-INTERACTIVE_BURST_NS);
    }

    /// How the rank of this agenda will improve if it does nothing. Fills `steps` with the first
    /// steps, each better than the one before and than `rank`, and returns how many there are. If
    /// more steps exist than fit, the last one announces the best of them too early rather than too
    /// late.
    pub fn steps(&self, rank: Rank, steps: &mut [Step]) -> usize {
        let (mut rank, mut count) = (rank, 0);
        while let Some(step) = self.next_better(rank, None) {
            if count == steps.len() {
                if let Some(last) = steps.last_mut() {
                    last.rank = self.best_later(step.rank);
                }
                return count;
            }
            steps[count] = step;
            (rank, count) = (step.rank, count + 1);
        }
        count
    }

    /// The earliest time at which any task wakes: the time of a timer that serves every task.
    pub fn next_ns(&self) -> Option<u64> {
        self.by_critical_time.first().map(|(at_ns, _)| at_ns)
    }

    /// Step 1 of the user-level scheduler: wakes sleeping and workahead tasks whose time has come.
    fn wake_until(&mut self, now_ns: u64) {
        while let Some((at_ns, slot)) = self.by_critical_time.first().filter(|(at_ns, _)| *at_ns <= now_ns) {
            self.by_critical_time.remove(slot);
            let order = self.next_order();
            let task = self.tasks[slot as usize];
            debug_assert_eq!(task.critical_ns, at_ns);
            match task.kind {
                TaskKind::Deadline { .. } => {
                    self.workahead.remove(slot);
                    self.critical.push(task.deadline_ns(), order, slot);
                }
                TaskKind::Interactive => self.interactive.push(order, slot),
                TaskKind::Background => self.background.push(order, slot),
            }
        }
    }

    /// Adds the share of the time since the last choice. A clock that goes back adds nothing.
    fn fill_bucket(&mut self, now_ns: u64) {
        let passed_ns = u128::from(now_ns.saturating_sub(self.chosen_ns));
        let share_ns = i64::try_from(passed_ns * INTERACTIVE_PERMILLE / 1000).unwrap_or(i64::MAX);
        let left_ns = self.interactive_left_ns.saturating_add(share_ns);
        self.interactive_left_ns = left_ns.min(INTERACTIVE_BURST_NS);
    }

    /// Whether interactive tasks are within their share, or no others are runnable.
    fn interactive_goes_first(&self) -> bool {
        let has_others = self.workahead.first().is_some() || self.background.first().is_some();
        self.interactive_left_ns > 0 || !has_others
    }

    /// The first task of a queue that ranks behind `best` and has waited for too long.
    fn first_overdue(&mut self, best: Rank, now_ns: u64) -> Option<u32> {
        let (interactive, background) = (self.interactive.overdue(now_ns), self.background.overdue(now_ns));
        let interactive = interactive.filter(|_| best != Rank::INTERACTIVE);
        interactive.or(background.filter(|_| best < Rank::BACKGROUND))
    }

    fn best(&self) -> (Option<u32>, Rank) {
        if let Some((deadline_ns, slot)) = self.critical.first() {
            return (Some(slot), Rank::critical(deadline_ns));
        }
        if let Some(slot) = self.interactive.first().filter(|_| self.interactive_goes_first()) {
            return (Some(slot), Rank::INTERACTIVE);
        }
        if let Some((deadline_ns, slot)) = self.workahead.first() {
            let rank = match self.workahead_policy {
                Workahead::Within => Rank::WORKAHEAD,
                Workahead::Global => Rank::workahead(deadline_ns),
            };
            return (Some(slot), rank);
        }
        match self.background.first() {
            Some(slot) => (Some(slot), Rank::BACKGROUND),
            None => (None, Rank::IDLE),
        }
    }

    /// The first task whose time will come and whose rank will then be better than `rank`. The
    /// running task is left out: when its own time comes, it keeps running.
    fn next_better(&self, rank: Rank, running: Option<u32>) -> Option<Step> {
        let fits = |slot: u32| Some(slot) != running && self.tasks[slot as usize].rank() < rank;
        // A task that becomes critical later than this also has a later deadline.
        let limit_ns = match rank.deadline_ns() {
            Some(deadline_ns) => deadline_ns.saturating_sub(self.delay_min_ns),
            None => rank.bits(),
        };
        let (at_ns, slot) = self.by_critical_time.least_where(limit_ns, fits)?;
        Some(Step { at_ns, rank: self.tasks[slot as usize].rank() })
    }

    fn best_later(&self, mut rank: Rank) -> Rank {
        while let Some(step) = self.next_better(rank, None) {
            rank = step.rank;
        }
        rank
    }

    fn take_out(&mut self, slot: u32) {
        if self.by_critical_time.remove(slot) {
            self.workahead.remove(slot);
            return;
        }
        // A task is in at most one of these.
        let _ = self.critical.remove(slot) || self.interactive.remove(slot) || self.background.remove(slot);
    }

    fn is_asleep(&self, slot: u32) -> bool {
        self.by_critical_time.contains(slot) && !self.workahead.contains(slot)
    }

    fn known(&self, id: TaskId) -> bool {
        self.tasks.get(id.slot as usize).is_some_and(|task| task.used && task.generation == id.generation)
    }

    fn keep_delay(&mut self, kind: TaskKind) {
        if let TaskKind::Deadline { delay_ns } = kind {
            self.delay_min_ns = self.delay_min_ns.min(delay_ns);
        }
    }

    fn next_order(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }
}

impl Task {
    fn deadline_ns(&self) -> u64 {
        match self.kind {
            TaskKind::Deadline { delay_ns } => self.critical_ns.saturating_add(delay_ns),
            TaskKind::Interactive | TaskKind::Background => u64::MAX,
        }
    }

    /// The rank from its critical time on.
    fn rank(&self) -> Rank {
        match self.kind {
            TaskKind::Deadline { .. } => Rank::critical(self.deadline_ns()),
            TaskKind::Interactive => Rank::INTERACTIVE,
            TaskKind::Background => Rank::BACKGROUND,
        }
    }
}

#[cfg(test)]
#[path = "agenda_laws.rs"]
mod laws;
