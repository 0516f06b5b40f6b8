/// Names a task of one [`Agenda`](crate::Agenda). A name is never used again for another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl TaskId {
    /// A number between 0 and the most tasks there ever were at once: the place for what belongs to the task.
    /// A task that has ended leaves its number to a later one.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// What kind of work a task does (Govindan, chapter 4.1: deadline/workahead scheduling).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Work with deadlines. From its critical time on it is critical and due `delay_ns` later; before, it may be done
    /// ahead when nothing else presses.
    Deadline {
        /// From critical time to deadline, in nanoseconds.
        delay_ns: u64,
    },
    /// Somebody waits for the answer, but no time was promised.
    Interactive,
    /// What is done when nothing else is to be done.
    Background,
}

/// Where a task stands among all others, of this process and of those that share its processor: less is sooner.
///
/// One number, so that processes can compare their best tasks through one shared word: critical tasks by deadline,
/// then interactive, then workahead, then background work, then nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Standing(u64);

impl Standing {
    /// Has nothing to do.
    pub const IDLE: Standing = Standing(u64::MAX);
    /// Interactive work.
    pub const INTERACTIVE: Standing = Standing(1 << 62);
    /// Work ahead of its time.
    pub const WORKAHEAD: Standing = Standing(1 << 63);
    /// Background work.
    pub const BACKGROUND: Standing = Standing(3 << 62);

    /// The standing that was stored as `bits`. Every value is valid.
    pub const fn from_bits(bits: u64) -> Standing {
        Standing(bits)
    }

    /// The standing as one word, which other processes can compare.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// That of a critical task.
    pub fn critical(deadline_ns: u64) -> Standing {
        Standing(deadline_ns.min(Standing::INTERACTIVE.0 - 1))
    }

    /// That of a task ahead of its time, where such work is compared by deadline across processes.
    pub(crate) fn workahead(deadline_ns: u64) -> Standing {
        Standing(Standing::WORKAHEAD.0 + deadline_ns.min((1 << 62) - 1))
    }

    /// The deadline, if it is that of a critical task.
    pub fn deadline_ns(self) -> Option<u64> {
        (self < Standing::INTERACTIVE).then_some(self.0)
    }
}

/// The time at which somebody of this agenda will stand better than all before him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From when on.
    pub at_ns: u64,
    /// How he will stand then.
    pub standing: Standing,
}

/// Which of several processes goes on when all have only work ahead of its time (Govindan, experiment E6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workahead {
    /// The one that runs: the processor changes hands only when it must.
    #[default]
    Within,
    /// The one with the earliest deadline anywhere.
    Global,
}
