//! The library that a program on this machine links to read streams from a Reel server and to pour
//! others into it: the messages on the socket, and a client.
//!
//! A program connects to the server's Unix socket and requests titles. For each it receives the
//! descriptors of three memories: the arena and the ring's descriptors, both of them read-only, and
//! a page of its own in which it records what it has read. From then on both sides look into
//! memory. The socket carries a bell for a side that waits. When the socket closes, all of the
//! program's streams end.
#![forbid(unsafe_code)]

mod client;
pub mod limits;
mod pour;
mod socket;
mod wire;

pub use client::{Client, ClientError, ClientState, Held, InheritedPour, Wanted};
pub use pour::PourWanted;
pub use socket::{Heard, accept_peer, dial, hear, listen, say};
pub use wire::{InStepRequest, OpenedStream, PourRequest, RefusalCode, Reply, Request, WireError};
