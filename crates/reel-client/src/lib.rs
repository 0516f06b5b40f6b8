//! What a program on this machine links to read streams from a Reel server: the messages on the
//! socket, and a client.
//!
//! A program connects to the server's Unix socket, requests titles and receives, for each, the
//! descriptors of three memories: the arena and the ring's descriptors, both to be read only, and a
//! page of its own to say what it has read. From there on both sides look into memory; the socket
//! carries a bell for a side that waits, and its end ends all of the program's streams.
#![forbid(unsafe_code)]

mod client;
pub mod limits;
mod socket;
mod wire;

pub use client::{Client, ClientError, ClientState, Held, Wanted};
pub use socket::{Heard, accept_peer, dial, hear, listen, say};
pub use wire::{Opened, Reply, Request, WireError};
