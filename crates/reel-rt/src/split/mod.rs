//! Split-level scheduling across processes that share one processor (Govindan, chapters 4 and 6).

mod baton;
mod board;
mod kernel;
mod layout;
mod linux;
mod map;
mod member;
mod shared_core;
mod warden;

pub use member::Member;
pub use shared_core::{Bell, SharedCore, SharedCoreCounts};
