//! Streams for programs on the same machine: what is said on the socket, the outlet into shared memory, and a client.
//!
//! A program connects to the server's Unix socket, asks for titles and gets, for each, the descriptors of three memories: the arena and the
//! ring's descriptors, both to be read only, and a page of its own to say what it has read. From there on both sides look into memory;
//! the socket carries a bell for who waits, and its end ends all of the program's streams.

mod client;
mod outlet;
mod socket;
mod wire;

pub use client::{Client, ClientError, ClientState, Held, Wanted};
pub use outlet::{ArenaMap, MappedOutlet};
pub use socket::{Heard, accept_peer, dial, hear, listen, say};
pub use wire::{Opened, Reply, Request, WireError};
