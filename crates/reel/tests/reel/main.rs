//! The program as a whole: its command line, a server behind real sockets, and what other programs
//! make of what it serves.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod cli;
mod foreign;
mod held_prices;
mod kept;
mod media_memory;
mod server;
