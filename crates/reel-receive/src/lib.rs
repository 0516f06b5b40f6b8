//! The receiving end of a cast (`reel receive`).
//!
//! A [`Receiver`] is pure: it takes the datagrams of one cast with their arrival times, and gives
//! back the payloads in the order in which they were sent. It repairs lost packets with FEC. A
//! [`Plan`] says what to receive; it comes from the SDP of the cast or from an address. A
//! [`Member`] is a socket that has joined a group, and [`Arrivals`] reads several of them. A cast
//! with several channels has a plan and a receiver for each, and a [`BroadcastClient`] says when
//! which channels are joined and what is played. A [`Guide`] is what is heard of casts
//! that are announced.
#![forbid(unsafe_code)]

mod arrivals;
mod assembly;
mod broadcast;
mod client;
mod counts;
mod followed;
mod guide;
pub mod limits;
mod order;
mod owned;
mod plan;
mod receiver;
mod sender_clock;
mod socket;

pub use arrivals::{Arrival, Arrivals, Wait};
pub use assembly::{Assembly, Played};
pub use broadcast::{Broadcast, Misplaced, NoBroadcast, SYMBOL_BYTES};
pub use client::{BroadcastClient, Kept, Tune};
pub use counts::Counts;
pub use guide::{Announced, Guide, GuideCounts};
pub use plan::{FecPlan, Plan, PlanError, Port};
pub use receiver::{Payload, Receiver};
pub use sender_clock::SenderTime;
pub use socket::{JoinError, Member};
