//! Units of titles in memory, shared by all readers.
//!
//! A front end turns a request into a [`Body`] (a list of [`Part`]s), gives it to a [`Reader`], and
//! asks the reader for [`Chunk`](reel_ring::Chunk)s to send. The reader asks the [`Fetcher`] of its
//! thread for the units it needs; units are shared between all threads and readers through
//! [`Units`].
#![forbid(unsafe_code)]

mod arrival;
mod audience;
mod body;
mod budget;
mod bypass;
mod fetcher;
mod flight;
mod held;
mod key;
pub mod limits;
mod media_kind;
mod next_use;
mod prefetch;
mod reader;
mod row_kind;
mod runs;
mod shared_tracks;
mod unit;
mod units;
mod window;

pub use arrival::{Arrival, Inbox};
pub use audience::{Audience, GroupMember, GroupWidth, SessionPosition};
pub use body::{Body, Part};
pub use budget::{Budget, KeptBuffers, PromisedBuffers, QueuePosition, Reservation};
pub use fetcher::Fetcher;
pub use held::Plan;
pub use key::{SessionKey, TrackOfSession};
pub use media_kind::MediaKind;
pub use prefetch::Prefetcher;
pub use reader::{Due, Pace, Ramp, Reader, ReaderState, Urgency};
pub use row_kind::RowKind;
pub use runs::Runs;
pub use shared_tracks::{SharedTrack, SharedTracks, Start};
pub use unit::{Fetched, Late, UnitKey, UnitWant};
pub use units::{StreamCounters, Units};
pub use window::{Depth, Window};
