//! Casts: titles sent to groups by the clock, for any number of receivers.
//!
//! ```text
//!   Casts (any thread)  -- registry, waker -->  CastThread
//!     add: title, socket, session                 Engine -> stored rows -> packets -> UdpSender
//! ```
//! [`Casts`] opens a title in its form `ts`, checks the group, and has the deadlines of a pass
//! admitted as those of a viewer. One thread sends all casts. Payloads are sent as they are stored:
//! rows of data to the group's port, the parity rows of the disks as FEC packets (SMPTE ST 2022-1)
//! two ports above. Each cast is announced to the group of announcements in its scope (SAP).
#![forbid(unsafe_code)]

mod announcer;
mod announcing;
mod asking;
mod broadcast;
mod casts;
mod channel;
mod config;
mod day;
mod description;
mod feed;
mod identity;
pub mod limits;
mod metrics;
mod numbering;
mod on_air;
mod piece;
mod playlist;
mod run;
mod sending;
mod slots;
mod symbols;
mod thread;
mod wakes;

pub use broadcast::{
    Broadcast, BroadcastBound, BroadcastConfig, NoBroadcast, StoredPlan, channels_refused, plan_stored,
};
pub use casts::{CastParts, Casts, NoSlots, NoSuchCast};
pub use config::{CastConfig, CastFec, CastRefused};
pub use feed::{Feed, FeedCounts};
pub use metrics::CastMetrics;
pub use on_air::{BroadcastReport, CastReport, CastState};
pub use run::Destination;
pub use slots::SlotsReport;
pub use thread::CastFrontEnd;
