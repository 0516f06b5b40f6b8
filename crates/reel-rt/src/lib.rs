//! Pinned threads, their mailboxes, timers and clock.
//!
//! A core is a thread that runs one [`Service`] to completion, event by event: operations done, then messages, then timers,
//! then one [`Service::turn`]. It sleeps only in its ring.
#![forbid(unsafe_code)]

mod clock;
mod core;
mod error;
mod mailbox;
mod timers;

pub use self::core::{Core, CoreConfig, CoreHandle, Service, spawn};
pub use clock::now_ns;
pub use error::RtError;
pub use mailbox::{Inbox, Mailbox, mailbox};
