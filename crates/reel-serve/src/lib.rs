//! What every front end does around the engine, whatever its protocol.
//!
//! A front end is a [`Protocol`] on [`ServeThreads`]: each thread has one core, one engine, and the
//! protocol's connections. Titles and sessions are opened by an [`Opener`], or refused with a
//! reason. A front end writes a [`Refusal`] in its own protocol: as a status code, a field, a
//! message. The server starts, watches and stops a list of [`FrontEnd`]s.
#![forbid(unsafe_code)]

mod accept;
mod front_end;
pub mod limits;
mod opening;
mod path;
mod refusal;
mod thread;
mod titles;

pub use accept::{Accepted, Counted, OpenConnections};
pub use front_end::{FrontEnd, Listening, ServeThreads, ThreadsConfig};
pub use opening::Opener;
pub use path::normal_path;
pub use refusal::Refusal;
pub use thread::{OpenResult, Parts, Protocol, Serve};
pub use titles::Titles;
