//! Sessions, prefetch and shared buffers.
//!
//! A front end turns a request into a [`Body`] (a list of [`Part`]s), gives it to a [`Reader`], and asks the
//! reader for [`Chunk`](reel_ring::Chunk)s to send. The reader asks its core's [`Fetcher`] for the units it needs;
//! units are shared between all cores and viewers through [`Units`].
#![forbid(unsafe_code)]

mod around;
mod body;
mod budget;
mod fetcher;
mod flight;
pub mod limits;
mod reader;
mod session;
mod units;

pub use body::{Body, Part};
pub use budget::{Budget, Reservation};
pub use fetcher::{Deliver, Fetched, Fetcher};
pub use reader::{Reader, ReaderState};
pub use session::{OpenRefused, Session, SessionKey, SessionSummary, Sessions, SessionsConfig};
pub use units::{StreamCounters, UnitKey, UnitWant, Units};
