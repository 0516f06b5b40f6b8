/// Identifies a task of one [`Agenda`](crate::Agenda). An id is never reused for another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl TaskId {
    /// An index below the largest number of tasks that ever existed at once: the place for what
    /// belongs to the task. A later task reuses the index of one that has ended.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// What kind of work a task does (Govindan, chapter 4.1: deadline/workahead scheduling).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Work with deadlines. From its critical time on it is critical and due `delay_ns` later.
    /// Before that, it may be done ahead of its time when no better work is runnable.
    Deadline {
        /// Time from critical time to deadline, in nanoseconds.
        delay_ns: u64,
    },
    /// A client waits for the answer, but no time is reserved.
    Interactive,
    /// Work that runs when nothing else is runnable.
    Background,
}

/// The rank of a task among all tasks of this process and of those that share its processor. A
/// smaller rank runs first.
///
/// It is one number, so that processes can compare their best tasks through one shared word:
/// critical tasks by deadline, then interactive, then workahead, then background work, then idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(u64);

impl Rank {
    /// No work to do.
    pub const IDLE: Rank = Rank(u64::MAX);
    /// Interactive work.
    pub const INTERACTIVE: Rank = Rank(1 << 62);
    /// Work ahead of its time.
    pub const WORKAHEAD: Rank = Rank(1 << 63);
    /// Background work.
    pub const BACKGROUND: Rank = Rank(3 << 62);

    /// The rank that was stored as `bits`. Every value is valid.
    pub const fn from_bits(bits: u64) -> Rank {
        Rank(bits)
    }

    /// The rank as one word, which other processes can compare.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The rank of a critical task.
    pub fn critical(deadline_ns: u64) -> Rank {
        Rank(deadline_ns.min(Rank::INTERACTIVE.0 - 1))
    }

    /// The rank of a task ahead of its time, where processes compare such work by deadline.
    pub(crate) fn workahead(deadline_ns: u64) -> Rank {
        Rank(Rank::WORKAHEAD.0 + deadline_ns.min((1 << 62) - 1))
    }

    /// The deadline, if the rank is that of a critical task.
    pub fn deadline_ns(self) -> Option<u64> {
        (self < Rank::INTERACTIVE).then_some(self.0)
    }
}

/// A time at which the rank of an agenda improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From when on.
    pub at_ns: u64,
    /// The rank from then on.
    pub rank: Rank,
}

/// Which of several processes runs when all have only work ahead of its time (Govindan, experiment
/// E6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workahead {
    /// The one that runs already: the processor changes hands only when it must.
    #[default]
    Within,
    /// The one with the earliest deadline.
    Global,
}
