//! Front end for joins: the server itself plays a session into destinations.
//!
//! ```text
//!   session -> delivery -> chain (Streams) -> Tee -> branch -> a file of the configured directory
//!                                               '--> branch -> ...
//! ```
//! A session that was admitted has outlets. The first one begins a chain of buffers, and each
//! further one is a branch of the same chain. Nothing is copied: branches hold leases of the same
//! buffers. What leaves the machine asks the uplink first. [`Joins`] is for the API,
//! [`JoinFrontEnd`] has the thread. To follow one join: [`Joins::add`] -> `JoinThread::begin` ->
//! `JoinThread::pump` -> `Part::write`, or `LinkUse::take` and the ring; for datagrams
//! `Datagrams::next` -> `Pace::train` -> `Framing::frame` and the ring.
#![forbid(unsafe_code)]

mod destination;
mod directory;
mod framing;
mod joins;
pub mod limits;
mod listed;
mod metrics;
mod outlet;
mod pace;
mod packet_times;
mod part;
mod refused;
mod tee;
mod thread;

pub use destination::{Carrier, Destination, GroupOptions, NoTarget, Target, Targets};
pub use directory::{DirectoryError, JoinDirectory};
pub use framing::{Framing, PAYLOAD_BYTES};
pub use joins::Joins;
pub use metrics::JoinMetrics;
pub use outlet::{OutletReport, OutletState};
pub use pace::{Datagram, Pace};
pub use packet_times::{PACKET_BYTES, PacketTimes};
pub use refused::JoinRefused;
pub use tee::{KeptBy, SentRuns, Tee, Waiting};
pub use thread::{JoinFrontEnd, JoinThreads};
