use crate::heap::Heap;
use crate::limits::TASKS_MAX;
use crate::line::Line;
use crate::task::{Standing, Step, TaskId, TaskKind, Workahead};

/// Who runs next on one thread: deadline/workahead scheduling (Govindan, chapter 4), as a pure state machine.
///
/// Order: critical tasks by deadline, then interactive ones as they came, then work ahead of its time by deadline,
/// then background work as it came. Among equals who came first.
///
/// Nobody starves: who has been first in one of the two lines without deadlines for [`LINE_WAIT_NS`](crate::limits::LINE_WAIT_NS) is lent
/// one section by whoever stands better. (Work ahead of its time cannot starve: its time comes.)
///
/// The agenda knows no clock and runs nothing. Its caller asks [`choose`](Agenda::choose), runs that task for one
/// section, and says by [`advance`](Agenda::advance), [`sleep`](Agenda::sleep), [`wait`](Agenda::wait) or
/// [`remove`](Agenda::remove) what became of it. All are O(log n) in the number of tasks.
#[derive(Debug)]
pub struct Agenda {
    tasks: Vec<Task>,
    vacant: Vec<u32>,
    /// Critical, by deadline.
    critical: Heap,
    interactive: Line,
    background: Line,
    /// Runnable before their critical time, by deadline.
    workahead: Heap,
    /// All that time alone will change: sleepers and work ahead of its time, by critical time.
    coming: Heap,
    workahead_policy: Workahead,
    came: u64,
    /// The time at which somebody was chosen last.
    chosen_ns: u64,
    /// No task ever had a shorter way from critical time to deadline.
    delay_min_ns: u64,
}

/// What is to be done now, and how long that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The task to run; none if nothing is to be done.
    pub task: Option<TaskId>,
    /// Where the best stands: the task to run, or the one that lends it this section.
    pub standing: Standing,
    /// The task works ahead of its time, and nobody asks which of such tasks goes first: it may take several messages in
    /// one section.
    pub ahead: bool,
    /// Nothing that time alone does changes the choice before this (Govindan's T_critical, claim 4.1): the only time
    /// for which a timer is worth its cost. `u64::MAX` if nothing will.
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
    /// An empty agenda that compares work ahead of its time with other processes like this.
    pub fn new(workahead_policy: Workahead) -> Agenda {
        Agenda {
            tasks: Vec::new(),
            vacant: Vec::new(),
            critical: Heap::default(),
            interactive: Line::default(),
            background: Line::default(),
            workahead: Heap::default(),
            coming: Heap::default(),
            workahead_policy,
            came: 0,
            chosen_ns: 0,
            delay_min_ns: u64::MAX,
        }
    }

    /// A new task, asleep until `critical_ns`. `None` if there are as many as can be.
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

    /// The task has more to do, and its next message's critical time is `critical_ns` (`time_advance`). Tasks without
    /// deadlines go behind their equals.
    pub fn advance(&mut self, id: TaskId, critical_ns: u64) {
        if !self.known(id) {
            return;
        }
        self.take_out(id.slot);
        let order = self.next_order();
        let task = &mut self.tasks[id.slot as usize];
        (task.waiting, task.critical_ns) = (false, critical_ns);
        match task.kind {
            // It would be woken by the next choice.
            TaskKind::Deadline { .. } if critical_ns <= self.chosen_ns => {
                self.critical.push(task.deadline_ns(), order, id.slot);
            }
            TaskKind::Deadline { .. } => {
                let deadline_ns = task.deadline_ns();
                self.workahead.push(deadline_ns, order, id.slot);
                self.coming.push(critical_ns, order, id.slot);
            }
            TaskKind::Interactive => self.interactive.push(order, id.slot),
            TaskKind::Background => self.background.push(order, id.slot),
        }
    }

    /// The task does work of another kind from now on. Whether it has any to do, and from when on that is critical, stays as it is.
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
            self.coming.push(critical_ns, order, id.slot);
        }
    }

    /// The task waits for an event; what it will then have to do is critical from `critical_ns` on (`IO_wait`).
    pub fn wait(&mut self, id: TaskId, critical_ns: u64) {
        if self.known(id) {
            self.take_out(id.slot);
            let task = &mut self.tasks[id.slot as usize];
            (task.waiting, task.critical_ns) = (true, critical_ns);
        }
    }

    /// The event a task waited for has come. Of a task that does not wait, nothing is changed, and false comes back.
    pub fn ready(&mut self, id: TaskId) -> bool {
        let waited = self.known(id) && self.tasks[id.slot as usize].waiting;
        if waited {
            self.advance(id, self.tasks[id.slot as usize].critical_ns);
        }
        waited
    }

    /// When what the task waits for, or has to do next, is critical and due: (critical time, deadline).
    pub fn times_ns(&self, id: TaskId) -> Option<(u64, u64)> {
        self.known(id).then(|| {
            let task = &self.tasks[id.slot as usize];
            (task.critical_ns, task.deadline_ns())
        })
    }

    /// Who runs now.
    pub fn choose(&mut self, now_ns: u64) -> Choice {
        self.wake_until(now_ns);
        self.chosen_ns = now_ns;
        let (slot, standing) = self.best();
        // A lent section is given when another one ends: no time is to be waited for.
        let overdue = self.first_overdue(standing, now_ns);
        let (slot, ahead) = (overdue.or(slot), overdue.is_none() && standing == Standing::WORKAHEAD);
        let until_ns = self.coming_before(standing, slot).map_or(u64::MAX, |step| step.at_ns);
        let task = slot.map(|slot| TaskId { slot, generation: self.tasks[slot as usize].generation });
        Choice { task, standing, ahead, until_ns }
    }

    /// How this agenda will come to stand if it does nothing: the first of `steps.len()` steps, each better than the
    /// one before and than `standing`, and how many there are. If there were more, the last one promises the best of
    /// them too early rather than too late.
    pub fn steps(&self, standing: Standing, steps: &mut [Step]) -> usize {
        let (mut standing, mut count) = (standing, 0);
        while let Some(step) = self.coming_before(standing, None) {
            if count == steps.len() {
                if let Some(last) = steps.last_mut() {
                    last.standing = self.best_coming(step.standing);
                }
                return count;
            }
            steps[count] = step;
            (standing, count) = (step.standing, count + 1);
        }
        count
    }

    /// The earliest time at which anything at all wakes: what a timer for every task would be set to.
    pub fn next_ns(&self) -> Option<u64> {
        self.coming.first().map(|(at_ns, _)| at_ns)
    }

    /// Step 1 of the user-level scheduler: sleepers and workahead tasks whose time has come.
    fn wake_until(&mut self, now_ns: u64) {
        while let Some((at_ns, slot)) = self.coming.first().filter(|(at_ns, _)| *at_ns <= now_ns) {
            self.coming.remove(slot);
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

    /// Who stands behind `best` and has been the first of his line for too long.
    fn first_overdue(&mut self, best: Standing, now_ns: u64) -> Option<u32> {
        let (interactive, background) = (self.interactive.overdue(now_ns), self.background.overdue(now_ns));
        let interactive = interactive.filter(|_| best < Standing::INTERACTIVE);
        interactive.or(background.filter(|_| best < Standing::BACKGROUND))
    }

    fn best(&self) -> (Option<u32>, Standing) {
        if let Some((deadline_ns, slot)) = self.critical.first() {
            return (Some(slot), Standing::critical(deadline_ns));
        }
        if let Some(slot) = self.interactive.first() {
            return (Some(slot), Standing::INTERACTIVE);
        }
        if let Some((deadline_ns, slot)) = self.workahead.first() {
            let standing = match self.workahead_policy {
                Workahead::Within => Standing::WORKAHEAD,
                Workahead::Global => Standing::workahead(deadline_ns),
            };
            return (Some(slot), standing);
        }
        match self.background.first() {
            Some(slot) => (Some(slot), Standing::BACKGROUND),
            None => (None, Standing::IDLE),
        }
    }

    /// The first whose time will come and who will then stand better than `standing`, leaving out who runs: when his
    /// own time comes he goes on running.
    fn coming_before(&self, standing: Standing, running: Option<u32>) -> Option<Step> {
        let fits = |slot: u32| Some(slot) != running && self.tasks[slot as usize].standing() < standing;
        // Who is critical later than this has a later deadline, too.
        let limit_ns = match standing.deadline_ns() {
            Some(deadline_ns) => deadline_ns.saturating_sub(self.delay_min_ns),
            None => standing.bits(),
        };
        let (at_ns, slot) = self.coming.least_where(limit_ns, fits)?;
        Some(Step { at_ns, standing: self.tasks[slot as usize].standing() })
    }

    fn best_coming(&self, mut standing: Standing) -> Standing {
        while let Some(step) = self.coming_before(standing, None) {
            standing = step.standing;
        }
        standing
    }

    fn take_out(&mut self, slot: u32) {
        if self.coming.remove(slot) {
            self.workahead.remove(slot);
            return;
        }
        // It stands in one of these at most.
        let _ = self.critical.remove(slot) || self.interactive.remove(slot) || self.background.remove(slot);
    }

    fn is_asleep(&self, slot: u32) -> bool {
        self.coming.contains(slot) && !self.workahead.contains(slot)
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
        self.came += 1;
        self.came
    }
}

impl Task {
    fn deadline_ns(&self) -> u64 {
        match self.kind {
            TaskKind::Deadline { delay_ns } => self.critical_ns.saturating_add(delay_ns),
            TaskKind::Interactive | TaskKind::Background => u64::MAX,
        }
    }

    /// How it will stand from its critical time on.
    fn standing(&self) -> Standing {
        match self.kind {
            TaskKind::Deadline { .. } => Standing::critical(self.deadline_ns()),
            TaskKind::Interactive => Standing::INTERACTIVE,
            TaskKind::Background => Standing::BACKGROUND,
        }
    }
}

#[cfg(test)]
#[path = "agenda_laws.rs"]
mod laws;
