//! Pinned threads, their mailboxes, timers and clock.
//!
//! A **core** is one thread that owns one [`Ring`](reel_ring::Ring) and runs one [`Service`]: a
//! state machine to which the core passes messages, completions and timers, one at a time. Nothing
//! in a service may block. Threads communicate by [`Mailbox`]es only.
//!
//! A service may have **tasks** (`core.tasks`), which run in sections in the order of their
//! deadlines. An [`Agenda`] chooses the next one. **Upcalls** are tasks that are called
//! periodically. A core that shares its processor with other threads asks a [`ProcessorArbiter`]
//! before each section.

mod agenda;
mod arbiter;
mod background;
mod clock;
mod core;
mod error;
mod files;
mod heap;
pub mod limits;
mod locks;
mod mailbox;
mod queue;
mod real_time;
mod restarts;
mod spawn;
mod task;
mod tasks;
mod thread;
mod timers;
mod upcall;
mod workers;

pub use crate::core::{Core, Service};
pub use agenda::{Agenda, Choice};
pub use arbiter::ProcessorArbiter;
pub use background::{niceness, spawn_background};
pub use clock::{now_ns, thread_cpu_ns};
pub use error::RtError;
pub use files::{fresh_file, open_input, open_regular};
pub use locks::lock;
pub use mailbox::{Inbox, Mailbox, mailbox};
pub use real_time::{Scheduling, real_time};
pub use spawn::{CoreConfig, CoreHandle, spawn, spawn_restarting};
pub use task::{Rank, Step, TaskId, TaskKind, Workahead};
pub use tasks::{Next, SectionCounts, Tasks};
pub use upcall::{Upcall, UpcallCounts, UpcallSpec};
pub use workers::Workers;
