//! Laboratory: split-level scheduling across processes that share one processor (Govindan,
//! chapters 4 and 6).
//!
//! No server uses this crate. It shows a claim of the thesis and measures it; `README.md` says
//! how.
//!
//! A [`SharedProcessor`] is a region of memory that several processes map. Each thread that joins
//! is a [`Member`] with an [`Agenda`](reel_rt::Agenda) of its own. Members run their tasks in one
//! order of deadlines, as if all tasks belonged to one program. Other threads wake a member
//! through a [`Doorbell`].

mod atomic;
mod dispatcher;
mod error;
mod kernel;
mod layout;
pub mod limits;
mod linux;
mod map;
mod member;
mod shared_processor;
mod token;
mod watchdog;

pub use error::SharedProcessorError;
pub use member::Member;
pub use shared_processor::{Doorbell, SharedProcessor, SharedProcessorCounts};
