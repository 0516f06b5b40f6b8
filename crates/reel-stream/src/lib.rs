//! Sessions, prefetch and shared buffers.
//!
//! A front end turns a request into a [`Body`] (a list of [`Part`]s), gives it to a [`Reader`], and asks the
//! reader for [`Chunk`](reel_ring::Chunk)s to send. The reader asks its core's [`Fetcher`] for the units it needs;
//! units are shared between all cores and viewers through [`Units`].
#![forbid(unsafe_code)]

mod allowance;
mod around;
mod audience;
mod body;
mod book;
mod budget;
mod demand;
mod fetcher;
mod flight;
mod held;
mod key;
pub mod limits;
mod next_use;
mod played;
mod prefetch;
pub mod programs;
mod reader;
mod runs;
mod schedule;
mod session;
mod sessions;
mod shared_tracks;
mod steady;
mod streams;
pub mod udp;
mod units;
mod window;

pub use audience::Audience;
pub use body::{Body, Part};
pub use budget::{Budget, KeptBuffers, Place, PromisedBuffers, Reservation};
pub use demand::{Loss, Stretch, demand, shared_demand};
pub use fetcher::{Deliver, Fetched, Fetcher};
pub use key::SessionKey;
pub use played::PlayedBy;
pub use prefetch::{Plan, Prefetcher, TrackOfSession};
pub use reader::{Due, Pace, Ramp, Reader, ReaderState, Urgency};
pub use runs::Runs;
pub use schedule::{Ask, Strand};
pub use session::{Session, SessionSummary, Standing};
pub use sessions::{OpenRefused, Permit, Sessions, SessionsConfig, Sharing};
pub use shared_tracks::{Choices, SharedTrack, SharedTracks};
pub use steady::steady_demand;
pub use streams::{Batch, Offer, Opening, Outlet, Settled, StreamId, StreamState, Streams};
pub use units::{StreamCounters, UnitKey, UnitWant, Units};
pub use window::Depth;
